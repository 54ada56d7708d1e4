package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// planAndLoop gets a boulder without sub-tasks to the point where it has them, and runs it. While it is paused by an
// order, it stands still here.
func (r *run) planAndLoop(approve Approve, gates bool) error {
	if err := r.commit(); err != nil {
		return err
	}
	for {
		approved, err := r.prepare(approve, gates)
		if errors.Is(err, errSuspended) {
			if err = r.standStill(); err == nil {
				continue
			}
		}
		switch {
		case errors.Is(err, ErrCancelled):
			return err
		case errors.Is(err, ErrDeclined):
			return r.leave(boulder.Cancelled, err)
		case err != nil:
			return r.leave(boulder.Paused, err)
		}
		if err := r.adopt(approved); err != nil {
			return err
		}
		return r.loop()
	}
}

// prepare plans what has no plan, and asks for approval.
func (r *run) prepare(approve Approve, gates bool) (Approval, error) {
	if r.state.Revision == nil {
		if err := r.plan(); err != nil {
			return Approval{}, err
		}
	}
	return r.approve(approve, gates)
}

// plan asks the Planner. A stop, a pause and a cancel end the call: nothing is lost, and a resume plans again. A plan that
// comes all the same is kept.
func (r *run) plan() error {
	if err := r.interrupted(); err != nil {
		return err
	}
	if why := schedule.Exceeded(r.state, r.o.limits, r.now()); why != "" {
		return fmt.Errorf("%w: %w", ErrWaiting, &BudgetError{Reason: why})
	}
	b := r.state.Boulder
	var plan *boulder.Plan
	var usage boulder.Usage
	err := r.during(func(ctx context.Context) (err error) {
		plan, usage, err = r.o.Plan(ctx, boulder.PlanRequest{
			Task: b.Task, Constraints: b.Constraints, Project: b.Project, Mode: b.PlanMode,
		}, b.Base)
		return err
	})
	if usage != (boulder.Usage{}) && !r.state.Boulder.Status.Terminal() {
		report := boulder.UsageReport{Source: boulder.UsagePlan, Model: b.LedgerModel, Usage: usage}
		if applyErr := r.apply(report); applyErr != nil {
			return errors.Join(err, applyErr)
		}
	}
	if err != nil {
		return err
	}
	if err := r.propose(plan); err != nil {
		return err
	}
	return r.commit()
}

// approve asks a person, if there is one to ask.
func (r *run) approve(ask Approve, gates bool) (Approval, error) {
	if err := r.interrupted(); err != nil {
		return Approval{}, err
	}
	proposed := r.state.Revision.Plan.Clone()
	if ask == nil {
		return Approval{Plan: &proposed, Gates: gates}, nil
	}
	var approved Approval
	err := r.during(func(ctx context.Context) (err error) {
		approved, err = ask(ctx, &proposed)
		if err == nil && approved.Plan == nil {
			err = errors.New("the approval returned neither a plan nor an error")
		}
		return err
	})
	return approved, err
}

// during runs what blocks on a goroutine of its own, until the run is to end, and carries out orders meanwhile. When one
// of them pauses or cancels the boulder, what blocks is ended: [errSuspended], [ErrCancelled].
func (r *run) during(what func(ctx context.Context) error) error {
	ctx, release := r.untilStop()
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, ended := make(chan error, 1), make(chan struct{})
	r.workers.Go(func() error {
		defer close(ended)
		err := errors.New("internal error: the goroutine ended without a result")
		defer func() {
			if p := recover(); p != nil {
				r.o.cfg.Logger.Error("planning or approval panicked", "panic", p, "stack", string(debug.Stack()))
				err = fmt.Errorf("internal error: %v", p)
			}
			done <- err
		}()
		err = what(ctx)
		return nil
	})
	for {
		select {
		case err := <-done:
			if err != nil && ctx.Err() != nil && !errors.Is(err, ErrDeclined) {
				return context.Cause(ctx)
			}
			return err
		case o := <-r.orders:
			err := r.heed(o)
			if err == nil {
				err = r.halted()
			}
			if err != nil {
				cancel(err)
				<-ended // what it says does not count any more
				return err
			}
		}
	}
}

// halted says what an order did to a boulder that is not running yet; nil: it goes on.
func (r *run) halted() error {
	switch r.state.Boulder.Status {
	case boulder.Paused:
		return errSuspended
	case boulder.Cancelled:
		return ErrCancelled
	}
	return nil
}

// standStill waits until an order takes the pause back.
func (r *run) standStill() error {
	for {
		if err := r.halted(); !errors.Is(err, errSuspended) {
			return err
		}
		select {
		case o := <-r.orders:
			if err := r.heed(o); err != nil {
				return err
			}
		case <-r.o.stop.Done():
			return ErrStopped
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
}

// untilStop is a context for what blocks the loop goroutine: it is done when the run is to end.
func (r *run) untilStop() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	unhook := context.AfterFunc(r.o.stop, func() { cancel(ErrStopped) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// interrupted says why a run that has not come to its loop must not go on.
func (r *run) interrupted() error {
	r.notice()
	if r.ended == nil && r.stopping {
		return ErrStopped
	}
	return r.ended
}

// leave ends a run whose plan is not there, or not agreed to, and stores why.
func (r *run) leave(status boulder.Status, cause error) error {
	if r.broken != nil {
		return cause
	}
	if r.state.Boulder.Status != status {
		if err := r.apply(boulder.StatusChanged{Status: status, Reason: cause.Error()}); err != nil {
			return errors.Join(cause, err)
		}
	}
	if err := r.commit(); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// propose makes a plan the first revision, which nobody has agreed to yet.
func (r *run) propose(plan *boulder.Plan) error {
	rev := r.revision(plan, 1)
	return r.apply(boulder.Planned{Revision: rev.Number, Origin: rev.Origin, Plan: rev})
}

// adopt makes the sub-tasks of a plan. One that differs from what was proposed is the next revision.
func (r *run) adopt(a Approval) error { return r.adoptWith(a, nil) }

// adoptWith is adopt for a plan of which some sub-tasks are done, with these results.
func (r *run) adoptWith(a Approval, results map[string]boulder.Inherited) error {
	plan := a.Plan
	rev := *r.state.Revision
	if plan.Hash() != rev.Hash {
		rev = r.revision(plan, rev.Number+1)
		rev.Edited = true
	}
	d := boulder.Decomposed{
		Revision: rev.Number, Origin: rev.Origin, Edited: rev.Edited, Goal: plan.Goal, Plan: rev, GatesApproved: a.Gates,
		Model: cmp.Or(a.Model, r.state.Boulder.Model), Results: results,
		Inherited: slices.Sorted(maps.Keys(results)), SubTasks: make([]boulder.PlannedIn, 0, len(plan.SubTasks)),
	}
	for _, s := range plan.SubTasks {
		d.SubTasks = append(d.SubTasks, plannedIn(s, plan.Model, d.Model))
	}
	for id := range r.budgets {
		if !slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool { return s.ID == id }) {
			return fmt.Errorf("%w: the plan has no sub-task %q to give a budget to", boulder.ErrFatal, id)
		}
	}
	if err := r.apply(d); err != nil {
		return err
	}
	if err := r.startable(); err != nil {
		return err // nothing of it is stored
	}
	return r.setBudgets()
}

func (r *run) revision(plan *boulder.Plan, number int) boulder.PlanRevision {
	return boulder.PlanRevision{
		Number: number, Plan: plan.Clone(), Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(),
		AdoptedAt: r.now(),
	}
}
