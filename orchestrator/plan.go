package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// startPlan asks for a plan. A stop, a pause and a cancel end the call: nothing is lost, and a resume asks again.
func (r *run) startPlan() {
	if why := schedule.Exceeded(r.state, r.o.limits, r.now); why != "" {
		r.end(fmt.Errorf("%w: %w", ErrWaiting, &BudgetError{Reason: why}))
		return
	}
	b := r.state.Boulder
	req := boulder.PlanRequest{Task: b.Task, Constraints: b.Constraints, Project: b.Project, Mode: b.PlanMode}
	var plan *boulder.Plan
	var usage boulder.Usage
	r.launchUntilStop(planRef, func(ctx context.Context) (err error) {
		plan, usage, err = r.o.Plan(ctx, req, b.Base)
		return err
	}, func(err error) error {
		if applyErr := r.apply(r.ledgerUsage(boulder.AttemptRef{}, boulder.UsagePlan, usage)...); applyErr != nil {
			return applyErr
		}
		if err != nil || r.state.Boulder.Status != boulder.Planning {
			return r.unplanned(err)
		}
		if err := r.propose(plan); err != nil {
			return err
		}
		return r.commit() // before it is adopted: what was paid for is kept
	})
}

// startApproval asks the user about the plan. Without one to ask it is adopted, see adoptUnasked.
func (r *run) startApproval() {
	proposed := r.state.Revision.Plan.Clone()
	var approved Approval
	r.launchUntilStop(planRef, func(ctx context.Context) (err error) {
		approved, err = r.req.Approve(ctx, &proposed)
		if err == nil && approved.Plan == nil {
			err = errors.New("the approval returned neither a plan nor an error")
		}
		return err
	}, func(err error) error {
		if err != nil || r.state.Boulder.Status != boulder.AwaitingApproval {
			return r.unplanned(err)
		}
		return r.adopt(approved, nil)
	})
}

// unplanned is what follows when there is no plan to adopt.
func (r *run) unplanned(err error) error {
	switch {
	case err == nil, r.cutShort(err):
	case errors.Is(err, ErrDeclined):
		r.end(err)
		return r.apply(boulder.StatusChanged{Status: boulder.Cancelled, Reason: err.Error()})
	default:
		if cooled := schedule.PlanTrouble(r.state, r.o.limits, r.now, err); len(cooled) > 0 {
			return r.apply(cooled...)
		}
		r.end(err)
	}
	return nil
}

// adoptUnasked adopts a plan where the user cannot be asked about it. One that has to be asked about ends the run.
func (r *run) adoptUnasked() error {
	if r.state.Boulder.Status != boulder.AwaitingApproval || r.req.Approve != nil || r.halting() {
		return nil
	}
	if r.state.Boulder.AskPlan {
		r.end(fmt.Errorf("%w: the plan is not approved yet", ErrWaiting))
		return nil
	}
	return r.adopt(Approval{Plan: &r.state.Revision.Plan, Gates: r.req.GatesApproved}, nil)
}

// propose makes a plan the first revision, which is not approved yet.
func (r *run) propose(plan *boulder.Plan) error {
	rev := revision(plan, 1, r.now)
	return r.apply(boulder.Planned{Revision: rev.Number, Origin: rev.Origin, Plan: rev})
}

// adopt makes the sub-tasks of a plan, some of which a fork has done already, with these results. A plan that differs from
// what was proposed is the next revision.
func (r *run) adopt(a Approval, results map[string]boulder.Inherited) error {
	err := r.apply(decomposed(r.state, a, results, r.now))
	if err == nil {
		err = startable(r.state, r.o.limits)
	}
	if err == nil {
		err = r.setBudgets()
	}
	return err // with one nothing of it is stored
}

func decomposed(s *boulder.State, a Approval, results map[string]boulder.Inherited, now time.Time) boulder.Decomposed {
	plan, rev := a.Plan, *s.Revision
	if plan.Hash() != rev.Hash {
		rev = revision(plan, rev.Number+1, now)
		rev.Edited = true
	}
	d := boulder.Decomposed{
		Revision: rev.Number, Origin: rev.Origin, Edited: rev.Edited, Goal: plan.Goal, Plan: rev, GatesApproved: a.Gates,
		Model: cmp.Or(a.Model, s.Boulder.Model), Results: results,
		Inherited: slices.Sorted(maps.Keys(results)), SubTasks: make([]boulder.PlannedIn, 0, len(plan.SubTasks)),
	}
	for _, t := range plan.SubTasks {
		d.SubTasks = append(d.SubTasks, plannedIn(t, plan.Model, d.Model))
	}
	return d
}

func revision(plan *boulder.Plan, number int, now time.Time) boulder.PlanRevision {
	return boulder.PlanRevision{
		Number: number, Plan: plan.Clone(), Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(), AdoptedAt: now,
	}
}

// ErrNoFork is in the chain of errors about a [Request].Fork that cannot be made.
var ErrNoFork = errors.New("it cannot be forked")

// fork is the plan of another boulder, with the results that are taken over. The head record gets what is that of the
// original.
func (r *run) fork(head *boulder.Boulder) (*boulder.Plan, map[string]boulder.Inherited, error) {
	f := *r.req.Fork
	from, err := r.o.cfg.Store.Load(r.ctx, f.BoulderID)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("fork: %w", err)
	case from.Boulder.Project != r.o.cfg.Project:
		return nil, nil, fmt.Errorf("%w: boulder %s works on %s, not on %s", ErrNoFork,
			f.BoulderID, from.Boulder.Project, r.o.cfg.Project)
	case from.Revision == nil || len(from.SubTasks) == 0:
		return nil, nil, fmt.Errorf("%w: boulder %s has no plan that was run: run its task again", ErrNoFork, f.BoulderID)
	}
	plan := runnable(from)
	var ids []string
	for _, s := range plan.SubTasks {
		ids = append(ids, s.ID)
	}
	if !slices.Contains(ids, f.SubTaskID) {
		return nil, nil, fmt.Errorf("%w: the plan of boulder %s has no sub-task %q; it has %s", ErrNoFork,
			f.BoulderID, f.SubTaskID, strings.Join(ids, ", "))
	}
	head.Task, head.PlanMode, head.ForkOf = from.Boulder.Task, from.Boulder.PlanMode, &f
	head.DoneWhen, head.Checks, head.Loop = from.Boulder.DoneWhen, from.Boulder.Checks, from.Boulder.Loop
	head.Model = cmp.Or(head.Model, from.Boulder.Model)
	return &plan, inherited(plan, from, f.SubTaskID), nil
}

// runnable is the plan of the original with the gates that might run there: those may in the fork, and the user is not asked
// about others.
func runnable(from *boulder.State) boulder.Plan {
	plan := from.Revision.Plan.Clone()
	sealed := plan.Seal != nil && !plan.Edited()
	for i := range plan.SubTasks {
		s := &plan.SubTasks[i]
		hint := func(gate string) bool { return slices.Contains(from.SubTask(s.ID).GateHints, gate) }
		s.Gates, s.NoWorse = slices.DeleteFunc(s.Gates, hint), slices.DeleteFunc(s.NoWorse, hint)
	}
	if sealed {
		plan.Seal.Hash = plan.Hash() // it is not edited
	}
	return plan
}

// inherited are the results that stay: of what was completed, and neither is the sub-task from which on it is done again
// nor depends on it, or on anything else that is done again. It collects in rounds, because a plan may name a sub-task
// before what it depends on.
func inherited(plan boulder.Plan, from *boulder.State, first string) map[string]boulder.Inherited {
	results := map[string]boulder.Inherited{}
	redone := func(id string) bool { _, ok := results[id]; return !ok }
	for grown := true; grown; {
		grown = false
		for _, s := range plan.SubTasks {
			t := from.SubTask(s.ID)
			if redone(s.ID) && s.ID != first && t.Status == boulder.SubTaskCompleted && !slices.ContainsFunc(s.DependsOn, redone) {
				results[s.ID] = boulder.Inherited{Summary: t.Summary, Output: t.Output, Files: t.Files, Baseline: t.Baseline}
				grown = true
			}
		}
	}
	return results
}
