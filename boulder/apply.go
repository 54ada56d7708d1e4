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
	err := s.applyBody(e)
	if err == nil {
		s.Boulder.Seq = e.Seq
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
	e.Seq = 1
	s.Boulder = b.Boulder
	s.Boulder.Seq, s.Boulder.CreatedAt, s.Boulder.Status = 1, e.Time, Planning
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
	subTasks, err := newSubTasks(b, e)
	if err != nil {
		return err
	}
	s.adopt(b.Plan)
	s.Boulder.Status, s.Boulder.Reason = Running, ""
	for _, t := range subTasks {
		s.addSubTask(t)
		s.dirty.subTasks.add(t)
	}
	for _, t := range subTasks {
		s.waiting[t.ID] = s.countWaiting(t)
		if s.waiting[t.ID] == 0 {
			s.enqueue(e, t)
		}
	}
	return nil
}

// newSubTasks makes the records of a plan, with the graph's edges both ways.
func newSubTasks(b Decomposed, e *Event) ([]*SubTask, error) {
	plan := b.Plan.Plan
	byID := map[string]*SubTask{}
	var all []*SubTask
	for i, spec := range plan.SubTasks {
		if spec.ID == "" || byID[spec.ID] != nil {
			return nil, fmt.Errorf("sub-task id %q is empty or given twice", spec.ID)
		}
		t := &SubTask{
			ID: spec.ID, Position: i + 1, Revision: b.Plan.Number,
			Subject: spec.Subject, ActiveForm: spec.ActiveForm, Content: spec.Description,
			SuccessCriteria: spec.SuccessCriteria, Status: SubTaskPending, Priority: cmp.Or(spec.Priority, Medium),
			DependsOn: spec.DependsOn, BlockedBy: spec.DependsOn,
			Agent: spec.Agent, ExpectsChanges: spec.ExpectsChanges, EmptyOK: spec.EmptyOK,
			Outputs: spec.Outputs, DoneWhen: spec.DoneWhen, Budget: spec.Budget, CreatedAt: e.Time, UpdatedAt: e.Time,
		}
		t.Model = cmp.Or(spec.Model, plan.Model, b.Model)
		if b.GatesApproved {
			t.Gates = spec.Gates
		} else {
			t.GateHints = spec.Gates
		}
		byID[t.ID] = t
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the plan has no sub-tasks")
	}
	if err := link(all, byID); err != nil {
		return nil, err
	}
	return all, nil
}

// link draws the edges from a sub-task to its dependents, and refuses a graph in which something could never run.
func link(all []*SubTask, byID map[string]*SubTask) error {
	for _, t := range all {
		for _, id := range t.DependsOn {
			d := byID[id]
			switch {
			case d == nil:
				return fmt.Errorf("sub-task %q depends on %q, which is not in the plan", t.ID, id)
			case len(d.Blocks) > 0 && d.Blocks[len(d.Blocks)-1] == t.ID:
				return fmt.Errorf("sub-task %q names the dependency %q twice", t.ID, id)
			}
			d.Blocks = append(d.Blocks, t.ID)
		}
	}
	waiting := map[string]int{}
	var ready []*SubTask
	for _, t := range all {
		if waiting[t.ID] = len(t.DependsOn); waiting[t.ID] == 0 {
			ready = append(ready, t)
		}
	}
	for i := 0; i < len(ready); i++ {
		for _, id := range ready[i].Blocks {
			if waiting[id]--; waiting[id] == 0 {
				ready = append(ready, byID[id])
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
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.Summary = b.Status, "", b.Summary
	return nil
}
