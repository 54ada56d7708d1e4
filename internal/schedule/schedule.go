// Package schedule decides what a boulder does next. [Compute] is pure: the same state, limits and time give the same
// actions, so it can be property-tested, simulated, and driven by another engine than the orchestrator's loop.
package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Action is something to do. [Run], [Judge] and [AskReplan] are work that should be under way now: whoever drives Compute
// starts what it has not started yet. [Wake] asks to be called again at a time; [Stop] and [Await] end the run. All the
// others are decisions: each becomes an event, after which Compute is asked again.
type Action interface{ action() }

// Start gives a queued attempt a slot.
type Start struct{ Open *boulder.Open }

// Complete ends a sub-task whose newest turn was judged complete.
type Complete struct {
	Open *boulder.Open
	// Skip are the sub-tasks that are not needed any more, because the goal is achieved; dependents come first.
	Skip []*boulder.SubTask
}

// Continue tells the attempt's session to go on.
type Continue struct {
	Open   *boulder.Open
	Reason string
}

// Retry ends an attempt and queues the next one.
type Retry struct {
	Open      *boulder.Open
	Reason    string
	Status    boulder.AttemptStatus // what the ended attempt becomes
	Uncounted bool                  // the ended attempt is not a try
}

// Replan begins to make anew what remains of the plan.
type Replan struct {
	Ref      boulder.AttemptRef // attempt 0: the sub-task is completed
	Reason   string
	Replaces []string
}

// Park ends an attempt because its sub-task needs a person. A turn that is at work is stopped first.
type Park struct {
	Open   *boulder.Open
	Reason string
}

// Warn gives the soft warning of a budget.
type Warn struct{ Warning boulder.BudgetWarning }

// Fail ends a sub-task without success.
type Fail struct {
	Open   *boulder.Open
	Reason string
	Status boulder.AttemptStatus // what the attempt becomes
}

// Run says that the attempt's newest turn should be running.
type Run struct{ Open *boulder.Open }

// Judge says that the attempt's newest turn should be being judged.
type Judge struct{ Open *boulder.Open }

// AskReplan says that the Task Ledger should be being asked for a replan.
type AskReplan struct{ Replan *boulder.Replanning }

// RefuseReplan gives up a replan: nobody could be asked.
type RefuseReplan struct {
	Replan *boulder.Replanning
	Reason string
}

// Finish says that nothing is ready or live any more.
type Finish struct{ Status boulder.Status }

// Stop ends the run because it must not, or cannot, go on as it is. Turns that are at work are ended; they can be taken
// up again.
type Stop struct {
	Reason string
	Budget bool // a budget is used up; otherwise a fault that meets every sub-task
}

// Await says that everything that is left waits for a person.
type Await struct{ Reason string }

// Wake asks for another Compute at this time; the earliest one is given.
type Wake struct{ At time.Time }

func (Start) action()        {}
func (Complete) action()     {}
func (Continue) action()     {}
func (Retry) action()        {}
func (Replan) action()       {}
func (Park) action()         {}
func (Warn) action()         {}
func (Fail) action()         {}
func (Run) action()          {}
func (Judge) action()        {}
func (AskReplan) action()    {}
func (RefuseReplan) action() {}
func (Finish) action()       {}
func (Stop) action()         {}
func (Await) action()        {}
func (Wake) action()         {}

// Compute returns what to do. It looks at the live attempts and the heads of the queues only, so its cost does not grow
// with the plan. A boulder that is not running gets no actions; one that is gets at least one, if it is [Startable].
func Compute(s *boulder.State, l Limits, now time.Time) []Action {
	if s.Boulder.Status != boulder.Running {
		return nil
	}
	c := &computing{s: s, l: l, now: now, budget: newBudget(s, l, now), replanning: s.Boulder.Replan != nil}
	c.replan()
	if s.Settled() && s.Boulder.Replan == nil && len(c.actions) == 0 {
		return []Action{c.settled()}
	}
	for _, o := range s.Live() {
		if a := c.next(o); a != nil {
			c.do(a)
		}
	}
	if !c.skipping {
		c.dispatch()
	}
	return c.end()
}

// computing is one call of [Compute].
type computing struct {
	s       *boulder.State
	l       Limits
	now     time.Time
	budget  *budget
	actions []Action
	wake    time.Time
	held    string // why a prompt was held back for a budget

	replanning bool // a replan is being made, or begins with this call
	skipping   bool // what is left of the plan is skipped with this call
}

func (c *computing) wakeAt(t time.Time) { c.wake = earlier(c.wake, t) }

// do takes an action in, unless it needs a prompt that no budget allows.
//
// All actions of one answer are decided on the same state, and are applied one after the other: none may undo what another
// needs. A replan comes first, because the failure of another sub-task can block what it says that it replaces.
func (c *computing) do(a Action) {
	if why := c.budget.forbids(a); why != "" {
		c.held = why
		return
	}
	c.budget.take(a)
	switch a := a.(type) {
	case Wake:
		c.wakeAt(a.At)
		return
	case Replan:
		c.replanning = true
		c.actions = slices.Insert[[]Action, Action](c.actions, 0, a)
		return
	case Complete:
		c.skipping = c.skipping || len(a.Skip) > 0
	}
	c.actions = append(c.actions, a)
}

// dispatch gives out the free slots. It waits for a model to cool down only if a budget allows to go on then.
func (c *computing) dispatch() {
	starts, cooled := dispatch(c.s, c.l, c.now)
	for _, a := range starts {
		c.do(a)
	}
	if cooled.IsZero() {
		return
	}
	if why := c.budget.forbids(Start{}); why != "" {
		c.held = why
		return
	}
	c.wakeAt(cooled)
}

// end closes the list: a used-up budget ends the run as soon as nothing else can happen, and at once if it is exceeded.
func (c *computing) end() []Action {
	if warning := c.budget.warning(); warning != nil {
		return append([]Action{Warn{*warning}}, c.actions...)
	}
	switch {
	case c.budget.exceeded != "" && len(decisions(c.actions)) > 0:
		return decisions(c.actions)
	case c.budget.exceeded != "":
		return []Action{Stop{Reason: c.budget.exceeded, Budget: true}}
	case c.held != "" && len(c.actions) == 0 && c.wake.IsZero():
		return []Action{Stop{Reason: c.held, Budget: true}}
	}
	c.wakeAt(c.budget.timeOut)
	if !c.wake.IsZero() {
		c.actions = append(c.actions, Wake{At: c.wake})
	}
	return c.actions
}

// decisions leaves the work out.
func decisions(actions []Action) []Action {
	var left []Action
	for _, a := range actions {
		switch a.(type) {
		case Run, Judge, AskReplan, Wake:
		default:
			left = append(left, a)
		}
	}
	return left
}

// replan says what a replan needs that is being made, or begins one that the judge of a completed sub-task wants.
func (c *computing) replan() {
	r, w := c.s.Boulder.Replan, c.s.Boulder.Wanted
	switch {
	case r != nil && r.Troubles > 0 && r.Troubles >= c.l.Troubles:
		c.do(RefuseReplan{r, fmt.Sprintf("the Task Ledger could not be asked, %d times in a row", r.Troubles)})
	case r != nil && c.now.Before(r.NotBefore):
		c.wakeAt(r.NotBefore)
	case r != nil && c.cooling(c.s.Boulder.LedgerModel):
		c.wakeAt(c.s.Boulder.Cooldowns[c.s.Boulder.LedgerModel].Until)
	case r != nil:
		c.do(AskReplan{r})
	case w != nil && c.s.Boulder.Replans < c.l.Replans:
		if ids := idsOf(c.s.Remainder(w.SubTaskID)); len(ids) > 0 {
			c.do(Replan{Ref: w.AttemptRef, Reason: w.Reason, Replaces: ids})
		}
	}
}

func idsOf(subTasks []*boulder.SubTask) []string {
	var ids []string
	for _, t := range subTasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// settled is for a state in which no attempt is open.
func (c *computing) settled() Action {
	if n := c.s.Parked(); n > 0 {
		for _, t := range c.s.SubTasks {
			if t.Parked {
				return Await{fmt.Sprintf("sub-task %q: %s", t.ID, t.Reason)}
			}
		}
	}
	return Finish{Status: outcome(c.s)}
}

// outcome says how a settled boulder ends.
func outcome(s *boulder.State) boulder.Status {
	good := s.Count(boulder.SubTaskCompleted) + s.Count(boulder.SubTaskSkipped)
	switch {
	case good+s.Count(boulder.SubTaskSuperseded) == len(s.SubTasks):
		return boulder.Completed
	case good > 0:
		return boulder.Partial
	}
	return boulder.Failed
}

// next says what a live attempt needs; nil: nothing before something else has happened.
func (c *computing) next(o *boulder.Open) Action {
	a := o.Attempt
	judging := a.Status == boulder.AttemptMonitoring
	if r := c.s.Boulder.Replan; r != nil && r.AttemptRef == a.AttemptRef {
		return nil
	}
	model := a.Model
	if judging {
		model = c.s.Boulder.LedgerModel
	}
	switch {
	case judging && o.Turn.Verdict != nil:
		return c.afterVerdict(o)
	case a.Troubles > 0 && a.Troubles >= c.l.Troubles && judging:
		return Stop{Reason: fmt.Sprintf("the work of %q could not be judged, %d times in a row: %s",
			a.SubTaskID, a.Troubles, a.Reason)}
	case c.refused(a, model) && judging:
		return Stop{Reason: fmt.Sprintf("the work of %q could not be judged: %s", a.SubTaskID, a.Reason)}
	case a.Troubles > 0 && a.Troubles >= c.l.Troubles:
		return Fail{o, fmt.Sprintf("gave up after %d faults in a row: %s", a.Troubles, a.Reason), boulder.AttemptFailed}
	case c.refused(a, model):
		return Fail{o, "gave up: " + a.Reason, boulder.AttemptFailed}
	case !judging && c.budget.subTask(o.SubTask, o) != "":
		return Park{o, c.budget.subTask(o.SubTask, o)}
	case c.now.Before(a.NotBefore):
		return Wake{At: a.NotBefore}
	case c.cooling(model) && (judging || o.Turn.MessageID == ""):
		return Wake{At: c.s.Boulder.Cooldowns[model].Until}
	case judging:
		return Judge{o}
	}
	return Run{o}
}

func (c *computing) cooling(model string) bool {
	return c.now.Before(c.s.Boulder.Cooldowns[model].Until)
}

// refused reports whether an attempt waits for a model that has cooled down too often in a row. One that is at work again
// may still get its answer, and must not be ended under the hands of whoever runs it.
func (c *computing) refused(a *boulder.Attempt, model string) bool {
	return c.now.Before(a.NotBefore) && c.cooling(model) && c.s.Boulder.Cooldowns[model].Hits > c.l.Cooldowns
}

// afterVerdict is SEMANTICS §4: hand on, continue the same session, try a fresh one, plan anew, or give up.
func (c *computing) afterVerdict(o *boulder.Open) Action {
	v, ended := o.Turn.Verdict, o.Turn.Evidence.Ended
	failed := boulder.AttemptFailed
	switch {
	case v.Completed:
		return Complete{Open: o, Skip: c.notNeeded(o)}
	case ended.Rule == boulder.RuleBudget:
		return Park{o, cmp.Or(c.budget.subTask(o.SubTask, o), ended.Stopped)}
	case v.NeedReplan, v.BlockedBy == "wrong_plan":
		return c.anew(o, "the plan is wrong: "+cmp.Or(v.ReplanReason, v.StuckReason, shortcoming(v)), failed, c.again)
	case o.SubTask.Stalls >= c.l.Stalls:
		return c.anew(o, fmt.Sprintf("stalled, %d times: %s", o.SubTask.Stalls, shortcoming(v)), failed, c.again)
	case ended.Rule == boulder.RuleWallClock:
		return c.again(o, "the turn was stopped: "+ended.Stopped, boulder.AttemptTimeout)
	case ended.Stopped != "":
		return c.again(o, "the turn was stopped: "+ended.Stopped, failed)
	case ended.Error != "" && ended.Truncated == "":
		return c.again(o, fmt.Sprintf("the session broke: %s: %s", ended.Error, ended.Message), failed)
	case v.IsStuck:
		return c.again(o, "stuck: "+v.StuckReason, failed)
	case v.IsInLoop:
		return c.again(o, "going in circles: "+v.Summary, failed)
	case o.Attempt.Idle > c.l.IdleTurns:
		return c.again(o, fmt.Sprintf("stuck: %d messages in a row without a tool call", o.Attempt.Idle), failed)
	case o.Attempt.Turns >= c.l.Evaluations:
		return c.again(o, fmt.Sprintf("not complete after %d turns: %s", o.Attempt.Turns, shortcoming(v)), failed)
	case c.budget.subTask(o.SubTask, o) != "":
		return Park{o, c.budget.subTask(o.SubTask, o)}
	}
	return Continue{o, shortcoming(v)}
}

// notNeeded are the sub-tasks to skip because the goal is achieved: all that are left, dependents first. None if one of
// them has gates, which only its own work can turn green, or is at work already, or while a replan is being made.
func (c *computing) notNeeded(done *boulder.Open) []*boulder.SubTask {
	if !done.Turn.Verdict.GoalAchieved || len(c.s.Live()) > 1 || c.replanning {
		return nil
	}
	var rest []*boulder.SubTask
	for _, t := range slices.Backward(c.s.SubTasks) {
		switch {
		case t == done.SubTask || t.Status.Terminal() || t.Status == boulder.SubTaskBlocked:
		case t.Status != boulder.SubTaskPending, len(t.Gates)+len(t.NoWorse)+len(t.GateHints) > 0:
			return nil
		default:
			rest = append(rest, t)
		}
	}
	return dependentsFirst(rest)
}

// dependentsFirst orders sub-tasks so that none comes before one that depends on it.
func dependentsFirst(all []*boulder.SubTask) []*boulder.SubTask {
	in, seen := map[string]*boulder.SubTask{}, map[string]bool{}
	for _, t := range all {
		in[t.ID] = t
	}
	var ordered []*boulder.SubTask
	var visit func(t *boulder.SubTask)
	visit = func(t *boulder.SubTask) {
		if seen[t.ID] {
			return
		}
		seen[t.ID] = true
		for _, id := range t.Blocks {
			if d := in[id]; d != nil {
				visit(d)
			}
		}
		ordered = append(ordered, t)
	}
	for _, t := range all {
		visit(t)
	}
	return ordered
}

// shortcoming says why a turn did not complete its sub-task. The summary of a judge who was overruled says that it did.
func shortcoming(v *boulder.Verdict) string {
	if len(v.Overruled) > 0 {
		return strings.Join(v.Overruled, "; ")
	}
	return v.Summary
}

// again retries in a fresh session while there are tries left, and then plans anew. An attempt that ends with the same
// changes and the same failing gates as the one before makes further tries pointless.
func (c *computing) again(o *boulder.Open, reason string, status boulder.AttemptStatus) Action {
	same := o.Attempt.Result != "" && o.Attempt.Result == o.SubTask.LastResult
	if same {
		reason += " (with the same changes and the same failing gates as the attempt before)"
	}
	if same || o.SubTask.Tries+1 >= c.l.attempts(o.SubTask) {
		return c.anew(o, reason, status, fail)
	}
	return Retry{Open: o, Reason: reason, Status: status}
}

// way is what an unfinished attempt comes to.
type way func(o *boulder.Open, reason string, status boulder.AttemptStatus) Action

// anew replans while that is allowed, and otherwise goes the other way. Only one replan is made at a time; whoever wants
// another waits for it.
func (c *computing) anew(o *boulder.Open, reason string, status boulder.AttemptStatus, otherwise way) Action {
	switch {
	case c.s.Boulder.Replans >= c.l.Replans:
		return otherwise(o, reason, status)
	case c.replanning:
		return nil
	}
	return Replan{Ref: o.Attempt.AttemptRef, Reason: reason, Replaces: idsOf(c.s.Remainder(o.SubTask.ID))}
}

func fail(o *boulder.Open, reason string, status boulder.AttemptStatus) Action {
	return Fail{o, reason, status}
}

// Broken says what follows when an attempt's turn ended in an error that is neither trouble nor fatal.
func Broken(s *boulder.State, o *boulder.Open, l Limits, reason string) Action {
	c := &computing{s: s, l: l, replanning: s.Boulder.Replan != nil}
	if a := c.again(o, reason, boulder.AttemptFailed); a != nil {
		return a
	}
	return Fail{o, reason, boulder.AttemptFailed} // it cannot wait for the replan that is being made: its turn is over
}

// Lost says what follows when an attempt's session does not exist any more. That is not a try, but a sub-task that
// loses session after session fails.
func Lost(o *boulder.Open, l Limits, reason string) Action {
	if lost := o.SubTask.Attempts - o.SubTask.Tries; lost > l.Troubles {
		return Fail{o, fmt.Sprintf("lost %d sessions: %s", lost, reason), boulder.AttemptLost}
	}
	return Retry{Open: o, Reason: reason, Status: boulder.AttemptLost, Uncounted: true}
}

// Backoff is the wait after the n-th fault in a row, from 1: 0.5 s × 2ⁿ⁻¹ by default, without jitter.
func Backoff(l Limits, n int) time.Duration { return l.Backoff << min(max(n-1, 0), 10) }

// Cool is the wait after the n-th rate limit or overload in a row, from 1, when the provider names no time.
func Cool(l Limits, n int) time.Duration {
	wait := l.CoolBase
	for range n - 1 {
		if wait >= l.CoolMax-wait {
			return l.CoolMax
		}
		wait *= 2
	}
	return min(wait, l.CoolMax)
}
