package session

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// Take takes in an event that arrived at a given time, and returns what it means. It ignores events of other sessions.
// Not every event is a sign of life: after a turn OpenCode still counts, names and compares.
func (t *Tree) Take(e opencode.Event, at time.Time) []enforcer.Event {
	switch p := e.Payload.(type) {
	case opencode.SessionCreated:
		return t.Join(p.Session, at)
	case opencode.SessionUpdated:
		return t.Join(p.Session, at)
	case opencode.SessionDeleted:
		if p.Session.ID == t.root {
			t.Deleted = true
			return nil
		}
		delete(t.members, p.Session.ID)
		delete(t.background, p.Session.ID)
		return nil
	}
	m, ok := t.members[e.SessionID]
	if !ok {
		return nil
	}
	own := e.SessionID == t.root
	switch p := e.Payload.(type) {
	case opencode.StatusChanged:
		return t.status(m, own, p.Status, at)
	case opencode.SessionFailed:
		switch {
		case !own:
			return nil
		case p.Err.Name == opencode.MessageAborted: // by the user: the manager never aborts a watched session
			return t.abort(t.newest(), at)
		}
		t.failed = p.Err
		return t.alive(m, at)
	case opencode.MessageUpdated:
		if own {
			m, lives := t.messageOf(p.Message)
			if !lives {
				return t.messageEvents(m, at)
			}
			return append(t.alive(t.members[t.root], at), t.messageEvents(m, at)...)
		}
	case opencode.PartUpdated:
		if own {
			m := t.known(p.Part.MessageID)
			if m == nil {
				return nil // the message's event was missed; the state is about to be read
			}
			t.part(m, p.Part, at)
			return append(t.alive(t.members[t.root], at), t.messageEvents(m, at)...)
		}
	case opencode.TodosUpdated:
		if own {
			t.Todos = Todos(p.Todos)
			// Not only at the end of the turn: a compaction before that makes the agent forget its list (seen).
			return append(t.alive(m, at), enforcer.Listed{At: at, Todos: slices.Clone(t.Todos)})
		}
	case opencode.Asked:
		m.asks[p.Request.ID] = p.Request
	case opencode.RequestClosed:
		delete(m.asks, p.RequestID)
	default:
		return nil
	}
	return t.alive(m, at)
}

// Join takes in the record of a session. A sub-agent's session joins the tree.
func (t *Tree) Join(s opencode.Session, at time.Time) []enforcer.Event {
	s.Rules = nil
	if m, ok := t.members[s.ID]; ok {
		before := m.session
		m.session = s
		if before.Reverted == s.Reverted && before.Archived.Equal(s.Archived) {
			return nil
		}
		return t.alive(m, at)
	}
	if !t.Has(s.ParentID) || s.ID == "" {
		return nil
	}
	m := &member{session: s, asks: map[string]opencode.Request{}}
	t.members[s.ID] = m
	return t.alive(m, at)
}

func (t *Tree) alive(m *member, at time.Time) []enforcer.Event {
	m.life = later(m.life, at)
	return []enforcer.Event{enforcer.Activity{At: at}}
}

func (t *Tree) status(m *member, own bool, s opencode.Status, at time.Time) []enforcer.Event {
	was := m.busy()
	m.status = s
	switch {
	case m.busy():
		return t.alive(m, at)
	case !was:
		return nil // idle comes twice, the second one perhaps late
	}
	clear(m.asks) // the remaining ones are obsolete
	events := t.alive(m, at)
	if !own {
		return events
	}
	asked := t.newest()
	if asked != nil && asked.begins() && t.failed == nil {
		// No answer and no failure: it was aborted before the model was called, which has no other sign.
		return append(events, t.abort(asked, at)...)
	}
	events = append(events, t.detectAbort(at, true)...)
	id, reached := t.Reached()
	return append(events, enforcer.TurnEnded{At: at, Message: id, Reached: reached})
}

// detectAbort detects an abort between two model calls, whose only sign is that the second is missing (seen) or never
// completed. witnessed says that an event reported the end, so that the server's own end did not cut the call off. A
// permission or question rejected without a message ends the turn in the same way, and counts as an abort.
func (t *Tree) detectAbort(at time.Time, witnessed bool) []enforcer.Event {
	m := t.newest()
	if m == nil || !m.assistant() || m.Info.Error != nil || t.failed != nil {
		return nil
	}
	left := m.Info.Completed.IsZero()
	if left && !witnessed || !left && m.Info.Finish != opencode.FinishToolCalls {
		return nil
	}
	return t.abort(m, at)
}

// abort reports an abort once, at its first sign: the session's error or the message's.
func (t *Tree) abort(m *message, at time.Time) []enforcer.Event {
	if m != nil {
		isNew := t.markTold("abort", m)
		if asked := t.known(m.Info.ParentID); asked != nil {
			isNew = t.markTold("abort", asked) && isNew
		}
		if !isNew {
			return nil
		}
	}
	return []enforcer.Event{enforcer.Aborted{At: at}}
}

// messageOf takes in the state of a message of the root, and reports whether that is a sign of life.
func (t *Tree) messageOf(info opencode.MessageInfo) (m *message, lives bool) {
	info.Structured = nil
	if m = t.known(info.ID); m == nil {
		lives, m = true, &message{Message: opencode.Message{Info: info}}
		if !m.assistant() {
			t.failed = nil
		}
		t.messages = append(t.messages, m)
		slices.SortStableFunc(t.messages, func(a, b *message) int {
			return cmp.Or(a.Info.Created.Compare(b.Info.Created), strings.Compare(a.Info.ID, b.Info.ID))
		})
		t.messages = slices.Delete(t.messages, 0, max(0, len(t.messages)-MaxMessages))
	}
	lives = lives || m.assistant() && m.Info.Completed.IsZero()
	if m.Info.Completed.IsZero() || !info.Completed.IsZero() { // a Reading may be older than events
		m.Info = info
	}
	return m, lives
}

func (t *Tree) part(m *message, p opencode.Part, at time.Time) {
	m.part(p)
	if p.Tool != nil {
		t.Findings.Take(p.Tool, t.Session().Directory)
		var task struct { // a call of a sub-agent, whose result comes as a message if it runs in the background
			SessionID  string
			Background bool
		}
		if p.Tool.Tool == "task" && json.Unmarshal(p.Tool.Metadata, &task) == nil && task.Background &&
			task.SessionID != "" && t.markTold(p.ID, m) {
			t.background[task.SessionID] = at
		}
	}
	if id := delivers(p); id != "" && m.Info.Role == opencode.RoleUser {
		delete(t.background, id)
	}
}

// messageEvents returns what is new about a message.
func (t *Tree) messageEvents(m *message, at time.Time) (events []enforcer.Event) {
	if m.fromUser() && (!m.command || m.clarifies) && t.markTold("prompt", m) {
		events = append(events, enforcer.Prompted{At: at, Stop: enforcer.SaysStop(m.Text())})
	}
	if m.Info.Error != nil && m.Info.Error.Name == opencode.MessageAborted {
		events = append(events, t.abort(m, at)...)
	}
	if m.Info.Compacted && m.Info.Error == nil && !m.Info.Completed.IsZero() && t.markTold("compacted", m) {
		events = append(events, enforcer.Compacted{At: at})
	}
	return events
}

// Situation returns what the tree knows of an [enforcer.Situation]. The session's owner knows the rest.
func (t *Tree) Situation(now time.Time) enforcer.Situation {
	s := enforcer.Situation{
		Reverted: t.Session().Reverted, Busy: t.Busy(), Background: t.working(now), Compacting: t.compacting(now),
	}
	for _, a := range t.Pending() {
		s.Asks = append(s.Asks, text.Short(a.String(), 200))
	}
	slices.Sort(s.Asks)
	s.Broken, s.Hopeless, s.Overflow = t.Broken()
	for _, item := range t.Todos {
		if item.Status == "blocked" { // agents write that where they can do nothing; OpenCode does not know it
			s.Blocked++
		}
	}
	return s
}

// Todos converts a session's list, and cuts its texts.
func Todos(list []opencode.Todo) []boulder.Todo {
	var all []boulder.Todo
	for _, x := range list {
		all = append(all, boulder.Todo{Content: text.Short(x.Content, maxItem), Status: x.Status})
	}
	return all
}
