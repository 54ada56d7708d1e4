package boulder

import (
	"fmt"
	"slices"
	"time"
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
		return Event{}, fmt.Errorf("%s: %w: %w", TypeOf(e.Body), ErrRefused, err)
	}
	s.Boulder.UpdatedAt, s.Boulder.Tally = e.Time, TallyOf(s.counts)
	s.events = append(s.events, e)
	return e, nil
}

// Replay applies an event that was logged. It has to be the next one.
func (s *State) Replay(e Event) error {
	if e.Seq != s.Boulder.Seq+1 {
		return fmt.Errorf("event %d comes where %d is next", e.Seq, s.Boulder.Seq+1)
	}
	pending := s.events
	_, err := s.Apply(e)
	s.events = pending
	return err
}

func (s *State) apply(e *Event) error {
	_, left := e.Body.(SessionLeft)
	switch body := e.Body.(type) {
	case Created:
		return s.created(e, body)
	case Archived:
		return s.archived(e, body)
	}
	switch {
	case s.Boulder.ID == "":
		return fmt.Errorf("there is no boulder yet")
	case e.BoulderID != s.Boulder.ID:
		return fmt.Errorf("it belongs to boulder %q", e.BoulderID)
	case s.Boulder.Status.Terminal() && !left:
		return fmt.Errorf("boulder %s is %s", s.Boulder.ID, s.Boulder.Status)
	}
	e.Seq = s.Boulder.Seq + 1
	worked := s.workedBy(e)
	err := s.applyBody(e)
	if err == nil {
		s.Boulder.Seq = e.Seq
		s.Boulder.Worked, s.Boulder.ClockAt = worked, e.Time
	}
	return err
}

// workedBy is the wall clock of the run until an event, in the status that the event finds.
func (s *State) workedBy(e *Event) time.Duration {
	switch b := e.Body.(type) {
	case TakenUp:
		return s.Boulder.Worked
	case ClockMoved:
		return s.Boulder.WorkedBy(e.Time.Add(-b.By))
	}
	return s.Boulder.WorkedBy(e.Time)
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
		return s.gateRun(b)
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
	case ClockMoved:
		s.clockMoved(b)
		return nil
	case Nudged:
		return s.nudged(e, b)
	case Cooled:
		return s.cooled(b)
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
	case Noted:
		return s.noted(e, b)
	case Reopened:
		return s.reopened(e, b)
	case SessionLeft:
		return s.sessionLeft(b)
	case BlockerRaised:
		return s.blockerRaised(e, b)
	case BlockerSettled:
		return s.blockerSettled(e, b)
	}
	return fmt.Errorf("unknown event type %q", TypeOf(e.Body))
}

// transitions of a boulder that [StatusChanged] may make. [Planned], [Decomposed] and [TaskComplete] make the others.
var transitions = map[Status][]Status{
	Planning:         {Paused, Failed, Cancelled},
	AwaitingApproval: {Paused, Cancelled},
	Running:          {Paused, Synthesizing, Cancelled},
	Paused:           {Planning, AwaitingApproval, Running, Synthesizing, Cancelled},
	Synthesizing:     {Running, Paused},
}

func (s *State) statusChanged(b StatusChanged) error {
	if !slices.Contains(transitions[s.Boulder.Status], b.Status) {
		return fmt.Errorf("boulder is %s and cannot become %s", s.Boulder.Status, b.Status)
	}
	if err := s.fits(b.Status); err != nil {
		return err
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.WaitsFor = b.Status, b.Reason, b.SubTaskID
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
		fits = s.AllOver()
	}
	if !fits {
		return fmt.Errorf("boulder cannot be %s with plan revision %d, %d sub-tasks and %d open attempts",
			status, s.Boulder.Revision, len(s.SubTasks), len(s.open))
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
	s.Attempts = append(s.Attempts, a)
	s.open[t.ID] = o
	s.queueOf(o).push(o)
}

// setSubTask moves a sub-task.
func (s *State) setSubTask(e *Event, t *SubTask, status SubTaskStatus, reason string) {
	s.rested(t, status)
	s.counts[t.Status]--
	s.counts[status]++
	if t.Status == SubTaskInProgress {
		s.working = slices.DeleteFunc(s.working, func(x *SubTask) bool { return x == t })
	}
	t.Status, t.Reason, t.UpdatedAt = status, reason, e.Time
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

func (s *State) usage(e *Event, b UsageReport) error {
	if b.SubTaskID != "" {
		if err := s.known(b.SubTaskID); err != nil {
			return err
		}
		t := s.byID[b.SubTaskID]
		t.Usage = t.Usage.Add(b.Usage)
		if o := s.open[b.SubTaskID]; o != nil && o.Attempt.Attempt == b.Attempt {
			o.Attempt.Usage = o.Attempt.Usage.Add(b.Usage)
			o.Attempt.UpdatedAt = e.Time
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
	case !s.AllOver():
		return fmt.Errorf("%d attempts are open", len(s.open))
	case s.parkedCount > 0:
		return fmt.Errorf("%d sub-tasks wait for a person", s.parkedCount)
	case s.Boulder.Replan != nil:
		return fmt.Errorf("replan %d is being made", s.Boulder.Replans)
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.Summary = b.Status, "", b.Summary
	return nil
}
