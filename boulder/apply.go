package boulder

import (
	"cmp"
	"fmt"
	"slices"
)

// Apply changes the state by one event and returns it as it was logged, with its number. An event that does not fit is
// refused with an error that wraps [ErrRefused], and the state is as it was.
//
// Apply also draws the consequences that nobody has to decide: dependents of a completed sub-task are queued, those of
// a failed one are blocked.
func (s *State) Apply(e Event) (Event, error) {
	if e.Body == nil {
		return Event{}, fmt.Errorf("%w: it has no body", ErrRefused)
	}
	if err := s.apply(&e); err != nil {
		return Event{}, fmt.Errorf("%s: %w: %w", e.Body.EventType(), ErrRefused, err)
	}
	s.Boulder.UpdatedAt = e.Time
	s.dirty.events = append(s.dirty.events, e)
	return e, nil
}

func (s *State) apply(e *Event) error {
	if body, ok := e.Body.(Created); ok {
		return s.created(e, body)
	}
	switch {
	case s.Boulder.ID == "":
		return fmt.Errorf("there is no boulder yet")
	case e.BoulderID != s.Boulder.ID:
		return fmt.Errorf("it belongs to boulder %q", e.BoulderID)
	case s.Boulder.Status.Terminal():
		return fmt.Errorf("boulder %s is %s", s.Boulder.ID, s.Boulder.Status)
	}
	e.Seq = s.Boulder.Seq + 1
	before := s.Boulder
	err := s.applyBody(e)
	if err == nil {
		s.Boulder.Seq = e.Seq
		s.Boulder.Worked, s.Boulder.ClockAt = before.WorkedBy(e.Time), e.Time
		if _, ok := e.Body.(TakenUp); ok {
			s.Boulder.Worked = before.Worked
		}
	}
	return err
}

func (s *State) applyBody(e *Event) error {
	switch b := e.Body.(type) {
	case Planned:
		return s.planned(b)
	case Decomposed:
		return s.decomposed(e, b)
	case StatusChanged:
		return s.statusChanged(b)
	case Starting:
		return s.starting(e, b)
	case SubTaskStart:
		return s.subTaskStart(e, b)
	case TurnSent:
		return s.turnSent(e, b)
	case SubTaskProgress:
		return s.progress(e, b)
	case TurnEnded:
		return s.turnEnded(e, b)
	case GateRun:
		return s.known(b.SubTaskID)
	case Judged:
		return s.judged(e, b)
	case Continuation:
		return s.continuation(e, b)
	case Retry:
		return s.retry(e, b)
	case Trouble:
		return s.trouble(e, b)
	case UsageReport:
		return s.usage(e, b)
	case SubTaskDone:
		return s.subTaskDone(e, b)
	case TaskComplete:
		return s.taskComplete(b)
	}
	return s.applyMore(e)
}

// applyMore are the events around the straight line: replans, budgets, cool-downs, people.
func (s *State) applyMore(e *Event) error {
	switch b := e.Body.(type) {
	case TakenUp:
		return s.takenUp(e, b)
	case Nudged:
		return s.nudged(e, b)
	case Cooled:
		return s.cooled(e, b)
	case ReplanStarted:
		return s.replanStarted(b)
	case ReplanTrouble:
		return s.replanTrouble(b)
	case Replanned:
		return s.replanned(e, b)
	case ReplanRefused:
		return s.replanRefused(b)
	case BudgetSet:
		return s.budgetSet(b)
	case BudgetWarning:
		return s.budgetWarning(b)
	case Parked:
		return s.parked(e, b)
	case Unparked:
		return s.unparked(e, b)
	}
	return fmt.Errorf("unknown event type %q", e.Body.EventType())
}

// transitions of a boulder that [StatusChanged] may make. [Planned], [Decomposed] and [TaskComplete] make the others.
var transitions = map[Status][]Status{
	Planning:         {Paused, Failed, Cancelled},
	AwaitingApproval: {Paused, Cancelled},
	Running:          {Paused, Synthesizing, Cancelled},
	Paused:           {Planning, AwaitingApproval, Running, Cancelled},
	Synthesizing:     {Running, Paused},
}

func (s *State) created(e *Event, b Created) error {
	if s.Boulder.ID != "" {
		return fmt.Errorf("boulder %s exists", s.Boulder.ID)
	}
	if b.Boulder.ID == "" || b.Boulder.ID != e.BoulderID {
		return fmt.Errorf("boulder id %q does not match the event's %q", b.Boulder.ID, e.BoulderID)
	}
	if err := b.Boulder.Budget.Validate(); err != nil {
		return err
	}
	e.Seq = 1
	s.Boulder = b.Boulder
	s.Boulder.Seq, s.Boulder.CreatedAt, s.Boulder.Status = 1, e.Time, Planning
	s.Boulder.ClockAt = e.Time
	return nil
}

func (s *State) statusChanged(b StatusChanged) error {
	if !slices.Contains(transitions[s.Boulder.Status], b.Status) {
		return fmt.Errorf("boulder is %s and cannot become %s", s.Boulder.Status, b.Status)
	}
	if err := s.fits(b.Status); err != nil {
		return err
	}
	s.Boulder.Status, s.Boulder.Reason = b.Status, b.Reason
	return nil
}

// fits refuses a status that the rest of the state contradicts. A paused boulder, for one, goes back to where it was.
func (s *State) fits(status Status) error {
	fits := true
	switch status {
	case Planning:
		fits = s.Revision == nil
	case AwaitingApproval:
		fits = s.Revision != nil && len(s.SubTasks) == 0
	case Running:
		fits = len(s.SubTasks) > 0
	case Synthesizing, Failed, Cancelled:
		fits = s.Settled()
	}
	if !fits {
		return fmt.Errorf("boulder cannot be %s with plan revision %d, %d sub-tasks and %d open attempts",
			status, s.Boulder.Revision, len(s.SubTasks), len(s.open))
	}
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
	s.dirty.revision = s.Revision
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
	s.adopt(b.Plan)
	s.Boulder.Model = cmp.Or(b.Model, s.Boulder.Model) // also for what a replan adds
	s.Boulder.Status, s.Boulder.Reason = Running, ""
	s.add(e, subTasks)
	return nil
}

// add makes new sub-tasks, which [State.newSubTasks] has checked, part of the graph and queues those that are ready.
func (s *State) add(e *Event, subTasks []*SubTask) {
	for _, t := range subTasks {
		s.addSubTask(t)
		s.dirty.subTasks.add(t)
	}
	for _, t := range subTasks {
		for _, id := range t.DependsOn {
			d := s.byID[id]
			d.Blocks = append(d.Blocks, t.ID)
			s.dirty.subTasks.add(d)
		}
	}
	for _, t := range subTasks {
		s.waiting[t.ID] = s.countWaiting(t)
		if s.waiting[t.ID] == 0 {
			s.enqueue(e, t)
		}
	}
}

// newSubTasks makes the records of new sub-tasks of a plan revision, behind those that there are. It changes nothing.
// approved says whether a gate may run.
func (s *State) newSubTasks(
	e *Event, rev PlanRevision, specs []Spec, approved func(spec Spec, gate string) bool, model string,
) ([]*SubTask, error) {
	fresh := map[string]*SubTask{}
	var all []*SubTask
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
	waiting, blocks := map[string]int{}, map[string][]string{}
	var ready []string
	for _, t := range all {
		for i, id := range t.DependsOn {
			old := s.byID[id]
			switch {
			case slices.Contains(t.DependsOn[:i], id):
				return fmt.Errorf("sub-task %q names the dependency %q twice", t.ID, id)
			case fresh[id] != nil:
				waiting[t.ID]++
				blocks[id] = append(blocks[id], t.ID)
			case old == nil:
				return fmt.Errorf("sub-task %q depends on %q, which is not in the plan", t.ID, id)
			case old.Status.Terminal() && old.Status != SubTaskCompleted || old.Status == SubTaskBlocked:
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

// enqueue makes the next attempt of a sub-task and puts it in line.
func (s *State) enqueue(e *Event, t *SubTask) {
	t.Attempts++
	t.UpdatedAt = e.Time
	a := &Attempt{
		AttemptRef: AttemptRef{SubTaskID: t.ID, Attempt: t.Attempts}, Status: AttemptQueued,
		Model: t.Model, Agent: t.Agent, QueueSeq: e.Seq, QueuedAt: e.Time, UpdatedAt: e.Time,
	}
	o := &Open{SubTask: t, Attempt: a}
	s.open[t.ID] = o
	s.queueOf(o).push(o)
	s.dirty.subTasks.add(t)
	s.dirty.attempts.add(a)
}

// setSubTask moves a sub-task.
func (s *State) setSubTask(e *Event, t *SubTask, status SubTaskStatus, reason string) {
	s.counts[t.Status]--
	s.counts[status]++
	if t.Status == SubTaskInProgress {
		s.working = slices.DeleteFunc(s.working, func(x *SubTask) bool { return x == t })
	}
	t.Status, t.Reason, t.UpdatedAt = status, reason, e.Time
	s.dirty.subTasks.add(t)
}

// at finds the open attempt that an event speaks of, and refuses one that is over or in another state.
func (s *State) at(ref AttemptRef, allowed ...AttemptStatus) (*Open, error) {
	o := s.open[ref.SubTaskID]
	switch {
	case o == nil:
		return nil, fmt.Errorf("sub-task %q has no open attempt", ref.SubTaskID)
	case o.Attempt.AttemptRef != ref:
		return nil, fmt.Errorf("attempt %d of %q is not open; attempt %d is",
			ref.Attempt, ref.SubTaskID, o.Attempt.Attempt)
	case !slices.Contains(allowed, o.Attempt.Status):
		return nil, fmt.Errorf("attempt %d of %q is %s", ref.Attempt, ref.SubTaskID, o.Attempt.Status)
	}
	return o, nil
}

func (s *State) known(id string) error {
	if s.byID[id] == nil {
		return fmt.Errorf("there is no sub-task %q", id)
	}
	return nil
}

// touch marks an attempt and its turn as changed.
func (s *State) touch(e *Event, o *Open) {
	o.Attempt.UpdatedAt = e.Time
	s.dirty.attempts.add(o.Attempt)
	if o.Turn != nil {
		s.dirty.turns.add(o.Turn)
	}
}

func (s *State) usage(e *Event, b UsageReport) error {
	if b.SubTaskID != "" {
		if err := s.known(b.SubTaskID); err != nil {
			return err
		}
		t := s.byID[b.SubTaskID]
		t.Usage = t.Usage.Add(b.Usage)
		s.dirty.subTasks.add(t)
		if o := s.open[b.SubTaskID]; o != nil && o.Attempt.Attempt == b.Attempt {
			o.Attempt.Usage = o.Attempt.Usage.Add(b.Usage)
			s.touch(e, o)
		}
	}
	s.Boulder.Usage = s.Boulder.Usage.Add(b.Usage)
	if b.Source == UsageAttempt {
		s.Boulder.Turns++
		s.Boulder.TurnUsage = s.Boulder.TurnUsage.Add(b.Usage)
		if o := s.open[b.SubTaskID]; o != nil && o.Attempt.Attempt == b.Attempt {
			o.Attempt.Seen, o.Attempt.Spent = Usage{}, Usage{}
		}
	}
	return nil
}

func (s *State) taskComplete(b TaskComplete) error {
	switch {
	case !b.Status.Terminal():
		return fmt.Errorf("%s is not an end", b.Status)
	case s.Boulder.Status != Synthesizing:
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	case !s.Settled():
		return fmt.Errorf("%d attempts are open", len(s.open))
	case s.parkedCount > 0:
		return fmt.Errorf("%d sub-tasks wait for a person", s.parkedCount)
	case s.Boulder.Replan != nil:
		return fmt.Errorf("replan %d is being made", s.Boulder.Replans)
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.Summary = b.Status, "", b.Summary
	return nil
}
