package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// crashRig is a run in which everything happens: parallel sub-tasks, a continuation, a retry, a failure that blocks, a
// failure that is planned anew.
// What comes of a turn depends on its place only, so that every run has to end the same way.
func crashRig(t *testing.T) (*rig, boulder.Plan) {
	r := newRig(t)
	r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
		attempt, turn := req.Attempt.AttemptRef.Attempt, req.Turn.Number
		verdict, usage, err := agrees(ctx, req)
		switch req.SubTask.ID {
		case "b":
			verdict.Completed = turn == 2
		case "c":
			verdict.Completed = attempt == 2
			verdict.IsStuck, verdict.IsProgress = !verdict.Completed, true
		case "bad", "bad-2", "bad-3":
			verdict.Completed, verdict.IsStuck, verdict.NewFacts = false, true, []string{"it is hard"}
		}
		return verdict, usage, err
	})
	r.cfg.Planner = replanner(func(
		_ context.Context, req boulder.ReplanRequest,
	) (boulder.Replacement, boulder.Usage, error) {
		bad := fmt.Sprintf("bad-%d", 2+len(req.Earlier)/3)
		specs := planOf(spec(bad), spec("behind-"+bad, bad), spec("extra-"+bad)).SubTasks
		return boulder.Replacement{SubTasks: specs, Replaces: map[string]string{bad: req.Failed.ID}},
			boulder.Usage{Calls: 1}, nil
	})
	return r, planOf(spec("a"), spec("b", "a"), spec("c", "a"), spec("d", "b", "c"), spec("bad"), spec("behind", "bad"))
}

// ending is what has to be the same however often a run was cut off.
type ending struct {
	Status   boulder.Status
	SubTasks map[string]string
	Prompts  map[string]bool
}

func endingOf(t *testing.T, r *rig) ending {
	head, subTasks := r.store.load(t)
	e := ending{Status: head.Status, SubTasks: map[string]string{}, Prompts: map[string]bool{}}
	for id, st := range subTasks {
		e.SubTasks[id] = fmt.Sprintf("%s, %d tries, %d attempts, %q", st.Status, st.Tries, st.Attempts, st.Output)
	}
	for p := range r.server.prompts {
		e.Prompts[fmt.Sprintf("%v turn %d", p.ref, p.turn)] = true
	}
	return e
}

// goOn resumes a boulder, or runs it if not even its creation was stored.
func (r *rig) goOn(plan boulder.Plan) error {
	_, err := r.resume()
	if errors.Is(err, boulder.ErrNotFound) {
		_, err = r.run(plan)
	}
	return err
}

// TestCrashMatrix fails every commit of a run, before and after its write, resumes, and expects the end that a run
// without faults has, with no prompt sent twice.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	undisturbed, plan := crashRig(t)
	if _, err := undisturbed.run(plan); err != nil {
		t.Fatal(err)
	}
	want := endingOf(t, undisturbed)
	// a, b twice, c twice, d; bad twice, stalled; in its place bad-2 twice and extra; then bad-3 three times and extra
	if want.Status != boulder.Partial || len(want.Prompts) != 1+2+2+1+2+3+4 {
		t.Fatalf("the script is not what the test thinks it is: %+v", want)
	}
	for _, written := range []bool{false, true} {
		crashed := true
		for k := 1; crashed; k++ {
			r, plan := crashRig(t)
			crashed = false
			r.store.fault = func(commit int, after bool) error {
				if commit == k && after == written {
					crashed = true
					return errDisk
				}
				return nil
			}
			_, err := r.run(plan)
			if crashed {
				if !errors.Is(err, errDisk) {
					t.Fatalf("commit %d failed, and the run ended with %v", k, err)
				}
				if err := r.goOn(plan); err != nil && !errors.Is(err, orchestrator.ErrFinished) {
					t.Fatalf("after commit %d (written: %v): %v", k, written, err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, endingOf(t, r)); d != "" {
				t.Fatalf("after commit %d (written: %v) (-want +got):\n%s", k, written, d)
			}
		}
	}
}

// TestCommitErrorWaitsForWorkers: the run ends when its turns have ended, and not before.
func TestCommitErrorWaitsForWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
		if job.SubTask.ID == "long" {
			return until(nil)(ctx, job)
		}
		return boulder.Evidence{}, nil
	}
	r.store.fault = func(int, bool) error {
		for _, e := range r.store.events {
			if boulder.TypeOf(e.Body) == "turn-ended" {
				return errDisk
			}
		}
		return nil
	}
	// collect checks that no turn is at work when the run is over.
	if _, err := r.run(planOf(spec("long"), spec("short"))); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}

// TestFailedCommitTellsTheRunnerThatTheRunIsOver: whoever hears that his report was not stored finds his ctx ended, so that
// he ends the agent's turn. It would be chance if the reports were answered first.
func TestFailedCommitTellsTheRunnerThatTheRunIsOver(t *testing.T) {
	t.Parallel()
	for range 300 {
		r := newRig(t)
		r.cfg.Runner = watchful{r.server, t}
		r.store.fault = func(commit int, _ bool) error {
			if commit == 3 {
				return errDisk
			}
			return nil
		}
		if _, err := r.run(planOf(spec("a"))); !errors.Is(err, errDisk) {
			t.Fatalf("got %v", err)
		}
	}
}

// watchful looks at its ctx when a report fails.
type watchful struct {
	*server
	t *testing.T
}

func (w watchful) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	return w.server.Run(ctx, job, func(b boulder.Body) error {
		err := report(b)
		if err != nil && ctx.Err() == nil {
			w.t.Errorf("%s was not stored (%v), and the turn goes on", boulder.TypeOf(b), err)
		}
		return err
	})
}

// TestAloneAfterACrash: after a resume an attempt still knows whether another was at work beside it.
func TestAloneAfterACrash(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plan        boulder.Plan
		sent, ended int // prompts and ended sub-tasks before the crash
		alone       bool
	}{
		"in a chain":                {planOf(spec("a"), spec("watched", "a"), spec("b", "watched")), 2, 1, true},
		"beside one that has ended": {planOf(spec("a"), spec("watched")), 2, 1, false},
		"beside one that runs":      {planOf(spec("long"), spec("watched")), 2, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
				if job.SubTask.ID == "watched" || job.SubTask.ID == "long" {
					return until(nil)(ctx, job)
				}
				return boulder.Evidence{}, nil
			}
			ctx, crash := context.WithCancel(t.Context())
			defer crash()
			sent, ended := 0, 0
			for e := range r.orchestrator().Run(ctx, orchestrator.Request{Plan: &test.plan}) {
				switch e.Body.(type) {
				case boulder.TurnSent:
					sent++
				case boulder.SubTaskDone:
					ended++
				}
				if sent == test.sent && ended == test.ended {
					crash()
				}
			}
			alone := make(chan bool, 1)
			r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
				if job.SubTask.ID == "watched" {
					alone <- job.Alone()
				}
				return boulder.Evidence{}, nil
			}
			r.completes(r.resume())
			if got := <-alone; got != test.alone {
				t.Errorf("after the resume the attempt is alone: %v, want %v", got, test.alone)
			}
		})
	}
}

// plans is a planner that answers with this plan, sealed.
func plans(plan boulder.Plan) plannerFunc {
	return func(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		p := plan.Clone()
		p.Seal = &boulder.Seal{Hash: plan.Hash(), Origin: boulder.OriginModel}
		return &p, boulder.Usage{Calls: 1, Input: 100}, nil
	}
}
