package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	e.Seq = 1
	s.Boulder = b.Boulder
	s.Boulder.Seq, s.Boulder.CreatedAt, s.Boulder.Status = 1, e.Time, Planning
	s.Boulder.ClockAt = e.Time
	return nil
}

func (s *State) planned(b Planned) error {
	if s.Boulder.Status != Planning || b.Plan.Number != s.Boulder.Revision+1 {
		return fmt.Errorf("boulder is %s with plan revision %d", s.Boulder.Status, s.Boulder.Revision)
	}
	s.Boulder.Status, s.Boulder.Reason = AwaitingApproval, ""
	s.adopt(b.Plan)
	return nil
}

func (s *State) adopt(p PlanRevision) {
	s.Revision = &p
	s.Boulder.Revision, s.Boulder.Goal = p.Number, p.Plan.Goal
}

func (s *State) decomposed(e *Event, b Decomposed) error {
	if s.Boulder.Status != AwaitingApproval || len(s.SubTasks) > 0 {
		return fmt.Errorf("boulder is %s with %d sub-tasks", s.Boulder.Status, len(s.SubTasks))
	}
	if n := b.Plan.Number; n != s.Boulder.Revision && n != s.Boulder.Revision+1 {
		return fmt.Errorf("plan revision %d does not follow %d", n, s.Boulder.Revision)
	}
	approved := func(Spec, string) bool { return b.GatesApproved }
	subTasks, err := s.newSubTasks(e, b.Plan, b.Plan.Plan.SubTasks, approved, b.Model)
	if err != nil {
		return err
	}
	if len(subTasks) == 0 {
		return fmt.Errorf("the plan has no sub-tasks")
	}
	if err := inherit(e, subTasks, b); err != nil {
		return err
	}
	s.adopt(b.Plan)
	s.Boulder.Model = cmp.Or(b.Model, s.Boulder.Model) // also for what a replan adds
	s.Boulder.Status, s.Boulder.Reason = Running, ""
	s.add(e, subTasks)
	return nil
}

// inherit completes the sub-tasks of a fork that the original completed.
func inherit(e *Event, subTasks []*SubTask, b Decomposed) error {
	has := map[string]bool{}
	for _, id := range b.Inherited {
		has[id] = true
	}
	if len(has) != len(b.Results) {
		return fmt.Errorf("%d sub-tasks are inherited, with %d results", len(has), len(b.Results))
	}
	for _, t := range subTasks {
		if !has[t.ID] {
			continue
		}
		delete(has, t.ID)
		from, ok := b.Results[t.ID]
		if !ok {
			return fmt.Errorf("sub-task %q is inherited without a result", t.ID)
		}
		for _, id := range t.DependsOn {
			if !slices.Contains(b.Inherited, id) {
				return fmt.Errorf("sub-task %q is inherited, but depends on %q, which is not", t.ID, id)
			}
		}
		t.Status, t.Summary, t.Output, t.Files, t.EndSeq = SubTaskCompleted, from.Summary, from.Output, from.Files, e.Seq
		t.Baseline = from.Baseline
	}
	for id := range has {
		return fmt.Errorf("there is no sub-task %q to inherit", id)
	}
	return nil
}

// add makes new sub-tasks, which [State.newSubTasks] has checked, part of the graph and queues those that are ready.
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
		s.waiting[t.ID] = s.countWaiting(t)
		switch {
		case t.Status == SubTaskCompleted:
			s.done = append(s.done, t)
		case s.waiting[t.ID] == 0:
			s.enqueue(e, t)
		}
	}
}

// newSubTasks makes the records of new sub-tasks of a plan revision, behind those that there are. It changes nothing.
// approved says whether a gate may run.
func (s *State) newSubTasks(
	e *Event, rev PlanRevision, specs []Spec, approved func(spec Spec, gate string) bool, model string,
) ([]*SubTask, error) {
	fresh, all := make(map[string]*SubTask, len(specs)), make([]*SubTask, 0, len(specs))
	for i, spec := range specs {
		if spec.ID == "" || fresh[spec.ID] != nil || s.byID[spec.ID] != nil {
			return nil, fmt.Errorf("sub-task id %q is empty or given twice", spec.ID)
		}
		if err := spec.Budget.Validate(); err != nil {
			return nil, fmt.Errorf("sub-task %q: %w", spec.ID, err)
		}
		t := &SubTask{
			ID: spec.ID, Position: len(s.SubTasks) + i + 1, Revision: rev.Number,
			Subject: spec.Subject, ActiveForm: spec.ActiveForm, Content: spec.Description,
			SuccessCriteria: spec.SuccessCriteria, Status: SubTaskPending, Priority: cmp.Or(spec.Priority, Medium),
			DependsOn: spec.DependsOn, BlockedBy: spec.DependsOn,
			Agent: spec.Agent, ExpectsChanges: spec.ExpectsChanges, EmptyOK: spec.EmptyOK,
			Outputs: spec.Outputs, DoneWhen: spec.DoneWhen, Budget: spec.Budget, CreatedAt: e.Time, UpdatedAt: e.Time,
		}
		t.Model = cmp.Or(spec.Model, rev.Plan.Model, model)
		s.setGates(t, spec, approved)
		if err := s.setDone(t, &rev.Plan); err != nil {
			return nil, err
		}
		fresh[t.ID] = t
		all = append(all, t)
	}
	return all, s.checkDependencies(all, fresh)
}

// setGates gives a new sub-task its gates: those of the plan that may run, and those of the configuration.
func (s *State) setGates(t *SubTask, spec Spec, approved func(spec Spec, gate string) bool) {
	add := func(to *[]string, gate string) {
		if !slices.Contains(*to, gate) {
			*to = append(*to, gate)
		}
	}
	for _, gate := range spec.Gates {
		if approved(spec, gate) {
			add(&t.Gates, gate)
		} else {
			add(&t.GateHints, gate)
		}
	}
	for _, gate := range spec.NoWorse {
		if approved(spec, gate) {
			add(&t.NoWorse, gate)
		} else {
			add(&t.GateHints, gate)
		}
	}
	for _, gate := range s.Boulder.Gates {
		add(&t.Gates, gate)
	}
	for _, gate := range s.Boulder.NoWorse {
		add(&t.NoWorse, gate)
	}
}

// checkDependencies refuses dependencies with which something could never run.
func (s *State) checkDependencies(all []*SubTask, fresh map[string]*SubTask) error {
	waiting, blocks := make(map[string]int, len(all)), make(map[string][]string, len(all))
	named := make(map[string]*SubTask, len(all)) // by whom an id was last named
	ready := make([]string, 0, len(all))
	for _, t := range all {
		for _, id := range t.DependsOn {
			old, twice := s.byID[id], named[id] == t
			named[id] = t
			switch {
			case twice:
				return fmt.Errorf("sub-task %q names the dependency %q twice", t.ID, id)
			case fresh[id] != nil:
				waiting[t.ID]++
				blocks[id] = append(blocks[id], t.ID)
			case old == nil:
				return fmt.Errorf("sub-task %q depends on %q, which is not in the plan", t.ID, id)
			case old.hopeless() || old.Status == SubTaskBlocked:
				return fmt.Errorf("sub-task %q depends on %q, which is %s", t.ID, id, old.Status)
			}
		}
		if waiting[t.ID] == 0 {
			ready = append(ready, t.ID)
		}
	}
	for i := 0; i < len(ready); i++ {
		for _, id := range blocks[ready[i]] {
			if waiting[id]--; waiting[id] == 0 {
				ready = append(ready, id)
			}
		}
	}
	if len(ready) < len(all) {
		i := slices.IndexFunc(all, func(t *SubTask) bool { return waiting[t.ID] > 0 })
		return fmt.Errorf("sub-task %q can never run: its dependencies form a cycle", all[i].ID)
	}
	return nil
}
