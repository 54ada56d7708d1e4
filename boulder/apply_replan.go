package boulder

import (
	"fmt"
	"slices"
)

// Remainder returns, in plan order, what a replan replaces: pending dependents, and the sub-task unless completed.
func (s *State) Remainder(id string) []string {
	t := s.byID[id]
	if t == nil {
		return nil
	}
	all := s.dependentsOf(t, func(d *SubTask) bool { return d.Status == SubTaskPending })
	if t.Status != SubTaskCompleted {
		all = append(all, t)
	}
	return idsOf(all)
}

func (s *State) replanStarted(_ *Event, b ReplanStarted) error {
	if len(b.Missing) > 0 {
		return s.extensionStarted(b)
	}
	switch {
	case s.Boulder.Status != Running && s.Boulder.Status != Paused: // a turn that ended during a pause may ask for one
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	case s.Boulder.Replan != nil:
		return fmt.Errorf("replan %d is being made", s.Boulder.Replans)
	case b.Number != s.Boulder.Replans+1:
		return fmt.Errorf("replan %d does not follow %d", b.Number, s.Boulder.Replans)
	}
	if b.Attempt != 0 {
		if _, err := s.at(b.AttemptRef, AttemptStarting, AttemptExecuting, AttemptMonitoring); err != nil {
			return err
		}
	} else if t := s.byID[b.SubTaskID]; t == nil || t.Status != SubTaskCompleted {
		return fmt.Errorf("a replan without an attempt is for a completed sub-task, which %q is not", b.SubTaskID)
	}
	ids := s.Remainder(b.SubTaskID)
	for _, id := range ids {
		if o := s.Open(id); o != nil && o.Attempt.Status.Live() && o.Attempt.AttemptRef != b.AttemptRef {
			return fmt.Errorf("sub-task %q is at work", id)
		}
	}
	if len(ids) == 0 || !slices.Equal(ids, b.Replaces) {
		return fmt.Errorf("a replan for %q replaces %v, not %v", b.SubTaskID, ids, b.Replaces)
	}
	s.Boulder.Replans++
	s.Boulder.ReplansWanted = filter(s.Boulder.ReplansWanted, func(w Replanning) bool { return w.SubTaskID != b.SubTaskID })
	s.Boulder.Replan = &Replanning{AttemptRef: b.AttemptRef, Reason: b.Reason, Replaces: b.Replaces}
	if s.Boulder.Looking() == nil {
		s.Boulder.Look = nil // a replan may have one of its own
	}
	return nil
}

func (s *State) planTrouble(_ *Event, b PlanTrouble) error {
	faults := &s.Boulder.PlanFaults
	switch r := s.Boulder.Replan; {
	case r != nil:
		faults, r.Proposed = &r.PlanFaults, nil
	case s.Boulder.Status != Planning && (len(s.SubTasks) == 0 || !s.AllOver()): // in the end the request is checked
		return fmt.Errorf("no plan is being made")
	}
	if !b.Uncounted {
		faults.Troubles++
	}
	faults.Fault, faults.NotBefore = b.Reason, b.NotBefore
	return nil
}

func (s *State) replanProposed(_ *Event, b ReplanProposed) error {
	r, err := s.replanning(b.AttemptRef)
	switch {
	case err != nil:
		return err
	case r.Proposed != nil || len(b.SubTasks) == 0:
		return fmt.Errorf("a replan of %d sub-tasks is proposed, and it may be that one was already", len(b.SubTasks))
	}
	r.Proposed = &b.Replacement
	return nil
}

func (s *State) replanning(ref AttemptRef) (*Replanning, error) {
	r := s.Boulder.Replan
	if r == nil || r.AttemptRef != ref {
		return nil, fmt.Errorf("no replan for attempt %d of %q is being made", ref.Attempt, ref.SubTaskID)
	}
	return r, nil
}

func (s *State) replanRefused(_ *Event, b ReplanRefused) error {
	if _, err := s.replanning(b.AttemptRef); err != nil {
		return err
	}
	s.Boulder.Replan = nil
	s.dropLook()
	return nil
}

func (s *State) replanned(e *Event, b Replanned) error {
	r, err := s.replanning(b.AttemptRef)
	switch {
	case err != nil:
		return err
	case b.Plan.Number != s.Boulder.Revision+1:
		return fmt.Errorf("plan revision %d does not follow %d", b.Plan.Number, s.Boulder.Revision)
	case len(b.SubTasks) == 0:
		return fmt.Errorf("the new plan has no sub-tasks")
	}
	approved := func(gate string) bool { return b.GatesApproved || s.Approved(gate) }
	fresh, err := s.newSubTasks(e, b.Plan, b.SubTasks, approved, s.Boulder.Model)
	if err != nil {
		return err
	}
	for _, t := range fresh {
		if i := slices.IndexFunc(t.DependsOn, func(id string) bool { return slices.Contains(r.Replaces, id) }); i >= 0 {
			return fmt.Errorf("sub-task %q depends on %q, which is replaced", t.ID, t.DependsOn[i])
		}
		for _, c := range b.Changed {
			if c.To.ID == t.ID {
				t.Replaces = c.From
			}
		}
		if !r.Extension() {
			t.Root = s.Root(s.byID[s.predecessor(r, t)]).ID
		}
	}
	s.supersede(e, r, b.Plan.Number)
	s.Boulder.TriedParts = append(slices.Clone(s.Boulder.TriedParts), SpecsHash(b.SubTasks))
	s.Boulder.Replan = nil
	s.dropLook()
	s.adopt(b.Plan)
	s.add(e, fresh)
	return nil
}

// Approved reports whether a command may run as a gate: it is one of a sub-task, in any revision of the plan. Those that
// the user has not approved are [SubTask.GateHints].
func (s *State) Approved(gate string) bool {
	return slices.ContainsFunc(s.SubTasks, func(t *SubTask) bool {
		return slices.Contains(t.Gates, gate) || slices.Contains(t.NoWorse, gate)
	})
}

// predecessor returns the sub-task whose chain t continues: the one it replaces, else the failed one, else any.
func (s *State) predecessor(r *Replanning, t *SubTask) string {
	switch {
	case slices.Contains(r.Replaces, t.Replaces):
		return t.Replaces
	case r.Attempt != 0:
		return r.SubTaskID
	}
	return r.Replaces[t.Position%len(r.Replaces)]
}

func (s *State) supersede(e *Event, r *Replanning, revision int) {
	var specs []Spec
	for _, id := range r.Replaces {
		t := s.byID[id]
		specs = append(specs, t.Spec())
		if o := s.Open(id); o != nil {
			status := AttemptFailed
			if o.Attempt.Status == AttemptQueued {
				status = AttemptCancelled
			} else {
				t.Tries++
			}
			s.finish(e, o, status, r.Reason)
		}
		t.EndSeq = e.Seq
		s.setSubTask(e, t, SubTaskSuperseded, fmt.Sprintf("replaced by plan revision %d: %s", revision, r.Reason))
	}
	s.Boulder.TriedParts = append(slices.Clone(s.Boulder.TriedParts), SpecsHash(specs))
}

// Spec returns the sub-task as a plan describes it, with the configuration's gates included.
func (t *SubTask) Spec() Spec {
	return Spec{
		ID: t.ID, Subject: t.Subject, ActiveForm: t.ActiveForm, Description: t.Description,
		SuccessCriteria: t.SuccessCriteria, DependsOn: t.DependsOn, Priority: t.Priority,
		Gates: slices.Concat(t.Gates, t.GateHints), NoWorse: t.NoWorse, Model: t.Wanted(), Agent: t.Agent,
		ExpectsChanges: t.ExpectsChanges, EmptyOK: t.EmptyOK, Outputs: t.Outputs, Writes: t.Writes,
		Found: t.Found, Questions: t.Questions, DoneWhen: t.DoneNamed(), Budget: t.Budget,
	}
}
