package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// planAndLoop gets a boulder without sub-tasks to the point where it has them, and runs it.
func (r *run) planAndLoop(approve Approve, gates bool) error {
	if err := r.commit(); err != nil {
		return err
	}
	if r.state.Revision == nil {
		if err := r.plan(); err != nil {
			return r.leave(boulder.Paused, err)
		}
	}
	approved, err := r.approve(approve, gates)
	switch {
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

// plan asks the Planner. A stop cancels the call: nothing is lost, and a resume plans again. A plan that comes all the
// same is kept.
func (r *run) plan() error {
	if err := r.interrupted(); err != nil {
		return err
	}
	if why := schedule.Exceeded(r.state, r.o.limits, r.o.cfg.Now()); why != "" {
		return fmt.Errorf("%w: %w", ErrWaiting, &BudgetError{Reason: why})
	}
	ctx, release := r.untilStop()
	defer release()
	b := r.state.Boulder
	plan, usage, err := r.o.Plan(ctx, boulder.PlanRequest{
		Task: b.Task, Constraints: b.Constraints, Project: b.Project, Mode: b.PlanMode,
	}, b.Base)
	if usage != (boulder.Usage{}) {
		report := boulder.UsageReport{Source: boulder.UsagePlan, Model: b.LedgerModel, Usage: usage}
		if applyErr := r.apply(report); applyErr != nil {
			return errors.Join(err, applyErr)
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
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
	ctx, release := r.untilStop()
	defer release()
	approved, err := ask(ctx, &proposed)
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, ErrDeclined):
		err = context.Cause(ctx)
	case err == nil && approved.Plan == nil:
		err = errors.New("the approval returned neither a plan nor an error")
	}
	return approved, err
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
	if err := r.apply(boulder.StatusChanged{Status: status, Reason: cause.Error()}); err != nil {
		return errors.Join(cause, err)
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
func (r *run) adopt(a Approval) error {
	plan := a.Plan
	rev := *r.state.Revision
	if plan.Hash() != rev.Hash {
		rev = r.revision(plan, rev.Number+1)
		rev.Edited = true
	}
	d := boulder.Decomposed{
		Revision: rev.Number, Origin: rev.Origin, Edited: rev.Edited, Goal: plan.Goal, Plan: rev, GatesApproved: a.Gates,
		Model: cmp.Or(a.Model, r.state.Boulder.Model),
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
	return r.setBudgets()
}

func (r *run) revision(plan *boulder.Plan, number int) boulder.PlanRevision {
	return boulder.PlanRevision{
		Number: number, Plan: plan.Clone(), Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(),
		AdoptedAt: r.o.cfg.Now().UTC(),
	}
}
