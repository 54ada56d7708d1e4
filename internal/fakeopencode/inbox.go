package fakeopencode

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// inboxItem is a prompt, or a text of a program, that waits to be delivered to a session.
type inboxItem struct {
	ID      string  `json:"id"`
	Created int64   `json:"created"`
	Type    string  `json:"type"` // user or synthetic
	Payload payload `json:"payload"`
}

type payload struct {
	Text        string         `json:"text"`
	Description string         `json:"description,omitempty"`
	Files       []any          `json:"files,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
}

func (x *session) wireItem(i *inboxItem) fields {
	return fields{
		"id": i.ID, "sessionID": x.Info.ID, "type": i.Type, "delivery": "steer", "time": fields{"created": i.Created},
		"payload": i.Payload,
	}
}

// prompt puts what a request brings into the session's inbox.
func (x *session) prompt(r *http.Request) (any, error) {
	s := x.server
	in, err := read[struct {
		ID   string
		Text *string `json:"text"`
		payload
	}](r)
	switch {
	case err != nil:
		return nil, err
	case in.Text == nil:
		return nil, badRequest("text: expected a string")
	case in.ID != "" && !strings.HasPrefix(in.ID, "msg_"):
		return nil, badRequest("id: expected a string that begins with msg_")
	}
	in.payload.Text = *in.Text
	item := &inboxItem{ID: cmp.Or(in.ID, s.newID("msg_")), Created: now(), Type: "user", Payload: in.payload}
	known, err := s.known(x, item)
	if err != nil {
		return nil, err
	}
	if !known {
		x.enqueue(item)
	}
	x.wake(known && s.behaviour.RepeatRuns && !x.succeeded(item.ID))
	return x.wireItem(item), nil
}

func (x *session) enqueue(item *inboxItem) {
	x.Inbox = append(x.Inbox, item)
	x.emit("session.inbox.enqueued", fields{"inboxID": item.ID, "item": fields{
		"type": item.Type, "payload": item.Payload, "delivery": "steer",
	}})
}

// known reports whether the item is in the session already. The same id in another session, or with another content, is
// a conflict.
func (s *Server) known(x *session, item *inboxItem) (bool, error) {
	for _, other := range s.sessions {
		old := other.Inbox
		if m := other.message(item.ID); m != nil && m.Text != nil {
			old = append(old[:len(old):len(old)], &inboxItem{
				ID: m.ID, Type: m.Type, Payload: payload{*m.Text, m.Description, m.Files, m.Metadata},
			})
		}
		for _, o := range old {
			switch {
			case o.ID != item.ID:
			case other != x || o.Type != item.Type || !reflect.DeepEqual(o.Payload, item.Payload):
				return false, conflict("An input with this id and another content exists: " + item.ID)
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
	for _, item := range due {
		x.add(&message{
			ID: item.ID, Type: item.Type, Text: &item.Payload.Text, Description: item.Payload.Description,
			Files: item.Payload.Files, Metadata: item.Payload.Metadata,
		})
		x.emit("session.inbox.delivered", fields{"inboxID": item.ID})
	}
	return len(due) > 0
}

func (x *session) listInbox(*http.Request) (any, error) {
	out := []any{}
	for _, item := range x.Inbox {
		out = append(out, x.wireItem(item))
	}
	return out, nil
}
