package opencode

import "encoding/json"

// decodePayload reads the properties of an event. Types without a case here become
// [Unknown].
func decodePayload(eventType string, raw json.RawMessage) (sessionID string, payload Payload, err error) {
	switch eventType {
	case "session.created", "session.updated", "session.deleted":
		return decodeSession(eventType, raw)
	case "permission.asked":
		r, err := parse[PermissionRequest](raw)
		return r.SessionID, PermissionAsked{r}, err
	case "question.asked":
		r, err := parse[QuestionRequest](raw)
		return r.SessionID, QuestionAsked{r}, err
	case "message.part.updated":
		p, err := parse[struct{ Part Part }](raw)
		return p.Part.SessionID, PartUpdated{p.Part}, err
	case "message.updated":
		p, err := parse[struct{ Info MessageInfo }](raw)
		return p.Info.SessionID, MessageUpdated{p.Info}, err
	case "session.status", "session.error", "session.compacted", "todo.updated", "permission.replied",
		"question.replied", "question.rejected", "file.edited":
		return decodeSmall(eventType, raw)
	}
	// Whatever an unknown event looks like, it is passed on.
	owner, _ := parse[struct{ SessionID string }](raw)
	return owner.SessionID, Unknown{Type: eventType, Properties: raw}, nil
}

func decodeSession(eventType string, raw json.RawMessage) (string, Payload, error) {
	p, err := parse[struct{ Info Session }](raw)
	switch eventType {
	case "session.created":
		return p.Info.ID, SessionCreated{p.Info}, err
	case "session.deleted":
		return p.Info.ID, SessionDeleted{p.Info}, err
	}
	return p.Info.ID, SessionUpdated{p.Info}, err
}

func decodeSmall(eventType string, raw json.RawMessage) (string, Payload, error) {
	p, err := parse[struct {
		SessionID string
		RequestID string
		Status    Status
		Error     *TurnError
		Todos     []Todo
		Reply     PermissionReply
		File      string
	}](raw)
	switch eventType {
	case "session.status":
		return p.SessionID, StatusChanged{p.Status}, err
	case "session.error":
		if p.Error == nil { // the schema allows it
			p.Error = &TurnError{Name: UnknownError, Message: "no reason given"}
		}
		return p.SessionID, SessionFailed{p.Error}, err
	case "session.compacted":
		return p.SessionID, SessionCompacted{}, err
	case "todo.updated":
		return p.SessionID, TodosUpdated{p.Todos}, err
	case "permission.replied":
		return p.SessionID, PermissionReplied{p.RequestID, p.Reply}, err
	case "file.edited":
		return p.SessionID, FileEdited{p.File}, err
	}
	return p.SessionID, QuestionClosed{p.RequestID}, err
}

func parse[T any](raw json.RawMessage) (value T, err error) {
	err = json.Unmarshal(raw, &value)
	return value, err
}
