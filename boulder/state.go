package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrRefused is returned for an invalid event: a late or duplicate result, an unknown id, a wrong transition.
var ErrRefused = errors.New("event refused")

// State is one boulder in memory: its records and indexes of them. It is owned by one goroutine.
type State struct {
	Boulder  Boulder
	Revision *PlanRevision // the current one; nil while planning
	SubTasks []*SubTask    // in plan order
	Attempts []*Attempt    // all, in queueing order

	byID   map[string]*SubTask
	open   map[string]*Open   // each sub-task's open attempt
	live   []*Open            // those that hold a slot, in the order they got it
	queues map[string][]*Open // the others by model, ordered by priority, then FIFO
	done   []*SubTask         // completed, in that order

	events []Event // applied since TakeEvents
}

// Open is an attempt that is not over, with its newest turn (nil until it starts).
type Open struct {
	SubTask *SubTask
	Attempt *Attempt
	Turn    *Turn
}

// Snapshot is a state as stored and read. It shares its records with the state: encode it before the next Apply.
type Snapshot struct {
	Boulder  Boulder       `json:"boulder"`
	Revision *PlanRevision `json:"revision,omitempty"` // the current one; nil while planning
	SubTasks []*SubTask    `json:"sub_tasks"`          // in plan order
	Attempts []*Attempt    `json:"attempts"`           // in queueing order
	Turns    []*Turn       `json:"turns"`              // the newest of each open attempt
}

// Snapshot returns the current state.
func (s *State) Snapshot() Snapshot {
	snap := Snapshot{Boulder: s.Boulder, Revision: s.Revision, SubTasks: s.SubTasks, Attempts: s.Attempts}
	for _, o := range s.live {
		snap.Turns = append(snap.Turns, o.Turn)
	}
	return snap
}

// Asked returns the hash of the plan or replan that awaits the user's approval, or "" if there is none.
func (s *Snapshot) Asked() string {
	switch {
	case !s.Boulder.Asks():
		return ""
	case s.Boulder.Replan != nil:
		return Plan{SubTasks: s.Boulder.Replan.Proposed.SubTasks}.Hash()
	}
	return s.Revision.Hash
}

// TakeEvents returns and forgets the events applied since the last call, as they are to be logged.
func (s *State) TakeEvents() []Event {
	events := s.events
	s.events = nil
	return events
}

// NewState returns the state before [Created].
func NewState() *State {
	return &State{byID: map[string]*SubTask{}, open: map[string]*Open{}, queues: map[string][]*Open{}}
}

// Turns returns the turns of a sub-task ("": of all) from a log that starts at event 1, up to a missing event.
func Turns(events []Event, subTaskID string) (turns []Turn) {
	s := NewState()
	var begun []*Turn
	for _, e := range events {
		if s.Replay(e) != nil {
			break
		}
		switch e.Body.(type) {
		case Starting, Continuation:
			begun = append(begun, s.Open(AttemptOf(e.Body).SubTaskID).Turn)
		}
	}
	for _, t := range begun {
		if subTaskID == "" || t.SubTaskID == subTaskID {
			turns = append(turns, *t)
		}
	}
	return turns
}

// Restore builds the state from a snapshot and takes over its records. Errors name the inconsistent record.
func Restore(snap Snapshot) (*State, error) {
	s := NewState()
	s.Boulder, s.Revision, s.Attempts = snap.Boulder, snap.Revision, snap.Attempts
	for _, t := range snap.SubTasks {
		if s.byID[t.ID] != nil {
			return nil, fmt.Errorf("boulder %s: sub-task %q is stored twice", s.Boulder.ID, t.ID)
		}
		s.addSubTask(t)
	}
	turns := map[AttemptRef]*Turn{}
	for _, t := range snap.Turns {
		turns[t.AttemptRef] = t
	}
	slices.SortStableFunc(s.done, func(a, b *SubTask) int { return cmp.Compare(a.EndSeq, b.EndSeq) })
	for _, a := range snap.Attempts {
		switch t := s.byID[a.SubTaskID]; {
		case t == nil:
			return nil, fmt.Errorf("boulder %s: attempt %d belongs to sub-task %q, which is not stored",
				s.Boulder.ID, a.Attempt, a.SubTaskID)
		case a.Status.Terminal():
		case s.Open(t.ID) != nil:
			return nil, fmt.Errorf("boulder %s: sub-task %q has more than one open attempt", s.Boulder.ID, t.ID)
		default:
			s.addOpen(&Open{SubTask: t, Attempt: a, Turn: turns[a.AttemptRef]})
		}
	}
	s.sortLive()
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("stored records of boulder %s contradict each other: %w", s.Boulder.ID, err)
	}
	return s, nil
}

// sortLive puts the live attempts in the order in which they got their slots.
func (s *State) sortLive() {
	slices.SortFunc(s.live, func(a, b *Open) int {
		return cmp.Or(cmp.Compare(a.Attempt.SlotSeq, b.Attempt.SlotSeq), cmp.Compare(a.Attempt.QueueSeq, b.Attempt.QueueSeq),
			cmp.Compare(a.SubTask.Position, b.SubTask.Position))
	})
}

func (s *State) addSubTask(t *SubTask) {
	s.SubTasks = append(s.SubTasks, t)
	s.byID[t.ID] = t
	if t.Status == SubTaskCompleted {
		s.done = append(s.done, t)
	}
}

func (s *State) addOpen(o *Open) {
	s.open[o.SubTask.ID] = o
	if o.Attempt.Status != AttemptQueued {
		s.live = append(s.live, o)
		return
	}
	s.queue(o)
}

// queue puts an attempt at the end of its priority in the queue of its model.
func (s *State) queue(o *Open) {
	q, rank := s.queues[o.Attempt.Model], o.SubTask.Priority.Rank()
	i, _ := slices.BinarySearchFunc(q, rank+1, func(x *Open, r int) int { return cmp.Compare(x.SubTask.Priority.Rank(), r) })
	s.queues[o.Attempt.Model] = slices.Insert(q, i, o)
}

func (s *State) removeOpen(o *Open) {
	delete(s.open, o.SubTask.ID)
	same := func(x *Open) bool { return x == o }
	s.live = slices.DeleteFunc(s.live, same)
	s.queues[o.Attempt.Model] = slices.DeleteFunc(s.queues[o.Attempt.Model], same)
}

// ready reports whether all dependencies are satisfied.
func (s *State) ready(t *SubTask) bool {
	return !slices.ContainsFunc(t.DependsOn, func(id string) bool {
		d := s.byID[id]
		return d == nil || !d.Status.satisfies()
	})
}

// SubTask returns the sub-task, or nil.
func (s *State) SubTask(id string) *SubTask { return s.byID[id] }

// Root returns the first sub-task of the chain of replans that t is in, perhaps t itself: it counts the judged turns of all.
func (s *State) Root(t *SubTask) *SubTask { return cmp.Or(s.byID[t.Root], t) }

// Open returns the sub-task's open attempt, or nil.
func (s *State) Open(subTaskID string) *Open { return s.open[subTaskID] }

// ModelFor returns the model that an attempt needs now: the ledger's while its turn is being judged.
func (s *State) ModelFor(o *Open) string {
	if o.Attempt.Status == AttemptMonitoring {
		return s.Boulder.Ledger()
	}
	return o.Attempt.Model
}

// Live returns the attempts that hold a slot, in the order they got it.
func (s *State) Live() []*Open { return slices.Clone(s.live) }

// Queues returns the queued attempts by model: by priority, then FIFO; possibly none. Not to be kept or changed.
func (s *State) Queues() map[string][]*Open { return s.queues }

// Completed returns the n sub-tasks that completed last, oldest first. The slice must not be kept or changed.
func (s *State) Completed(n int) []*SubTask { return s.done[max(0, len(s.done)-n):] }

// AllOver reports whether no attempt is queued or live, so that nothing more happens by itself.
func (s *State) AllOver() bool { return len(s.open) == 0 }

var (
	// ErrNotFound is returned by a store for an unknown boulder.
	ErrNotFound = errors.New("no such boulder")
	// ErrFinished is returned for operations that a finished boulder does not allow.
	ErrFinished = errors.New("nothing to resume")
	// ErrRunning is returned on an attempt to run a boulder twice in one process.
	ErrRunning = errors.New("it is being run already")
	// ErrTrouble marks an infrastructure error (server gone, connection refused, 5xx, rate limit). Retried; not a try.
	ErrTrouble = errors.New("infrastructure trouble")
	// ErrSessionLost marks a session that the runner no longer knows.
	ErrSessionLost = errors.New("session lost")
	// ErrFatal marks a fault that would recur (wrong key, unknown model): the run ends, the boulder stays resumable.
	ErrFatal = errors.New("cannot continue")
	// ErrNoCredit is an ErrFatal for an account without credit, which the user must top up.
	ErrNoCredit = fmt.Errorf("%w", ErrFatal)
	// ErrKey is an ErrFatal for a key that a provider refuses, or the lack of one.
	ErrKey = fmt.Errorf("%w", ErrFatal)
	// ErrUnknownModel is an ErrFatal for a model that its provider, or OpenCode, does not have.
	ErrUnknownModel = fmt.Errorf("%w", ErrFatal)
	// ErrSlots is an ErrFatal for slots that lack something that the user has to configure.
	ErrSlots = fmt.Errorf("%w", ErrFatal)
	// ErrNoNewPlan is returned by a planner that was asked for another plan and has none.
	ErrNoNewPlan = errors.New("the Task Ledger has no other plan")
)

// TroubleKind is the kind of an [ErrTrouble].
type TroubleKind string

const (
	TroubleServer     TroubleKind = "server"     // the OpenCode server or the connection to it
	TroubleNetwork    TroubleKind = "network"    // the connection to a model, or its 5xx
	TroubleRateLimit  TroubleKind = "rate_limit" // too many requests; the model cools down
	TroubleOverloaded TroubleKind = "overloaded" // no capacity; the model cools down
	TroubleRefused    TroubleKind = "refused"    // the model cannot be used for now: an [Outage] without an end
	TroublePaused     TroubleKind = "paused"     // not a fault: stopped by the user for now
	TroubleJudge      TroubleKind = "judge"      // the judge's answer was unusable
)

// TroubleError is an [ErrTrouble] with details. A plain ErrTrouble counts as [TroubleServer].
type TroubleError struct {
	Kind TroubleKind
	// Model cools down, provider/model; empty: the attempt's own, or the ledger's for a judgement.
	Model string
	// RetryAfter is the requested wait, counted from the creation of the error. Zero: none was requested.
	RetryAfter time.Duration
	// Guessed: what was named is a time without a zone, and RetryAfter is when to look whether it has come.
	Guessed bool
	Err     error
}

func (e *TroubleError) Error() string { return e.Err.Error() }

// Unwrap returns ErrTrouble and the cause.
func (e *TroubleError) Unwrap() []error { return []error{ErrTrouble, e.Err} }
