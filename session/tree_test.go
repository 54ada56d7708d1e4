package session

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

const root, child = "ses_root", "ses_child"

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// story feeds a tree with events one second apart, and collects what it returns.
type story struct {
	tree *Tree
	at   time.Time
	all  []enforcer.Event
}

// newStory begins with a prompt and the start of its answer.
func newStory() *story {
	s := &story{tree: NewTree(root, Cursor{}), at: began}
	s.message("m1", opencode.RoleUser)
	s.part(opencode.Part{ID: "p1", MessageID: "m1", Type: opencode.PartText, Text: "Write a."})
	s.status(root, opencode.Busy)
	s.message("m2", opencode.RoleAssistant)
	return s
}

func (s *story) take(sessionID string, p opencode.Payload) []enforcer.Event {
	s.at = s.at.Add(time.Second)
	events := s.tree.Take(opencode.Event{SessionID: sessionID, Payload: p}, s.at)
	s.all = append(s.all, events...)
	return events
}

func (s *story) status(sessionID string, st opencode.StatusType) {
	s.take(sessionID, opencode.StatusChanged{Status: opencode.Status{Type: st}})
}

func (s *story) message(id, role string) {
	info := opencode.MessageInfo{ID: id, SessionID: root, Role: role, Created: s.at}
	s.take(root, opencode.MessageUpdated{Message: info})
}

func (s *story) part(p opencode.Part) {
	p.SessionID = root
	s.take(root, opencode.PartUpdated{Part: p})
}

// A background task is open work until its result arrives in a synthetic message, or is overdue because the server
// died. Shapes are from the source of OpenCode 1.18.33, which needs OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS.
func TestBackgroundTask(t *testing.T) {
	t.Parallel()
	waiting := []string{`the result of "Find uses" is not delivered yet`}
	for _, test := range []struct {
		name      string
		delivered string
		want      []string // open work after the sub-agent has ended
	}{
		{"delivered", `<task id="ses_child" state="completed">`, nil},
		{"failed", `<task id="ses_child" state="error">`, nil},
		{"still running", `<task id="ses_child" state="running">`, waiting},
		{"not delivered", "", waiting},
	} {
		s := newStory()
		s.take(child, opencode.SessionCreated{Session: opencode.Session{ID: child, ParentID: root, Title: "Find uses"}})
		s.status(child, opencode.Busy)
		metadata, err := json.Marshal(map[string]any{"sessionId": child, "background": true, "jobId": child})
		if err != nil {
			t.Fatal(err)
		}
		s.part(opencode.Part{ID: "p2", MessageID: "m2", Type: opencode.PartTool, Tool: &opencode.ToolCall{
			CallID: "c", Tool: "task", State: opencode.ToolCompleted, Metadata: metadata,
		}})
		s.status(root, opencode.Idle)
		if got := s.tree.working(s.at); !slices.Equal(got, []string{`"Find uses" is at work`}) || !s.tree.Busy() {
			t.Errorf("%s: while it works: %q", test.name, got)
		}
		s.status(child, opencode.Idle)
		if test.delivered != "" {
			s.message("m3", opencode.RoleUser)
			s.part(opencode.Part{
				ID: "p3", MessageID: "m3", Type: opencode.PartText, Synthetic: true, Text: test.delivered + "\nx",
			})
		}
		if got := s.tree.working(s.at); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if test.want != nil && !s.tree.Lapses(s.at).After(s.at) {
			t.Errorf("%s: nobody would ask again", test.name)
		}
		if got := s.tree.working(s.at.Add(2 * delivery)); got != nil {
			t.Errorf("%s: much later: %q", test.name, got)
		}
		if n := count[enforcer.Prompted](s.all); n != 1 {
			t.Errorf("%s: %d prompts of the user", test.name, n)
		}
	}
}

func count[E enforcer.Event](events []enforcer.Event) int {
	n := 0
	for _, e := range events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// What events reported is not reported again, by a reading or after a restart.
func TestReadingTellsNothingTwice(t *testing.T) {
	t.Parallel()
	s := newStory()
	s.take(root, opencode.SessionFailed{Err: &opencode.TurnError{Name: opencode.MessageAborted}})
	s.status(root, opencode.Idle)
	if n := count[enforcer.Aborted](s.all); n != 1 {
		t.Fatalf("%d aborts in %#v", n, s.all)
	}
	aborted := opencode.Message{Info: opencode.MessageInfo{
		ID: "m2", ParentID: "m1", SessionID: root, Role: opencode.RoleAssistant, Created: began.Add(4 * time.Second),
		Completed: s.at, Error: &opencode.TurnError{Name: opencode.MessageAborted},
	}}
	r := ServerState{
		At: s.at.Add(time.Second), Sessions: []opencode.Session{{ID: root}},
		Messages: []opencode.Message{{
			Info:  opencode.MessageInfo{ID: "m1", SessionID: root, Role: opencode.RoleUser, Created: began.Add(time.Second)},
			Parts: []opencode.Part{{ID: "p1", MessageID: "m1", Type: opencode.PartText, Text: "Write a."}},
		}, aborted},
	}
	if events := s.tree.Load(r); count[enforcer.Aborted](events) != 0 || count[enforcer.Prompted](events) != 0 {
		t.Errorf("told %#v", events)
	}
	again := NewTree(root, s.tree.Cursor())
	if events := again.Load(r); count[enforcer.Aborted](events) != 0 || count[enforcer.Prompted](events) != 0 {
		t.Errorf("after a restart: %#v", events)
	}
	fresh := NewTree(root, Cursor{})
	if events := fresh.Load(r); count[enforcer.Aborted](events) != 1 || count[enforcer.Prompted](events) != 1 {
		t.Errorf("seen for the first time: %#v", events)
	}
}

// A turn that failed before the first reading, whose messages do not show it yet, is not taken for aborted.
func TestFailureBeforeTheFirstReading(t *testing.T) {
	t.Parallel()
	s := &story{tree: NewTree(root, Cursor{}), at: began}
	s.status(root, opencode.Busy)
	s.take(root, opencode.SessionFailed{Err: &opencode.TurnError{Name: opencode.APIError, Message: "bad gateway"}})
	s.all = append(s.all, s.tree.Load(ServerState{
		At: s.at, Sessions: []opencode.Session{{ID: root}}, Statuses: map[string]opencode.Status{root: {Type: opencode.Busy}},
		Messages: []opencode.Message{{
			Info:  opencode.MessageInfo{ID: "m1", SessionID: root, Role: opencode.RoleUser, Created: began},
			Parts: []opencode.Part{{ID: "p1", MessageID: "m1", Type: opencode.PartText, Text: "Write a."}},
		}, {Info: info("m2")}},
	})...)
	s.status(root, opencode.Idle)
	if words, _, _ := s.tree.Broken(); count[enforcer.Aborted](s.all) != 0 || !strings.Contains(words, "bad gateway") {
		t.Errorf("broken: %q, told %#v", words, s.all)
	}
	s.message("m3", opencode.RoleUser)
	if words, _, _ := s.tree.Broken(); strings.Contains(words, "bad gateway") {
		t.Errorf("a new prompt is %q", words)
	}
}
