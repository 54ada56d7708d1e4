package boulder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

var typesByName, typesByBody = func() (map[string]eventType, map[reflect.Type]eventType) {
	names, bodies := map[string]eventType{}, map[reflect.Type]eventType{}
	for _, t := range eventTypes {
		names[t.name], bodies[t.body] = t, t
	}
	return names, bodies
}()

// TypeOf is the value of the JSON field "type" of an event with this body; empty for what is no body.
func TypeOf(b Body) string { return typesByBody[reflect.TypeOf(b)].name }

// Public reports whether the event belongs to the documented stream of `--json`.
func (e Event) Public() bool { return typesByBody[reflect.TypeOf(e.Body)].public }

// envelope is the part of an event that all types share.
type envelope struct {
	Type      string    `json:"type"`
	Time      time.Time `json:"time"`
	BoulderID string    `json:"boulder_id"`
	Seq       uint64    `json:"seq"`
}

// MarshalJSON writes the flat object that `--json` prints, without plans, prompts, evidence and outputs: for the log alone.
func (e Event) MarshalJSON() ([]byte, error) {
	if known, ok := typesByBody[reflect.TypeOf(e.Body)]; ok {
		shown := reflect.New(known.body).Elem()
		shown.Set(reflect.ValueOf(e.Body))
		for i := range known.body.NumField() {
			if known.body.Field(i).Tag.Get("log") == "only" {
				shown.Field(i).SetZero()
			}
		}
		e.Body = shown.Interface()
	}
	return e.MarshalLog()
}

// MarshalLog writes the event with everything that it carries, as one flat object. UnmarshalJSON reads both.
func (e Event) MarshalLog() ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // whoever encodes the event decides
	if err := enc.Encode(envelope{TypeOf(e.Body), e.Time, e.BoulderID, e.Seq}); err != nil {
		return nil, err
	}
	seam := text.Len() - len("}\n")
	if err := enc.Encode(e.Body); err != nil {
		return nil, err
	}
	data := bytes.TrimSpace(text.Bytes())
	head, body := data[:seam], data[seam+len("}\n{"):]
	if len(body) > len("}") {
		head = append(head, ',')
	}
	return append(head, body...), nil
}

// Logged is an event that becomes JSON as the log has it.
type Logged struct{ Event }

// MarshalJSON is [Event.MarshalLog].
func (e Logged) MarshalJSON() ([]byte, error) { return e.MarshalLog() }

// UnmarshalJSON reads what MarshalLog or MarshalJSON wrote.
func (e *Event) UnmarshalJSON(data []byte) error {
	var head envelope
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	known, ok := typesByName[head.Type]
	if !ok {
		return fmt.Errorf("unknown event type %q", head.Type)
	}
	body := reflect.New(known.body)
	if err := json.Unmarshal(data, body.Interface()); err != nil {
		return fmt.Errorf("event %q: %w", head.Type, err)
	}
	*e = Event{Time: head.Time, BoulderID: head.BoulderID, Seq: head.Seq, Body: body.Elem().Interface()}
	return nil
}
