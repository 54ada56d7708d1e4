package orchestrator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

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

// runnable is the plan of the original with the gates that might run there: those may in the fork, and nobody is asked
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
		plan.Seal.Hash = plan.Hash() // nobody has edited it
	}
	return plan
}

// inherited are the results that stay: of what was completed, and neither is the sub-task from which on it is done anew
// nor depends on it, or on anything else that is done anew. It collects in rounds, because a plan may name a sub-task
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
