package orchestrator

import (
	"context"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// verifyRef is under what the gates run at the end; no attempt has it.
var verifyRef = boulder.AttemptRef{Attempt: -1}

// missingGate is the fault of a runner that did not run a gate of an ended turn.
func missingGate(t *boulder.SubTask, e *boulder.Evidence) error {
	for _, g := range t.OpenGates(e.Gates, e.NoServer) {
		if g.Run == nil {
			return fmt.Errorf("%w: sub-task %q: %s: a Runner has to run all gates (executor.RunCommand) and to hand them "+
				"over with its evidence", boulder.ErrFatal, t.ID, g)
		}
	}
	return nil
}

// toVerify reports whether the boulder is about to be over and gates have to run before that.
func (r *run) toVerify(a schedule.Finish) bool {
	_, can := r.o.cfg.Runner.(Verifier)
	return can && len(a.Verify) > 0 && r.verified != r.state.Boulder.Attempts
}

func (r *run) startVerify(a schedule.Finish) {
	if r.busy(verifyRef) {
		return
	}
	what := boulder.Verification{BoulderID: r.state.Boulder.ID, Project: r.state.Boulder.Project}
	for _, t := range a.Verify {
		what.SubTasks = append(what.SubTasks, *t)
	}
	if a.Last != nil {
		what.Last = a.Last.ID
	}
	begun := r.state.Boulder.Attempts
	r.launchWork(verifyRef, r.untilStop(func(ctx context.Context) error {
		return r.o.cfg.Runner.(Verifier).Verify(ctx, what, r.reporter(ctx, verifyRef))
	}), func(err error) error {
		if err == nil {
			r.verified = begun
		} else if !r.cutShort(err) {
			r.end(fmt.Errorf("run the gates once more: %w", err))
		}
		return nil
	})
}
