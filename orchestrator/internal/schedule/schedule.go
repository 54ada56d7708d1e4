// Package schedule decides what a boulder does next. [Compute] is pure: the same state, limits and time give the same
// actions. So it can be property-tested, simulated, and driven by another engine.
package schedule

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Compute returns what to do. A running boulder that is [Startable], and one in planning, gets at least one action; any
// other gets none. others are boulders that share the limits at the same time.
func Compute(s *boulder.State, l Limits, now time.Time, others ...Share) []Action {
	planning := s.Boulder.Status == boulder.Planning
	if !planning && s.Boulder.Status != boulder.Running {
		return nil
	}
	if s.Boulder.Waits(now) {
		return []Action{Wake{At: s.Boulder.StartAt}}
	}
	c := newComputing(s, l, now)
	if cooled := c.coolDowns(others); len(cooled) > 0 {
		return cooled
	}
	if switched := c.switches(others); len(switched) > 0 {
		return switched
	}
	if planning {
		if look := s.Boulder.Looking(); look != nil {
			c.do(c.look(look.Model))
		} else {
			c.do(c.askLedger(s.Boulder.PlanFaults, notPlanned, AskPlan{}))
		}
		return c.end()
	}
	if undecided := c.undecided(); len(undecided) > 0 {
		return undecided
	}
	c.advanceReplan()
	if look := s.Boulder.Looking(); look != nil && look.For == boulder.LookReplan {
		return c.end() // what an order begins waits: the look sees the project as it is
	}
	if s.AllOver() && s.Boulder.Replan == nil && len(c.actions) == 0 {
		return c.allOver()
	}
	if s.Boulder.Trunk.Trial {
		c.do(c.isolate())
		return c.end()
	}
	for _, o := range s.Live() {
		c.do(c.next(o))
	}
	if !c.skipping {
		c.dispatch(others)
	}
	return c.end()
}

type computing struct {
	s          *boulder.State
	l          Limits
	now        time.Time
	budget     *budget
	actions    []Action
	wake       time.Time
	overBudget string    // why a budget held a prompt back
	limited    string    // why a provider's limit, which ends too late to wait for, held one back
	limitEnd   time.Time // of limited
	proving    bool      // a verdict is asked for

	begun   map[string]int // by line: turns that this call begins
	working map[string]int // by cooled-down model: live attempts that need it, counted in order

	replan   *boulder.Replanning // in progress, or begun by this call
	skipping bool                // this call skips the rest of the plan

	departing bool // this call begins to integrate results
}

func newComputing(s *boulder.State, l Limits, now time.Time) *computing {
	return &computing{
		s: s, l: l, now: now, budget: newBudget(s, l, now), replan: s.Boulder.Replan,
		begun: map[string]int{}, working: map[string]int{},
	}
}

// wakeAt requests a wake-up at t, unless an earlier one is wanted or t is zero.
func (c *computing) wakeAt(t time.Time) {
	if c.wake.IsZero() || !t.IsZero() && t.Before(c.wake) {
		c.wake = t
	}
}

// do adds an action, unless it is nil or needs a prompt that no budget allows.
//
// All actions of one answer are decided on the same state and applied in order, so none may undo what another needs. A
// replan comes first: the failure of another sub-task can block what it replaces.
func (c *computing) do(a Action) {
	if why := c.budget.forbids(a); why != "" {
		c.overBudget = why
		return
	}
	c.budget.reserveFor(a)
	switch a := a.(type) {
	case nil:
	case Wake:
		c.wakeAt(a.At)
	case Apply:
		c.decide(a)
	default:
		c.actions = append(c.actions, a)
	}
}

func (c *computing) decide(a Apply) {
	switch b := a.Body.(type) {
	case boulder.ReplanStarted:
		c.replan = &boulder.Replanning{AttemptRef: b.AttemptRef, Replaces: b.Replaces}
		c.actions = slices.Insert(c.actions, 0, Action(a))
		return
	case boulder.SubTaskDone:
		c.actions = append(c.actions, a)
		if b.Completed {
			c.skip(c.s.Open(b.SubTaskID))
		}
		return
	}
	c.actions = append(c.actions, a)
}

// queues returns the attempts that may start once there is a slot, by model. It leaves out what a replan replaces: one
// in progress, one begun by this call, or a wanted one that is still allowed.
func (c *computing) queues() map[string][]*boulder.Open {
	var held []string
	replans := c.s.Boulder.Replans
	if c.replan != nil {
		held = c.replan.Replaces
	}
	if c.replan != c.s.Boulder.Replan {
		replans++
	}
	if replans < c.l.Replans {
		for _, w := range c.s.Boulder.ReplansWanted {
			held = slices.Concat(held, c.s.Remainder(w.SubTaskID))
		}
	}
	queues := maps.Clone(c.s.Queues())
	if len(held) > 0 {
		for m, q := range queues {
			queues[m] = slices.DeleteFunc(slices.Clone(q), func(o *boulder.Open) bool { return slices.Contains(held, o.SubTask.ID) })
		}
	}
	return queues
}

// end completes the list. A used-up budget, or a limit that ends too late, ends the run once nothing else can happen; an
// exceeded budget ends it at once.
func (c *computing) end() []Action {
	if warning := c.budget.warning(); warning != nil {
		return append([]Action{Apply{*warning}}, c.actions...)
	}
	switch {
	case c.budget.exceeded != "" && len(decisions(c.actions)) > 0:
		return decisions(c.actions)
	case c.budget.exceeded != "":
		return []Action{Stop{Reason: c.budget.exceeded, Budget: true}}
	case c.overBudget != "" && len(c.actions) == 0 && c.wake.IsZero():
		return []Action{Stop{Reason: c.overBudget, Budget: true}}
	case c.limited != "" && len(c.actions) == 0 && c.wake.IsZero():
		return []Action{Stop{Reason: c.limited}}
	}
	c.wakeAt(c.budget.timeOut)
	c.wakeAt(c.budget.timeWarn)
	if !c.wake.IsZero() {
		c.actions = append(c.actions, Wake{At: c.wake})
	}
	return c.actions
}

// decisions drops actions that are work.
func decisions(actions []Action) []Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a Action) bool {
		_, stop := a.(Stop)
		_, decision := a.(Apply)
		return !stop && !decision
	})
}

// advanceReplan continues the replan in progress, or begins one that the judge of a completed sub-task wants.
func (c *computing) advanceReplan() {
	switch r := c.s.Boulder.Replan; {
	case r != nil && r.Proposed != nil:
		c.do(AskReplan{})
	case r != nil && c.s.Boulder.Looking() != nil && c.s.Boulder.Look.For == boulder.LookReplan:
		c.do(c.look(c.s.Boulder.Look.Model))
	case r != nil:
		c.do(c.askLedger(r.PlanFaults, notPlanned, AskReplan{}))
	case c.s.Boulder.Replans < c.l.Replans:
		for _, w := range c.s.Boulder.ReplansWanted {
			if ids := c.s.Remainder(w.SubTaskID); len(ids) > 0 {
				c.do(Apply{boulder.ReplanStarted{AttemptRef: w.AttemptRef, Number: c.s.Boulder.Replans + 1, Reason: w.Reason, Replaces: ids}})
				return
			}
		}
	}
}

// Why a run ends that could not ask a ledger.
const (
	notPlanned = "the Task Ledger could not be asked for a plan"
	notChecked = "the Progress Ledger could not say whether the request is met"
)

// askLedger returns a ledger's work, a wait before it, or the end of the run after too many faults, for the reason failed.
func (c *computing) askLedger(f boulder.PlanFaults, failed string, work Action) Action {
	ledger := c.s.Boulder.Ledger()
	cool := c.s.Boulder.Cooldowns[ledger]
	switch {
	case f.Troubles > 0 && f.Troubles >= c.l.Troubles:
		return Stop{Reason: fmt.Sprintf("%s, %s in a row: %s", failed, text.Plural(f.Troubles, "time"), f.Fault)}
	case c.now.Before(f.NotBefore) && c.cooling(ledger) && cool.Hits > c.l.Cooldowns:
		return Stop{Reason: failed + ": " + cool.Reason}
	case c.tooLong(ledger, c.s.Boulder.LedgerModel):
		return nil
	case c.now.Before(f.NotBefore):
		return Wake{At: f.NotBefore}
	case c.cooling(ledger):
		return Wake{At: cool.Until}
	}
	return work
}

// look returns a look, or a wait before it.
func (c *computing) look(model string) Action {
	switch faults := c.s.Boulder.Faults(); {
	case c.tooLong(model, ""):
		return nil
	case c.now.Before(faults.NotBefore):
		return Wake{At: faults.NotBefore}
	case c.cooling(model):
		return Wake{At: c.s.Boulder.Cooldowns[model].Until}
	}
	return Look{}
}

// LookBefore returns when a look may come before the replan in progress: once, for a part that failed, and while nothing else is
// at work or ready, which would change the files meanwhile.
func LookBefore(s *boulder.State, l Limits, now time.Time) boulder.LookMode {
	r := s.Boulder.Replan
	others := slices.ContainsFunc(s.Live(), func(o *boulder.Open) bool { return o.Attempt.AttemptRef != r.AttemptRef })
	for _, ready := range newComputing(s, l, now).queues() {
		others = others || len(ready) > 0
	}
	if others || r.Extension() || r.Was != nil || s.Boulder.Look != nil || l.LookTime <= 0 {
		return boulder.LookNever
	}
	return s.Boulder.LookMode
}

// reviews reports whether a look at the changes has to come before the check of the request.
func (c *computing) reviews() bool {
	return c.s.Boulder.Review && c.l.LookTime > 0 && c.s.Boulder.Reviewed() == nil
}

func (c *computing) review() Action {
	if look := c.s.Boulder.Looking(); look != nil {
		return c.look(look.Model)
	}
	return Apply{boulder.LookStarted{For: boulder.LookReview, Questions: []string{reviewed}, Model: c.s.Boulder.ReviewModel}}
}

// reviewed is what a review finds out.
const reviewed = "What does the request ask for or forbid that the changes leave out, break or do wrongly?"

// allOver returns what ends the boulder, or the run while sub-tasks are parked. Once everything is done, the request is
// checked, and what is missing of it is added to the plan.
func (c *computing) allOver() []Action {
	for _, t := range c.s.SubTasks {
		if !t.Parked {
			continue
		}
		stop := Stop{Reason: t.Reason, SubTaskID: t.ID, Budget: overspent(t, nil) != "", AtLimit: t.AtLimit}
		if open := t.AwaitedBy(t.Attempts); len(open) > 0 { // first: a larger budget alone would not let it continue
			stop.Reason, stop.Budget, stop.AtLimit = "waits for "+boulder.Awaited(open), false, false
		}
		if c.s.Boulder.Loop == nil { // a loop has only one
			stop.Reason = fmt.Sprintf("sub-task %q: %s", t.ID, stop.Reason)
		}
		return []Action{stop}
	}
	verify, last := unverified(c.s)
	end := Finish{Status: Outcome(c.s), Verify: verify, Last: last}
	switch check := c.s.Boulder.Checked(); {
	case !allGood(c.s), check != nil && len(check.Missing) == 0, check == nil && (c.l.Unchecked || !needsCheck(c.s)):
		return []Action{end}
	case check == nil && c.reviews():
		c.do(c.review())
	case check == nil:
		end.Check = true
		c.do(c.askLedger(c.s.Boulder.PlanFaults, notChecked, end))
	case c.s.Boulder.Extensions < c.l.Extensions:
		c.do(Apply{boulder.ReplanStarted{
			Number: c.s.Boulder.Extensions + 1, Reason: "not all of the request is met", Missing: check.Missing,
		}})
	default:
		return []Action{end}
	}
	return c.end()
}

// needsCheck reports whether the request has to be checked when all is done. The verdict on the only sub-task answers
// that too; where no judge is wanted, the rules decide here as well.
func needsCheck(s *boulder.State) bool {
	return s.Boulder.Tally.Planned > 1 && slices.ContainsFunc(s.SubTasks, func(t *boulder.SubTask) bool {
		return t.Status == boulder.SubTaskCompleted && t.DoneNeeds(boulder.DoneJudge)
	})
}

// RequestChecked returns the event of a check of the request, which counts as an answer of the ledger's model unless there
// was none.
func RequestChecked(s *boulder.State, check boulder.RequestCheck, now time.Time) boulder.RequestChecked {
	b := boulder.RequestChecked{RequestCheck: check}
	if check.Unchecked == "" {
		b.Cooldown = regrown(s, s.Boulder.Ledger(), now)
	}
	return b
}

// unverified returns the completed sub-tasks whose gates have to rerun, because other work ended after them, and the
// sub-task that ended last. In an isolated boulder they rerun if any gate has not passed on the tip's tree, or belongs to
// what a fork took over, of which no run is recorded.
func unverified(s *boulder.State) (gated []*boulder.SubTask, last *boulder.SubTask) {
	l, all := &s.Boulder.Trunk, s.Boulder.IntegrationGates
	for _, t := range s.SubTasks {
		if t.Attempts > 0 && (last == nil || t.EndSeq > last.EndSeq) {
			last = t
		}
		if t.Status != boulder.SubTaskCompleted {
			continue
		}
		onTip := s.Boulder.Isolated() && len(s.Boulder.IntegrationGates) > 0 && t == s.Completed(1)[0]
		if gates := t.AllGates(); len(gates) > 0 || onTip {
			gated, all = append(gated, t), slices.Concat(all, gates)
		}
	}
	takenOver := func(t *boulder.SubTask) bool { return t.Attempts == 0 && len(t.Unverified()) > 0 }
	switch {
	case s.Boulder.Isolated() && !slices.ContainsFunc(gated, takenOver) &&
		!slices.ContainsFunc(all, func(command string) bool { return !l.Passed(command, l.Tree) }):
		return nil, nil
	case s.Boulder.Isolated():
		return gated, nil
	case last != nil && last.Shared:
		return gated, nil
	case len(gated) == 1 && gated[0] == last:
		return nil, nil
	}
	return gated, last
}

// allGood reports whether every sub-task is completed, with gates that hold on the final files, or skipped.
func allGood(s *boulder.State) bool {
	tally := s.Boulder.Tally
	return tally.Completed+tally.Skipped == tally.Planned && !slices.ContainsFunc(s.SubTasks, func(t *boulder.SubTask) bool {
		return t.Status == boulder.SubTaskCompleted && len(t.Unverified()) > 0
	})
}

// Outcome returns the final status of a boulder in which all is over.
func Outcome(s *boulder.State) boulder.Status {
	tally, check := s.Boulder.Tally, s.Boulder.Checked()
	good := tally.Completed + tally.Skipped
	switch {
	case allGood(s) && (check == nil || len(check.Missing) == 0):
		return boulder.Completed
	case good > 0, s.Boulder.Loop != nil && tally.Failed > 0:
		return boulder.Partial
	}
	return boulder.Failed
}

// next returns what a live attempt needs, or nil if it has to wait for something else.
func (c *computing) next(o *boulder.Open) Action {
	a := o.Attempt
	judging := a.Status == boulder.AttemptMonitoring
	if r := c.s.Boulder.Replan; r != nil && r.AttemptRef == a.AttemptRef {
		return nil
	}
	model := c.s.ModelFor(o)
	if judging && len(o.SubTask.AwaitedBy(a.Attempt)) > 0 {
		if b, decided := c.goAround(o); decided {
			return apply(b)
		}
	}
	held := c.cooling(model) && (judging || o.Turn.MessageID == "" || a.Delayed())
	switch {
	case c.awaitsUser(o):
		return Apply{park(o, "")}
	case judging && unrunnable(o) != nil:
		return Apply{*unrunnable(o)}
	case judging && o.Turn.Verdict != nil:
		action := c.afterVerdict(o)
		if a, decided := action.(Apply); decided {
			return apply(c.withinTotal(o, a.Body))
		}
		return action
	case a.Troubles > 0 && a.Troubles >= c.l.Troubles && judging:
		return Stop{Reason: fmt.Sprintf("the work of %q could not be judged, %s in a row: %s",
			a.SubTaskID, text.Plural(a.Troubles, "time"), a.Reason)}
	case c.refused(a, model) && judging:
		return Stop{Reason: fmt.Sprintf("the work of %q could not be judged: %s", a.SubTaskID, a.Reason)}
	case a.Troubles > 0 && a.Troubles >= c.l.Troubles:
		return Apply{park(o, text.Plural(a.Troubles, "infrastructure error")+" in a row: "+a.Reason)}
	case c.refused(a, model):
		return Apply{park(o, a.Reason)}
	case !judging && overspent(o.SubTask, o) != "":
		return Apply{park(o, overspent(o.SubTask, o))}
	case (c.now.Before(a.NotBefore) || held) && c.tooLong(model, c.modelsFor(o)):
		return nil
	case c.now.Before(a.NotBefore):
		return Wake{At: a.NotBefore}
	case held:
		return Wake{At: c.s.Boulder.Cooldowns[model].Until}
	case judging && c.unproven(model) && c.proving:
		return nil // another verdict finds out whether the model can be used
	case judging:
		c.proving = true
		return Judge{o}
	case c.crowded(a):
		return nil
	}
	return Run{o}
}

// unrunnable parks a sub-task if a gate of its ended turn cannot run; no judge needs to see that turn. An agent cannot
// install a program. A missing script or target may be its own work, so it is told so once first.
func unrunnable(o *boulder.Open) *boulder.Parked {
	if o.Turn.Evidence == nil {
		return nil
	}
	told := o.Turn.Kind == boulder.TurnContinuation || len(o.SubTask.Failures) > 0
	for _, g := range o.Turn.Evidence.Gates {
		switch {
		case g.NotFound == "" || g.Holds():
		case g.NotIn == "":
			p := park(o, fmt.Sprintf("the gate `%s` cannot run: %s is not found. Install it, or correct the gate in the plan and "+
				"run that", g.Command, g.NotFound))
			p.Program = g.NotFound
			return &p
		case told && !slices.ContainsFunc(o.SubTask.Files, func(f string) bool {
			return strings.HasSuffix(strings.ToLower(path.Base(f)), strings.ToLower(g.NotIn)) // GNUmakefile is a Makefile
		}):
			return new(park(o, fmt.Sprintf("the gate `%s` cannot run: %s is not in %s, which the agent did not change. Add it, or "+
				"correct the gate in the plan and run that", g.Command, g.NotFound, g.NotIn)))
		}
	}
	return nil
}

// awaitsUser reports whether a turn that does not leave a question aside waits for the answer: its prompt was never sent. Any
// other is looked at first, once its model can be used ([boulder.Job.Awaits]): the rest may have to be done.
func (c *computing) awaitsUser(o *boulder.Open) bool {
	a := o.Attempt
	return a.Status != boulder.AttemptMonitoring && o.Turn.MessageID == "" && len(o.SubTask.AwaitedBy(a.Attempt, o.Turn.Aside...)) > 0
}

// crowded reports whether an attempt that its model rejected has to wait because the shrunk limit is reached.
func (c *computing) crowded(a *boulder.Attempt) bool {
	cool, shrunk := c.s.Boulder.Cooldowns[a.Model]
	if !shrunk {
		return false
	}
	c.working[a.Model]++
	return a.Delayed() && c.working[a.Model] > cool.Limit
}

func (c *computing) cooling(model string) bool {
	return c.now.Before(c.s.Boulder.Cooldowns[model].Until)
}

// tooLong reports whether a model's limit ends too late to wait for: with a list, the limits of all its models. Cool-downs
// that no provider asked for do not.
func (c *computing) tooLong(model string, models boulder.Models) bool {
	cool := c.s.Boulder.Cooldowns[model]
	why, end, most := limitText(model, cool, c.now), cool.Until, max(c.l.ResetMax, c.l.CoolMax)
	if _, out := c.out(model); out && len(models.All()) > 1 {
		why, end = c.unusable(models)
		most = c.l.WaitForModel
	}
	if end.Sub(c.now) <= most+maxJitter {
		return false
	}
	if c.limited == "" || end.Before(c.limitEnd) {
		c.limited, c.limitEnd = why, end
	}
	return true
}

// refused reports whether an attempt waits for a model that has cooled down too often in a row. One at work again may
// still get an answer, and must not be ended.
func (c *computing) refused(a *boulder.Attempt, model string) bool {
	return c.now.Before(a.NotBefore) && c.cooling(model) && c.s.Boulder.Cooldowns[model].Hits > c.l.Cooldowns
}

// Failed returns what follows from a turn's error that is not fatal. An attempt that awaits an answer is parked: a
// retry would meet the same question. Lost sessions are no tries, but their number is limited.
func Failed(s *boulder.State, l Limits, now time.Time, o *boulder.Open, err error) []boulder.Body {
	reason, lost := err.Error(), errors.Is(err, boulder.ErrSessionLost)
	c := newComputing(s, l, now)
	var follows boulder.Body
	switch n := o.SubTask.Lost + 1; {
	case errors.Is(err, boulder.ErrTrouble):
		return c.trouble(o, err)
	case len(o.SubTask.AwaitedBy(o.Attempt.Attempt)) > 0:
		follows = park(o, reason)
	case lost && n > l.Troubles:
		follows = fail(o.Attempt.AttemptRef, fmt.Sprintf("lost %d sessions: %s", n, reason), boulder.AttemptLost)
	case lost:
		follows = uncounted(o, reason, boulder.AttemptLost)
	case s.Boulder.Loop != nil: // a loop has no tries, which faults could use up overnight
		return c.trouble(o, err)
	default:
		follows = c.withinTotal(o, c.retryOrReplan(o, reason, boulder.AttemptFailed))
	}
	if follows == nil { // its turn is over: it cannot wait for the replan in progress
		follows = fail(o.Attempt.AttemptRef, reason, boulder.AttemptFailed)
	}
	return []boulder.Body{follows}
}
