package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

func (r *run) startIntegrate(o *boulder.Open) {
	if r.busy(integrateRef) {
		return
	}
	integrator, can := r.o.cfg.Runner.(Integrator)
	if !can {
		r.end(fmt.Errorf("%w: the Runner has no slots: run the boulder without isolation", boulder.ErrFatal))
		return
	}
	what := boulder.Integration{
		BoulderID: r.state.Boulder.ID, Line: r.state.Boulder.Line, SubTask: *o.SubTask, Turn: *o.Turn,
		Gates: r.state.Boulder.IntegrationGates, Generated: r.state.Boulder.Generated,
	}
	for _, t := range r.state.Completed(len(r.state.SubTasks)) {
		what.Earlier = append(what.Earlier, *t)
	}
	r.integrates, r.conflictSlot = o.Attempt.AttemptRef, o.SubTask.Slot
	r.launchWork(integrateRef, r.untilStop(func(ctx context.Context) error {
		return integrator.Integrate(ctx, what, r.reporter(ctx, integrateRef))
	}), func(err error) error {
		if err != nil && !r.cutShort(err) && !errors.Is(err, boulder.ErrRefused) { // refused: an order has ended the attempt
			r.end(fmt.Errorf("integrate %q: %w", what.SubTask.ID, err))
		}
		return nil
	})
}
