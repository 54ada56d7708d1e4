package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// launchGates has the runner do something other than a turn. The run ends with the error that ended returns, if any.
func (r *run) launchGates(
	key workKey, work func(context.Context, func(boulder.Body) error) error, ended func(error) error,
) {
	r.launchUntilStop(key, func(ctx context.Context) error { return work(ctx, r.reporter(ctx, key)) }, func(err error) error {
		if err = ended(err); err != nil && !r.cutShort(err) {
			r.end(err)
		}
		return nil
	})
}

func (r *run) startTry() {
	b := &r.state.Boulder
	what := boulder.Trial{BoulderID: b.ID, Base: b.Trunk.Base, Isolation: b.Isolation, Gates: b.IntegrationGates}
	for _, t := range r.state.SubTasks {
		if t.Unfinished() {
			what.SubTasks = append(what.SubTasks, *t)
		}
	}
	r.launchGates(tryWork, func(ctx context.Context, report func(boulder.Body) error) error {
		return r.o.cfg.Runner.(Trier).Try(ctx, what, func(body boulder.Body) error {
			if b, ok := body.(boulder.Isolated); ok && b.InPlace && r.req.AskInPlace != nil {
				if err := r.req.AskInPlace(ctx, b.Reason); err != nil {
					return err
				}
			}
			return report(body)
		})
	}, func(err error) error { return err })
}

func (r *run) startIntegrate() {
	integrator, can := r.o.cfg.Runner.(Integrator)
	if !can {
		r.end(fmt.Errorf("%w: the Runner has no slots: run the boulder without isolation", boulder.ErrFatal))
		return
	}
	batch := r.state.Batch()
	what := boulder.Integration{
		BoulderID: r.state.Boulder.ID, Trunk: r.state.Boulder.Trunk, SubTask: *batch[0].SubTask, Turn: *batch[0].Turn,
		Gates: r.state.Boulder.IntegrationGates, Generated: r.state.Boulder.Generated,
	}
	for _, o := range batch[1:] {
		what.Then = append(what.Then, boulder.Joined{SubTask: *o.SubTask, Turn: *o.Turn})
	}
	for _, t := range r.state.Completed(len(r.state.SubTasks)) {
		what.Earlier = append(what.Earlier, *t)
	}
	what.Last = !slices.ContainsFunc(r.state.SubTasks, func(t *boulder.SubTask) bool {
		return t.Unfinished() && !slices.Contains(batch, r.state.Open(t.ID))
	})
	r.integrates = r.state.Boulder.Trunk.Integrating
	r.integratesSlots = nil
	for _, o := range batch {
		r.integratesSlots = append(r.integratesSlots, o.SubTask.Slot)
	}
	r.launchGates(integrateWork, func(ctx context.Context, report func(boulder.Body) error) error {
		return integrator.Integrate(ctx, what, report)
	}, func(err error) error {
		if err == nil || errors.Is(err, boulder.ErrRefused) { // an order has ended the attempt
			return nil
		}
		return fmt.Errorf("integrate %q: %w", what.SubTask.ID, err)
	})
}

// Parallel reports whether two unfinished sub-tasks of a boulder can be at work at once.
func Parallel(s *boulder.State, l Limits) bool { return schedule.Parallel(s, l) }

// toVerify reports whether gates have to rerun before the boulder ends.
func (r *run) toVerify(a schedule.Finish) bool {
	_, can := r.o.cfg.Runner.(Verifier)
	return can && len(a.Verify) > 0 && r.verified != r.state.Boulder.Attempts
}

func (r *run) startVerify(a schedule.Finish) {
	if r.busy(integrateWork) {
		return
	}
	what := boulder.Verification{BoulderID: r.state.Boulder.ID, Project: r.state.Boulder.Project, Trunk: r.state.Boulder.Trunk}
	for _, t := range a.Verify {
		what.SubTasks = append(what.SubTasks, *t)
		if r.state.Boulder.Isolated() && t == r.state.Completed(1)[0] {
			gates := &what.SubTasks[len(what.SubTasks)-1].Gates
			*gates = append(slices.Clip(*gates), r.state.Boulder.IntegrationGates...)
		}
	}
	if a.Last != nil {
		what.Last = a.Last.ID
	}
	begun := r.state.Boulder.Attempts
	r.launchGates(verifyWork, func(ctx context.Context, report func(boulder.Body) error) error {
		return r.o.cfg.Runner.(Verifier).Verify(ctx, what, report)
	}, func(err error) error {
		switch {
		case err == nil:
			r.verified = begun
		case !errors.Is(err, boulder.ErrRefused): // a refusal means that a sub-task is redone
			return fmt.Errorf("run the gates once more: %w", err)
		}
		return nil
	})
}

// missingGate returns the runner's fault of not running a gate of an ended turn, or nil.
func missingGate(t *boulder.SubTask, e *boulder.Evidence) error {
	for _, g := range t.OpenGates(e.Gates, e.NoServer) {
		if g.Run == nil {
			return fmt.Errorf("%w: sub-task %q: %s: a Runner has to run all gates (executor.RunCommand) and to hand them "+
				"over with its evidence", boulder.ErrFatal, t.ID, g)
		}
	}
	return nil
}
