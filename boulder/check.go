package boulder

import (
	"errors"
	"fmt"
	"slices"
)

// Check reports every way in which the records contradict each other. It reads the whole state: for tests, for a
// restored boulder and for `manager doctor`, not for every step.
func (s *State) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	for i, t := range s.SubTasks {
		if t.Position != i+1 {
			bad("sub-task %q is at place %d but says %d", t.ID, i+1, t.Position)
		}
		if n := s.countWaiting(t); n != s.waiting[t.ID] {
			bad("sub-task %q waits for %d others but %d are counted", t.ID, n, s.waiting[t.ID])
		}
		s.checkSubTask(t, bad)
	}
	s.checkGraph(bad)
	s.checkPlaces(bad)
	for _, t := range s.SubTasks {
		if o := s.open[t.ID]; o != nil {
			checkOpen(o, bad)
		}
	}
	s.checkRest(bad)
	s.checkBoulder(bad)
	s.checkReplans(bad)
	return errors.Join(errs...)
}

func (s *State) checkRest(bad func(string, ...any)) {
	var rest []*SubTask
	for _, t := range s.SubTasks {
		if t.Status.unfinished() {
			rest = append(rest, t)
		}
	}
	if !slices.Equal(rest, s.rest) {
		bad("%d sub-tasks are not finished, but others are listed as such, %d of them", len(rest), len(s.rest))
	}
}

func (s *State) checkBoulder(bad func(string, ...any)) {
	b := &s.Boulder
	if b.Status.Terminal() && len(s.open) > 0 {
		bad("boulder is %s with %d open attempts", b.Status, len(s.open))
	}
	stored := 0
	if s.Revision != nil {
		stored = s.Revision.Number
	}
	if b.Revision != stored {
		bad("boulder is at plan revision %d, but revision %d is stored", b.Revision, stored)
	}
	counts, parked := map[SubTaskStatus]int{}, 0
	for _, t := range s.SubTasks {
		counts[t.Status]++
		if t.Parked {
			parked++
		}
	}
	if b.Tally != TallyOf(counts) {
		bad("the sub-tasks count %+v but the boulder says %+v", TallyOf(counts), b.Tally)
	}
	if parked != s.parkedCount {
		bad("%d sub-tasks wait for a person but %d are counted", parked, s.parkedCount)
	}
	for model, c := range b.Cooldowns {
		if c.Limit < 1 || c.Limit > max(1, c.Full) {
			bad("model %q cools down with a limit of %d of %d", model, c.Limit, c.Full)
		}
	}
	for status, n := range s.counts {
		if counts[status] != n {
			bad("%d sub-tasks are %s but %d are counted", counts[status], status, n)
		}
	}
}

// checkReplans looks at the replan that is being made, and at the one that is wanted. What is replaced stands still:
// only the attempt that asked for the replan holds a slot.
func (s *State) checkReplans(bad func(string, ...any)) {
	for _, w := range s.Boulder.Wanted {
		if t := s.byID[w.SubTaskID]; w.Attempt != 0 || t == nil || t.Status != SubTaskCompleted {
			bad("a replan is wanted for attempt %d of %q, which did not complete", w.Attempt, w.SubTaskID)
		}
	}
	r := s.Boulder.Replan
	if r == nil {
		return
	}
	if o := s.open[r.SubTaskID]; r.Attempt != 0 && (o == nil || o.Attempt.AttemptRef != r.AttemptRef) {
		bad("a replan is being made for attempt %d of %q, which is not open", r.Attempt, r.SubTaskID)
	}
	if r.Attempt == 0 && (s.byID[r.SubTaskID] == nil || s.byID[r.SubTaskID].Status != SubTaskCompleted) {
		bad("a replan is being made for what comes after %q, which did not complete", r.SubTaskID)
	}
	if len(r.Replaces) == 0 {
		bad("the replan for %q replaces nothing", r.SubTaskID)
	}
	for _, id := range r.Replaces {
		t, o := s.byID[id], s.open[id]
		switch {
		case t == nil || t.Status.Terminal() || t.Parked:
			bad("the replan for %q replaces %q, which is not there, is over or waits for a person", r.SubTaskID, id)
		case o != nil && o.Attempt.Status.Live() && o.Attempt.AttemptRef != r.AttemptRef:
			bad("attempt %d of %q is %s while a replan replaces it", o.Attempt.Attempt, id, o.Attempt.Status)
		}
	}
}

// checkPlaces compares where the open attempts are, among the live ones or in the queue of their model, with what they
// say.
func (s *State) checkPlaces(bad func(string, ...any)) {
	places := map[*Open]int{}
	for _, o := range s.live {
		places[o]++
		if !o.Attempt.Status.Live() {
			bad("attempt %d of %q is %s but holds a slot", o.Attempt.Attempt, o.SubTask.ID, o.Attempt.Status)
		}
	}
	for model, q := range s.queues {
		for i := range q.len() {
			o := q.at(i)
			places[o]++
			if o.Attempt.Status != AttemptQueued || o.Attempt.Model != model {
				bad("attempt %d of %q is %s for model %q but in line for %q",
					o.Attempt.Attempt, o.SubTask.ID, o.Attempt.Status, o.Attempt.Model, model)
			}
		}
	}
	for id, o := range s.open {
		if places[o] != 1 {
			bad("attempt %d of %q is in %d places", o.Attempt.Attempt, id, places[o])
		}
		delete(places, o)
	}
	for o := range places {
		bad("attempt %d of %q has a place but is not open", o.Attempt.Attempt, o.SubTask.ID)
	}
}

// checkOpen looks at one open attempt and its newest turn.
func checkOpen(o *Open, bad func(string, ...any)) {
	a, id := o.Attempt, o.SubTask.ID
	switch {
	case a.Status.Terminal():
		bad("attempt %d of %q is %s but open", a.Attempt, id, a.Status)
	case a.Attempt != o.SubTask.Attempts:
		bad("attempt %d of %q is open but %d is the newest", a.Attempt, id, o.SubTask.Attempts)
	case a.Status == AttemptQueued && o.Turn != nil:
		bad("attempt %d of %q is in line but has turn %d", a.Attempt, id, o.Turn.Number)
	case a.Status == AttemptQueued:
	case o.Turn == nil:
		bad("attempt %d of %q is %s without a turn", a.Attempt, id, a.Status)
	case o.Turn.AttemptRef != a.AttemptRef || o.Turn.Number != a.Turns:
		bad("turn %d of attempt %d of %q is not the newest of its attempt", o.Turn.Number, o.Turn.Attempt, id)
	case (a.Status == AttemptMonitoring) != (o.Turn.Evidence != nil):
		bad("attempt %d of %q is %s, which its turn's evidence contradicts", a.Attempt, id, a.Status)
	}
}

// checkGraph compares the edges of both directions.
func (s *State) checkGraph(bad func(string, ...any)) {
	type edge struct{ from, to string }
	blocks := map[edge]bool{}
	for _, t := range s.SubTasks {
		for _, id := range t.Blocks {
			blocks[edge{t.ID, id}] = true
		}
	}
	for _, t := range s.SubTasks {
		for _, id := range t.DependsOn {
			if s.byID[id] == nil || !blocks[edge{id, t.ID}] {
				bad("sub-task %q depends on %q, which does not know it", t.ID, id)
			}
			delete(blocks, edge{id, t.ID})
		}
	}
	for e := range blocks {
		bad("sub-task %q blocks %q, which does not know it", e.from, e.to)
	}
}

func (s *State) checkSubTask(t *SubTask, bad func(string, ...any)) {
	waiting, o := s.waiting[t.ID], s.open[t.ID]
	if t.Parked && t.Status != SubTaskBlocked {
		bad("sub-task %q waits for a person but is %s", t.ID, t.Status)
	}
	s.checkBlockers(t, bad)
	if t.Stalls < 0 {
		bad("sub-task %q has stalled %d times", t.ID, t.Stalls)
	}
	switch t.Status {
	case SubTaskPending:
		s.checkHope(t, bad)
		if (waiting == 0) != (o != nil) {
			bad("sub-task %q is pending, waits for %d others, and has an attempt in line: %v", t.ID, waiting, o != nil)
		}
	case SubTaskInProgress:
		if o == nil || waiting > 0 {
			bad("sub-task %q is in progress without an attempt, or before its dependencies completed", t.ID)
		}
	default:
		if o != nil {
			bad("sub-task %q is %s but attempt %d is %s", t.ID, t.Status, o.Attempt.Attempt, o.Attempt.Status)
		}
	}
	if t.Status == SubTaskCompleted && waiting > 0 {
		bad("sub-task %q is completed before its dependencies", t.ID)
	}
}

// checkBlockers looks at what a sub-task asked a person. An attempt that left something open is followed by another one
// only by a person's word: until then the sub-task is parked, or over.
func (s *State) checkBlockers(t *SubTask, bad func(string, ...any)) {
	o := s.open[t.ID]
	known := map[string]bool{}
	for _, b := range t.Blockers {
		switch {
		case b.ID == "" || b.Question == "" || known[b.ID]:
			bad("blocker %q of sub-task %q asks nothing, or is there twice", b.ID, t.ID)
		case b.Attempt < 1 || b.Attempt > t.Attempts:
			bad("blocker %s of sub-task %q came up in attempt %d of %d", b.ID, t.ID, b.Attempt, t.Attempts)
		case b.Status.Settled() != (b.Seq > 0) || b.Seq > s.Boulder.Seq:
			bad("blocker %s of sub-task %q is %s by event %d of %d", b.ID, t.ID, b.Status, b.Seq, s.Boulder.Seq)
		case o != nil && b.Attempt == o.Attempt.Attempt && (o.Turn == nil || o.Attempt.Status == AttemptStarting):
			bad("blocker %s of sub-task %q came up in attempt %d, which is %s", b.ID, t.ID, b.Attempt, o.Attempt.Status)
		}
		known[b.ID] = true
	}
	if awaited := t.AwaitedBy(t.Attempts); len(awaited) > 0 && o == nil && !t.Parked && !t.Status.Terminal() {
		bad("sub-task %q waits for an answer to %s, and is %s", t.ID, awaited[0].ID, t.Status)
	}
}

// checkHope fails for a pending sub-task that could never run: what it depends on has to be there to complete.
func (s *State) checkHope(t *SubTask, bad func(string, ...any)) {
	for _, id := range t.DependsOn {
		if d := s.byID[id]; d != nil && d.hopeless() {
			bad("sub-task %q is pending but depends on %q, which is %s", t.ID, id, d.Status)
		}
	}
}
