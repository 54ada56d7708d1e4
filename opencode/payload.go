package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// What an event may be and carry, in bytes. Twenty subscribers that are behind hold some thousand events, and whoever
// needs the whole of a text asks for the message.
const (
	maxEvent      = 64 << 20 // as it is sent
	maxEventText  = 64 << 10
	maxEventValue = 256 << 10 // of a JSON value that is passed on as it is; a longer one is dropped
)

var (
	// errSkip marks an event that nobody needs to see.
	errSkip   = errors.New("event of no interest")
	errNoType = errors.New("event without a type")
)

// skipped reports whether events of a type are dropped: those that come for every
// token, that repeat another event ("sync" does so for nearly every one,
// "session.idle" for every idle status), or that only concern the connection.
func skipped(eventType string) bool {
	switch eventType {
	case "message.part.delta", "sync", "session.idle", "server.connected", "server.heartbeat":
		return true
	}
	return strings.HasPrefix(eventType, "session.next.")
}

// readEvent reads the data of one event of /global/event. The error is errSkip for events that are dropped on purpose.
func readEvent(data []byte) (Event, error) {
	var in struct {
		Directory string
		Payload   struct {
			Type       string
			Properties json.RawMessage
		}
	}
	if err := unmarshal(data, &in); err != nil {
		return Event{}, err
	}
	switch {
	case in.Payload.Type == "":
		return Event{}, errNoType
	case skipped(in.Payload.Type):
		return Event{}, errSkip
	case len(in.Payload.Properties) == 0 || in.Payload.Properties[0] != '{':
		return Event{}, fmt.Errorf("%s: the properties are no object", in.Payload.Type)
	}
	e := Event{Directory: in.Directory}
	if e.Directory == "global" { // how the server marks events of no directory
		e.Directory = ""
	}
	if err := e.readPayload(in.Payload.Type, in.Payload.Properties); err != nil {
		return Event{}, fmt.Errorf("%s: %w", in.Payload.Type, err)
	}
	return e, nil
}

// readPayload reads the properties of an event. Types without a case here become [Unknown].
func (e *Event) readPayload(eventType string, properties json.RawMessage) error {
	if eventType == "message.part.updated" {
		part, err := property[Part](properties, "part")
		part.cut()
		e.SessionID, e.Payload = part.SessionID, PartUpdated{part}
		return err
	}
	properties, _ = cutJSON(properties, maxEvent)
	switch eventType {
	case "session.created", "session.updated", "session.deleted":
		session, err := property[Session](properties, "info")
		e.SessionID, e.Payload = session.ID, sessionPayload(eventType, session)
		return err
	case "message.updated":
		m, err := property[MessageInfo](properties, "info")
		e.SessionID, e.Payload = m.SessionID, MessageUpdated{m}
		return err
	case "permission.asked": // a request is never lost for what is odd in it: it waits for the answer
		var r PermissionRequest
		err := unmarshal(properties, &r)
		r.Metadata, _ = cutJSON(r.Metadata, maxEventValue)
		e.SessionID, e.Payload = r.SessionID, PermissionAsked{r}
		return err
	case "question.asked":
		var r QuestionRequest
		err := unmarshal(properties, &r)
		e.SessionID, e.Payload = r.SessionID, QuestionAsked{r}
		return err
	}
	return e.readSmall(eventType, properties)
}

// property reads the one property of an event that matters.
func property[T any](properties json.RawMessage, name string) (value T, err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(properties, &all); err != nil {
		return value, err
	}
	if all[name] == nil {
		return value, fmt.Errorf("there is no %q", name)
	}
	err = json.Unmarshal(all[name], &value)
	return value, err
}

func sessionPayload(eventType string, session Session) Payload {
	switch eventType {
	case "session.created":
		return SessionCreated{session}
	case "session.deleted":
		return SessionDeleted{session}
	}
	return SessionUpdated{session}
}

func (e *Event) readSmall(eventType string, properties json.RawMessage) error {
	var in struct {
		SessionID, RequestID, File string
		Reply                      PermissionReply
		Status, Error, Todos       json.RawMessage
	}
	if err := unmarshal(properties, &in); err != nil {
		return err
	}
	e.SessionID = in.SessionID
	switch eventType {
	case "session.status":
		var status Status
		if in.Status != nil {
			if err := json.Unmarshal(in.Status, &status); err != nil {
				return err
			}
		}
		e.Payload = StatusChanged{status}
	case "session.error":
		failure := readTurnError(in.Error)
		if failure == nil { // the schema allows it
			failure = &TurnError{Name: UnknownError, Message: "no reason given"}
		}
		e.Payload = SessionFailed{failure}
	case "session.compacted":
		e.Payload = SessionCompacted{}
	case "todo.updated":
		var todos []Todo
		if in.Todos != nil {
			if err := unmarshal(in.Todos, &todos); err != nil {
				return err
			}
		}
		e.Payload = TodosUpdated{todos}
	case "permission.replied":
		e.Payload = PermissionReplied{in.RequestID, in.Reply}
	case "question.replied", "question.rejected":
		e.Payload = QuestionClosed{in.RequestID}
	case "file.edited":
		e.Payload = FileEdited{in.File}
	default:
		if len(properties) > maxEventValue {
			return errors.New("the properties are too long to be kept")
		}
		e.Payload = Unknown{Type: eventType, Properties: properties}
	}
	return nil
}

// size is about what the event carries, of so many bytes that were sent.
func (e Event) size(sent int) int {
	if p, ok := e.Payload.(PartUpdated); ok {
		size := len(p.Part.Text)
		if call := p.Part.Tool; call != nil {
			size += len(call.Input) + len(call.Output) + len(call.Error) + len(call.Title) + len(call.Metadata)
		}
		return size
	}
	return min(sent, maxEventValue)
}
