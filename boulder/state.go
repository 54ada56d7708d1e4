package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrRefused is what Apply returns for an event that does not fit the state: a late or duplicate result, an unknown
// sub-task, a transition that is not in the state machine. The state is unchanged.
var ErrRefused = errors.New("event refused")

// State is one boulder in memory: its records, and indexes over them that Apply keeps up to date, so that a step costs
// the same in a plan of 5 as in one of 5,000. It is owned by one goroutine.
type State struct {
	Boulder  Boulder
	Revision *PlanRevision // the current one; nil while planning
	SubTasks []*SubTask    // in plan order
	Attempts []*Attempt    // all, in the order they were queued
	Turns    []*Turn       // all, in the order they began, of a state that keeps them; see [NewHistory]

	byID    map[string]*SubTask
	open    map[string]*Open // the attempt of each sub-task that is not over
	live    []*Open          // those that hold a slot, in the order they got it
	queues  map[string]*queue
	rest    []*SubTask     // pending or in progress, in plan order
	working []*SubTask     // in progress: live, or a retry in line
	done    []*SubTask     // completed, in the order they did
	waiting map[string]int // per sub-task, dependencies that are neither completed nor skipped
	counts  map[SubTaskStatus]int

	parkedCount int // sub-tasks that wait for a person

	keepTurns bool
	events    []Event // that were applied since TakeEvents
}

// Open is an attempt that is not over, with its newest turn (nil until it starts).
type Open struct {
	SubTask *SubTask
	Attempt *Attempt
	Turn    *Turn
}

// Running is what the turn that is at work was seen to use so far. It becomes part of a [UsageReport] when the turn ends.
func (o *Open) Running() Usage { return o.Attempt.Spent.Add(o.Attempt.Seen) }

// Snapshot is a state as it is kept, so that not the whole log has to be applied again. Records are shared with the
// state: a snapshot is encoded before the state goes on.
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

// TakeEvents returns what was applied since the last call, as it is to be logged, and forgets it.
func (s *State) TakeEvents() []Event {
	events := s.events
	s.events = nil
	return events
}

// NewState is the state before the first event, [Created].
func NewState() *State {
	return &State{
		byID: map[string]*SubTask{}, open: map[string]*Open{}, queues: map[string]*queue{},
		waiting: map[string]int{}, counts: map[SubTaskStatus]int{},
	}
}

// NewHistory is a [NewState] that keeps all turns, with their prompts, evidence and verdicts. A run needs the newest ones
// only.
func NewHistory() *State {
	s := NewState()
	s.keepTurns = true
	return s
}

// Restore builds the state from a snapshot, whose records become its own. The error names the record that does not fit
// the others.
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
	var open []*Open
	for _, a := range snap.Attempts {
		t := s.byID[a.SubTaskID]
		switch {
		case t == nil:
			return nil, fmt.Errorf("boulder %s: attempt %d belongs to sub-task %q, which is not stored",
				s.Boulder.ID, a.Attempt, a.SubTaskID)
		case a.Status.Terminal():
			continue
		case s.open[t.ID] != nil:
			return nil, fmt.Errorf("boulder %s: sub-task %q has more than one open attempt", s.Boulder.ID, t.ID)
		}
		s.open[t.ID] = &Open{SubTask: t, Attempt: a, Turn: turns[a.AttemptRef]}
		open = append(open, s.open[t.ID])
	}
	slices.SortStableFunc(open, func(a, b *Open) int {
		return cmp.Or(cmp.Compare(a.Attempt.SlotSeq, b.Attempt.SlotSeq), cmp.Compare(a.Attempt.QueueSeq, b.Attempt.QueueSeq))
	})
	for _, o := range open {
		if o.Attempt.Status == AttemptQueued {
			s.queueOf(o).push(o)
		} else {
			s.live = append(s.live, o)
		}
	}
	for _, t := range s.SubTasks {
		s.waiting[t.ID] = s.countWaiting(t)
		if t.Parked {
			s.parkedCount++
		}
		switch t.Status {
		case SubTaskCompleted:
			s.done = append(s.done, t)
		case SubTaskInProgress:
			s.working = append(s.working, t)
		}
	}
	slices.SortFunc(s.done, func(a, b *SubTask) int { return cmp.Compare(a.EndSeq, b.EndSeq) })
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("stored records of boulder %s contradict each other: %w", s.Boulder.ID, err)
	}
	return s, nil
}

func (s *State) addSubTask(t *SubTask) {
	s.SubTasks = append(s.SubTasks, t)
	s.byID[t.ID] = t
	s.counts[t.Status]++
	if t.Status.unfinished() {
		s.rest = append(s.rest, t)
	}
}

// rested keeps rest up to date with a sub-task that moves to a status. Nearly always the first one leaves it.
func (s *State) rested(t *SubTask, status SubTaskStatus) {
	if t.Status.unfinished() == status.unfinished() {
		return
	}
	i, has := slices.BinarySearchFunc(s.rest, t.Position, func(x *SubTask, at int) int { return cmp.Compare(x.Position, at) })
	switch {
	case !has:
		s.rest = slices.Insert(s.rest, i, t)
	case i == 0:
		s.rest[0] = nil
		s.rest = s.rest[1:]
	default:
		s.rest = slices.Delete(s.rest, i, i+1)
	}
}

func (s *State) countWaiting(t *SubTask) int {
	n := 0
	for _, id := range t.DependsOn {
		if d := s.byID[id]; d == nil || !d.Status.satisfies() {
			n++
		}
	}
	return n
}

// SubTask returns the record, or nil.
func (s *State) SubTask(id string) *SubTask { return s.byID[id] }

// Open returns the sub-task's attempt that is not over, or nil.
func (s *State) Open(subTaskID string) *Open { return s.open[subTaskID] }

// Live returns the attempts that hold a slot, in the order they got it. The slice must not be kept or changed.
func (s *State) Live() []*Open { return s.live }

// Count returns how many sub-tasks have the status.
func (s *State) Count(status SubTaskStatus) int { return s.counts[status] }

// Completed returns the n sub-tasks that completed last, oldest first. The slice must not be kept or changed.
func (s *State) Completed(n int) []*SubTask { return s.done[max(0, len(s.done)-n):] }

// Unfinished returns the sub-tasks that are pending or in progress, in plan order. The slice must not be kept or changed.
func (s *State) Unfinished() []*SubTask { return s.rest }

// Planned reports how many sub-tasks the plan has now: those that a later revision replaced do not count.
func (s *State) Planned() int { return len(s.SubTasks) - s.counts[SubTaskSuperseded] }

// Parked reports how many sub-tasks wait for a person.
func (s *State) Parked() int { return s.parkedCount }

// AllOver reports whether no attempt is queued or live: nothing more can happen by itself.
func (s *State) AllOver() bool { return len(s.open) == 0 }

// Models returns the models that have attempts waiting, sorted.
func (s *State) Models() []string {
	var models []string
	for m, q := range s.queues {
		if q.len() > 0 {
			models = append(models, m)
		}
	}
	slices.Sort(models)
	return models
}

// Queued returns the i-th attempt, from 0, that waits for a slot of the model, or nil: by priority, then first in,
// first out.
func (s *State) Queued(model string, i int) *Open {
	if q := s.queues[model]; q != nil {
		return q.at(i)
	}
	return nil
}

func (s *State) queueOf(o *Open) *queue {
	q := s.queues[o.Attempt.Model]
	if q == nil {
		q = &queue{}
		s.queues[o.Attempt.Model] = q
	}
	return q
}

// queue holds the attempts that wait for one model: a first-in-first-out line for each priority.
type queue struct {
	lines [3][]*Open
}

func (q *queue) push(o *Open) {
	r := o.SubTask.Priority.Rank()
	q.lines[r] = append(q.lines[r], o)
}

// remove takes an attempt out. It is nearly always the first of its line.
func (q *queue) remove(o *Open) {
	r := o.SubTask.Priority.Rank()
	line := q.lines[r]
	if len(line) > 0 && line[0] == o {
		line[0] = nil
		q.lines[r] = line[1:]
		return
	}
	q.lines[r] = slices.DeleteFunc(line, func(x *Open) bool { return x == o })
}

func (q *queue) len() int { return len(q.lines[0]) + len(q.lines[1]) + len(q.lines[2]) }

func (q *queue) at(i int) *Open {
	for _, line := range q.lines {
		if i < len(line) {
			return line[i]
		}
		i -= len(line)
	}
	return nil
}
