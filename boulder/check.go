package boulder

import (
	"errors"
	"fmt"
	"slices"
)

// Check returns all inconsistencies. It reads the whole state: for tests, restores and `manager doctor`, not each step.
func (s *State) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	s.checkBoulder(bad)
	s.checkGraph(bad)
	s.checkReplans(bad)
	s.checkQuestions(bad)
	for i, t := range s.SubTasks {
		if t.Position != i+1 {
			bad("sub-task %q is at place %d but says %d", t.ID, i+1, t.Position)
		}
		s.checkSubTask(t, bad)
		s.checkBlockers(t, bad)
	}
	for _, o := range s.open {
		checkOpen(o, bad)
	}
	return errors.Join(errs...)
}

func (s *State) checkBoulder(bad func(string, ...any)) {
	b := &s.Boulder
	if b.Status.Terminal() && len(s.open) > 0 {
		bad("boulder is %s with %d open attempts", b.Status, len(s.open))
	}
	if (s.Revision == nil) != (b.Revision == 0) || s.Revision != nil && b.Revision != s.Revision.Number {
		bad("boulder is at plan revision %d, and another one is stored", b.Revision)
	}
	if tally := tallyOf(s.SubTasks); b.Tally != tally {
		bad("the sub-tasks count %+v but the boulder says %+v", tally, b.Tally)
	}
	together := slices.Clone(b.Trunk.Joined)
	if i := b.Trunk.Integrating; i != nil {
		together = append(together, *i)
	} else if len(together) > 0 {
		bad("results join others, and nothing is being integrated")
	}
	for _, i := range together {
		if o := s.Open(i.SubTaskID); o == nil || o.Attempt.AttemptRef != i.AttemptRef || o.Attempt.Status != AttemptMonitoring {
			bad("the result of attempt %d of %q is being integrated, which is not waiting for that", i.Attempt, i.SubTaskID)
		}
	}
	place := 0
	for _, t := range s.done {
		if t.Place > 0 && t.Place < place {
			bad("sub-task %q completed after what is above it on the trunk", t.ID)
		}
		place = max(place, t.Place)
	}
	for model, c := range b.Cooldowns {
		if !c.valid() {
			bad("model %q cools down with a limit of %d of %d", model, c.Limit, c.Full)
		}
	}
}

// checkReplans: of what a replan replaces, only the attempt that asked for it may hold a slot.
func (s *State) checkReplans(bad func(string, ...any)) {
	for _, w := range s.Boulder.ReplansWanted {
		if t := s.byID[w.SubTaskID]; w.Attempt != 0 || t == nil || t.Status != SubTaskCompleted {
			bad("a replan is wanted for attempt %d of %q, which did not complete", w.Attempt, w.SubTaskID)
		}
	}
	r := s.Boulder.Replan
	if r == nil {
		return
	}
	if r.Extension() {
		if r.AttemptRef != (AttemptRef{}) || len(r.Replaces) > 0 {
			bad("extension %d is of a sub-task, or replaces something", s.Boulder.Extensions)
		}
		return
	}
	t := s.byID[r.SubTaskID]
	switch o := s.Open(r.SubTaskID); {
	case r.Attempt != 0 && (o == nil || o.Attempt.AttemptRef != r.AttemptRef):
		bad("a replan is being made for attempt %d of %q, which is not open", r.Attempt, r.SubTaskID)
	case r.Attempt == 0 && (t == nil || t.Status != SubTaskCompleted):
		bad("a replan is being made for what comes after %q, which did not complete", r.SubTaskID)
	case len(r.Replaces) == 0:
		bad("the replan for %q replaces nothing", r.SubTaskID)
	}
	for _, id := range r.Replaces {
		t, o := s.byID[id], s.Open(id)
		switch {
		case t == nil || t.Status.Terminal() || t.Parked:
			bad("the replan for %q replaces %q, which is not there, is over or waits for the user", r.SubTaskID, id)
		case o != nil && o.Attempt.Status.Live() && o.Attempt.AttemptRef != r.AttemptRef:
			bad("attempt %d of %q is %s while a replan replaces it", o.Attempt.Attempt, id, o.Attempt.Status)
		}
	}
}

func checkOpen(o *Open, bad func(string, ...any)) {
	a, id := o.Attempt, o.SubTask.ID
	switch {
	case a.Status.Terminal():
		bad("attempt %d of %q is %s but open", a.Attempt, id, a.Status)
	case a.Attempt != o.SubTask.Attempts:
		bad("attempt %d of %q is open but %d is the newest", a.Attempt, id, o.SubTask.Attempts)
	case a.Status == AttemptQueued && o.Turn != nil:
		bad("attempt %d of %q is in line but has turn %d", a.Attempt, id, o.Turn.Number)
	case a.Status == AttemptQueued && (a.Model != o.SubTask.Model || a.Effort != o.SubTask.Effort):
		bad("attempt %d of %q is in line for %q, and is to run with %q", a.Attempt, id, WithEffort(a.Model, a.Effort), o.SubTask.Wanted())
	case a.Status == AttemptQueued:
	case o.Turn == nil:
		bad("attempt %d of %q is %s without a turn", a.Attempt, id, a.Status)
	case o.Turn.AttemptRef != a.AttemptRef || o.Turn.Number != a.Turns:
		bad("turn %d of attempt %d of %q is not the newest of its attempt", o.Turn.Number, o.Turn.Attempt, id)
	case (a.Status == AttemptMonitoring) != (o.Turn.Evidence != nil):
		bad("attempt %d of %q is %s, which its turn's evidence contradicts", a.Attempt, id, a.Status)
	}
}

func (s *State) checkGraph(bad func(string, ...any)) {
	type edge struct{ from, to string }
	edges := map[edge]int{} // bit 0: seen in Blocks, bit 1: in DependsOn
	for _, t := range s.SubTasks {
		for _, id := range t.Blocks {
			edges[edge{t.ID, id}] |= 1
		}
		for _, id := range t.DependsOn {
			edges[edge{id, t.ID}] |= 2
		}
	}
	for e, known := range edges {
		switch {
		case known == 1:
			bad("sub-task %q blocks %q, which does not know it", e.from, e.to)
		case known == 2 || s.byID[e.from] == nil:
			bad("sub-task %q depends on %q, which does not know it", e.to, e.from)
		}
	}
}

func (s *State) checkSubTask(t *SubTask, bad func(string, ...any)) {
	ready, never, o := s.ready(t), s.impossibleDependency(t), s.Open(t.ID)
	switch {
	case t.Parked && t.Status != SubTaskBlocked:
		bad("sub-task %q waits for the user but is %s", t.ID, t.Status)
	case t.Reuse != "" && t.Status != SubTaskPending && t.Status != SubTaskBlocked:
		bad("the result of sub-task %q stands (%s), and it is %s", t.ID, t.Reuse, t.Status)
	case t.Stalls < 0:
		bad("sub-task %q has stalled %d times", t.ID, t.Stalls)
	case t.Status == SubTaskPending && never != nil:
		bad("sub-task %q is pending but depends on %q, which can never complete", t.ID, never.ID)
	case t.Status == SubTaskPending && ready != (o != nil):
		bad("sub-task %q is pending, ready: %v, and has an attempt in line: %v", t.ID, ready, o != nil)
	case t.Status == SubTaskInProgress && (o == nil || !ready):
		bad("sub-task %q is in progress without an attempt, or before its dependencies completed", t.ID)
	case t.Status != SubTaskPending && t.Status != SubTaskInProgress && o != nil:
		bad("sub-task %q is %s but attempt %d is %s", t.ID, t.Status, o.Attempt.Attempt, o.Attempt.Status)
	case t.Status == SubTaskCompleted && !ready:
		bad("sub-task %q is completed before its dependencies", t.ID)
	}
}

// checkBlockers: until the user answers an ended attempt's hard blockers, the sub-task is parked or over.
func (s *State) checkBlockers(t *SubTask, bad func(string, ...any)) {
	o := s.Open(t.ID)
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
	// The user's retry leaves the question aside; an edit may then have it wait for others first.
	if awaited := t.AwaitedBy(t.Attempts); len(awaited) > 0 && o == nil && !t.Parked && !t.Status.Terminal() && t.Status != SubTaskPending {
		bad("sub-task %q waits for an answer to %s, and is %s", t.ID, awaited[0].ID, t.Status)
	}
}
