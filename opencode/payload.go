package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// eventBounds is what an event may carry. Twenty subscribers that are behind hold
// some thousand events, and whoever needs the whole of a text asks for the message.
var eventBounds = bounds{text: 64 << 10, value: 256 << 10}

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

// readEvent reads the data of one event of /global/event. The error is errSkip for
// events that are dropped on purpose; of those nothing is read beyond their type,
// which OpenCode writes in front. More than half of all events are dropped, and they
// are as large as those that are kept.
func readEvent(s *scanner) (Event, error) {
	var e Event
	var eventType string
	var early json.RawMessage // properties in front of their type
	for key := range s.object() {
		switch key {
		case "directory":
			e.Directory, _ = s.text(eventBounds.text)
		case "payload":
			for key := range s.object() {
				switch key {
				case "type":
					if eventType = s.id(); skipped(eventType) {
						return Event{}, errSkip
					}
				case "properties":
					if eventType == "" {
						early, _ = s.raw(eventBounds, nil)
						continue
					}
					e.SessionID, e.Payload = readPayload(s, eventType)
				}
			}
		}
	}
	err := s.finish()
	if err == nil && early != nil && e.Payload == nil {
		late := scanBytes(early)
		e.SessionID, e.Payload = readPayload(late, eventType)
		err = late.finish()
	}
	switch {
	case err == nil && eventType == "":
		return Event{}, errNoType
	case err == nil && e.Payload == nil:
		return Event{}, fmt.Errorf("%s: event without properties that can be kept", eventType)
	case err != nil:
		return Event{}, fmt.Errorf("%s: %w", eventType, err)
	}
	if e.Directory == "global" { // how the server marks events of no directory
		e.Directory = ""
	}
	return e, nil
}

// readPayload reads the properties of an event. Types without a case here become
// [Unknown].
func readPayload(s *scanner, eventType string) (sessionID string, _ Payload) {
	if s.peek() != '{' {
		s.fail("the properties are no object")
		return "", nil
	}
	switch eventType {
	case "session.created", "session.updated", "session.deleted":
		session := property(s, "info", readSession)
		return session.ID, sessionPayload(eventType, session)
	case "permission.asked":
		r := readPermission(s, eventBounds)
		return r.SessionID, PermissionAsked{r}
	case "question.asked":
		r := readQuestion(s, eventBounds)
		return r.SessionID, QuestionAsked{r}
	case "message.part.updated":
		p := property(s, "part", readPart)
		return p.SessionID, PartUpdated{p}
	case "message.updated":
		m := property(s, "info", readInfo)
		return m.SessionID, MessageUpdated{m}
	case "session.status", "session.error", "session.compacted", "todo.updated", "permission.replied",
		"question.replied", "question.rejected", "file.edited":
		return readSmall(s, eventType)
	}
	// Whatever an unknown event looks like, it is passed on.
	raw, _ := s.raw(eventBounds, nil)
	if raw == nil {
		return "", nil
	}
	var owner struct{ SessionID string }
	_ = json.Unmarshal(raw, &owner) // belongs to no session then
	return owner.SessionID, Unknown{Type: eventType, Properties: raw}
}

// property reads the one property of an event that matters.
func property[T any](s *scanner, name string, read func(*scanner, bounds) T) (value T) {
	found := false
	for key := range s.object() {
		if key == name {
			value, found = read(s, eventBounds), true
		}
	}
	if !found {
		s.fail("there is no %q", name)
	}
	return value
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

func readSmall(s *scanner, eventType string) (sessionID string, _ Payload) {
	var requestID, reply, file string
	var status Status
	var failure *TurnError
	var todos []Todo
	for key := range s.object() {
		switch key {
		case "sessionID":
			sessionID = s.id()
		case "requestID":
			requestID = s.id()
		case "status":
			status = readStatus(s)
		case "error":
			failure = readTurnError(s, eventBounds)
		case "todos":
			todos = readTodos(s, eventBounds)
		case "reply":
			reply, _ = s.text(maxKey)
		case "file":
			file, _ = s.text(eventBounds.text)
		}
	}
	switch eventType {
	case "session.status":
		return sessionID, StatusChanged{status}
	case "session.error":
		if failure == nil { // the schema allows it
			failure = &TurnError{Name: UnknownError, Message: "no reason given"}
		}
		return sessionID, SessionFailed{failure}
	case "session.compacted":
		return sessionID, SessionCompacted{}
	case "todo.updated":
		return sessionID, TodosUpdated{todos}
	case "permission.replied":
		return sessionID, PermissionReplied{requestID, PermissionReply(reply)}
	case "file.edited":
		return sessionID, FileEdited{file}
	}
	return sessionID, QuestionClosed{requestID}
}
