package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// committed checks the events of a commit, and the state that they make. The caller holds mu, as for all checks.
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
			w.checkTrunk(e)
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

// Both are more than any world needs.
const (
	maxCommits = 20_000
	maxTime    = 365 * 24 * time.Hour
)

// checkFinal: terminal states stay, except by the user's retry, redo, or skip of a sub-task that did not complete, or its
// removal from the plan.
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
				delete(w.judged, w.disk.Root(t).ID)
			}
		case boulder.SubTaskDone:
			fits = b.SubTaskID == t.ID && b.ByUser && t.Status == boulder.SubTaskSkipped &&
				(old == boulder.SubTaskFailed || old == boulder.SubTaskCancelled)
		case boulder.PlanEdited:
			fits = slices.Contains(b.Removed, t.ID) && t.Status == boulder.SubTaskSuperseded &&
				(old == boulder.SubTaskFailed || old == boulder.SubTaskCancelled)
		}
		if old.Terminal() && t.Status != old && !fits {
			w.violate("ends are final", "sub-task %s was %s and is %s after %T", t.ID, old, t.Status, e.Body)
		}
	}
}

// checkEvent checks an event before it is applied.
func (w *world) checkEvent(p *process, e boulder.Event) {
	if e.Seq != w.disk.Boulder.Seq+1 {
		w.violate("the log has no gaps", "event %d follows %d", e.Seq, w.disk.Boulder.Seq)
	}
	switch b := e.Body.(type) {
	case boulder.Starting:
		w.stands = w.disk.SubTask(b.SubTaskID).Reuse == boulder.ReuseKept
		w.checkQueue(b.AttemptRef)
		w.checkBudget(e)
		if !w.stands { // else no prompt is sent
			w.checkNotes(b.SubTaskID, 0, b.Prompt)
			w.checkAnswers(b.SubTaskID, 0, b.Prompt)
		}
		w.checkStartsAnswered(b.AttemptRef)
		if n := len(w.disk.Undecided()); n > 0 {
			w.violate("a default that was taken is a blocker before work begins", "%v begins, and %d are none", b.AttemptRef, n)
		}
		w.checkForm(b)
		if !p.stopped.IsZero() && time.Now().After(p.stopped) {
			w.violate("a stop is heeded", "attempt %v starts after it", b.AttemptRef)
		}
	case boulder.Continuation:
		w.checkBudget(e)
		w.checkNotes(b.SubTaskID, w.disk.Open(b.SubTaskID).Turn.Seq, b.Prompt)
		w.checkAnswers(b.SubTaskID, w.disk.Open(b.SubTaskID).Turn.Seq, b.Prompt)
		w.checkAside(b)
		if b.Turn > w.sc.limits.Evaluations && len(b.Aside) == 0 { // else no fresh session can take over
			w.violate("attempts and budgets are within bounds", "turn %d of %v begins, %d are allowed",
				b.Turn, b.AttemptRef, w.sc.limits.Evaluations)
		}
	case boulder.Judged: // replacements share the count of their chain, which the user's retry resets
		root := w.disk.Root(w.disk.SubTask(b.SubTaskID)).ID
		if w.judged[root]++; w.judged[root] > w.sc.limits.EvaluationsTotal {
			w.violate("attempts and budgets are within bounds", "%d judged turns of %s and what replaces it, %d are allowed",
				w.judged[root], root, w.sc.limits.EvaluationsTotal)
		}
		if w.judged[root] == w.sc.limits.EvaluationsTotal {
			w.seen["the last judged turn"]++
		}
	case boulder.Reopened:
		delete(w.judged, w.disk.Root(w.disk.SubTask(b.SubTaskID)).ID)
	case boulder.ReplanStarted:
		if len(b.Missing) > 0 {
			if w.extensions++; w.extensions > w.sc.limits.Extensions || b.Number != w.extensions {
				w.violate("attempts and budgets are within bounds", "extension %d begins as number %d, %d are allowed",
					w.extensions, b.Number, w.sc.limits.Extensions)
			}
			w.seen["an extension"]++
			return
		}
		if w.replans++; w.replans > w.sc.limits.Replans || b.Number != w.replans {
			w.violate("attempts and budgets are within bounds", "replan %d begins as number %d, %d are allowed",
				w.replans, b.Number, w.sc.limits.Replans)
		}
	case boulder.RequestChecked:
		w.checkAsked()
		if b.Unchecked != "" {
			w.seen["a request unchecked"]++
		}
	case boulder.Looked:
		if b.Void != "" {
			w.seen["a void look"]++
		}
	case boulder.UsageReport:
		if b.Source == boulder.UsageLook && !w.unpaid(w.disk.Boulder.Looking()) {
			w.violate("no look is paid twice", "it is booked again: %+v", b.Usage)
		}
	case boulder.Retry:
		w.checkNotLost(b.AttemptRef, b.Reason)
	case boulder.SubTaskDone:
		w.checkDone(b)
		w.checkNotLost(b.AttemptRef, b.Summary)
	case boulder.PlanEdited:
		w.checkEdit(b)
	case boulder.Switched:
		w.checkSwitch(e.Time, b)
	}
}

// checkNotLost: no attempt ends because its model is out.
func (w *world) checkNotLost(ref boulder.AttemptRef, why string) {
	if strings.Contains(why, refused) {
		w.violate("no attempt is lost to a quota", "%v ends: %s", ref, why)
	}
}

// checkSwitch: a model takes the place of one that is out, or of a later one of the list. What is at work stays with its model
// until it is refused, and only one attempt at a time asks a model that was out.
func (w *world) checkSwitch(now time.Time, b boulder.Switched) {
	out := func(m string) bool {
		for other, cool := range w.disk.Boulder.Cooldowns {
			same := other == m || cool.Out == boulder.OutKey && provider(other) == provider(m)
			if same && cool.Out != "" && now.Before(cool.Until) {
				return true
			}
		}
		return false
	}
	w.seen[fmt.Sprintf("a switch; probe: %v, ledgers: %v, back: %v", b.Probe, b.Ledger, !out(b.From))]++
	if b.Ledger {
		return
	}
	for _, id := range b.SubTasks {
		all := w.disk.SubTask(id).Models.All()
		if !out(b.From) && slices.Index(all, b.To) > slices.Index(all, b.From) {
			w.violate("the next model takes the place of one that is out", "%q goes from %s to %s", id, b.From, b.To)
		}
		if o := w.disk.Open(id); !out(b.From) && o != nil && o.Attempt.Status.Live() {
			w.violate("a model is taken back with the next attempt", "%v goes from %s to %s", o.Attempt.AttemptRef, b.From, b.To)
		}
	}
	if w.disk.Boulder.Cooldowns[b.To].Out == "" || out(b.To) {
		return
	}
	for _, o := range w.disk.Live() {
		if o.Attempt.Model == b.To {
			w.violate("one attempt tries a model", "%v, and now %q", o.Attempt.AttemptRef, b.SubTasks)
		}
	}
	if len(b.SubTasks) > 1 {
		w.violate("one attempt tries a model", "%s: %q", b.To, b.SubTasks)
	}
}

// checkAsked: the request is checked once after all work, and only if everything is done and good.
func (w *world) checkAsked() {
	if w.disk.Boulder.Checked() != nil {
		w.violate("no check is paid twice", "the request is checked again")
	}
	if w.sc.reviews && w.disk.Boulder.Reviewed() == nil {
		w.violate("the changes are reviewed before the request is checked", "%+v", w.disk.Boulder.Look)
	}
	if tally := w.disk.Boulder.Tally; !w.disk.AllOver() || tally.Completed+tally.Skipped < tally.Planned {
		w.violate("the request is checked in the end", "%+v", tally)
	}
}

// checkApplied checks the state after an event.
func (w *world) checkApplied(p *process, e boulder.Event) {
	b := &w.disk.Boulder
	spent := b.Usage.Tokens() + b.Usage.Calls
	if spent < w.spent || b.Worked < w.worked {
		w.violate("attempts and budgets are within bounds", "%T takes back what was used", e.Body)
	}
	w.spent, w.worked = spent, b.Worked
	w.noteRetried(e.Body)
	switch b := e.Body.(type) {
	case boulder.BlockerRaised:
		w.checkRaised(b.Blocker)
	case boulder.PlanEdited:
		w.checkEdited(b)
	case boulder.ModelSet:
		for _, id := range b.SubTasks {
			w.models[id] = b.Model
		}
	case boulder.Continuation:
		w.checkModel(b.AttemptRef)
	case boulder.Starting:
		w.checkModel(b.AttemptRef)
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

// tries returns how many attempts a sub-task may have.
func (w *world) tries(t *boulder.SubTask) int {
	if t.Budget != nil && t.Budget.Attempts > 0 {
		return t.Budget.Attempts
	}
	return w.sc.limits.Attempts
}

// atWork returns the models of the attempts that hold a slot.
func (w *world) atWork() (models []string) {
	for _, o := range w.disk.Live() {
		models = append(models, o.Attempt.Model)
	}
	return models
}

// exceedsLimit reports whether attempts with these models exceed a limit that applies to model.
func (w *world) exceedsLimit(models []string, model string) bool {
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

// checkSlots: attempts with these models respect every limit.
func (w *world) checkSlots(models []string, model string) {
	if w.exceedsLimit(models, model) {
		w.violate("limits hold", "at work at once are %q, one of them now", models)
	}
}

// cools reports whether a model cools down, or has used up its limit after a cool-down.
func (w *world) cools(models []string, model string, now time.Time) bool {
	cool, cooling := w.disk.Boulder.Cooldowns[model]
	others := slices.DeleteFunc(slices.Clone(models), func(m string) bool { return m != model })
	return cooling && (now.Before(cool.Until) || len(others) > cool.Limit)
}

// checkLimits: an attempt starts only within every limit, even one shrunk by a cool-down.
func (w *world) checkLimits(e boulder.Event, id string) {
	model := w.disk.Open(id).Attempt.Model
	w.checkSlots(w.atWork(), model)
	if w.cools(w.atWork(), model, e.Time) {
		w.violate("limits hold", "an attempt of %s starts at %s beside %q: %+v", model, e.Time, w.atWork(), w.disk.Boulder.Cooldowns[model])
	}
}

// lastTurns reports whether a line's unjudged turns may be the last that it gets.
func (w *world) lastTurns(t *boulder.SubTask) bool {
	first := w.disk.Root(t)
	n := first.Judged
	for _, o := range w.disk.Live() {
		if w.disk.Root(o.SubTask) == first && o.Turn.Verdict == nil {
			n++
		}
	}
	return n >= w.sc.limits.EvaluationsTotal
}

// checkFull: when work starts, no attempt waits for which there is a slot.
func (w *world) checkFull(now time.Time) {
	if slices.ContainsFunc(w.disk.Live(), func(o *boulder.Open) bool { return o.Attempt.Model != o.SubTask.Model }) {
		return // it takes a slot of another model with its next prompt
	}
	held := w.heldByReplan()
	for m, queue := range w.disk.Queues() {
		with := append(w.atWork(), m)
		if w.disk.Boulder.Budget != nil || w.exceedsLimit(with, m) || w.cools(with, m, now) {
			continue
		}
		for _, o := range queue {
			if !held[o.SubTask.ID] && w.writer(o.SubTask) == "" && !w.lastTurns(o.SubTask) {
				w.violate("no slot is left unused", "%v waits for %q", o.Attempt.AttemptRef, m)
			}
		}
	}
}

// writer returns a sub-task at work, other than those in but, that writes the same files as t, or "". All sub-tasks
// with Writes name the same files.
func (w *world) writer(t *boulder.SubTask, but ...*boulder.SubTask) string {
	for _, o := range w.disk.Live() {
		if o.SubTask != t && !slices.Contains(but, o.SubTask) && len(t.Writes) > 0 && len(o.SubTask.Writes) > 0 {
			return o.SubTask.ID
		}
	}
	return ""
}

// heldByReplan returns the sub-tasks that a replan is about to replace.
func (w *world) heldByReplan() map[string]bool {
	ids := map[string]bool{}
	if r := w.disk.Boulder.Replan; r != nil {
		for _, id := range r.Replaces {
			ids[id] = true
		}
	}
	for _, wish := range w.disk.Boulder.ReplansWanted {
		for _, id := range w.disk.Remainder(wish.SubTaskID) {
			ids[id] = true
		}
	}
	return ids
}

// ofModel returns a model's limit. The scenario's patterns are prefixes.
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

// checkQueue: within a model, higher priority starts first, then the longest wait. Exceptions: sub-tasks that wait for
// others that write the same files or may take the last turns of their chain; those that a replan is about to replace; and
// those queued by the same commit, because the slot was given before.
func (w *world) checkQueue(ref boulder.AttemptRef) {
	o := w.disk.Open(ref.SubTaskID)
	if o == nil || o.Attempt.AttemptRef != ref {
		w.violate("one live attempt each", "%v starts, and is not the open one", ref)
		return
	}
	held := w.heldByReplan()
	for _, t := range w.disk.SubTasks {
		other := w.disk.Open(t.ID)
		if other == nil || other == o || other.Attempt.Status != boulder.AttemptQueued || held[t.ID] ||
			other.Attempt.Model != o.Attempt.Model || other.Attempt.QueueSeq >= w.since || slices.Contains(w.together, other.Attempt.AttemptRef) ||
			w.writer(t, o.SubTask) != "" || len(t.Writes) > 0 && w.endedNow() > 0 || w.lastTurns(t) {
			continue
		}
		mine, its := o.SubTask.Priority.Rank(), t.Priority.Rank()
		if its < mine || its == mine && other.Attempt.QueueSeq < o.Attempt.QueueSeq {
			w.violate("the queue is kept", "%v starts before %v", ref, other.Attempt.AttemptRef)
		}
	}
}

// checkBudget: no turn starts once the run's budget is used up, including the expected use of running turns.
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

// checkNotes: the next prompt has the user's notes.
func (w *world) checkNotes(id string, after uint64, prompt string) {
	for _, text := range w.disk.Boulder.NotesFor(id, after) {
		if !strings.Contains(prompt, text) {
			w.violate("orders are carried out", "%q is not in the prompt of %s:\n%s", text, id, prompt)
		}
	}
}

// checkDone: without the user, only pending sub-tasks without gates are skipped. What completes was judged complete
// with no red gate, and completes once.
func (w *world) checkDone(b boulder.SubTaskDone) {
	if !b.Completed {
		t := w.disk.SubTask(b.SubTaskID)
		if b.Status == boulder.SubTaskSkipped && !b.ByUser && (len(t.Gates) > 0 || t.Status != boulder.SubTaskPending) {
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

func (w *world) checkOutcome(b boulder.TaskComplete) {
	tally := w.disk.Boulder.Tally
	good, bad := tally.Completed+tally.Skipped, tally.Failed+tally.Blocked+tally.Cancelled
	over := tally.Planned == good+bad
	for _, t := range w.disk.SubTasks { // a gate that is red on the final files
		if t.Status == boulder.SubTaskCompleted && len(t.Unverified()) > 0 {
			bad++
		}
	}
	missing := 0
	switch check := w.disk.Boulder.Checked(); {
	case check != nil:
		if missing = len(check.Missing); missing > 0 {
			w.seen["missing in the end"]++
		}
	case b.Status == boulder.Completed && tally.Planned > 1 && tally.Completed > 0:
		w.violate("completed means that the request is met", "nobody checked that")
	}
	if fits := map[boulder.Status]bool{
		boulder.Completed: bad+missing == 0, boulder.Partial: good > 0 && bad+missing > 0, boulder.Failed: good == 0, boulder.Cancelled: w.cancelled,
	}; !over || !fits[b.Status] {
		w.violate("the end says what became of it", "%s with %d good and %d bad of %d", b.Status, good, bad, len(w.disk.SubTasks))
	}
}
