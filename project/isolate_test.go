package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/workspace"
)

// slotted is a project whose isolated boulders run on a real git with functions as agents. It outlives the processes.
type slotted struct {
	*testing.T
	dir   string
	base  string
	store memory
	// agent works in a slot. It may be called again for the same turn.
	agent     func(dir string, job boulder.Job)
	generated map[string]string
	integrate func(context.Context) // if set, is called before results are put onto the tip

	mu      sync.Mutex
	prompts []string
}

func newSlotted(t *testing.T, files ...string) *slotted {
	w := &slotted{T: t, dir: t.TempDir(), store: memory{}}
	w.git("init", "-q", "-b", "main")
	for i := 0; i < len(files); i += 2 {
		w.write(w.dir, files[i], files[i+1])
	}
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "m")
	w.git("config", "user.name", "n")
	w.write(w.dir, "untracked.txt", "the user's")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, e := range w.store.events {
			data, err := json.Marshal(e.Body)
			t.Logf("%T %.1000s %v", e.Body, data, err)
		}
	})
	return w
}

func (w *slotted) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e"}, args...)...)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *slotted) write(dir, name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
}

// userState returns the user's refs, status, diff and index.
func (w *slotted) userState() string {
	index, err := os.ReadFile(filepath.Join(w.dir, ".git", "index"))
	if err != nil {
		w.Fatal(err)
	}
	return fmt.Sprintf("%s\n%s\n%s\n%x", w.git("for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
		w.git("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--", ":!.manager"), w.git("diff"), index)
}

func (w *slotted) tipFile(name string) string { return w.git("show", "refs/manager/b1/tip:"+name) }

// memory is a store that fails commit number failAt: after the write if written is set, else before it.
type memory struct {
	events  []boulder.Event
	commits int
	failAt  int
	written bool
	// onCommit, if set, gets what is on disk, and whether the commit fails nevertheless, or nothing was written.
	onCommit func(events []boulder.Event, crash bool)
}

var errCrash = errors.New("crash")

func (m *memory) Commit(_ context.Context, _ *boulder.State, events []boulder.Event) error {
	m.commits++
	crash := m.commits == m.failAt
	if crash && !m.written {
		events = nil
	}
	m.events = append(m.events, events...)
	if m.onCommit != nil {
		m.onCommit(events, crash)
	}
	if crash {
		return errCrash
	}
	return nil
}

func (m *memory) Load(context.Context, string) (*boulder.State, error) {
	s := boulder.NewState()
	for _, e := range m.events {
		if err := s.Replay(e); err != nil {
			return nil, err
		}
	}
	return s, s.Check()
}

// worker is the executor with slotted.agent instead of sessions.
type worker struct {
	*executor.Executor
	w     *slotted
	slots Slots
}

func (x worker) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (e boulder.Evidence, err error) {
	t, ref := job.SubTask, job.Attempt.AttemptRef
	from := t.From
	if from == "" {
		from = job.Trunk.Tip
	}
	s, err := x.slots.Prepare(ctx, boulder.SlotClaim{
		BoulderID: job.BoulderID, Slot: t.Slot, SubTaskID: t.ID, Attempt: ref.Attempt, Base: job.Trunk.Base, From: from,
	})
	if err != nil {
		return e, fmt.Errorf("%w: %w", boulder.ErrFatal, err)
	}
	if job.Attempt.SessionID == "" {
		tree, err := x.slots.Tree(ctx, from)
		if err == nil {
			err = report(boulder.SubTaskStart{AttemptRef: ref, SessionID: "s", Snapshot: tree, From: s.From()})
		}
		if err != nil {
			return e, err
		}
	}
	if job.Turn.MessageID == "" {
		if err := report(boulder.TurnSent{AttemptRef: ref, Turn: job.Turn.Number, MessageID: "m"}); err != nil {
			return e, err
		}
		x.w.mu.Lock()
		x.w.prompts = append(x.w.prompts, job.Turn.Prompt)
		x.w.mu.Unlock()
	}
	x.w.agent(s.Dir(), job)
	e.Diff.Commit, e.Diff.Tree, err = s.Capture(ctx, "")
	for _, line := range t.Gates {
		e.Gates = append(e.Gates, executor.RunCommand(ctx, s.Dir(), nil, line, time.Minute, strings.Clone))
	}
	e.ToolCount = 1
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return e, err
}

func (x worker) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	if x.w.integrate != nil {
		x.w.integrate(ctx)
	}
	return x.Executor.Integrate(ctx, what, report)
}

// Judge completes every sub-task whose gates are green.
func (w *slotted) Judge(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: len(req.Turn.Evidence.Red()) == 0, Summary: "done", IsProgress: true}, boulder.Usage{}, nil
}

// process runs or resumes the boulder until it ends or crashes.
func (w *slotted) process(plan *boulder.Plan) error {
	w.Helper()
	ws, err := workspace.Open(w.Context(), w.dir)
	if err != nil {
		w.Fatal(err)
	}
	s := Slots{ws.Slots()}
	x, err := executor.New(executor.Config{Host: &opencode.Host{}, Project: w.dir, Workspace: ws, Slots: s})
	if err != nil {
		w.Fatal(err)
	}
	o, err := orchestrator.New(orchestrator.Config{
		Project: w.dir, Store: &w.store, Judge: w, Runner: worker{x, w, s}, NewID: func() string { return "b1" },
	})
	if err != nil {
		w.Fatal(err)
	}
	if w.base == "" {
		if w.base, err = s.Base(w.Context(), false, time.Unix(1, 0)); err != nil {
			w.Fatal(err)
		}
	}
	req := orchestrator.Request{Plan: plan, SlotBase: w.base}
	req.Generated = w.generated
	req.IntegrationGates = plan.IntegrationGates
	if req.IntegrationGates == nil {
		req.IntegrationGates = []string{"! grep -rl '<<<<<<<' . --include='*.txt'"}
	}
	if len(w.store.events) > 0 {
		req = orchestrator.Request{Resume: "b1"}
	}
	for _, err := range o.Run(w.Context(), req) {
		if err != nil {
			return err
		}
	}
	return nil
}

func subTask(id, gate string, after ...string) boulder.Spec {
	s := boulder.Spec{ID: id, Subject: "Do " + id, Description: "All of " + id, DependsOn: after}
	if gate != "" {
		s.Gates = []string{gate}
	}
	return s
}

// A process may crash before or after any commit is written: the next one reaches the same tip, although files conflict
// and results that are green alone are red together. The user's files, index and refs stay unchanged.
func TestIsolatedRunSurvivesCrashes(t *testing.T) {
	t.Parallel()
	const uses = `! test -f caller.txt || grep -q "$(cat api.txt)" caller.txt`
	plan := &boulder.Plan{Task: "t", SubTasks: []boulder.Spec{
		subTask("one", "grep -q one list.txt"), subTask("two", "grep -q two list.txt"),
		subTask("rename", uses), subTask("caller", uses), subTask("last", "", "one", "two", "rename", "caller"),
	}}
	world := func(t *testing.T) *slotted {
		w := newSlotted(t, "api.txt", "v1", "list.txt", "")
		w.agent = func(dir string, job boulder.Job) {
			conflict := len(job.SubTask.Conflicts) > 0
			switch id := job.SubTask.ID; {
			case conflict && (id == "one" || id == "two"):
				w.write(dir, "list.txt", "one\ntwo\n")
			case id == "one", id == "two":
				w.write(dir, "list.txt", id+"\n")
			case id == "rename":
				w.write(dir, "api.txt", "v2")
				if _, err := os.Stat(filepath.Join(dir, "caller.txt")); err == nil {
					w.write(dir, "caller.txt", "uses v2")
				}
			case id == "caller":
				api, err := os.ReadFile(filepath.Join(dir, "api.txt"))
				if err != nil {
					w.Error(err)
				}
				w.write(dir, "caller.txt", "uses "+string(api))
			case id == "last":
				w.write(dir, "last.txt", "last")
			}
		}
		return w
	}
	run := func(t *testing.T, failAt int, written bool) (commits int) {
		w := world(t)
		before := w.userState()
		w.store.failAt, w.store.written = failAt, written
		err := w.process(plan)
		if failAt > 0 {
			if !errors.Is(err, errCrash) {
				t.Fatalf("the crash at commit %d: %v", failAt, err)
			}
			err = w.process(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := w.tipFile("list.txt") + "; " + w.tipFile("api.txt") + "; " + w.tipFile("caller.txt") + "; " + w.tipFile("last.txt"); got !=
			"one\ntwo; v2; uses v2; last" {
			t.Errorf("the tip has %q", got)
		}
		if after := w.userState(); after != before {
			t.Errorf("the user had\n%s\nand has\n%s", before, after)
		}
		s, err := w.store.Load(t.Context(), "b1")
		if err != nil {
			t.Fatal(err)
		}
		if tip := w.git("rev-parse", "refs/manager/b1/tip"); tip != s.Boulder.Trunk.Tip || s.Boulder.Status != boulder.Completed {
			t.Errorf("the boulder is %s; its tip is %s, and the ref at %s", s.Boulder.Status, s.Boulder.Trunk.Tip, tip)
		}
		if n := w.git("rev-list", "--count", w.base+"..refs/manager/b1/tip"); n != "5" {
			t.Errorf("the line has %s commits", n)
		}
		for _, e := range w.store.events {
			if b, ok := e.Body.(boulder.Integrated); ok && slices.ContainsFunc(b.Gates, func(g boulder.TreeGate) bool { return !g.Passed }) {
				t.Errorf("integrated with a red gate: %+v", b)
			}
		}
		return w.store.commits
	}
	commits := run(t, 0, false)
	for at := 2; at <= commits-4; at += 5 { // the number varies with what runs in parallel
		t.Run(fmt.Sprint(at), func(t *testing.T) { run(t, at, at%2 == 0) })
	}
}

// A conflict in generated files only is resolved by their command; only if that fails, it is an agent's.
func TestGeneratedFiles(t *testing.T) {
	t.Parallel()
	for command, asked := range map[string]bool{"cat *.dep > go.sum": false, "cat *.dep > go.sum; false": true, "": true} {
		w := newSlotted(t, "go.sum", "", "list.txt", "")
		w.generated = map[string]string{"go.sum": command}
		w.agent = func(dir string, job boulder.Job) {
			id := job.SubTask.ID
			w.write(dir, id+".dep", id+"\n")
			w.write(dir, "go.sum", id+"\n")
			if len(job.SubTask.Conflicts) > 0 {
				w.write(dir, "go.sum", "one\ntwo\n")
			}
		}
		plan := &boulder.Plan{Task: "t", SubTasks: []boulder.Spec{
			subTask("one", "grep -q one go.sum"), subTask("two", "grep -q two go.sum"),
		}}
		before := w.userState()
		if err := w.process(plan); err != nil {
			t.Fatal(err)
		}
		conflict := slices.ContainsFunc(w.store.events, func(e boulder.Event) bool { _, is := e.Body.(boulder.Conflict); return is })
		if got := w.tipFile("go.sum"); got != "one\ntwo" || conflict != asked || w.userState() != before {
			t.Errorf("%q: the tip has %q; conflict: %v; the user has\n%s", command, got, conflict, w.userState())
		}
		if message := w.git("log", "-1", "--format=%(trailers:key=Manager-Generated,valueonly)", "refs/manager/b1/tip"); (message == "go.sum") == asked {
			t.Errorf("%q: the commit says %q", command, message)
		}
	}
}

// The session that made the result gets two turns, a fresh one gets one. Then the user is asked, and finds both
// versions in the slot.
func TestConflictThatNobodyResolves(t *testing.T) {
	t.Parallel()
	w := newSlotted(t, "list.txt", "")
	w.agent = func(dir string, job boulder.Job) {
		if job.Turn.Number == 1 && job.Attempt.Attempt == 1 {
			w.write(dir, "list.txt", job.SubTask.ID+"\n")
		}
	}
	plan := &boulder.Plan{Task: "t", SubTasks: []boulder.Spec{subTask("one", ""), subTask("two", "test -s list.txt")}}
	if err := w.process(plan); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Fatal(err)
	}
	s, err := w.store.Load(t.Context(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	stuck := s.SubTask("two")
	if stuck.Integrated != "" {
		stuck = s.SubTask("one")
	}
	if len(stuck.Blockers) != 1 || stuck.Attempts != 2 || len(stuck.Conflicts) != 4 {
		t.Errorf("%d blockers after %d attempts and %d conflicts", len(stuck.Blockers), stuck.Attempts, len(stuck.Conflicts))
	}
	about := func(prompt string) bool { return strings.Contains(prompt, "leave no marker") }
	w.prompts = slices.DeleteFunc(w.prompts, func(p string) bool { return !about(p) })
	if len(w.prompts) != 3 {
		t.Errorf("%d prompts were about the conflict", len(w.prompts))
	}
	list, err := os.ReadFile(filepath.Join(w.dir, ".manager", "slots", "b1", fmt.Sprint(stuck.Slot), "list.txt"))
	if err != nil || !strings.Contains(string(list), "<<<<<<<") {
		t.Errorf("the slot has %q, %v", list, err)
	}
}
