package blockers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
)

// roles are what the test binary can act as.
var roles map[string]func(dir string) error

// roleEnv makes the test binary act as another process, to observe kills, limits and full disks from outside.
const roleEnv = "MANAGER_BLOCKERS_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := roles[role](os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var epoch = time.Date(2026, 3, 1, 2, 14, 5, 0, time.UTC)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { return c.pass(0) }

func (c *clock) pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
	return c.t
}

type project struct {
	dir   string
	clock *clock
}

func newProject(t testing.TB) *project {
	t.Helper()
	dir := memoryDir(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &project{dir: dir, clock: &clock{t: epoch}}
}

func (p *project) config() Config {
	return Config{Root: p.dir, Enabled: true, Now: p.clock.now}
}

func (p *project) database() string { return filepath.Join(p.dir, ".manager", FileName) }

// fataler is a test, or a step of a property test.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// register opens a register, as another process would.
func (p *project) register(t fataler, changes ...func(*Config)) *Register {
	t.Helper()
	cfg := p.config()
	for _, change := range changes {
		change(&cfg)
	}
	d, err := Open(cfg)
	check(t, err)
	return d
}

// turn begins a turn of a run with a book of its own.
func (p *project) turn(d *Register, scope boulder.BlockerScope) *memory {
	book := &memory{clock: p.clock}
	d.Bind(scope, book)
	return book
}

// file returns blockers.md, or "" if it is missing.
func (p *project) file(t fataler) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, DefaultFile))
	if !errors.Is(err, os.ErrNotExist) {
		check(t, err)
	}
	return string(data)
}

func (p *project) write(t fataler, text string) {
	t.Helper()
	path := filepath.Join(p.dir, DefaultFile)
	check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
}

// checkList fails unless the items of blockers are in the file, whole and once each.
func (p *project) checkList(t fataler, all []boulder.Blocker) {
	t.Helper()
	text := p.file(t)
	for _, b := range all {
		if !strings.Contains(text, raisedItem(&b).Text) || strings.Count(text, "**"+b.ID+"**") != 1 ||
			b.Status.Settled() && strings.Count(text, settledItem(&b).Text) != 1 {
			t.Errorf("%s is not in the file once:\n%s", b.ID, text)
		}
	}
}

var (
	scope = boulder.BlockerScope{SessionID: "ses_api"}
	inRun = boulder.BlockerScope{BoulderID: "01JBOULDER", SubTaskID: "api", Attempt: 2, SessionID: "ses_api"}
)

var (
	skipped = Settlement{Status: boulder.BlockerSkipped}
	allowed = Settlement{Status: boulder.BlockerAnswered, Allowed: true}
)

func answered(text string) Settlement {
	return Settlement{Status: boulder.BlockerAnswered, Answer: text}
}

func ptr[T any](v T) *T { return &v }

func hardInput(question string) boulder.Blocker {
	return boulder.Blocker{
		Category: "architecture", Question: question, Context: "The service keeps nothing yet.", Hard: true,
	}
}

func softInput(question string) boulder.Blocker {
	return boulder.Blocker{
		Category: "question", Question: question, Context: "It is a detail.",
		Options: []string{"first", "second", "third"}, ChosenOption: "second", ChosenReasoning: "It is the middle.",
	}
}

func permission(request string, patterns ...string) boulder.Blocker {
	return ask(boulder.Ask{
		Kind: boulder.AskPermission, RequestID: request, Permission: "bash", Patterns: patterns, Tool: "bash",
	})
}

func question(request, text string, options ...string) boulder.Blocker {
	b := ask(boulder.Ask{Kind: boulder.AskQuestion, RequestID: request})
	b.Question, b.Options = text, options
	return b
}

func ask(a boulder.Ask) boulder.Blocker { return askedIn(scope, a) }

func askedIn(s boulder.BlockerScope, a boulder.Ask) boulder.Blocker {
	return boulder.Blocker{BlockerScope: s, Ask: &a}
}

func check(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func raise(t fataler, d *Register, in boulder.Blocker) boulder.Blocker {
	t.Helper()
	b, err := d.Raise(context.Background(), scope, in)
	check(t, err)
	return b
}

func divert(t fataler, d *Register, ask boulder.Blocker) boulder.Ruling {
	t.Helper()
	r, err := d.Divert(context.Background(), ask)
	check(t, err)
	return r
}

func settle(t fataler, d *Register, id string, s Settlement) boulder.Blocker {
	t.Helper()
	b, err := d.Settle(context.Background(), id, s)
	check(t, err)
	return b
}

func mustGet(t fataler, d *Register, id string) boulder.Blocker {
	t.Helper()
	b, err := d.Get(context.Background(), id)
	check(t, err)
	return b
}

func listed(t fataler, d *Register, f Filter) []boulder.Blocker {
	t.Helper()
	found, err := d.List(context.Background(), f)
	check(t, err)
	return found
}

func status(t fataler, d *Register) Status {
	t.Helper()
	s, err := d.Status(context.Background())
	check(t, err)
	return s
}

func ids(found []boulder.Blocker) (ids []string) {
	for _, b := range found {
		ids = append(ids, b.ID)
	}
	return ids
}
