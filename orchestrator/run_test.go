package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

func TestEventOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = func(context.Context, boulder.Job) (boulder.Evidence, error) {
		return boulder.Evidence{
			Gates: []boulder.Gate{{Command: "make"}}, Usage: boulder.Usage{Calls: 3, Output: 7},
		}, nil
	}
	events, err := r.run(planOf(spec("a"), spec("b", "a")))
	r.completes(events, err)
	one := []string{
		"attempt-starting", "subtask-start", "turn-sent", "turn-ended", "gate", "usage", "usage", "judged", "subtask-done",
	}
	want := slices.Concat([]string{"created", "planned", "decomposed"}, one, one, []string{"status", "task-complete"})
	if d := cmp.Diff(want, types(events)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	head, subTasks := r.store.load(t)
	if want := (boulder.Usage{Calls: 8, Input: 20, Output: 14}); head.Usage != want {
		t.Errorf("usage of the boulder is %+v, want %+v", head.Usage, want)
	}
	a := subTasks["a"]
	if a.Output != "output of a" || a.Summary != "did a" || a.Status != boulder.SubTaskCompleted {
		t.Errorf("sub-task a: %+v", a)
	}
	if r.store.events[len(r.store.events)-1].Body.(boulder.TaskComplete).Usage != head.Usage {
		t.Error("the last event does not have the usage of the boulder")
	}
}

// Two sub-tasks that need each other to be running both end. Their dependent waits, and has their outputs in its brief.
func TestOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var both sync.WaitGroup
	both.Add(2)
	alone := map[string]bool{}
	var mu sync.Mutex
	r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
		if job.SubTask.ID == "b" || job.SubTask.ID == "c" {
			both.Done()
			both.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		alone[job.SubTask.ID] = job.Alone()
		return boulder.Evidence{}, nil
	}
	events, err := r.run(diamond())
	r.completes(events, err)
	if r.server.most != 2 {
		t.Errorf("%d turns ran at once, want 2", r.server.most)
	}
	if d := cmp.Diff(map[string]bool{"a": true, "b": false, "c": false, "d": true}, alone); d != "" {
		t.Errorf("who was alone (-want +got):\n%s", d)
	}
	var order []string
	for _, e := range events {
		switch b := e.Body.(type) {
		case boulder.Starting:
			order = append(order, "start "+b.SubTaskID)
		case boulder.SubTaskDone:
			order = append(order, "done "+b.SubTaskID)
		}
	}
	if i := slices.Index(order, "start d"); i < slices.Index(order, "done b") || i < slices.Index(order, "done c") {
		t.Errorf("d did not wait for b and c: %v", order)
	}
	b, d := r.server.prompted(at("b", 1))[0], r.server.prompted(at("d", 1))[0]
	if !strings.Contains(d, "output of b") || !strings.Contains(d, "output of c") || strings.Contains(b, "output of c") {
		t.Errorf("the briefs of b and d:\n%s\n%s", b, d)
	}
}

// TestContinueRetryFail: verdicts lead to a continuation in the same session, then a new session, then failure.
func TestContinueRetryFail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		if req.SubTask.ID == "bad" {
			v := boulder.Verdict{
				Summary: "tests are red", IsProgress: true, IsStuck: req.Turn.Number == 2, StuckReason: "same diff",
			}
			return v, boulder.Usage{}, nil
		}
		return agrees(ctx, req)
	})
	events, err := r.run(planOf(spec("bad"), spec("good"), spec("behind", "bad")))
	if err != nil {
		t.Fatal(err)
	}
	end := events[len(events)-1].Body.(boulder.TaskComplete)
	if end.Status != boulder.Partial || end.AllCompleted {
		t.Errorf("the boulder is %s", end.Status)
	}
	for _, text := range []string{"1 of 3", "stuck: same diff", `depends on "bad", which failed`} {
		if !strings.Contains(end.Summary, text) {
			t.Errorf("the summary does not say %q:\n%s", text, end.Summary)
		}
	}
	_, subTasks := r.store.load(t)
	bad, behind := subTasks["bad"], subTasks["behind"]
	if bad.Status != boulder.SubTaskFailed || bad.Tries != 3 || bad.Attempts != 3 || len(bad.Failures) != 2 {
		t.Errorf("the bad one: %s after %d tries, digests %q", bad.Status, bad.Tries, bad.Failures)
	}
	if behind.Status != boulder.SubTaskBlocked || behind.Attempts != 0 {
		t.Errorf("the one behind it: %s after %d attempts", behind.Status, behind.Attempts)
	}
	if got := r.server.sent(); got != 3*2+1 {
		t.Errorf("%d prompts, want 3 attempts of 2 turns and one of 1", got)
	}
	if got := len(r.server.briefs); got != 3+1 {
		t.Errorf("%d attempts", got)
	}
	for _, e := range events { // tools that read --json expect a list, not null
		line, err := json.Marshal(e.Shown())
		if err != nil || bytes.Contains(line, []byte(`"remaining":null`)) || bytes.Contains(line, []byte(`"depends_on":null`)) {
			t.Errorf("null instead of a list: %s, %v", line, err)
		}
	}
}

// TestWorkerEnds: whatever a runner does, it yields exactly one result, and the attempt is tried again.
func TestWorkerEnds(t *testing.T) {
	t.Parallel()
	for name, misbehave := range map[string]func(){
		"panics":             func() { panic("boom") },
		"ends its goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
				if job.Attempt.AttemptRef.Attempt == 1 {
					misbehave()
				}
				return boulder.Evidence{}, nil
			}
			events, err := r.run(planOf(spec("a"), spec("b", "a")))
			r.completes(events, err)
			i := slices.IndexFunc(events, func(e boulder.Event) bool { return boulder.TypeOf(e.Body) == "retry" })
			if i < 0 || !strings.Contains(events[i].Body.(boulder.Retry).Reason, "internal error") {
				t.Errorf("no retry says what happened: %v", types(events))
			}
		})
	}
}

// TestRunnerMustNotDecide: reports outside of the contract are refused and change nothing.
func TestRunnerMustNotDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var late func(boulder.Body) error
	r.cfg.Runner = runnerFunc(func(
		_ context.Context, job boulder.Job, report func(boulder.Body) error,
	) (boulder.Evidence, error) {
		ref, other := job.Attempt.AttemptRef, boulder.AttemptRef{SubTaskID: "b", Attempt: 1}
		if ref.SubTaskID == "b" {
			progress := boulder.SubTaskProgress{AttemptRef: boulder.AttemptRef{SubTaskID: "a", Attempt: 1}}
			if err := late(progress); !errors.Is(err, boulder.ErrRefused) {
				t.Errorf("a report after the end: %v", err)
			}
			return boulder.Evidence{}, nil
		}
		late = report
		for _, b := range []boulder.Body{
			nil,
			boulder.SubTaskDone{
				AttemptRef: ref, Completed: true, Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted,
			},
			boulder.StatusChanged{Status: boulder.Paused},
			boulder.SubTaskStart{AttemptRef: other, SessionID: "s"},
			&boulder.SubTaskStart{AttemptRef: ref, SessionID: "s"},
			boulder.TurnSent{AttemptRef: ref, Turn: 2, MessageID: "m"},
		} {
			if err := report(b); !errors.Is(err, boulder.ErrRefused) {
				t.Errorf("%T: got %v, want a refusal", b, err)
			}
		}
		return boulder.Evidence{}, nil
	})
	r.completes(r.run(planOf(spec("a"), spec("b", "a"))))
}

type runnerFunc func(context.Context, boulder.Job, func(boulder.Body) error) (boulder.Evidence, error)

func (f runnerFunc) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	return f(ctx, job, report)
}

// TestForbiddenModel: a limit of 0 is an error at once, not an endless wait. A plan is refused before anything is
// stored; a resume works again under other limits.
func TestForbiddenModel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limits := orchestrator.DefaultLimits()
	limits.Models = []orchestrator.ModelLimit{{Pattern: "*opus*", Limit: 0}}
	r.cfg.Limits = &limits
	plan := planOf(spec("a"), spec("b", "a"))
	plan.SubTasks[1].Model = "p/opus"
	_, err := r.run(plan)
	if !errors.Is(err, orchestrator.ErrUnstartable) || !strings.Contains(err.Error(), "no slots of p/opus are allowed") ||
		r.store.commits != 0 {
		t.Fatalf("got %v after %d commits", err, r.store.commits)
	}
	r.cfg.Limits = nil
	o := r.orchestrator()
	for range o.Run(t.Context(), orchestrator.Request{Plan: plan}) {
		o.Stop()
	}
	r.server.calls, r.cfg.Limits = 0, &limits
	if _, err = r.resume(); !errors.Is(err, orchestrator.ErrUnstartable) {
		t.Fatalf("a resume: %v", err)
	}
	head, _ := r.store.load(t)
	if head.Status != boulder.Paused || !strings.Contains(head.Reason, "p/opus") || r.server.calls != 0 {
		t.Errorf("the boulder is %s because %q, after %d turns", head.Status, head.Reason, r.server.calls)
	}
	r.cfg.Limits = nil
	r.completes(r.resume())
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	none := orchestrator.DefaultLimits()
	none.Global = 0
	for want, spoil := range map[string]func(*orchestrator.Config){
		"Project is empty":  func(c *orchestrator.Config) { c.Project = "" },
		"Store is nil":      func(c *orchestrator.Config) { c.Store = nil },
		"Judge is nil":      func(c *orchestrator.Config) { c.Judge = nil },
		"Runner is nil":     func(c *orchestrator.Config) { c.Runner = nil },
		"limit global is 0": func(c *orchestrator.Config) { c.Limits = &none },
	} {
		cfg := newRig(t).cfg
		spoil(&cfg)
		if _, err := orchestrator.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestBadPlan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.run(planOf(spec("a", "b"), spec("b", "a")))
	if !errors.Is(err, boulder.ErrRefused) || !strings.Contains(err.Error(), "cycle") || r.store.commits != 0 {
		t.Errorf("got %v after %d commits", err, r.store.commits)
	}
}
