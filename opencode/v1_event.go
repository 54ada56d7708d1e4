package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// readEvent decodes one event of /global/event.
func readEvent(data []byte) ([]Event, error) {
	var in struct {
		Directory string
		Payload   struct {
			Type       string
			Properties json.RawMessage
		}
	}
	if err := unmarshal(data, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Payload.Type == "":
		return nil, errors.New("event without a type")
	case skipped(in.Payload.Type), strings.HasPrefix(in.Payload.Type, "session.next."): // events of its new API
		return nil, nil
	case len(in.Payload.Properties) == 0 || in.Payload.Properties[0] != '{':
		return nil, fmt.Errorf("%s: the properties are no object", in.Payload.Type)
	}
	e, err := payloadOf(in.Payload.Type, in.Payload.Properties)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Payload.Type, err)
	}
	if in.Directory != "global" { // marks events of no directory
		e.Directory = in.Directory
	}
	return []Event{e}, nil
}

// payloadOf decodes the properties of an event. Types without a case here become [Unknown].
func payloadOf(eventType string, properties json.RawMessage) (Event, error) {
	if eventType != "message.part.updated" { // its texts are cut one by one below
		properties, _ = cutJSON(properties, maxEvent)
	}
	var in struct {
		SessionID, RequestID      string
		Info, Part, Status, Todos json.RawMessage
		Error                     *TurnError
	}
	err := unmarshal(properties, &in)
	if err != nil {
		return Event{}, err
	}
	e := Event{SessionID: in.SessionID}
	switch eventType {
	case "message.part.updated":
		var p Part
		err = unmarshal(in.Part, &p)
		p.cut()
		e.SessionID, e.Payload = p.SessionID, PartUpdated{p}
	case "session.created", "session.updated", "session.deleted":
		var s Session
		err = unmarshal(in.Info, &s)
		e.SessionID = s.ID
		e.Payload = map[string]Payload{
			"session.created": SessionCreated{s}, "session.updated": SessionUpdated{s}, "session.deleted": SessionDeleted{s},
		}[eventType]
	case "message.updated":
		var m MessageInfo
		err = unmarshal(in.Info, &m)
		e.SessionID, e.Payload = m.SessionID, MessageUpdated{m}
	case "permission.asked", "question.asked": // never dropped for odd content: the agent waits for the reply
		var r Request
		err = unmarshal(properties, &r)
		r.Metadata, _ = cutJSON(r.Metadata, maxEventValue)
		e.Payload = Asked{r}
	case "session.status":
		var status Status
		err = unmarshal(in.Status, &status)
		e.Payload = StatusChanged{status}
	case "session.error":
		if in.Error == nil { // the schema allows it
			in.Error = &TurnError{Name: UnknownError, Message: "no reason given"}
		}
		e.Payload = SessionFailed{in.Error}
	case "session.compacted":
		e.Payload = SessionCompacted{}
	case "todo.updated":
		var todos []Todo
		err = unmarshal(in.Todos, &todos)
		e.Payload = TodosUpdated{todos}
	case "permission.replied", "question.replied", "question.rejected":
		e.Payload = RequestClosed{in.RequestID}
	default:
		if len(properties) > maxEventValue {
			err = errors.New("the properties are too long to be kept")
		}
		e.Payload = Unknown{Type: eventType, Properties: properties}
	}
	return e, err
}
