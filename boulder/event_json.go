package boulder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// eventTypes says of every type of event all that is said of it: the value of its JSON field "type", the struct that
// carries it, and whether it belongs to the documented stream of `--json`. The others are the manager's own
// book-keeping, which `manager logs` shows. What an event does is in [State.Apply].
var eventTypes = []eventType{
	{"created", Created{}, false},
	{"planned", Planned{}, false},
	{"decomposed", Decomposed{}, true},
	{"status", StatusChanged{}, false},
	{"taken-up", TakenUp{}, false},
	{"clock", ClockMoved{}, false},
	{"session-left", SessionLeft{}, false},
	{"attempt-starting", Starting{}, false},
	{"subtask-start", SubTaskStart{}, true},
	{"turn-sent", TurnSent{}, false},
	{"nudge", Nudged{}, false},
	{"subtask-progress", SubTaskProgress{}, true},
	{"turn-ended", TurnEnded{}, false},
	{"gate", GateRun{}, true},
	{"judged", Judged{}, false},
	{"continuation", Continuation{}, true},
	{"retry", Retry{}, true},
	{"trouble", Trouble{}, false},
	{"cooldown", Cooled{}, true},
	{"replan-started", ReplanStarted{}, false},
	{"replan-trouble", ReplanTrouble{}, false},
	{"replan", Replanned{}, true},
	{"replan-refused", ReplanRefused{}, false},
	{"budget-set", BudgetSet{}, false},
	{"budget", BudgetWarning{}, true},
	{"parked", Parked{}, true},
	{"unparked", Unparked{}, false},
	{"note", Noted{}, true},
	{"reopened", Reopened{}, true},
	{"archived", Archived{}, false},
	{"blocker", BlockerRaised{}, true},
	{"blocker-settled", BlockerSettled{}, true},
	{"usage", UsageReport{}, true},
	{"subtask-done", SubTaskDone{}, true},
	{"task-complete", TaskComplete{}, true},
}

type eventType struct {
	name   string
	body   Body
	public bool
}

var typesByName, typesByBody = func() (map[string]eventType, map[reflect.Type]eventType) {
	names, bodies := map[string]eventType{}, map[reflect.Type]eventType{}
	for _, t := range eventTypes {
		names[t.name], bodies[reflect.TypeOf(t.body)] = t, t
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

// MarshalJSON writes the flat object that `--json` prints. It leaves out what is for the log alone: plans, prompts,
// evidence, outputs.
func (e Event) MarshalJSON() ([]byte, error) {
	if b, ok := e.Body.(interface{ shown() Body }); ok {
		e.Body = b.shown()
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
	body := reflect.New(reflect.TypeOf(known.body))
	if err := json.Unmarshal(data, body.Interface()); err != nil {
		return fmt.Errorf("event %q: %w", head.Type, err)
	}
	*e = Event{Time: head.Time, BoulderID: head.BoulderID, Seq: head.Seq, Body: body.Elem().Interface()}
	return nil
}
