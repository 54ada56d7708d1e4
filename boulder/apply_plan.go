package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/dag"
)

func (s *State) created(e *Event, b Created) error {
	if s.Boulder.ID != "" {
		return fmt.Errorf("boulder %s exists", s.Boulder.ID)
	}
	if b.Boulder.ID == "" || b.Boulder.ID != e.BoulderID {
		return fmt.Errorf("boulder id %q does not match the event's %q", b.Boulder.ID, e.BoulderID)
	}
	if err := errors.Join(b.Boulder.Budget.Validate(), b.Boulder.Loop.Validate()); err != nil {
		return err
	}
	s.Boulder = b.Boulder
	s.Boulder.CreatedAt, s.Boulder.Status = e.Time, Planning
	return nil
}

func (s *State) planned(_ *Event, b Planned) error {
	if s.Boulder.Status != Planning || b.Plan.Number != s.Boulder.Revision+1 {
		return fmt.Errorf("boulder is %s with plan revision %d", s.Boulder.Status, s.Boulder.Revision)
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.PlanFaults = AwaitingApproval, "", PlanFaults{}
	s.Boulder.Comment, s.Boulder.Prepared = "", nil
	s.adopt(b.Plan)
	return nil
}

func (s *State) revisionAsked(_ *Event, b RevisionAsked) error {
	r := s.Boulder.Replan
	switch n := utf8.RuneCountInString(b.Comment); {
	case n == 0 || n > maxNote:
		return fmt.Errorf("what to change in a plan has 1 to %d characters", maxNote)
	case !s.Boulder.Asks():
		return fmt.Errorf("boulder is %s, and no plan awaits approval", s.Boulder.Status)
	case b.Plan != nil && (r != nil || b.Plan.Number != s.Boulder.Revision+1):
		return fmt.Errorf("plan revision %d does not follow %d, or a replan cannot be edited", b.Plan.Number, s.Boulder.Revision)
	}
	if r != nil {
		r.Comment, r.Was, r.Proposed, r.PlanFaults = b.Comment, r.Proposed, nil, PlanFaults{}
		return nil
	}
	if b.Plan != nil {
		s.adopt(*b.Plan)
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.Comment, s.Boulder.PlanFaults = Planning, "", b.Comment, PlanFaults{}
	s.Boulder.Revised++
	return nil
}

func (s *State) revisionRefused(_ *Event, b RevisionRefused) error {
	switch r := s.Boulder.Replan; {
	case r != nil && r.Was != nil && r.Proposed == nil:
		r.Proposed, r.Was, r.Comment = r.Was, nil, ""
	case s.Boulder.Status == Planning && s.Boulder.Comment != "":
		s.Boulder.Status, s.Boulder.Reason, s.Boulder.Comment, s.Boulder.PlanFaults = AwaitingApproval, b.Reason, "", PlanFaults{}
	default:
		return fmt.Errorf("no plan is being revised")
	}
	return nil
}

func (s *State) adopt(p PlanRevision) {
	s.Revision = &p
	s.Boulder.Revision, s.Boulder.Goal = p.Number, p.Plan.Goal
	s.takeAnswers()
}

func (s *State) decomposed(e *Event, b Decomposed) error {
	waits := s.Boulder.Status == AwaitingApproval || s.Boulder.Status == Paused && s.Revision != nil
	if !waits || len(s.SubTasks) > 0 {
		return fmt.Errorf("boulder is %s with %d sub-tasks", s.Boulder.Status, len(s.SubTasks))
	}
	if n := b.Plan.Number; n != s.Boulder.Revision && n != s.Boulder.Revision+1 {
		return fmt.Errorf("plan revision %d does not follow %d", n, s.Boulder.Revision)
	}
	approved := func(string) bool { return b.GatesApproved }
	subTasks, err := s.newSubTasks(e, b.Plan, b.Plan.Plan.SubTasks, approved, b.Model)
	if err != nil {
		return err
	}
	if len(subTasks) == 0 {
		return fmt.Errorf("the plan has no sub-tasks")
	}
	if err := s.inherit(e, subTasks, b); err != nil {
		return err
	}
	s.adopt(b.Plan)
	s.Boulder.Model = cmp.Or(b.Model, s.Boulder.Model) // also for sub-tasks that a replan adds
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.Comment = Running, "", ""
	s.add(e, subTasks)
	return nil
}

func (s *State) inherit(e *Event, subTasks []*SubTask, b Decomposed) error {
	if !slices.Equal(b.Inherited, slices.Sorted(maps.Keys(b.Results))) {
		return fmt.Errorf("the sub-tasks %v are inherited, with %d results", b.Inherited, len(b.Results))
	}
	found := 0
	for _, t := range subTasks {
		from, ok := b.Results[t.ID]
		if !ok {
			continue
		}
		for _, id := range t.DependsOn {
			if _, ok := b.Results[id]; !ok {
				return fmt.Errorf("sub-task %q is inherited, but depends on %q, which is not", t.ID, id)
			}
		}
		found++
		t.Status, t.Summary, t.Output, t.Files, t.EndSeq = SubTaskCompleted, from.Summary, from.Output, from.Files, e.Seq
		t.AddBaseline(s.Boulder.Checks, from.Baseline...)
	}
	if found < len(b.Results) {
		return fmt.Errorf("%d of the inherited sub-tasks %v are in the plan", found, b.Inherited)
	}
	return nil
}

// add puts sub-tasks that [State.newSubTasks] has checked into the graph, and queues the ready ones.
func (s *State) add(e *Event, subTasks []*SubTask) {
	for _, t := range subTasks {
		s.addSubTask(t)
	}
	for _, t := range subTasks {
		for _, id := range t.DependsOn {
			d := s.byID[id]
			d.Blocks = append(d.Blocks, t.ID)
		}
	}
	for _, t := range subTasks {
		if t.Status == SubTaskPending && s.ready(t) {
			s.enqueue(e, t)
		}
	}
	s.Boulder.Tally = tallyOf(s.SubTasks)
}

// newSubTasks builds records to append to the state, and leaves it unchanged. approved reports whether a gate may run.
func (s *State) newSubTasks(
	e *Event, rev PlanRevision, specs []Spec, approved func(gate string) bool, model Models,
) ([]*SubTask, error) {
	given, all := map[string]bool{}, make([]*SubTask, 0, len(specs))
	for i, spec := range specs {
		if spec.ID == "" || given[spec.ID] || s.byID[spec.ID] != nil {
			return nil, fmt.Errorf("sub-task id %q is empty or given twice", spec.ID)
		}
		t := &SubTask{Status: SubTaskPending, Position: len(s.SubTasks) + i + 1, CreatedAt: e.Time, UpdatedAt: e.Time}
		if err := s.specify(t, rev, spec, approved, model); err != nil {
			return nil, err
		}
		given[t.ID] = true
		all = append(all, t)
	}
	return all, s.checkDependencies(all)
}

// specify sets a sub-task's fields from its plan. Gates are the approved ones and those of the configuration.
func (s *State) specify(t *SubTask, rev PlanRevision, spec Spec, approved func(gate string) bool, model Models) error {
	if err := spec.Budget.Validate(); err != nil {
		return fmt.Errorf("sub-task %q: %w", spec.ID, err)
	}
	t.ID, t.Revision, t.Subject, t.ActiveForm = spec.ID, rev.Number, spec.Subject, spec.ActiveForm
	t.Description, t.SuccessCriteria, t.Priority = spec.Description, spec.SuccessCriteria, cmp.Or(spec.Priority, Medium)
	t.DependsOn, t.BlockedBy = spec.DependsOn, spec.DependsOn
	s.take(t, &spec, &rev.Plan, model)
	t.Agent = cmp.Or(spec.Agent, s.Boulder.Agent)
	t.ExpectsChanges, t.EmptyOK, t.Outputs, t.Writes, t.Found = spec.ExpectsChanges, spec.EmptyOK, spec.Outputs, spec.Writes, spec.Found
	t.Questions = spec.Questions
	t.DoneWhen, t.Budget, t.Gates, t.NoWorse, t.GateHints, t.Lint = spec.DoneWhen, spec.Budget, nil, nil, nil, nil
	take := func(gates []string, to *[]string) {
		for _, gate := range gates {
			if approved(gate) {
				addTo(to, gate)
			} else {
				addTo(&t.GateHints, gate)
			}
		}
	}
	take(spec.Gates, &t.Gates)
	take(spec.NoWorse, &t.NoWorse)
	addTo(&t.Gates, s.Boulder.Gates...)
	addTo(&t.NoWorse, s.Boulder.NoWorse...)
	return s.setDone(t, &rev.Plan)
}

// checkDependencies refuses dependencies with which a sub-task could never run.
func (s *State) checkDependencies(all []*SubTask) error {
	nodes := make([]dag.Node, len(all))
	for i, t := range all {
		nodes[i] = dag.Node{ID: t.ID, DependsOn: t.DependsOn}
		for _, id := range t.DependsOn {
			if old := s.byID[id]; old != nil && (old.neverSatisfies() || old.Status == SubTaskBlocked) {
				return fmt.Errorf("sub-task %q depends on %q, which is %s", t.ID, id, old.Status)
			}
		}
	}
	for _, f := range dag.Check(nodes) {
		t := all[f.Node]
		switch id := t.DependsOn[f.Edge]; {
		case f.Kind == dag.Repeated:
			return fmt.Errorf("sub-task %q names the dependency %q twice", t.ID, id)
		case f.Kind != dag.Unknown:
			return fmt.Errorf("sub-task %q can never run: its dependencies form a cycle", t.ID)
		case s.byID[id] == nil:
			return fmt.Errorf("sub-task %q depends on %q, which is not in the plan", t.ID, id)
		}
	}
	return nil
}
