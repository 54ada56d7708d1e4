package orchestrator

import (
	"context"
	"errors"

	"github.com/bouldermgr/manager/boulder"
)

// planAndLoop gets a boulder without sub-tasks to the point where it has them, and runs it.
func (r *run) planAndLoop(approve Approve, gates bool) error {
	if err := r.commit(); err != nil {
		return err
	}
	if r.state.Revision == nil {
		if err := r.plan(); err != nil {
			return r.pausePlanning(err)
		}
	}
	plan := &r.state.Revision.Plan
	if approve != nil {
		approved, ok, err := approve(r.ctx, plan)
		if errors.Is(err, ErrDeclined) {
			return r.decline(err)
		}
		if err != nil {
			return r.pausePlanning(err)
		}
		plan, gates = approved, ok
	}
	if err := r.adopt(&r.state.Revision.Plan, plan, gates); err != nil {
		return err
	}
	return r.loop()
}

// plan asks the Planner. A stop cancels the call: nothing is lost, and a resume plans again.
func (r *run) plan() error {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	release := context.AfterFunc(r.o.stop, func() { cancel(ErrStopped) })
	defer release()
	b := r.state.Boulder
	plan, usage, err := r.o.Plan(ctx, boulder.PlanRequest{
		Task: b.Task, Constraints: b.Constraints, Project: b.Project, Mode: b.PlanMode,
	}, b.Base)
	if usage != (boulder.Usage{}) {
		if applyErr := r.apply(boulder.UsageReport{Source: "plan", Model: b.LedgerModel, Usage: usage}); applyErr != nil {
			return applyErr
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	rev := r.revision(plan, 1)
	if err := r.apply(boulder.Planned{Revision: rev.Number, Origin: rev.Origin, Plan: rev}); err != nil {
		return err
	}
	return r.commit()
}

// pausePlanning ends a run whose plan is not there, or not agreed to, and stores why.
func (r *run) pausePlanning(cause error) error {
	if err := r.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: cause.Error()}); err != nil {
		return errors.Join(cause, err)
	}
	return errors.Join(cause, r.commit())
}

func (r *run) decline(cause error) error {
	if err := r.apply(boulder.StatusChanged{Status: boulder.Cancelled, Reason: cause.Error()}); err != nil {
		return errors.Join(cause, err)
	}
	return errors.Join(cause, r.commit())
}

// adopt makes the sub-tasks of a plan. planned is what was proposed: if nothing was stored yet it becomes revision 1, and a
// plan that differs from it the next one.
func (r *run) adopt(planned, plan *boulder.Plan, gates bool) error {
	if r.state.Revision == nil {
		rev := r.revision(planned, 1)
		if err := r.apply(boulder.Planned{Revision: 1, Origin: rev.Origin, Plan: rev}); err != nil {
			return err
		}
	}
	rev := *r.state.Revision
	if plan.Hash() != rev.Hash {
		rev = r.revision(plan, rev.Number+1)
		rev.Edited = true
	}
	d := boulder.Decomposed{
		Revision: rev.Number, Origin: rev.Origin, Edited: rev.Edited, Goal: plan.Goal, Plan: rev, GatesApproved: gates,
		Model: r.state.Boulder.Model,
	}
	for _, s := range plan.SubTasks {
		in := boulder.PlannedIn{ID: s.ID, Subject: s.Subject, DependsOn: s.DependsOn, Model: s.Model}
		if in.DependsOn == nil {
			in.DependsOn = []string{}
		}
		d.SubTasks = append(d.SubTasks, in)
	}
	return r.apply(d)
}

func (r *run) revision(plan *boulder.Plan, number int) boulder.PlanRevision {
	return boulder.PlanRevision{
		Number: number, Plan: *plan, Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(),
		AdoptedAt: r.o.cfg.Now().UTC(),
	}
}
