package orchestrator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestCommitErrorWaitsForWorkers: a run that fails ends only after its turns have.
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
	// collect checks that no turn is left when the run ends.
	if _, err := r.run(planOf(spec("long"), spec("short"))); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}

// TestFailedCommitTellsTheRunnerThatTheRunIsOver: a runner whose report was not stored must find its ctx cancelled, so
// that it ends the agent's turn. Many runs: with reports answered first, that would be a race.
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

// watchful is a server that checks its ctx when a report fails.
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

// TestAloneAfterACrash: a resumed attempt still knows whether another one ran at the same time.
func TestAloneAfterACrash(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plan        *boulder.Plan
		sent, ended int // prompts and ended sub-tasks before the crash
		alone       bool
	}{
		"in a chain":                {planOf(spec("a"), spec("watched", "a"), spec("b", "watched")), 2, 1, true},
		"beside one that has ended": {planOf(spec("a"), spec("watched")), 2, 1, false},
		"beside one that runs":      {planOf(spec("long"), spec("watched")), 2, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
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
			for e := range r.orchestrator().Run(ctx, orchestrator.Request{Plan: test.plan}) {
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

func plans(plan *boulder.Plan) plannerFunc {
	return func(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		p := plan.Clone()
		p.Seal = &boulder.Seal{Hash: plan.Hash(), Origin: boulder.OriginModel}
		return &p, boulder.Usage{Calls: 1, Input: 100}, nil
	}
}
