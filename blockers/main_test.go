package blockers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
)

// roleEnv makes the test binary act as another process: what a kill, a limit or a full disk do can only be seen from there.
const roleEnv = "MANAGER_BLOCKERS_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := roles()[role](os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var epoch = time.Date(2026, 3, 1, 2, 14, 5, 0, time.UTC)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// project is a place with desks.
type project struct {
	dir   string
	clock *clock
}

func newProject(t testing.TB) *project {
	t.Helper()
	return &project{dir: t.TempDir(), clock: &clock{t: epoch}}
}

func (p *project) config() Config {
	return Config{Path: filepath.Join(p.dir, ".manager", FileName), Root: p.dir, Enabled: true, Now: p.clock.now}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// desk opens one, as another process would.
func (p *project) desk(t fataler, changes ...func(*Config)) *Desk {
	t.Helper()
	cfg := p.config()
	for _, change := range changes {
		change(&cfg)
	}
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// file is what people find in blockers.md.
func (p *project) file(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, DefaultFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func (p *project) write(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, DefaultFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var scope = boulder.BlockerScope{BoulderID: "01JBOULDER", SubTaskID: "api", Attempt: 2, SessionID: "ses_api"}

func ptr[T any](v T) *T { return &v }

func hardInput(question string) Input {
	return Input{
		Category: "architecture", Question: question, Context: "The service keeps nothing yet.", BlocksProgress: ptr(true),
	}
}

func softInput(question string) Input {
	return Input{
		Category: "question", Question: question, Context: "It is a detail.", BlocksProgress: ptr(false),
		Options: []string{"first", "second", "third"}, ChosenOption: "second", ChosenReasoning: "It is the middle.",
	}
}

func permission(request string, patterns ...string) boulder.Blocker {
	b := ask(boulder.Ask{Kind: boulder.AskPermission, RequestID: request, Permission: "bash", Patterns: patterns, Tool: "bash"})
	return b
}

func ask(a boulder.Ask) boulder.Blocker {
	return boulder.Blocker{
		BoulderID: scope.BoulderID, SubTaskID: scope.SubTaskID, Attempt: scope.Attempt, SessionID: scope.SessionID, Ask: &a,
	}
}

// raise records something that is not refused.
func raise(t testing.TB, d *Desk, in Input) boulder.Blocker {
	t.Helper()
	b, _, err := d.Raise(context.Background(), scope, in)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func divert(t testing.TB, d *Desk, ask boulder.Blocker) boulder.Ruling {
	t.Helper()
	r, err := d.Divert(context.Background(), ask)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func settle(t testing.TB, d *Desk, id string, s Settlement) boulder.Blocker {
	t.Helper()
	b, err := d.Settle(context.Background(), id, s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func get1(t testing.TB, d *Desk, id string) boulder.Blocker {
	t.Helper()
	b, err := d.Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func listed(t testing.TB, d *Desk, f Filter) []boulder.Blocker {
	t.Helper()
	found, err := d.List(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func status(t testing.TB, d *Desk) Status {
	t.Helper()
	s, err := d.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
