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
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// model is a trivial implementation of a register.
type model struct {
	records   []boulder.Blocker
	granted   map[string]bool // by sub-task and pattern
	delivered map[string]bool // by id
	off       map[string]bool // by session
}

const modelMax = 4

// Under random operations of two processes, with a list that is writable or not, the register has the model's records.
// In the end the list has all items, once each.
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
		m := &model{granted: map[string]bool{}, delivered: map[string]bool{}, off: map[string]bool{}}
		blocked := filepath.Join(p.dir, DefaultFile)
		scopeOf := func() boulder.BlockerScope {
			n := rapid.IntRange(0, 2).Draw(t, "session")
			s := boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", n)}
			if n > 0 {
				s.BoulderID, s.SubTaskID, s.Attempt = "01J", "api", n
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
				if want, wantErr := m.raise(at, in, p.clock.now()); !errors.Is(err, wantErr) || !cmp.Equal(b, want) {
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
				n := rapid.IntRange(1, len(m.records)+1).Draw(t, "number")
				s := rapid.SampledFrom([]Settlement{skipped, answered("Yes."), allowed}).Draw(t, "settlement")
				_, err := register().Settle(t.Context(), idOf(uint64(n)), s)
				if want := m.settle(n, s, p.clock.now()); !errors.Is(err, want) {
					t.Fatalf("%v and not %v", err, want)
				}
			},
			"deliver": func(t *rapid.T) {
				found, err := register().List(t.Context(), Filter{BlockerScope: boulder.BlockerScope{BoulderID: "01J"}, Undelivered: true})
				if want := m.undelivered(); err != nil || !slices.Equal(ids(found), want) {
					t.Fatalf("%v and not %v, %v", ids(found), want, err)
				}
				if len(found) > 0 {
					id := rapid.SampledFrom(ids(found)).Draw(t, "id")
					check(t, register().Delivered(t.Context(), id))
					m.delivered[id] = true
				}
			},
			"switch": func(t *rapid.T) {
				session := fmt.Sprintf("ses_%d", rapid.IntRange(0, 2).Draw(t, "session"))
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
				check(t, os.Mkdir(blocked, 0o700))
			},
			"unblock": func(t *rapid.T) { unblock(t, blocked) },
			"": func(t *rapid.T) {
				found, err := register().List(t.Context(), Filter{})
				if diff := cmp.Diff(m.records, found, cmp.FilterPath(aboutAsk, cmp.Ignore())); err != nil || diff != "" {
					t.Fatalf("%v (-want +got):\n%s", err, diff)
				}
			},
		})
		unblock(t, blocked)
		check(t, register().Flush(t.Context()))
		p.checkList(t, register())
	})
}

// aboutAsk selects what the model leaves to other tests.
func aboutAsk(path cmp.Path) bool {
	return slices.Contains([]string{"Ask", "Until", "Question", "Context", "Category"}, path.Last().String()[1:])
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
	b.ID, b.CreatedAt, b.Status = idOf(uint64(len(m.records)+1)), now, boulder.BlockerPending
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
			text.Fold(b.Context) == text.Fold(in.Context) && now.Sub(b.CreatedAt) < 30*time.Second &&
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

func (m *model) settle(n int, s Settlement, now time.Time) error {
	if n > len(m.records) {
		return ErrNotFound
	}
	b := &m.records[n-1]
	switch {
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

func (m *model) undelivered() (ids []string) {
	for _, b := range m.records {
		if b.Status.Settled() && b.BoulderID != "" && !m.delivered[b.ID] {
			ids = append(ids, b.ID)
		}
	}
	return ids
}
