package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestStop: running turns may end, their evidence is stored, and nothing else starts. A resume judges that evidence and
// continues without another prompt.
func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	r.server.turn = until(release)
	judged := 0
	r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		judged++
		return agrees(ctx, req)
	})
	o := r.orchestrator()
	r.onSent = func() {
		o.Stop()
		o.Stop()
		close(release)
	}
	_, err := r.collect(o.Run(t.Context(), orchestrator.Request{Plan: planOf(spec("a"), spec("b", "a"))}))
	if !errors.Is(err, orchestrator.ErrStopped) {
		t.Fatalf("got %v", err)
	}
	head, _ := r.store.load(t)
	ended := slices.ContainsFunc(r.store.events, func(e boulder.Event) bool { return boulder.TypeOf(e.Body) == "turn-ended" })
	if head.Status != boulder.Paused || !ended || judged != 0 || r.server.calls != 1 {
		t.Errorf("the boulder is %s, the turn ended: %v, %d judgements, %d turns", head.Status, ended, judged, r.server.calls)
	}
	r.completes(r.resume())
	if r.server.sent() != 2 || judged != 2 {
		t.Errorf("%d prompts and %d judgements for two sub-tasks", r.server.sent(), judged)
	}
}

// TestStopGrace: a turn that outlasts the grace period is aborted, and uses no attempt.
func TestStopGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.server.turn = until(nil)
		r.cfg.StopGrace = 3 * time.Minute
		o := r.orchestrator()
		var stopped time.Time
		r.onSent = func() {
			stopped = time.Now()
			o.Stop()
		}
		_, err := r.collect(o.Run(t.Context(), orchestrator.Request{Plan: planOf(spec("a"))}))
		if took := time.Since(stopped); took != 3*time.Minute || !errors.Is(err, orchestrator.ErrStopped) {
			t.Errorf("the run ended with %v after %s", err, took)
		}
		r.server.turn = nil
		r.completes(r.resume())
		if _, subTasks := r.store.load(t); subTasks["a"].Attempts != 1 || r.server.sent() != 1 {
			t.Errorf("%d attempts, %d prompts after the abort, want the one of before",
				subTasks["a"].Attempts, r.server.sent())
		}
	})
}

func TestStopBeforeTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.orchestrator()
	o.Stop()
	_, err := r.collect(o.Run(t.Context(), orchestrator.Request{Plan: planOf(spec("a"))}))
	if !errors.Is(err, orchestrator.ErrStopped) || r.server.calls != 0 {
		t.Errorf("got %v after %d turns", err, r.server.calls)
	}
	if r.store.stored(func(b boulder.Body) bool { return boulder.TypeOf(b) == "attempt-starting" }) {
		t.Error("an attempt got a slot that it will not use")
	}
	r.completes(r.resume())
}

var errSignal = errors.New("second interrupt")

// TestCancel: turns are aborted with the cause, the boulder is paused, and a resume does not prompt again.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var cause error
	r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
		_, cause = until(nil)(ctx, job)
		return boulder.Evidence{}, cause
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r.onSent = func() { cancel(errSignal) }
	_, err := r.collect(r.orchestrator().Run(ctx, orchestrator.Request{Plan: planOf(spec("a"))}))
	if !errors.Is(err, errSignal) || !errors.Is(cause, errSignal) {
		t.Errorf("the run ended with %v, the turn with %v", err, cause)
	}
	head, subTasks := r.store.load(t)
	if head.Status != boulder.Paused || subTasks["a"].Tries != 0 {
		t.Errorf("the boulder is %s, and a has %d tries", head.Status, subTasks["a"].Tries)
	}
	r.server.turn = nil
	r.completes(r.resume())
	if r.server.sent() != 1 {
		t.Errorf("%d prompts", r.server.sent())
	}
}

// TestBreakBeforeApproval: once the caller stops reading events, no approval is requested.
func TestBreakBeforeApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Planner = plans(diamond())
	asked := false
	approve := func(_ context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
		asked = true
		return orchestrator.Approval{Plan: p}, nil
	}
	req := orchestrator.Request{Task: "the task", Approve: approve}
	for e := range r.orchestrator().Run(t.Context(), req) {
		if boulder.TypeOf(e.Body) == "planned" {
			break
		}
	}
	if asked {
		t.Error("the user was asked about a plan of an abandoned run")
	}
	r.completes(r.resume())
}

// TestLoopBodyLeaves: a panic or a Goexit (t.Fatal) in the consumer's loop ends the work too.
func TestLoopBodyLeaves(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": runtime.Goexit,
	} {
		r := newRig(t)
		r.server.turn = until(nil)
		var consumer sync.WaitGroup
		r.onSent = leave
		consumer.Go(func() {
			defer func() { _ = recover() }()
			_, _ = r.run(planOf(spec("a")))
		})
		consumer.Wait()
		r.server.ended(t)
		if r.server.calls != 1 {
			t.Errorf("%s: %d turns were at work, want 1", name, r.server.calls)
		}
		r.server.turn = nil
		r.completes(r.resume())
	}
}

// TestFatal: a wrong key pauses the boulder with the reason and aborts the other turns. A resume continues.
func TestFatal(t *testing.T) {
	t.Parallel()
	wrongKey := errors.Join(errors.New("wrong key"), boulder.ErrFatal)
	for name, spoil := range map[string]func(*rig){
		"runner": func(r *rig) {
			r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
				if job.SubTask.ID == "a" {
					return boulder.Evidence{}, wrongKey
				}
				return until(nil)(ctx, job)
			}
		},
		"judge": func(r *rig) {
			r.cfg.Judge = judgeFunc(func(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
				return boulder.Verdict{}, boulder.Usage{}, wrongKey
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			spoil(r)
			_, err := r.run(planOf(spec("a"), spec("b")))
			want := wrongKey
			if name == "judge" { // the work is done, but only the user can fix the judge
				want = fmt.Errorf("%w: %w", orchestrator.ErrWaiting, wrongKey)
			}
			if !errors.Is(err, boulder.ErrFatal) || errors.Is(err, orchestrator.ErrWaiting) != errors.Is(want, orchestrator.ErrWaiting) {
				t.Fatalf("got %v", err)
			}
			head, subTasks := r.store.load(t)
			if head.Status != boulder.Paused || head.Reason != want.Error() || subTasks["a"].Tries != 0 {
				t.Errorf("the boulder is %s because %q; a has %d tries", head.Status, head.Reason, subTasks["a"].Tries)
			}
			r.server.turn, r.cfg.Judge = nil, judgeFunc(agrees)
			r.completes(r.resume())
			if r.server.sent() != 2 {
				t.Errorf("%d prompts for two sub-tasks", r.server.sent())
			}
		})
	}
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.resume(); !errors.Is(err, boulder.ErrNotFound) {
		t.Errorf("unknown boulder: %v", err)
	}
	r.completes(r.run(planOf(spec("a"))))
	if _, err := r.resume(); !errors.Is(err, boulder.ErrFinished) {
		t.Errorf("finished boulder: %v", err)
	}
	other := newRig(t)
	stopped := other.orchestrator()
	stopped.Stop()
	if _, err := other.collect(stopped.Run(t.Context(), orchestrator.Request{Plan: planOf(spec("a"))})); err == nil {
		t.Fatal("a stopped orchestrator runs")
	}
	other.cfg.Project = "/elsewhere"
	if _, err := other.resume(); err == nil || errors.Is(err, orchestrator.ErrStopped) {
		t.Errorf("another project: %v", err)
	}
}
