package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// ServerState is the server's state of one tree.
type ServerState struct {
	At       time.Time          // when the reading began
	Sessions []opencode.Session // the root first, parents before children
	Statuses map[string]opencode.Status
	Messages []opencode.Message // the newest of the root, oldest first
	Todos    []opencode.Todo    // of the root
	Asks     []opencode.Request // of the tree's directories
}

// Load takes in the server's state, and returns what happened without an event. Take events that arrived since the
// reading began after it. The history of a session seen for the first time begins at the user's newest prompt.
func (t *Tree) Load(r ServerState) []enforcer.Event {
	for _, s := range r.Sessions {
		m := cmp.Or(t.members[s.ID], &member{})
		m.session, m.status, m.asks = s, r.Statuses[s.ID], map[string]opencode.Request{}
		t.members[s.ID] = m
	}
	for _, a := range r.Asks {
		if m, ok := t.members[a.SessionID]; ok {
			m.asks[a.ID] = a
		}
	}
	t.Todos = Todos(r.Todos)
	if t.horizon.IsZero() {
		t.horizon = firstSight(r.Messages)
	}
	root, failed, first := t.members[t.root], t.failed, t.newest() == nil
	var events []enforcer.Event
	for _, read := range r.Messages {
		m, _ := t.messageOf(read.Info)
		if !slices.Contains(t.messages, m) {
			continue // older than the messages that are kept
		}
		for _, p := range read.Parts {
			t.part(m, p, read.Info.Created)
		}
		at := later(read.Info.Created, read.Info.Completed)
		root.life = later(root.life, at)
		events = append(events, t.messageEvents(m, at)...)
	}
	if first { // then these prompts are older than a failure that an event reported
		t.failed = failed
	}
	life := t.life() // plus the signs of life in the reading
	for _, s := range r.Sessions {
		if s.ID != t.root {
			life = later(life, s.Created) // other updates of a session may be no sign of life
		}
	}
	if t.Busy() {
		life = later(life, r.At)
	}
	if life.After(t.life()) {
		events = append(events, t.alive(root, life)...)
	}
	if root.busy() {
		return events
	}
	events = append(events, t.detectAbort(life, false)...)
	if id, reached := t.Reached(); id != "" {
		events = append(events, enforcer.TurnEnded{At: life, Message: id, Reached: reached})
	}
	return events
}

func firstSight(messages []opencode.Message) time.Time {
	for _, m := range slices.Backward(messages) {
		if (&message{Message: m}).fromUser() {
			return m.Info.Created
		}
	}
	if len(messages) > 0 {
		return messages[0].Info.Created
	}
	return time.Time{}
}

// Read reads the server's state of a session and everything below it, in all its directories. at is the current time.
func Read(ctx context.Context, dir *opencode.Directory, root string, at time.Time) (ServerState, error) {
	r := ServerState{At: at, Statuses: map[string]opencode.Status{}}
	main, err := dir.Session(ctx, root)
	if err != nil {
		return r, err
	}
	if r.Messages, err = dir.Messages(ctx, root, MaxMessages); err != nil {
		return r, err
	}
	if r.Todos, err = dir.Todos(ctx, root); err != nil {
		return r, err
	}
	below, err := Descendants(ctx, dir, root)
	if err != nil {
		return r, err
	}
	r.Sessions = append([]opencode.Session{main}, below...)
	in := map[string]*opencode.Directory{main.Directory: dir}
	for _, s := range below {
		in[s.Directory] = dir.Client().In(s.Directory)
	}
	for _, d := range in {
		// After the sessions: a child that is created meanwhile is covered by its parent's busy status.
		statuses, err := d.Statuses(ctx)
		if err != nil {
			return r, err
		}
		maps.Copy(r.Statuses, statuses)
		asks, err := d.Requests(ctx)
		if err != nil {
			return r, err
		}
		r.Asks = append(r.Asks, asks...)
	}
	return r, r.rereadUntilStable(ctx, dir, root)
}

// rereadUntilStable reads messages, todos and status again while the session is idle, the messages show no end of its turn,
// and they change. A turn that began or ended during the reading would otherwise look cut off, or as if it had brought
// nothing.
func (r *ServerState) rereadUntilStable(ctx context.Context, dir *opencode.Directory, root string) error {
	newest := func() (m opencode.MessageInfo) {
		if n := len(r.Messages); n > 0 {
			m = r.Messages[n-1].Info
		}
		return m
	}
	for {
		before := newest()
		if r.Statuses[root].Type != "" || before.Role == opencode.RoleAssistant && answered(before) {
			return nil
		}
		messages, err := dir.Messages(ctx, root, MaxMessages)
		if err != nil {
			return err
		}
		r.Messages = messages
		if r.Todos, err = dir.Todos(ctx, root); err != nil {
			return err
		}
		if now := newest(); now.ID == before.ID && now.Completed.Equal(before.Completed) {
			return nil
		}
		statuses, err := dir.Statuses(ctx)
		if err != nil {
			return err
		}
		r.Statuses[root] = statuses[root]
	}
}

// Find returns the first session that passes the filter and has an entry in its metadata, or a zero one.
func Find(
	ctx context.Context, dir *opencode.Directory, filter opencode.SessionFilter, key, value string,
) (opencode.Session, error) {
	all, err := dir.Sessions(ctx, filter)
	for _, s := range all {
		if s.Metadata[key] == value {
			return s, nil
		}
	}
	return opencode.Session{}, err
}

// Descendants returns the sessions of sub-agents at every level, parents before children.
func Descendants(ctx context.Context, dir *opencode.Directory, root string) ([]opencode.Session, error) {
	all := []opencode.Session{{ID: root}}
	for i := 0; i < len(all); i++ {
		in := dir
		if all[i].Directory != "" {
			in = dir.Client().In(all[i].Directory)
		}
		children, err := in.Children(ctx, all[i].ID)
		if err != nil && (i == 0 || !errors.Is(err, opencode.ErrNotFound)) {
			return nil, err
		}
		all = append(all, children...)
	}
	return all[1:], nil
}
