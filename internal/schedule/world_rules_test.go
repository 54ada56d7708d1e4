package schedule

import (
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// The rules of a world: what must hold at every moment, and at the end, counted without the code under test.

// checkLimits counts the slots, and what is limited in number.
func (w *world) checkLimits() {
	models := map[string]int{}
	for _, o := range w.state.Live() {
		models[o.Attempt.Model]++
		for _, id := range o.SubTask.DependsOn {
			if status := w.state.SubTask(id).Status; status != boulder.SubTaskCompleted {
				w.t.Fatalf("%s has a slot while %s, which it depends on, is %s", o.SubTask.ID, id, status)
			}
		}
	}
	if n := len(w.state.Live()); n > w.limits.Global {
		w.t.Fatalf("%d slots are taken of %d", n, w.limits.Global)
	}
	for model, n := range models {
		if limit := w.modelLimit(model); n > limit {
			w.t.Fatalf("%d slots of %q are taken of %d", n, model, limit)
		}
	}
	if limit, ok := w.limits.Providers["p"]; ok && models["p/one"]+models["p/two"] > limit {
		w.t.Fatalf("%v slots of p are taken of %d", models, limit)
	}
	if n := w.state.Boulder.Replans; n > w.limits.Replans {
		w.t.Fatalf("%d replans of %d", n, w.limits.Replans)
	}
}

// modelLimit is the limit that drawLimits gave.
func (w *world) modelLimit(model string) int {
	if model == "p/one" {
		return w.limits.Models[0].Limit
	}
	return w.limits.PerModel
}

// checkAllowed looks at an event that is about to begin a turn: the model must not cool down, and with what is at work
// the budget must not be used up.
func (w *world) checkAllowed(b boulder.Body) {
	switch b := b.(type) {
	case boulder.Starting:
		model := w.state.SubTask(b.SubTaskID).Model
		used := 0
		for _, o := range w.state.Live() {
			if o.Attempt.Model == model {
				used++
			}
		}
		if c, cools := w.state.Boulder.Cooldowns[model]; cools && (w.now.Before(c.Until) || used >= c.Limit) {
			w.t.Fatalf("%s starts with %d at work for %q, which cools down: %+v", b.SubTaskID, used, model, c)
		}
		if limit := w.state.Boulder.Budget; limit != nil && limit.Attempts > 0 && w.state.Boulder.Attempts >= limit.Attempts {
			w.t.Fatalf("%s starts after %d attempts of %d", b.SubTaskID, w.state.Boulder.Attempts, limit.Attempts)
		}
		w.checkReserved()
	case boulder.Continuation:
		w.checkReserved()
	}
}

// checkReserved adds up what is booked, what is seen, and what the turns at work will probably still use.
func (w *world) checkReserved() {
	b := w.state.Boulder
	if b.Budget == nil || b.Budget.Tokens == 0 {
		return
	}
	sum := b.Usage.Tokens()
	for _, o := range w.state.Live() {
		seen := o.Attempt.Seen.Add(o.Attempt.Spent)
		sum += seen.Tokens()
		if o.Attempt.Status != boulder.AttemptMonitoring && b.Turns > 0 {
			sum += max(0, b.TurnUsage.Input/b.Turns-seen.Input) + max(0, b.TurnUsage.Output/b.Turns-seen.Output)
		}
	}
	if sum >= b.Budget.Tokens {
		w.t.Fatalf("a turn begins with %d tokens used or reserved of %d", sum, b.Budget.Tokens)
	}
}

// checkLaunch looks at work that begins: no prompt may go to a model that cools down, or beyond a budget.
func (w *world) checkLaunch(kind string, o *boulder.Open) {
	b := w.state.Boulder
	model := ledgerModel
	if kind == "run" {
		model = o.Attempt.Model
	}
	sent := kind == "run" && o.Turn.MessageID != ""
	if o != nil && !sent && len(o.SubTask.AwaitedBy(o.Attempt.Attempt)) > 0 {
		w.t.Fatalf("a %s of %s begins, which awaits an answer", kind, o.SubTask.ID)
	}
	if c := b.Cooldowns[model]; w.now.Before(c.Until) && !sent {
		w.t.Fatalf("a %s begins while %q cools down: %+v", kind, model, c)
	}
	if o != nil && w.now.Before(o.Attempt.NotBefore) {
		w.t.Fatalf("a %s of %s begins before its back-off is over", kind, o.SubTask.ID)
	}
	if usedUp(b.Budget, b.Usage) {
		w.t.Fatalf("a %s begins with %+v used of %+v", kind, b.Usage, *b.Budget)
	}
	if kind == "run" && usedUp(o.SubTask.Budget, o.SubTask.Usage) {
		w.t.Fatalf("a turn of %s begins with %+v used of %+v", o.SubTask.ID, o.SubTask.Usage, *o.SubTask.Budget)
	}
}

func usedUp(l *boulder.Budget, u boulder.Usage) bool {
	switch {
	case l == nil:
		return false
	case l.Tokens > 0 && u.Input+u.Output >= l.Tokens, l.Calls > 0 && u.Calls >= l.Calls:
		return true
	}
	return l.Cost > 0 && u.Cost >= l.Cost
}

// checkFull fails if an attempt waits although there is room for it, and nothing else holds it back.
func (w *world) checkFull() {
	b := w.state.Boulder
	if len(w.state.Live()) == w.limits.Global || b.Budget != nil {
		return
	}
	used := map[string]int{}
	for _, o := range w.state.Live() {
		used[o.Attempt.Model]++
	}
	for m, queue := range w.state.Queues() {
		limit, limited := w.limits.Providers["p"]
		ofP := m == "p/one" || m == "p/two"
		room := used[m] < w.modelLimit(m) && (!ofP || !limited || used["p/one"]+used["p/two"] < limit)
		if c, cools := b.Cooldowns[m]; cools && (w.now.Before(c.Until) || used[m] >= c.Limit) {
			room = false
		}
		for _, o := range queue {
			if id := o.SubTask.ID; room && !w.held(id) {
				w.t.Fatalf("%s waits for %q, which has room: %v of %+v", id, m, used, w.limits)
			}
		}
	}
}

// checkOrder fails if somebody who waits for the same model was to go first.
func (w *world) checkOrder(o *boulder.Open) {
	for _, other := range w.state.Queues()[o.Attempt.Model] {
		switch {
		case other == o, w.held(other.SubTask.ID):
		case other.SubTask.Priority.Rank() < o.SubTask.Priority.Rank():
			w.t.Fatalf("%s starts before %s, which is more urgent", o.SubTask.ID, other.SubTask.ID)
		case other.SubTask.Priority.Rank() == o.SubTask.Priority.Rank() && other.Attempt.QueueSeq < o.Attempt.QueueSeq:
			w.t.Fatalf("%s starts before %s, which was first", o.SubTask.ID, other.SubTask.ID)
		}
	}
}

// held reports whether a replan is about to replace the sub-task.
func (w *world) held(id string) bool {
	b := w.state.Boulder
	if b.Replan != nil && slices.Contains(b.Replan.Replaces, id) {
		return true
	}
	return b.Replans < w.limits.Replans && slices.ContainsFunc(b.Wanted, func(wish boulder.Replanning) bool {
		return slices.Contains(w.state.Remainder(wish.SubTaskID), w.state.SubTask(id))
	})
}

// checkStop: a run is only stopped for a budget that there is, or because nobody can judge.
func (w *world) checkStop(a Stop) {
	switch {
	case a.SubTaskID != "":
		w.seen["stop for a person"]++
		return
	case a.Budget:
		w.seen["stop for a budget"]++
		if w.state.Boulder.Budget == nil {
			w.t.Fatalf("stopped for a budget, but there is none: %s", a.Reason)
		}
		return
	}
	w.seen["stop for the judge"]++
	if !slices.ContainsFunc(w.state.Live(), func(o *boulder.Open) bool {
		return o.Attempt.Status == boulder.AttemptMonitoring && o.Attempt.Reason != ""
	}) {
		w.t.Fatalf("stopped although every judgement can be made: %s", a.Reason)
	}
}

// checkEnd compares the end with what must follow from how the sub-tasks ended.
func (w *world) checkEnd() {
	for _, t := range w.state.SubTasks {
		if attempts := w.attempts(t); t.Tries > attempts {
			w.t.Fatalf("%s had %d tries of %d", t.ID, t.Tries, attempts)
		}
	}
	for ref, n := range w.turns {
		if n > w.limits.Evaluations {
			w.t.Fatalf("%v had %d turns of %d", ref, n, w.limits.Evaluations)
		}
	}
	if w.ended != "" {
		return
	}
	counts := map[boulder.SubTaskStatus]int{}
	for _, t := range w.state.SubTasks {
		counts[t.Status]++
		w.checkSubTaskEnd(t)
	}
	good := counts[boulder.SubTaskCompleted] + counts[boulder.SubTaskSkipped]
	want := boulder.Partial
	switch good {
	case 0:
		want = boulder.Failed
	case len(w.state.SubTasks) - counts[boulder.SubTaskSuperseded]:
		want = boulder.Completed
	}
	if got := boulder.Status(w.state.Boulder.Reason); got != want {
		w.t.Fatalf("the sub-tasks are %v, and the boulder is %s", counts, got)
	}
}

func (w *world) checkSubTaskEnd(t *boulder.SubTask) {
	ready, failedBefore := true, false
	for _, id := range t.DependsOn {
		switch w.state.SubTask(id).Status {
		case boulder.SubTaskCompleted:
		case boulder.SubTaskFailed, boulder.SubTaskBlocked:
			ready, failedBefore = false, true
		default:
			ready = false
		}
	}
	switch t.Status {
	case boulder.SubTaskCompleted, boulder.SubTaskFailed:
		if !ready {
			w.t.Fatalf("%s is %s although what it depends on did not complete", t.ID, t.Status)
		}
	case boulder.SubTaskBlocked:
		if !failedBefore {
			w.t.Fatalf("%s is blocked by nothing", t.ID)
		}
	case boulder.SubTaskSkipped: // see world.complete
	case boulder.SubTaskSuperseded:
		if t.Revision == w.state.Boulder.Revision {
			w.t.Fatalf("%s is superseded in its own revision", t.ID)
		}
	default:
		w.t.Fatalf("%s ended up %s", t.ID, t.Status)
	}
}

// attempts is how many tries a sub-task may have.
func (w *world) attempts(t *boulder.SubTask) int {
	if t.Budget != nil && t.Budget.Attempts > 0 {
		return t.Budget.Attempts
	}
	return max(w.limits.Attempts, w.own[t.ID])
}
