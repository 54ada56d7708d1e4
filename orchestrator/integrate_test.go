package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// slots is an agent with slots. It puts a result onto the tip once release lets it.
type slots struct {
	*server
	release chan struct{}
	cut     bool // an integration was cancelled
}

func (s *slots) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	select {
	case <-s.release:
	case <-ctx.Done():
		s.cut = true
		return context.Cause(ctx)
	}
	return report(boulder.Integrated{AttemptRef: what.Turn.AttemptRef, Tree: "tree", Commit: what.SubTask.Work})
}

// TestPauseDuringAnIntegration: a pause lets running work finish: an integration, and a turn in parallel.
func TestPauseDuringAnIntegration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, h := newRig(t), newHeld()
		r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
			e, err := h.turn(ctx, job)
			e.Diff.Commit = "work of " + job.SubTask.ID
			return e, err
		}
		runner := &slots{server: r.server, release: make(chan struct{})}
		r.cfg.Runner = runner
		o := r.orchestrator()
		over := r.begin(o, orchestrator.Request{Plan: planOf(spec("a"), spec("b")), SlotBase: "base"})
		close(h.at(at("a", 1)))
		synctest.Wait()
		obey(t, o, boulder.Order{Do: boulder.OrderPause})
		if r.server.running != 1 || runner.cut {
			t.Errorf("while paused: %d turns are at work, the integration was stopped: %t", r.server.running, runner.cut)
		}
		close(runner.release)
		close(h.at(at("b", 1)))
		synctest.Wait()
		obey(t, o, boulder.Order{Do: boulder.OrderResume})
		head, _ := r.store.load(t)
		if err := <-over; err != nil || head.Status != boulder.Completed || r.server.sent() != 2 {
			t.Errorf("%v: boulder %s, %d prompts", err, head.Status, r.server.sent())
		}
	})
}
