package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// crash fails one commit, before or after its write.
type crash struct {
	commit        int
	written, came bool
}

// crashes yields a crash at every commit of a run, with which the loop's body has to begin one. The last one does not come.
func crashes(t *testing.T) iter.Seq[*crash] {
	return func(yield func(*crash) bool) {
		for n := 1; ; n++ {
			for _, written := range []bool{false, true} {
				c := &crash{commit: n, written: written}
				if !yield(c) {
					return
				}
				if !c.came {
					if n == 1 {
						t.Errorf("%v: it did not come", c)
					}
					return
				}
			}
		}
	}
}

func (c *crash) String() string { return fmt.Sprintf("commit %d, written %v", c.commit, c.written) }

func (c *crash) fault(commit int, written bool) error {
	if c.came || commit != c.commit || written != c.written {
		return nil
	}
	c.came = true
	return errDisk
}

// survives runs a request that may crash, and resumes it then. It returns false if there was no boulder yet.
func (r *rig) survives(c *crash, req orchestrator.Request) bool {
	r.t.Helper()
	r.store.fault = c.fault
	_, err := r.request(req)
	if c.came != errors.Is(err, errDisk) || !c.came && err != nil {
		r.t.Fatalf("%v: %v", c, err)
	}
	if c.came && len(r.store.events) > 0 {
		r.continues(c, req)
	}
	return len(r.store.events) > 0
}

// obeys carries out an order while no process runs the boulder, again if it is not stored, and resumes it.
func (r *rig) obeys(c *crash, order boulder.Order) {
	r.t.Helper()
	r.store.commits, r.store.fault = 0, c.fault
	err := orchestrator.Obey(r.t.Context(), r.store, "b1", order, time.Now())
	if c.came && !c.written {
		err = orchestrator.Obey(r.t.Context(), r.store, "b1", order, time.Now())
	}
	if err != nil && !errors.Is(err, errDisk) {
		r.t.Fatalf("%v: %v", c, err)
	}
	r.continues(c, orchestrator.Request{})
}

// continues resumes the boulder, also after a crash, unless it is over.
func (r *rig) continues(c *crash, req orchestrator.Request) {
	r.t.Helper()
	again := orchestrator.Request{Resume: "b1", Approve: req.Approve}
	_, err := r.request(again)
	if errors.Is(err, errDisk) {
		_, err = r.request(again)
	}
	if err != nil && !errors.Is(err, boulder.ErrFinished) {
		r.t.Fatalf("%v: %v", c, err)
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
