package fakeopencode

import (
	"cmp"
	"net/http"
	"slices"
)

func (x *session) prompt(r *http.Request) (any, error) {
	in := read[struct {
		ID string
		payload
	}](r)
	m := &message{ID: in.ID, Type: "user", payload: in.payload}
	known := x.knows(m.ID)
	for _, other := range x.server.sessions {
		if other != x && other.knows(m.ID) { // ids are unique over all sessions
			return nil, &apiError{http.StatusConflict, fields{"_tag": "ConflictError", "message": "Known in another session: " + m.ID}}
		}
	}
	if !known { // a known id never runs again, however its turn ended
		x.enqueue(m)
	}
	x.wake()
	return fields{
		"id": m.ID, "sessionID": x.Info.ID, "type": m.Type, "delivery": "steer", "time": fields{"created": m.Time.Created},
		"payload": m.payload,
	}, nil
}

func (x *session) knows(messageID string) bool {
	return messageID != "" &&
		slices.ContainsFunc(slices.Concat(x.Inbox, x.Messages), func(m *message) bool { return m.ID == messageID })
}

func (x *session) enqueue(m *message) {
	m.ID, m.Time.Created = cmp.Or(m.ID, x.server.newID("msg_")), now()
	x.Inbox = append(x.Inbox, m)
	x.emit("session.inbox.enqueued", fields{"inboxID": m.ID, "item": fields{
		"type": m.Type, "payload": m.payload, "delivery": "steer",
	}})
}

// deliver moves the inbox into the history, and reports whether it held anything.
func (x *session) deliver() bool {
	due := x.Inbox
	x.Inbox = nil
	for _, m := range due {
		m.Time.Created = now() // messages are ordered by delivery
		x.add(m)
		x.emit("session.inbox.delivered", fields{"inboxID": m.ID})
	}
	return len(due) > 0
}
