package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// v2reader translates the events of one connection into those of OpenCode 1. OpenCode 2 reports changes, not states, so
// the reader keeps the state of each session, and asks the server for what happened before the connection. It belongs
// to the goroutine that reads events.
type v2reader struct {
	v2
	sessions map[string]*v2sessionState
	numbers  map[string]int64 // sequence number of each session's newest event, dropped events included
}

// v2sessionState is the state of a session, as told by events.
type v2sessionState struct {
	info Session
	conversation
	inbox    map[string]v2message // undelivered messages, by id
	worked   bool                 // the current execution has done something
	answer   MessageInfo          // the one being written
	tools    map[string]*v2content
	children map[string]bool // sub-agents in the background; their results arrive as messages
}

type v2event struct {
	Type    string
	Created millis
	Durable struct {
		AggregateID string // the session's id
		Seq         int64
	}
	Location struct{ Directory string }
	Data     json.RawMessage
}

// family returns the first element of a session event's type, such as "tool", or "" for other events.
func (e v2event) family() string {
	kind, of := strings.CutPrefix(e.Type, "session.")
	family, _, _ := strings.Cut(kind, ".")
	return text.If(of, family)
}

// v2data has the fields of all events that are decoded.
type v2data struct {
	SessionID, ParentID, Title, Agent, InboxID, AssistantMessageID string
	ID, Name, Text, Finish, Reason, Snapshot, RequestID            string
	Model                                                          sessionModel
	Location                                                       struct{ Directory string }
	Item                                                           struct {
		Type    string
		Payload v2message
	}
	Form     *v2form
	Input    json.RawMessage
	Content  []struct{ Text string }
	Metadata json.RawMessage
	Cost     float64
	Tokens   Tokens
	Ordinal  int

	Permissions []v2rule
	Attempt     int
	At          millis
	Error       *v2error
}

func (v v2) events() (path string, read func(data []byte) ([]Event, error)) {
	r := &v2reader{v, map[string]*v2sessionState{}, map[string]int64{}}
	return "/api/event", r.read
}

func (r *v2reader) read(data []byte) ([]Event, error) {
	var e v2event
	if err := unmarshal(data, &e); err != nil {
		return nil, err
	}
	told := []Event{}
	if r.missed(e) {
		told = append(told, Event{Payload: Resync{"the server left events out"}})
	}
	switch {
	case e.Type == "":
		return nil, errors.New("event without a type")
	case skipped(e.Type):
		return told, nil
	}
	if !slices.Contains([]string{"tool", "text", "reasoning"}, e.family()) { // the texts of these are cut one by one below
		e.Data, _ = cutJSON(e.Data, maxEvent)
	}
	var d v2data
	if err := unmarshal(e.Data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Type, err)
	}
	if d.Form != nil { // form events have the session's id elsewhere
		d.SessionID = d.Form.SessionID
	}
	if d.SessionID == "" {
		return append(told, r.unknown(e)), nil
	}
	s := r.session(e, d)
	for _, p := range r.payloads(s, e, d) {
		told = append(told, Event{Directory: s.info.Directory, SessionID: d.SessionID, Payload: p})
	}
	if e.Type == "session.deleted" {
		delete(r.sessions, d.SessionID)
		delete(r.numbers, d.SessionID)
	}
	return told, nil
}

// missed reports whether events of a session were lost before this one, by their sequence numbers.
func (r *v2reader) missed(e v2event) bool {
	before, known := r.numbers[e.Durable.AggregateID]
	r.numbers[e.Durable.AggregateID] = max(before, e.Durable.Seq)
	return known && e.Durable.Seq > before+1
}

func (r *v2reader) unknown(e v2event) Event {
	data, _ := cutJSON(e.Data, maxEventValue)
	return Event{Directory: e.Location.Directory, Payload: Unknown{e.Type, data}}
}

// session returns the state of an event's session. It asks the server about one that is older than the connection.
func (r *v2reader) session(e v2event, d v2data) *v2sessionState {
	s := r.sessions[d.SessionID]
	if s == nil {
		s = &v2sessionState{
			conversation: conversation{sessionID: d.SessionID}, inbox: map[string]v2message{}, tools: map[string]*v2content{},
			children: map[string]bool{}, worked: e.Type != "session.execution.started",
		}
		r.sessions[d.SessionID] = s
		switch e.Type {
		case "session.deleted":
		case "session.created":
			s.info = Session{
				ParentID: d.ParentID, Title: d.Title, Agent: d.Agent, Directory: d.Location.Directory,
				Created: e.Created.time(), Updated: e.Created.time(), Rules: v1rulesOf(d.Permissions),
			}
			_ = unmarshal(d.Metadata, &s.info.Metadata) // odd metadata is none
			s.agent, s.model = d.Agent, d.Model
		default:
			s.info = ask(r, func(ctx context.Context) (Session, error) { return r.Session(ctx, d.SessionID) })
		}
		s.info.ID = d.SessionID
		ask(r, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.inherit(ctx, s.info) })
	}
	if e.Location.Directory != "" {
		s.info.Directory = e.Location.Directory
	}
	return s
}

// ask queries the server while an event waits. A failure is only logged.
func ask[T any](r *v2reader, call func(context.Context) (T, error)) T {
	ctx, cancel := context.WithTimeout(r.Client.events.ctx, r.cfg.CallTimeout)
	defer cancel()
	answer, err := call(ctx)
	if err != nil {
		r.log.Warn("could not read what an event is about", "error", err)
	}
	return answer
}

func (r *v2reader) get(s *v2sessionState, messageID string) v2message {
	return ask(r, func(ctx context.Context) (v2message, error) { return r.message(ctx, s.sessionID, messageID) })
}

func (r *v2reader) payloads(s *v2sessionState, e v2event, d v2data) []Payload {
	kind := strings.TrimPrefix(e.Type, "session.")
	switch e.family() {
	case "":
		return r.requestEvents(e, d)
	case "execution":
		return r.executionEvents(s, kind, d)
	case "inbox":
		return r.inboxEvents(s, kind, e, d)
	case "step", "text", "reasoning":
		return r.answerEvents(s, kind, e, d)
	case "tool":
		return r.toolEvents(s, kind, d)
	}
	return r.sessionEvents(s, kind, e, d)
}

func (r *v2reader) requestEvents(e v2event, d v2data) []Payload {
	switch e.Type {
	case "permission.asked":
		var asked v2request
		_ = unmarshal(e.Data, &asked) // never dropped for odd content
		asked.Metadata, _ = cutJSON(asked.Metadata, maxEventValue)
		return []Payload{Asked{asked.toV1()}}
	case "form.created":
		if d.Form == nil || !d.Form.question() {
			return nil
		}
		return []Payload{Asked{d.Form.toV1()}}
	case "permission.replied":
		return []Payload{RequestClosed{d.RequestID}}
	case "form.replied", "form.cancelled":
		return []Payload{RequestClosed{d.ID}}
	}
	return []Payload{r.unknown(e).Payload}
}

func (r *v2reader) sessionEvents(s *v2sessionState, kind string, e v2event, d v2data) []Payload {
	switch kind {
	case "created":
		return []Payload{SessionCreated{s.info}}
	case "deleted":
		return []Payload{SessionDeleted{Session{ID: d.SessionID}}}
	case "usage.updated":
		s.info.Cost, s.info.Tokens = d.Cost, d.Tokens
	case "renamed":
		s.info.Title = d.Title
	case "moved":
		s.info.Directory = d.Location.Directory
	case "revert.staged", "revert.cleared", "revert.committed":
		s.info.Reverted = kind == "revert.staged"
	case "agent.selected":
		s.info.Agent, s.agent = d.Agent, d.Agent
	case "model.selected":
		s.model = d.Model
	case "retry.scheduled":
		status := Status{Type: Retry, Attempt: max(1, d.Attempt-1), Next: d.At.time()}
		if d.Error != nil {
			status.Message, _ = cutText(d.Error.Message, maxStatus)
		}
		r.wait(d.SessionID, &status)
		return []Payload{StatusChanged{status}}
	case "compaction.ended":
		return append([]Payload{SessionCompacted{}}, r.newest(s, "compaction")...)
	default:
		return []Payload{r.unknown(e).Payload}
	}
	s.info.Updated = e.Created.time()
	return []Payload{SessionUpdated{s.info}}
}

// wait records that a session waits for its provider; nil: no longer.
func (r *v2reader) wait(sessionID string, status *Status) {
	if r.retries.Delete(sessionID); status != nil {
		r.retries.Store(sessionID, *status)
	}
}

// newest returns the newest message of a type and its parts.
func (r *v2reader) newest(s *v2sessionState, kind string) []Payload {
	m := ask(r, func(ctx context.Context) (m v2message, err error) {
		query := url.Values{"limit": {"1"}, "order": {"desc"}, "type": {kind}}
		err = v2pages(ctx, r.v2, "get message", v2path(s.sessionID, "message"), query, func(one v2message) bool {
			m = one
			return false
		})
		return m, err
	})
	return s.message(m)
}

func (s *v2sessionState) message(m v2message) []Payload {
	next, ok := s.next(m)
	if !ok {
		return nil
	}
	told := []Payload{MessageUpdated{next.Info}}
	for _, p := range next.Parts {
		p.cut()
		told = append(told, PartUpdated{p})
	}
	return told
}

// executionEvents reports no idle after an execution that did nothing: it proves nothing.
func (r *v2reader) executionEvents(s *v2sessionState, kind string, d v2data) (told []Payload) {
	r.wait(d.SessionID, nil)
	switch kind {
	case "execution.started":
		s.worked = false
		return nil
	case "execution.failed":
		failed := &TurnError{Name: UnknownError, Message: "no reason given"}
		if d.Error != nil {
			failed = d.Error.toV1()
		}
		told = append(told, SessionFailed{failed})
	case "execution.interrupted":
		if d.Reason != "user" && len(s.inbox) > 0 {
			return nil // the session continues with what waits, such as the reason for a refusal
		}
		told = append(told, SessionFailed{&TurnError{Name: MessageAborted, Message: "interrupted: " + d.Reason}})
	default:
		if len(s.children) > 0 {
			return nil // the result of a sub-agent starts the next execution
		}
	}
	if clear(s.children); s.worked {
		told = append(told, StatusChanged{Status{Type: Idle}})
	}
	return told
}

// busy records that the execution does something, and returns the busy status.
func (s *v2sessionState) busy() Payload {
	s.worked = true
	return StatusChanged{Status{Type: Busy}}
}

func (r *v2reader) inboxEvents(s *v2sessionState, kind string, e v2event, d v2data) []Payload {
	m, known := s.inbox[d.InboxID]
	switch kind {
	case "inbox.enqueued":
		m := d.Item.Payload
		m.ID, m.Type, m.Time.Created = d.InboxID, d.Item.Type, e.Created
		s.inbox[d.InboxID] = m
		return nil
	case "inbox.delivered":
		if !known {
			m = r.get(s, d.InboxID)
		}
		delete(s.inbox, d.InboxID)
		if child, ok := m.Metadata["childID"].(string); ok {
			delete(s.children, child)
		}
		m.Time.Created = e.Created // messages are ordered by delivery
		return append([]Payload{s.busy()}, s.message(m)...)
	}
	delete(s.inbox, d.InboxID) // it was cancelled
	return nil
}
