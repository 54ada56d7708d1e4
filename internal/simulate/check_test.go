package simulate

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// committed looks at what a commit brought, and at what the disk has now. The caller holds mu, as do those of all
// checks.
func (w *world) committed(p *process, events []boulder.Event) {
	if w.commits++; w.commits > maxCommits {
		w.violate("every run ends", "%d commits have not brought it to its end", w.commits)
	}
	if d := time.Since(w.epoch); d > maxTime {
		w.violate("every run ends", "%s have not brought it to its end", d)
	}
	w.since, w.together = events[0].Seq, nil
	for _, e := range events {
		if b, ok := e.Body.(boulder.Starting); ok {
			w.together = append(w.together, b.AttemptRef)
		}
	}
	for _, e := range events {
		if w.logging {
			text, err := json.Marshal(e.Shown())
			w.note("  %s %v", text, err)
		}
		w.checkEvent(p, e)
		if w.sc.isolated {
			w.checkLine(e)
		}
		if err := w.disk.Replay(e); err != nil {
			w.violate("what is stored agrees with itself", "the disk's state refuses %T: %v", e.Body, err)
			return
		}
		w.checkFinal(e)
		w.checkApplied(p, e)
		w.events = append(w.events, e)
	}
	if w.sc.isolated {
		w.checkTip()
	}
	w.checkStored(p, events)
}

// More than any world needs.
const (
	maxCommits = 20_000
	maxTime    = 365 * 24 * time.Hour
)

// checkFinal: what is over stays as it is, but for the user's retry of a sub-task, or skip of one that did not complete.
func (w *world) checkFinal(e boulder.Event) {
	for _, a := range w.disk.Attempts {
		if old := w.attempts[a.AttemptRef]; old.Terminal() && old != a.Status {
			w.violate("ends are final", "attempt %v was %s and is %s", a.AttemptRef, old, a.Status)
		}
		w.attempts[a.AttemptRef] = a.Status
	}
	for _, t := range w.disk.SubTasks {
		old, fits := w.subTasks[t.ID], false
		w.subTasks[t.ID] = t.Status
		switch b := e.Body.(type) {
		case boulder.Reopened:
			fits = b.SubTaskID == t.ID && old != boulder.SubTaskCompleted
		case boulder.Redone:
			fits = old == boulder.SubTaskCompleted && slices.Contains(slices.Concat(b.SubTasks, b.Perhaps, b.Moved), t.ID)
			if fits {
				delete(w.done, t.ID)
				delete(w.judged, w.disk.First(t).ID)
			}
		case boulder.SubTaskDone:
			fits = b.SubTaskID == t.ID && b.ByPerson && t.Status == boulder.SubTaskSkipped &&
				(old == boulder.SubTaskFailed || old == boulder.SubTaskCancelled)
		}
		if old.Terminal() && t.Status != old && !fits {
			w.violate("ends are final", "sub-task %s was %s and is %s after %T", t.ID, old, t.Status, e.Body)
		}
	}
}

// checkEvent looks at an event before it is applied.
func (w *world) checkEvent(p *process, e boulder.Event) {
	if e.Seq != w.disk.Boulder.Seq+1 {
		w.violate("the log has no gaps", "event %d follows %d", e.Seq, w.disk.Boulder.Seq)
	}
	switch b := e.Body.(type) {
	case boulder.Starting:
		w.stands = w.disk.SubTask(b.SubTaskID).Standing == boulder.StandingKept
		w.checkQueue(b.AttemptRef)
		w.checkBudget(e)
		if !w.stands { // else nobody is prompted
			w.checkNotes(b.SubTaskID, 0, b.Prompt)
			w.checkAnswers(b.SubTaskID, 0, b.Prompt)
		}
		w.checkStartsAnswered(b.AttemptRef)
		if !p.stopped.IsZero() && time.Now().After(p.stopped) {
			w.violate("a stop is heeded", "attempt %v starts after it", b.AttemptRef)
		}
	case boulder.Continuation:
		w.checkBudget(e)
		w.checkNotes(b.SubTaskID, w.disk.Open(b.SubTaskID).Turn.Seq, b.Prompt)
		w.checkAnswers(b.SubTaskID, w.disk.Open(b.SubTaskID).Turn.Seq, b.Prompt)
		if b.Turn > w.sc.limits.Evaluations {
			w.violate("attempts and budgets are within bounds", "turn %d of %v begins, %d are allowed",
				b.Turn, b.AttemptRef, w.sc.limits.Evaluations)
		}
	case boulder.Judged: // of a line all that replaces something takes part in; the user's retry begins it again
		line := w.disk.First(w.disk.SubTask(b.SubTaskID)).ID
		if w.judged[line]++; w.judged[line] > w.sc.limits.EvaluationsTotal {
			w.violate("attempts and budgets are within bounds", "%d judged turns of %s and what replaces it, %d are allowed",
				w.judged[line], line, w.sc.limits.EvaluationsTotal)
		}
		if w.judged[line] == w.sc.limits.EvaluationsTotal {
			w.seen["the last judged turn"]++
		}
	case boulder.Reopened:
		delete(w.judged, w.disk.First(w.disk.SubTask(b.SubTaskID)).ID)
	case boulder.ReplanStarted:
		if w.replans++; w.replans > w.sc.limits.Replans || b.Number != w.replans {
			w.violate("attempts and budgets are within bounds", "replan %d begins as number %d, %d are allowed",
				w.replans, b.Number, w.sc.limits.Replans)
		}
	case boulder.SubTaskDone:
		w.checkDone(b)
	}
}

// checkApplied looks at the state that an event made.
func (w *world) checkApplied(p *process, e boulder.Event) {
	b := &w.disk.Boulder
	spent := b.Usage.Tokens() + b.Usage.Calls
	if spent < w.spent || b.Worked < w.worked {
		w.violate("attempts and budgets are within bounds", "%T takes back what was used", e.Body)
	}
	w.spent, w.worked = spent, b.Worked
	w.noteRetried(e.Body)
	switch b := e.Body.(type) {
	case boulder.Starting:
		w.checkLimits(e, b.SubTaskID)
		t := w.disk.SubTask(b.SubTaskID)
		if most := w.tries(t); t.Tries >= most && !w.stands {
			w.violate("attempts and budgets are within bounds", "%v starts after %d tries of %d", b.AttemptRef, t.Tries, most)
		}
	case boulder.StatusChanged:
		if b.Status != boulder.Paused {
			p.paused = time.Time{}
		}
	case boulder.TaskComplete:
		w.checkOutcome(b)
	}
}

// tries is how many a sub-task may have.
func (w *world) tries(t *boulder.SubTask) int {
	if t.Budget != nil && t.Budget.Attempts > 0 {
		return t.Budget.Attempts
	}
	return w.sc.limits.Attempts
}

// atWork are the models of the attempts that hold a slot.
func (w *world) atWork() (models []string) {
	for _, o := range w.disk.Live() {
		models = append(models, o.Attempt.Model)
	}
	return models
}

// beyond reports whether more of these models are at work than a limit for one of them allows.
func (w *world) beyond(models []string, model string) bool {
	ofProvider, ofModel := 0, 0
	for _, m := range models {
		if provider(m) == provider(model) {
			ofProvider++
		}
		if m == model {
			ofModel++
		}
	}
	l := w.sc.limits
	most, limited := l.Providers[provider(model)]
	return len(models) > l.Global || limited && ofProvider > most || ofModel > w.ofModel(model)
}

// checkSlots: what is at work with these models has a slot of every limit.
func (w *world) checkSlots(models []string, model string) {
	if w.beyond(models, model) {
		w.violate("limits hold", "at work at once are %q, one of them now", models)
	}
}

// cools reports whether a model cools down, or has more at work than it may have after that.
func (w *world) cools(models []string, model string, now time.Time) bool {
	cool, cooling := w.disk.Boulder.Cooldowns[model]
	others := slices.DeleteFunc(slices.Clone(models), func(m string) bool { return m != model })
	return cooling && (now.Before(cool.Until) || len(others) > cool.Limit)
}

// checkLimits: the attempt that starts has a slot of every limit, those that a cool-down has shrunk included.
func (w *world) checkLimits(e boulder.Event, id string) {
	model := w.disk.Open(id).Attempt.Model
	w.checkSlots(w.atWork(), model)
	if w.cools(w.atWork(), model, e.Time) {
		w.violate("limits hold", "an attempt of %s starts at %s beside %q: %+v", model, e.Time, w.atWork(), w.disk.Boulder.Cooldowns[model])
	}
}

// lastTurns reports whether the turns of a line that are not judged yet may be the last that it gets.
func (w *world) lastTurns(t *boulder.SubTask) bool {
	first := w.disk.First(t)
	n := first.Judged
	for _, o := range w.disk.Live() {
		if w.disk.First(o.SubTask) == first && o.Turn.Verdict == nil {
			n++
		}
	}
	return n >= w.sc.limits.EvaluationsTotal
}

// checkFull: when work begins, no attempt waits for which there is a slot.
func (w *world) checkFull(now time.Time) {
	aside := w.aside()
	for m, queue := range w.disk.Queues() {
		with := append(w.atWork(), m)
		if w.disk.Boulder.Budget != nil || w.beyond(with, m) || w.cools(with, m, now) {
			continue
		}
		for _, o := range queue {
			if !aside[o.SubTask.ID] && w.writer(o.SubTask) == "" && !w.lastTurns(o.SubTask) {
				w.violate("no slot is left unused", "%v waits for %q", o.Attempt.AttemptRef, m)
			}
		}
	}
}

// writer is a sub-task at work, not one of some, that writes what another one does: all that say what they write say the
// same.
func (w *world) writer(t *boulder.SubTask, but ...*boulder.SubTask) string {
	for _, o := range w.disk.Live() {
		if o.SubTask != t && !slices.Contains(but, o.SubTask) && len(t.Writes) > 0 && len(o.SubTask.Writes) > 0 {
			return o.SubTask.ID
		}
	}
	return ""
}

// aside are the sub-tasks that a replan is about to replace.
func (w *world) aside() map[string]bool {
	ids := map[string]bool{}
	if r := w.disk.Boulder.Replan; r != nil {
		for _, id := range r.Replaces {
			ids[id] = true
		}
	}
	for _, wish := range w.disk.Boulder.Wanted {
		for _, id := range w.disk.Remainder(wish.SubTaskID) {
			ids[id] = true
		}
	}
	return ids
}

// ofModel is the limit of a model; the scenario's patterns are prefixes.
func (w *world) ofModel(model string) int {
	for _, m := range w.sc.limits.Models {
		if strings.HasPrefix(model, strings.TrimSuffix(m.Pattern, "*")) {
			return m.Limit
		}
	}
	return w.sc.limits.PerModel
}

func provider(model string) string {
	name, _, _ := strings.Cut(model, "/")
	return name
}

// checkQueue: within a model, the more urgent attempt starts first, and of equally urgent ones the one that has waited
// longer. What writes the files of one at work waits for that, and what others at work may take the last turns of. What
// a replan is about to replace stands aside, and so does what came into the line with the same commit: the slot was
// given before.
func (w *world) checkQueue(ref boulder.AttemptRef) {
	o := w.disk.Open(ref.SubTaskID)
	if o == nil || o.Attempt.AttemptRef != ref {
		w.violate("one live attempt each", "%v starts, and is not the open one", ref)
		return
	}
	aside := w.aside()
	for _, t := range w.disk.SubTasks {
		other := w.disk.Open(t.ID)
		if other == nil || other == o || other.Attempt.Status != boulder.AttemptQueued || aside[t.ID] ||
			other.Attempt.Model != o.Attempt.Model || other.Attempt.QueueSeq >= w.since || slices.Contains(w.together, other.Attempt.AttemptRef) ||
			w.writer(t, o.SubTask) != "" || w.lastTurns(t) {
			continue
		}
		mine, its := o.SubTask.Priority.Rank(), t.Priority.Rank()
		if its < mine || its == mine && other.Attempt.QueueSeq < o.Attempt.QueueSeq {
			w.violate("the queue is kept", "%v starts before %v", ref, other.Attempt.AttemptRef)
		}
	}
}

// checkBudget: no turn begins when the run's budget is used up, with what those at work will probably still use.
func (w *world) checkBudget(e boulder.Event) {
	limit, b := w.disk.Boulder.Budget, &w.disk.Boulder
	if limit == nil {
		return
	}
	used, reserved := b.Usage, int64(0)
	for _, o := range w.disk.Live() {
		seen := o.Attempt.Running()
		used = used.Add(seen)
		if o.Attempt.Status != boulder.AttemptMonitoring && b.Turns > 0 {
			reserved += max(0, b.TurnUsage.Input/b.Turns-seen.Input) + max(0, b.TurnUsage.Output/b.Turns-seen.Output)
		}
	}
	over := limit.Tokens > 0 && used.Tokens()+reserved >= limit.Tokens || limit.Cost > 0 && used.Cost >= limit.Cost ||
		limit.Calls > 0 && used.Calls >= limit.Calls || limit.Time > 0 && b.WorkedBy(e.Time) >= time.Duration(limit.Time)
	_, starts := e.Body.(boulder.Starting)
	if over || starts && limit.Attempts > 0 && b.Attempts >= limit.Attempts {
		w.violate("attempts and budgets are within bounds", "%T with %+v used in %s, %d attempts, of %+v",
			e.Body, used, b.WorkedBy(e.Time), b.Attempts, *limit)
	}
}

// checkNotes: what the user noted is in the next prompt.
func (w *world) checkNotes(id string, after uint64, prompt string) {
	for _, text := range w.disk.Boulder.NotesFor(id, after) {
		if !strings.Contains(prompt, text) {
			w.violate("orders are carried out", "%q is not in the prompt of %s:\n%s", text, id, prompt)
		}
	}
}

// checkDone: what is skipped has not begun, and has no gates. What completes was judged complete, with no red gate, and
// no sub-task completes twice.
func (w *world) checkDone(b boulder.SubTaskDone) {
	if !b.Completed {
		t := w.disk.SubTask(b.SubTaskID)
		if b.Status == boulder.SubTaskSkipped && !b.ByPerson && (len(t.Gates) > 0 || t.Status != boulder.SubTaskPending) {
			w.violate("only what has nothing to show is skipped", "%s is %s, with gates %v", t.ID, t.Status, t.Gates)
		}
		return
	}
	if w.done[b.SubTaskID] {
		w.violate("nothing is done twice", "%s completes again", b.SubTaskID)
	}
	w.done[b.SubTaskID] = true
	o := w.disk.Open(b.SubTaskID)
	if o == nil || o.Turn == nil || o.Turn.Verdict == nil || !o.Turn.Verdict.Completed || len(o.Turn.Evidence.Red()) > 0 {
		w.violate("only what is judged complete completes", "%v", b.AttemptRef)
	}
}

// checkOutcome: the end of the boulder says what became of its sub-tasks.
func (w *world) checkOutcome(b boulder.TaskComplete) {
	tally := w.disk.Boulder.Tally
	good, bad := tally.Completed+tally.Skipped, tally.Failed+tally.Blocked+tally.Cancelled
	over := tally.Planned == good+bad
	for _, t := range w.disk.SubTasks { // a gate that is red on the final files
		if t.Status == boulder.SubTaskCompleted && len(t.Unverified()) > 0 {
			bad++
		}
	}
	if fits := map[boulder.Status]bool{
		boulder.Completed: bad == 0, boulder.Partial: good > 0 && bad > 0, boulder.Failed: good == 0, boulder.Cancelled: w.cancelled,
	}; !over || !fits[b.Status] {
		w.violate("the end says what became of it", "%s with %d good and %d bad of %d", b.Status, good, bad, len(w.disk.SubTasks))
	}
}
