package orchestrator

import (
	"context"
	"errors"
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
func (r *run) toVerify(a schedule.Action) bool {
	finish, ok := a.(schedule.Finish)
	_, can := r.o.cfg.Runner.(Verifier)
	return ok && can && len(finish.Verify) > 0 && r.verified != r.state.Boulder.Attempts
}

func (r *run) startVerify(a schedule.Finish) {
	if r.inflight[verifyRef] {
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
	r.launchWork(verifyRef, workVerify, func(ctx context.Context) *result {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(r.o.stop, func() { cancel(ErrStopped) })() // a resume runs them
		err := r.o.cfg.Runner.(Verifier).Verify(ctx, what, r.reporter(ctx, verifyRef))
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &result{kind: workVerify, turn: begun, err: err}
	})
}

func (r *run) takeVerification(res *result) {
	switch {
	case res.err == nil:
		r.verified = res.turn
	case r.ended != nil, errors.Is(res.err, ErrStopped), errors.Is(res.err, errSuspended):
	default:
		r.end(fmt.Errorf("run the gates once more: %w", res.err))
	}
}
