package fakeopencode

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// prompt puts what a request brings into the session's inbox.
func (x *session) prompt(r *http.Request) (any, error) {
	in := read[struct {
		ID string
		payload
	}](r)
	switch {
	case in.Text == "":
		return nil, badRequest("text: expected a string")
	case in.ID != "" && !strings.HasPrefix(in.ID, "msg_"):
		return nil, badRequest("id: expected a string that begins with msg_")
	}
	m := &message{ID: in.ID, Type: "user", payload: in.payload}
	known, err := x.server.known(x, m)
	if err != nil {
		return nil, err
	}
	if !known {
		x.enqueue(m)
	}
	x.wake(known && x.server.behaviour.RepeatRuns && !x.succeeded(m.ID))
	return fields{
		"id": m.ID, "sessionID": x.Info.ID, "type": m.Type, "delivery": "steer", "time": fields{"created": m.Time.Created},
		"payload": m.payload,
	}, nil
}

func (x *session) enqueue(m *message) {
	m.ID, m.Time.Created = cmp.Or(m.ID, x.server.newID("msg_")), now()
	x.Inbox = append(x.Inbox, m)
	x.emit("session.inbox.enqueued", fields{"inboxID": m.ID, "item": fields{
		"type": m.Type, "payload": m.payload, "delivery": "steer",
	}})
}

// known reports whether a prompt is in the session already. The same id in another session, or with another content, is
// a conflict.
func (s *Server) known(x *session, m *message) (bool, error) {
	for _, other := range s.sessions {
		for _, old := range slices.Concat(other.Inbox, other.Messages) {
			switch {
			case old.ID != m.ID:
			case other != x || old.Type != m.Type || !reflect.DeepEqual(old.payload, m.payload):
				return false, &apiError{http.StatusConflict, fields{
					"_tag": "ConflictError", "message": "An input with this id and another content exists: " + m.ID,
				}}
			default:
				return true, nil
			}
		}
	}
	return false, nil
}

// succeeded reports whether the turn of a message has an answer.
func (x *session) succeeded(messageID string) bool {
	at := slices.IndexFunc(x.Messages, func(m *message) bool { return m.ID == messageID })
	for _, m := range x.Messages[at+1:] {
		switch {
		case m.Type == "user":
			return false
		case m.Type == "assistant" && m.Finish != "" && m.Finish != "tool-calls":
			return true
		}
	}
	return false
}

// deliver moves the inbox into the history, and reports whether that was anything.
func (x *session) deliver() bool {
	due := x.Inbox
	x.Inbox = nil
	for _, m := range due {
		m.Time.Created = now() // the order of messages is that of their delivery
		x.add(m)
		x.emit("session.inbox.delivered", fields{"inboxID": m.ID})
	}
	return len(due) > 0
}
