package blockers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// model is a trivial implementation of a register.
type model struct {
	records []boulder.Blocker
	granted map[string]bool // by sub-task and pattern
	off     map[string]bool // by session
}

const modelMax = 4

// Under random operations of two processes, with a list that is writable or not, the register and the book of a run have
// the model's records, which are ruled on in the same way. In the end the list has all items, once each.
func TestRegisterAndModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &project{dir: memoryDir(t), clock: &clock{t: epoch}}
		defer os.RemoveAll(p.dir)
		change := func(c *Config) {
			c.Max = modelMax
			c.Policy.Permissions = []Rule{{Permission: "bash", Pattern: "wait*", Action: AskMe, Wait: time.Minute}}
		}
		registers := []*Register{p.register(t, change), p.register(t, change)}
		m := &model{granted: map[string]bool{}, off: map[string]bool{}}
		book := &memory{clock: p.clock}
		blocked := filepath.Join(p.dir, DefaultFile)
		scopeOf := func() boulder.BlockerScope {
			n := rapid.IntRange(0, 3).Draw(t, "session")
			s := boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", n)}
			if n > 1 {
				s.BoulderID, s.SubTaskID, s.Attempt = "01J", "api", n
				for _, d := range registers {
					d.Bind(s, book)
				}
			}
			return s
		}
		register := func() *Register { return rapid.SampledFrom(registers).Draw(t, "process") }
		t.Repeat(map[string]func(*rapid.T){
			"raise": func(t *rapid.T) {
				in := hardInput(rapid.SampledFrom([]string{"Which one?", "Which\n\tone?", "Which two?"}).Draw(t, "question"))
				in.Context = rapid.SampledFrom([]string{"It is new.", "It  is\nnew.", "It is old."}).Draw(t, "context")
				in.Hard = rapid.Bool().Draw(t, "hard")
				in.Options, in.ChosenOption, in.ChosenReasoning = []string{"a", "b"}, "a", "It is first."
				at := scopeOf()
				b, err := register().Raise(t.Context(), at, in)
				if want, wantErr := m.raise(at, in, p.clock.now()); !errors.Is(err, wantErr) || !cmp.Equal(b, want, cmpopts.IgnoreFields(b, "Key")) {
					t.Fatalf("%+v, %v and not %+v, %v", b, err, want, wantErr)
				}
			},
			"divert": func(t *rapid.T) {
				pattern := rapid.SampledFrom([]string{"wait a", "wait b", "rm"}).Draw(t, "pattern")
				at := scopeOf()
				r, err := register().Divert(t.Context(), askedIn(at, *permission("per_1", pattern).Ask))
				id, reply, wantErr := m.divert(at, pattern, p.clock.now())
				if !errors.Is(err, wantErr) || r.BlockerID != id || r.Reply != reply {
					t.Fatalf("%+v, %v and not %s, %s, %v", r, err, id, reply, wantErr)
				}
			},
			"settle": func(t *rapid.T) {
				b := m.draw(t)
				s := rapid.SampledFrom([]Settlement{skipped, answered("Yes."), allowed}).Draw(t, "settlement")
				var err error
				if b.BoulderID != "" {
					err = book.settle(register(), b.ID, s)
				} else {
					_, err = register().Settle(t.Context(), b.ID, s)
				}
				if want := m.settle(b.ID, s, p.clock.now()); !errors.Is(err, want) {
					t.Fatalf("%v and not %v", err, want)
				}
			},
			"end of a wait": func(t *rapid.T) {
				b, replied := m.draw(t), rapid.Bool().Draw(t, "replied")
				err := register().EndWait(t.Context(), b.BlockerScope, b.ID, replied)
				if want := m.endWait(b.ID, replied); !errors.Is(err, want) {
					t.Fatalf("%v and not %v", err, want)
				}
			},
			"write": func(t *rapid.T) {
				unwritten, err := register().Listed(t.Context(), "01J", book.since)
				if info, _ := os.Lstat(blocked); info == nil || !info.IsDir() {
					check(t, err)
				}
				if unwritten > 0 != (err != nil) {
					t.Fatalf("%d are unwritten, %v", unwritten, err)
				}
			},
			"switch": func(t *rapid.T) {
				session := fmt.Sprintf("ses_%d", rapid.IntRange(0, 3).Draw(t, "session"))
				on := rapid.SampledFrom([]*bool{nil, nil, ptr(true), ptr(false)}).Draw(t, "on")
				check(t, register().Switch(t.Context(), session, on))
				m.off[session] = on != nil && !*on
			},
			"pass": func(*rapid.T) {
				p.clock.pass(rapid.SampledFrom([]time.Duration{
					time.Second, 29 * time.Second, 30 * time.Second, time.Minute, time.Hour,
				}).Draw(t, "time"))
			},
			"block": func(t *rapid.T) { // a directory in its place makes the list unwritable
				if info, err := os.Lstat(blocked); err == nil && info.IsDir() {
					return
				}
				if err := os.Rename(blocked, blocked+".aside"); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				check(t, os.MkdirAll(blocked, 0o700))
			},
			"unblock": func(t *rapid.T) { unblock(t, blocked) },
			"": func(t *rapid.T) {
				found, err := register().List(t.Context(), Filter{})
				for boulderID, found := range map[string][]boulder.Blocker{"": found, "01J": book.all} {
					if diff := cmp.Diff(m.of(boulderID), found, cmp.FilterPath(aboutAsk, cmp.Ignore())); err != nil || diff != "" {
						t.Fatalf("%v (-want +got):\n%s", err, diff)
					}
				}
			},
		})
		unblock(t, blocked)
		check(t, register().Flush(t.Context()))
		unwritten, err := register().Listed(t.Context(), "01J", book.since)
		check(t, err)
		if unwritten != 0 {
			t.Fatalf("%d are unwritten", unwritten)
		}
		p.checkList(t, append(listed(t, register(), Filter{}), book.all...))
	})
}

// aboutAsk selects what the model leaves to other tests.
func aboutAsk(path cmp.Path) bool {
	return slices.Contains([]string{"Ask", "Key", "Grants", "Question", "Context", "Category"}, path.Last().String()[1:])
}

func unblock(t *rapid.T, path string) {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return
	}
	check(t, os.Remove(path))
	if err := os.Rename(path+".aside", path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// memoryDir returns a directory on a RAM disk, if there is one.
func memoryDir(t fataler) string {
	dir, err := os.MkdirTemp("/dev/shm", "blockers")
	if err != nil {
		dir, err = os.MkdirTemp("", "blockers")
	}
	check(t, err)
	return dir
}

func (m *model) full(session string) bool {
	n := 0
	for _, b := range m.records {
		if b.SessionID == session {
			n++
		}
	}
	return n >= modelMax
}

func (m *model) add(at boulder.BlockerScope, b boulder.Blocker, now time.Time) boulder.Blocker {
	prefix := "W"
	if at.BoulderID != "" {
		prefix = "B"
	}
	b.ID, b.CreatedAt, b.Status = fmt.Sprint(prefix, len(m.of(at.BoulderID))+1), now, boulder.BlockerPending
	b.BlockerScope = at
	m.records = append(m.records, b)
	return b
}

func (m *model) raise(at boulder.BlockerScope, in boulder.Blocker, now time.Time) (boulder.Blocker, error) {
	if m.off[at.SessionID] {
		return boulder.Blocker{}, ErrOff
	}
	for _, b := range slices.Backward(m.records) {
		if b.SessionID == at.SessionID && b.Ask == nil && text.Fold(b.Question) == text.Fold(in.Question) &&
			text.Fold(b.Context) == text.Fold(in.Context) && (!b.Status.Settled() || now.Sub(b.CreatedAt) < 30*time.Second) &&
			(b.Hard || !in.Hard) {
			return b, nil
		}
	}
	if m.full(at.SessionID) {
		return boulder.Blocker{}, ErrTooMany
	}
	return m.add(at, in, now), nil
}

func grantOf(at boulder.BlockerScope, pattern string) string {
	if at.SubTaskID == "" {
		return at.SessionID + pattern
	}
	return at.SubTaskID + pattern
}

func (m *model) divert(at boulder.BlockerScope, pattern string, now time.Time) (string, boulder.AskReply, error) {
	if m.off[at.SessionID] {
		return "", "", ErrOff
	}
	if m.granted[grantOf(at, pattern)] {
		return "", boulder.ReplyAllowed, nil
	}
	for _, b := range m.records {
		if b.SessionID == at.SessionID && b.Ask != nil && b.Ask.Patterns[0] == pattern {
			if !b.Status.Settled() && now.Before(b.Until) {
				return b.ID, boulder.ReplyWaiting, nil
			}
			return b.ID, boulder.ReplyDiverted, nil
		}
	}
	if m.full(at.SessionID) {
		return "", boulder.ReplyDiverted, ErrTooMany
	}
	b, reply := boulder.Blocker{Ask: &boulder.Ask{Patterns: []string{pattern}}}, boulder.ReplyDiverted
	if strings.HasPrefix(pattern, "wait") {
		b.Until, reply = now.Add(time.Minute), boulder.ReplyWaiting
	}
	return m.add(at, b, now).ID, reply, nil
}

func (m *model) settle(id string, s Settlement, now time.Time) error {
	b := m.get(id)
	switch {
	case b == nil:
		return ErrNotFound
	case b.Status.Settled():
		return ErrSettled
	case s.Allowed && b.Ask == nil:
		return ErrNoAnswer
	}
	b.Status, b.Answer, b.Allowed, b.SettledAt = s.Status, s.Answer, s.Allowed, now
	if s.Allowed {
		m.granted[grantOf(b.BlockerScope, b.Ask.Patterns[0])] = true
	}
	return nil
}

func (m *model) endWait(id string, replied bool) error {
	b := m.get(id)
	if b == nil {
		return ErrNotFound
	}
	b.Replied, b.Gone = b.Replied || replied, b.Gone || !replied
	return nil
}

// draw returns a record, or one that does not exist.
func (m *model) draw(t *rapid.T) boulder.Blocker {
	none := boulder.Blocker{ID: "W99", BlockerScope: boulder.BlockerScope{SessionID: "ses_0"}}
	return rapid.SampledFrom(append(slices.Clone(m.records), none)).Draw(t, "blocker")
}

func (m *model) get(id string) *boulder.Blocker {
	for i := range m.records {
		if m.records[i].ID == id {
			return &m.records[i]
		}
	}
	return nil
}

// of returns the records of a boulder or, without one, of the sessions outside of runs.
func (m *model) of(boulderID string) (found []boulder.Blocker) {
	for _, b := range m.records {
		if b.BoulderID == boulderID {
			found = append(found, b)
		}
	}
	return found
}
