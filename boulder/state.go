package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrRefused is returned for an event that does not fit: a late or duplicate result, an unknown id, a wrong transition.
var ErrRefused = errors.New("event refused")

// State is one boulder in memory: its records, and what every step looks up in them. It is owned by one goroutine.
type State struct {
	Boulder  Boulder
	Revision *PlanRevision // the current one; nil while planning
	SubTasks []*SubTask    // in plan order
	Attempts []*Attempt    // all, in the order they were queued

	byID   map[string]*SubTask
	open   map[string]*Open   // the attempt of each sub-task that is not over
	live   []*Open            // those that hold a slot, in the order they got it
	queues map[string][]*Open // the others, by model: by priority, then first in, first out
	done   []*SubTask         // completed, in the order they did

	events []Event // that were applied since TakeEvents
}

// Open is an attempt that is not over, with its newest turn (nil until it starts).
type Open struct {
	SubTask *SubTask
	Attempt *Attempt
	Turn    *Turn
}

// Snapshot is a state as it is stored and read. Records are shared with the state: it is encoded before the state goes on.
type Snapshot struct {
	Boulder  Boulder       `json:"boulder"`
	Revision *PlanRevision `json:"revision,omitempty"` // the current one; nil while planning
	SubTasks []*SubTask    `json:"sub_tasks"`          // in plan order
	Attempts []*Attempt    `json:"attempts"`           // in the order they were queued
	Turns    []*Turn       `json:"turns"`              // the newest of each attempt that is not over
}

// Snapshot is the state now.
func (s *State) Snapshot() Snapshot {
	snap := Snapshot{Boulder: s.Boulder, Revision: s.Revision, SubTasks: s.SubTasks, Attempts: s.Attempts}
	for _, o := range s.live {
		snap.Turns = append(snap.Turns, o.Turn)
	}
	return snap
}

// Asked names what waits for the user's yes, by its hash: the plan that is not approved yet, or the replan that is proposed.
// Empty: nothing does.
func (s *Snapshot) Asked() string {
	switch {
	case !s.Boulder.Asks():
		return ""
	case s.Boulder.Replan != nil:
		return Plan{SubTasks: s.Boulder.Replan.Proposed.SubTasks}.Hash()
	}
	return s.Revision.Hash
}

// TakeEvents returns what was applied since the last call, as it is to be logged, and forgets it.
func (s *State) TakeEvents() []Event {
	events := s.events
	s.events = nil
	return events
}

// NewState is the state before the first event, [Created].
func NewState() *State {
	return &State{byID: map[string]*SubTask{}, open: map[string]*Open{}, queues: map[string][]*Open{}}
}

// Turns are those of a sub-task, or with "" of all, by a log from its beginning on, with their prompts, evidence and
// verdicts. Where an event is missing they end.
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

// Restore builds the state from a snapshot, whose records become its own. The error names the record that does not fit.
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
			s.opened(&Open{SubTask: t, Attempt: a, Turn: turns[a.AttemptRef]})
		}
	}
	slices.SortStableFunc(s.live, func(a, b *Open) int { return cmp.Compare(a.Attempt.SlotSeq, b.Attempt.SlotSeq) })
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("stored records of boulder %s contradict each other: %w", s.Boulder.ID, err)
	}
	return s, nil
}

func (s *State) addSubTask(t *SubTask) {
	s.SubTasks = append(s.SubTasks, t)
	s.byID[t.ID] = t
	if t.Status == SubTaskCompleted {
		s.done = append(s.done, t)
	}
}

// opened puts an attempt into its queue, or among those that hold a slot.
func (s *State) opened(o *Open) {
	s.open[o.SubTask.ID] = o
	if o.Attempt.Status != AttemptQueued {
		s.live = append(s.live, o)
		return
	}
	q, rank := s.queues[o.Attempt.Model], o.SubTask.Priority.Rank()
	i, _ := slices.BinarySearchFunc(q, rank+1, func(x *Open, r int) int { return cmp.Compare(x.SubTask.Priority.Rank(), r) })
	s.queues[o.Attempt.Model] = slices.Insert(q, i, o)
}

// closed takes an attempt out of where opened has put it.
func (s *State) closed(o *Open) {
	delete(s.open, o.SubTask.ID)
	same := func(x *Open) bool { return x == o }
	s.live = slices.DeleteFunc(s.live, same)
	s.queues[o.Attempt.Model] = slices.DeleteFunc(s.queues[o.Attempt.Model], same)
}

// ready reports whether nothing that the sub-task depends on is a reason to wait.
func (s *State) ready(t *SubTask) bool {
	return !slices.ContainsFunc(t.DependsOn, func(id string) bool {
		d := s.byID[id]
		return d == nil || !d.Status.satisfies()
	})
}

// SubTask returns the record, or nil.
func (s *State) SubTask(id string) *SubTask { return s.byID[id] }

// First returns the first sub-task of the line of t, which may be t itself: the one that counts the judged turns.
func (s *State) First(t *SubTask) *SubTask { return cmp.Or(s.byID[t.Line], t) }

// Open returns the sub-task's attempt that is not over, or nil.
func (s *State) Open(subTaskID string) *Open { return s.open[subTaskID] }

// ModelFor returns the model that an attempt needs now: the ledger's while its turn is being judged.
func (s *State) ModelFor(o *Open) string {
	if o.Attempt.Status == AttemptMonitoring {
		return s.Boulder.LedgerModel
	}
	return o.Attempt.Model
}

// Live returns the attempts that hold a slot, in the order they got it.
func (s *State) Live() []*Open { return slices.Clone(s.live) }

// Queues returns the attempts that wait for a slot, by model: by priority, then first in, first out. A queue may be empty.
// None of it may be kept or changed.
func (s *State) Queues() map[string][]*Open { return s.queues }

// Completed returns the n sub-tasks that completed last, oldest first. The slice must not be kept or changed.
func (s *State) Completed(n int) []*SubTask { return s.done[max(0, len(s.done)-n):] }

// AllOver reports whether no attempt is queued or live: nothing more can happen by itself.
func (s *State) AllOver() bool { return len(s.open) == 0 }

var (
	// ErrNotFound is what a store returns for a boulder that it does not have.
	ErrNotFound = errors.New("no such boulder")
	// ErrFinished is returned for what cannot be done with a boulder that is over.
	ErrFinished = errors.New("nothing to resume")
	// ErrRunning is returned for a boulder that is to be run while the same process runs it.
	ErrRunning = errors.New("it is being run already")
	// ErrTrouble marks an infrastructure error (server gone, connection refused, 5xx, rate limit): tried again, and no attempt.
	ErrTrouble = errors.New("infrastructure trouble")
	// ErrSessionLost marks a session that the runner does not know any more.
	ErrSessionLost = errors.New("session lost")
	// ErrFatal marks a fault that ends the run at once, because every further try would end the same way (wrong key,
	// unknown model). The boulder stays resumable.
	ErrFatal = errors.New("cannot go on")
	// ErrNoCredit is an ErrFatal for an account that has no credit left: only the user can help, by topping it up.
	ErrNoCredit = fmt.Errorf("%w: no credit", ErrFatal)
	// ErrSlots is an ErrFatal for slots that lack something that the user has to configure.
	ErrSlots = fmt.Errorf("%w", ErrFatal)
	// ErrNoNewPlan is what a planner returns that was asked for another plan and has none.
	ErrNoNewPlan = errors.New("the Task Ledger has no other plan")
)

// TroubleKind says what sort of fault [ErrTrouble] was.
type TroubleKind string

const (
	TroubleServer     TroubleKind = "server"     // the OpenCode server, or the way to it
	TroubleNetwork    TroubleKind = "network"    // the way to a model, or a 5xx of it
	TroubleRateLimit  TroubleKind = "rate_limit" // too many requests: the model has to cool down
	TroubleOverloaded TroubleKind = "overloaded" // no capacity: the model has to cool down
	TroublePaused     TroubleKind = "paused"     // no fault: the user stopped it for now
	TroubleJudge      TroubleKind = "judge"      // the judge answered, but not in a usable way
)

// TroubleError is an [ErrTrouble] that says more. A plain ErrTrouble counts as [TroubleServer].
type TroubleError struct {
	Kind TroubleKind
	// Model that has to cool down, provider/model; empty: the attempt's own, or for a judgement the ledger's.
	Model string
	// RetryAfter is how long the other side asked to wait, counted from when the error was made. Zero: it did not say.
	RetryAfter time.Duration
	Err        error
}

func (e *TroubleError) Error() string { return e.Err.Error() }

// Unwrap makes it an ErrTrouble, besides what it wraps.
func (e *TroubleError) Unwrap() []error { return []error{ErrTrouble, e.Err} }
