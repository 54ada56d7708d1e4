package orchestrator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// original is what a fork takes over.
type original struct {
	head    boulder.Boulder
	plan    boulder.Plan
	results map[string]boulder.Inherited
}

// fork reads the boulder to fork from, and works out what stays: what was completed there, and neither is the sub-task
// from which on it is done anew nor depends on it, or on anything else that is done anew.
func (r *run) fork(f boulder.Fork) (*original, error) {
	from, err := r.o.cfg.Store.Load(r.ctx, f.BoulderID)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	switch {
	case from.Boulder.Project != r.o.cfg.Project:
		return nil, fmt.Errorf("%w: boulder %s works on %s, not on %s", ErrNoFork,
			f.BoulderID, from.Boulder.Project, r.o.cfg.Project)
	case from.Revision == nil || len(from.SubTasks) == 0:
		return nil, fmt.Errorf("%w: boulder %s has no plan that was run: run its task again", ErrNoFork, f.BoulderID)
	}
	o := &original{
		head: from.Boulder, plan: from.Revision.Plan.Clone(), results: map[string]boulder.Inherited{},
	}
	o.keepGates(from)
	if !slices.ContainsFunc(o.plan.SubTasks, func(s boulder.Spec) bool { return s.ID == f.SubTaskID }) {
		return nil, fmt.Errorf("%w: the plan of boulder %s has no sub-task %q; it has %s", ErrNoFork,
			f.BoulderID, f.SubTaskID, idList(o.plan.SubTasks))
	}
	o.inherit(f.SubTaskID, from)
	return o, nil
}

// keepGates leaves the gates that might run in the original: those may in the fork, and nobody is asked about others.
func (o *original) keepGates(from *boulder.State) {
	sealed := o.plan.Seal != nil && !o.plan.Edited()
	for i := range o.plan.SubTasks {
		s := &o.plan.SubTasks[i]
		hint := func(gate string) bool { return slices.Contains(from.SubTask(s.ID).GateHints, gate) }
		s.Gates, s.NoWorse = slices.DeleteFunc(s.Gates, hint), slices.DeleteFunc(s.NoWorse, hint)
	}
	if sealed {
		o.plan.Seal.Hash = o.plan.Hash() // nobody has edited it
	}
}

// ErrNoFork is in the chain of errors about a [Request].Fork that cannot be made.
var ErrNoFork = errors.New("it cannot be forked")

func idList(specs []boulder.Spec) string {
	var ids []string
	for _, s := range specs {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, ", ")
}

// inherit collects results, in rounds, because a plan may name a sub-task before what it depends on.
func (o *original) inherit(first string, from *boulder.State) {
	for grown := true; grown; {
		grown = false
		for _, s := range o.plan.SubTasks {
			t := from.SubTask(s.ID)
			_, has := o.results[s.ID]
			if has || s.ID == first || t.Status != boulder.SubTaskCompleted {
				continue
			}
			redone := func(id string) bool { _, ok := o.results[id]; return !ok }
			if !slices.ContainsFunc(s.DependsOn, redone) {
				o.results[s.ID] = boulder.Inherited{
					Summary: t.Summary, Output: t.Output, Files: t.Files, Baseline: t.Baseline,
				}
				grown = true
			}
		}
	}
}

// beginFork runs the plan of another boulder, with the results that it takes over.
func (r *run) beginFork(req Request) error {
	from, err := r.fork(*req.Fork)
	if err != nil {
		return err
	}
	head := r.head(req)
	head.Task, head.PlanMode, head.ForkOf = from.head.Task, from.head.PlanMode, req.Fork
	head.DoneWhen, head.Checks, head.Loop = from.head.DoneWhen, from.head.Checks, from.head.Loop
	if head.Model == "" {
		head.Model = from.head.Model
	}
	if err := r.create(head); err != nil {
		return err
	}
	if err := r.propose(&from.plan); err != nil {
		return err
	}
	if err := r.adoptWith(Approval{Plan: &from.plan, Gates: true}, from.results); err != nil {
		return err
	}
	return r.loop()
}
