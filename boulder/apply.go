package boulder

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// eventTypes registers every event type: the value of its JSON field "type", whether it belongs to the documented
// stream of `--json` (`manager logs` shows the others), and its handler. A handler checks before it changes anything.
var eventTypes = []eventType{
	event("created", false, (*State).created),
	event("planned", false, (*State).planned),
	event("prepared", false, (*State).prepared),
	event("look-started", true, (*State).lookStarted),
	event("look-session", false, (*State).lookSession),
	event("looked", true, (*State).looked),
	event("revision-asked", false, (*State).revisionAsked),
	event("revision-refused", false, (*State).revisionRefused),
	event("decomposed", true, (*State).decomposed),
	event("status", false, (*State).statusChanged),
	event("resumed", false, (*State).resumed),
	event("clock", false, (*State).clockMoved),
	event("session-left", false, (*State).sessionLeft),
	ofAttempt("attempt-starting", false, (*State).starting, AttemptQueued),
	ofAttempt("subtask-start", true, (*State).subTaskStart, AttemptStarting),
	ofAttempt("turn-sent", false, (*State).turnSent, AttemptExecuting),
	ofAttempt("effort-missing", true, (*State).effortMissing, AttemptExecuting),
	ofAttempt("nudge", false, (*State).nudged, AttemptExecuting),
	event("subtask-progress", true, (*State).progress),
	ofAttempt("turn-ended", false, (*State).turnEnded, AttemptStarting, AttemptExecuting),
	event("gate", true, (*State).gateRun),
	event("isolated", true, (*State).isolated),
	ofAttempt("integrating", true, (*State).integrating, AttemptMonitoring),
	ofAttempt("integrated", true, (*State).integrated, AttemptMonitoring),
	ofAttempt("conflict", true, (*State).conflict, AttemptMonitoring),
	ofAttempt("judged", false, (*State).judged, AttemptMonitoring),
	ofAttempt("continuation", true, (*State).continuation, AttemptMonitoring),
	ofAttempt("retry", true, (*State).retry, AttemptStarting, AttemptExecuting, AttemptMonitoring),
	ofAttempt("trouble", false, (*State).trouble, AttemptStarting, AttemptExecuting, AttemptMonitoring),
	event("cooldown", true, (*State).cooled),
	event("replan-started", false, (*State).replanStarted),
	event("plan-trouble", false, (*State).planTrouble),
	event("replan-proposed", false, (*State).replanProposed),
	event("replan", true, (*State).replanned),
	event("replan-refused", false, (*State).replanRefused),
	event("plan-edited", true, (*State).planEdited),
	event("model-set", true, (*State).modelSet),
	event("model-switched", true, (*State).switched),
	event("request-checked", true, (*State).requestChecked),
	event("budget-set", false, (*State).budgetSet),
	event("budget", true, (*State).budgetWarning),
	ofAttempt("parked", true, (*State).parked),
	event("unparked", false, (*State).unparked),
	event("note", true, (*State).noted),
	event("reopened", true, (*State).reopened),
	event("redo", true, (*State).redone),
	event("keep", true, (*State).kept),
	event("archived", false, (*State).archived),
	event("blocker", true, (*State).blockerRaised),
	ofAttempt("wait-ended", false, (*State).waitEnded, AttemptExecuting, AttemptMonitoring),
	event("blocker-settled", true, (*State).blockerSettled),
	event("usage", true, (*State).usage),
	event("subtask-done", true, (*State).subTaskDone),
	event("landed", true, (*State).landed),
	event("task-complete", true, (*State).taskComplete),
}

type eventType struct {
	name   string
	public bool
	body   reflect.Type
	apply  func(*State, *Event) error
}

func event[B Body](name string, public bool, apply func(*State, *Event, B) error) eventType {
	return eventType{name, public, reflect.TypeFor[B](), func(s *State, e *Event) error { return apply(s, e, e.Body.(B)) }}
}

// ofAttempt registers an event of an open attempt in one of the allowed states, or in any state if none are given.
func ofAttempt[B interface {
	Body
	Ref() AttemptRef
}](
	name string, public bool, apply func(*State, *Event, *Open, B) error, allowed ...AttemptStatus,
) eventType {
	return event(name, public, func(s *State, e *Event, b B) error {
		o, err := s.at(b.Ref(), allowed...)
		if err == nil {
			err = apply(s, e, o, b)
		}
		if err == nil {
			o.Attempt.UpdatedAt = e.Time
		}
		return err
	})
}

// Ref returns the attempt that an event is about.
func (r AttemptRef) Ref() AttemptRef { return r }

// AttemptOf returns the attempt that an event is about, or zero if it is about none.
func AttemptOf(b Body) AttemptRef {
	if of, ok := b.(interface{ Ref() AttemptRef }); ok {
		return of.Ref()
	}
	return AttemptRef{}
}

// Apply changes the state by one event and returns the event as logged, with its number. A refused event is an error
// that wraps [ErrRefused], and changes nothing. Dependents are queued or blocked as a consequence.
func (s *State) Apply(e Event) (Event, error) {
	if err := s.apply(&e); err != nil {
		return Event{}, fmt.Errorf("%s: %w: %w", TypeOf(e.Body), ErrRefused, err)
	}
	s.events = append(s.events, e)
	return e, nil
}

// Replay applies a logged event, which must be the next one.
func (s *State) Replay(e Event) error {
	if e.Seq != s.Boulder.Seq+1 {
		return fmt.Errorf("event %d comes where %d is next", e.Seq, s.Boulder.Seq+1)
	}
	return s.apply(&e)
}

func (s *State) apply(e *Event) error {
	known, ok := typesByBody[reflect.TypeOf(e.Body)]
	created, afterEnd, moved := false, false, ""
	switch b := e.Body.(type) {
	case Created:
		created = true
	case SessionLeft, Archived, Landed, Redone, Kept:
		afterEnd = true
	case BlockerSettled:
		afterEnd = b.SubTaskID == ""
	case Starting, Retry, Parked, SubTaskDone:
		moved = AttemptOf(b).SubTaskID
	}
	switch r := s.Boulder.Replan; {
	case !ok:
		return fmt.Errorf("%T is no event", e.Body)
	case created: // the event brings the id
	case s.Boulder.ID == "":
		return errors.New("there is no boulder yet")
	case e.BoulderID != s.Boulder.ID:
		return fmt.Errorf("it belongs to boulder %q", e.BoulderID)
	case s.Boulder.Status.Terminal() && !afterEnd:
		return fmt.Errorf("boulder %s is %s", s.Boulder.ID, s.Boulder.Status)
	case r != nil && slices.Contains(r.Replaces, moved): // unchanged until the new plan is adopted or refused
		return fmt.Errorf("a replan that replaces %q is being made", moved)
	}
	e.Seq = s.Boulder.Seq + 1
	worked := s.Boulder.WorkedBy(e.Time) // in the status before the event
	switch b := e.Body.(type) {
	case Resumed:
		worked = s.Boulder.Worked
	case ClockMoved:
		worked = s.Boulder.WorkedBy(e.Time.Add(-b.By))
	}
	if err := known.apply(s, e); err != nil {
		return err
	}
	s.Boulder.Seq, s.Boulder.UpdatedAt = e.Seq, e.Time
	s.Boulder.Worked, s.Boulder.ClockAt = worked, e.Time
	return nil
}

// transitions that [StatusChanged] may make. [Planned], [Decomposed], [TaskComplete] and [Redone] make the others.
var transitions = map[Status][]Status{
	Planning:         {Paused, Failed, Cancelled},
	AwaitingApproval: {Paused, Cancelled},
	Running:          {Paused, Synthesizing, Cancelled},
	Paused:           {Planning, AwaitingApproval, Running, Synthesizing, Cancelled},
	Synthesizing:     {Running, Paused},
}

func (s *State) statusChanged(_ *Event, b StatusChanged) error {
	fits := true // whether the rest of the state fits; a paused boulder, for example, returns to where it was
	switch b.Status {
	case Planning:
		fits = s.Revision == nil || s.Boulder.Comment != ""
	case AwaitingApproval:
		fits = s.Revision != nil && len(s.SubTasks) == 0 && s.Boulder.Comment == ""
	case Running:
		fits = len(s.SubTasks) > 0
	case Synthesizing, Failed, Cancelled:
		fits = s.AllOver()
	}
	if !fits || !slices.Contains(transitions[s.Boulder.Status], b.Status) {
		return fmt.Errorf("boulder is %s and cannot be %s with plan revision %d, %d sub-tasks and %d open attempts",
			s.Boulder.Status, b.Status, s.Boulder.Revision, len(s.SubTasks), len(s.open))
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.WaitsFor = b.Status, b.Reason, b.SubTaskID
	return nil
}

func (s *State) enqueue(e *Event, t *SubTask) {
	t.Attempts++
	t.UpdatedAt = e.Time
	a := &Attempt{
		AttemptRef: AttemptRef{SubTaskID: t.ID, Attempt: t.Attempts}, Status: AttemptQueued,
		Model: t.Model, Effort: t.Effort, Agent: t.Agent, QueueSeq: e.Seq, QueuedAt: e.Time, UpdatedAt: e.Time,
	}
	s.Attempts = append(s.Attempts, a)
	s.addOpen(&Open{SubTask: t, Attempt: a})
}

func (s *State) setSubTask(e *Event, t *SubTask, status SubTaskStatus, reason string) {
	if status == SubTaskCompleted {
		s.done = append(s.done, t)
	}
	s.Boulder.Tally.add(t.Status, -1)
	s.Boulder.Tally.add(status, 1)
	t.Status, t.Reason, t.UpdatedAt = status, reason, e.Time
	t.Parked, t.AtLimit, t.Program = false, false, "" // parked sets these afterwards
	if status.Terminal() {
		t.Reuse = ""
	}
}

// at returns the open attempt that ref names, and refuses one that is over or in another state.
func (s *State) at(ref AttemptRef, allowed ...AttemptStatus) (*Open, error) {
	o := s.Open(ref.SubTaskID)
	switch {
	case o == nil:
		return nil, fmt.Errorf("sub-task %q has no open attempt", ref.SubTaskID)
	case o.Attempt.AttemptRef != ref:
		return nil, fmt.Errorf("attempt %d of %q is not open; attempt %d is",
			ref.Attempt, ref.SubTaskID, o.Attempt.Attempt)
	case len(allowed) > 0 && !slices.Contains(allowed, o.Attempt.Status):
		return nil, fmt.Errorf("attempt %d of %q is %s", ref.Attempt, ref.SubTaskID, o.Attempt.Status)
	}
	return o, nil
}

func (s *State) known(id string) (*SubTask, error) {
	if t := s.byID[id]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("there is no sub-task %q", id)
}

func (s *State) unfinished(id string) (*SubTask, error) {
	t, err := s.known(id)
	if err == nil && t.Status.Terminal() {
		err = fmt.Errorf("sub-task %q is %s", id, t.Status)
	}
	return t, err
}

func (s *State) usage(e *Event, b UsageReport) error {
	if b.SubTaskID != "" {
		t, err := s.known(b.SubTaskID)
		if err != nil {
			return err
		}
		t.Usage = t.Usage.Add(b.Usage)
	}
	if o := s.Open(b.SubTaskID); o != nil && o.Attempt.Attempt == b.Attempt {
		o.Attempt.Usage, o.Attempt.UpdatedAt = o.Attempt.Usage.Add(b.Usage), e.Time
		if b.Source == UsageAttempt {
			o.Attempt.Seen, o.Attempt.Spent = Usage{}, Usage{}
		}
	}
	s.Boulder.Usage = s.Boulder.Usage.Add(b.Usage)
	switch b.Source {
	case UsageLook:
		s.Boulder.LookUsage = s.Boulder.LookUsage.Add(b.Usage)
	case UsageAttempt:
		s.Boulder.Turns++
		s.Boulder.TurnUsage = s.Boulder.TurnUsage.Add(b.Usage)
	}
	return nil
}

func (s *State) taskComplete(_ *Event, b TaskComplete) error {
	switch {
	case !b.Status.Terminal():
		return fmt.Errorf("%s is not an end", b.Status)
	case s.Boulder.Status != Synthesizing:
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	case !s.AllOver():
		return fmt.Errorf("%d attempts are open", len(s.open))
	case slices.ContainsFunc(s.SubTasks, func(t *SubTask) bool { return t.Parked }):
		return errors.New("sub-tasks wait for the user")
	case s.Boulder.Replan != nil:
		return fmt.Errorf("replan %d is being made", s.Boulder.Replans)
	}
	s.Boulder.Status, s.Boulder.Reason, s.Boulder.Summary, s.Boulder.Answer = b.Status, "", b.Summary, b.Answer
	return nil
}
