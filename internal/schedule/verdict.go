package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
)

// afterVerdict is SEMANTICS §4: hand on, continue the same session, try a fresh one, replan, or give up.
func (c *computing) afterVerdict(o *boulder.Open) Action {
	v, ended := o.Turn.Verdict, o.Turn.Evidence.Ended
	failed := boulder.AttemptFailed
	switch {
	case len(o.Turn.Evidence.Escaped) > 0 && len(lateAnswers(o)) == 0:
		return c.blocker(o, boulder.BlockerEscape, fmt.Sprintf("%q changed files of your project itself: are they to be as they are now?", o.SubTask.ID),
			fmt.Sprintf("%s.\nIt was to work in .manager/slots/%s/%d. Nothing was reverted, and these changes are no part of its result: move them "+
				"into the slot, undo or keep them. Then answer, and it continues.",
				strings.Join(o.Turn.Evidence.Escaped, ", "), c.s.Boulder.ID, o.SubTask.Slot))
	case v.Completed && o.SubTask.Integrated != "":
		return complete(o)
	case v.Completed && c.s.Boulder.Loop != nil && o.SubTask.DoneNeeds(boulder.DoneTodos) && len(blocked(o.Turn.Evidence)) > 0:
		// Items that only somebody else can close are no open work, and not done either.
		return park(o, "all that can be done is done"+blockedItems(o.Turn.Evidence))
	case v.Completed && len(newAnswers(o)) > 0 && c.canContinue(o):
		return c.tell(o, newAnswers(o))
	case v.Completed && c.s.Boulder.Isolated():
		return c.integrate(o)
	case v.Completed:
		return complete(o)
	case needs(*v) != "" && o.SubTask.NeedsUser >= c.l.NeedsUser:
		return c.raise(o)
	case ended.Rule == boulder.RuleBudget, overspent(o.SubTask, o) != "":
		return park(o, cmp.Or(overspent(o.SubTask, o), ended.Stopped))
	case c.s.Boulder.Loop != nil:
		return c.loopTurn(o)
	case len(lateAnswers(o)) > 0:
		return c.tell(o, lateAnswers(o))
	case v.NeedReplan, v.BlockedBy == "wrong_plan":
		return c.replanOrRetry(o, "the plan is wrong: "+cmp.Or(v.ReplanReason, v.StuckReason, shortcoming(v)))
	case o.SubTask.Stalls >= c.l.Stalls:
		return c.replanOrRetry(o, fmt.Sprintf("no progress in %s: %s", text.Plural(o.SubTask.Stalls, "turn"), shortcoming(v)))
	case ended.Rule == boulder.RuleWallClock:
		return c.retryOrReplan(o, "the turn was stopped: "+ended.Stopped, boulder.AttemptTimeout)
	case ended.Stopped != "":
		return c.retryOrReplan(o, "the turn was stopped: "+ended.Stopped, failed)
	case ended.Error != "" && ended.Truncated == "":
		return c.retryOrReplan(o, fmt.Sprintf("the session broke: %s: %s", ended.Error, ended.Message), failed)
	case v.IsStuck:
		return c.retryOrReplan(o, "stuck: "+v.StuckReason, failed)
	case v.IsInLoop:
		return c.retryOrReplan(o, "repeats itself: "+v.Summary, failed)
	}
	return c.continueOrRetry(o)
}

// TurnEnded hands in what a turn left behind.
func TurnEnded(s *boulder.State, o *boulder.Open, turn int, e boulder.Evidence, now time.Time) boulder.TurnEnded {
	return boulder.TurnEnded{
		AttemptRef: o.Attempt.AttemptRef, Turn: turn, Ended: e.Ended, Evidence: e, Cooldown: regrown(s, o.Attempt.Model, now),
	}
}

// Judged hands in the verdict on an ended turn. It is an answer of the ledger's model, unless that could not be used.
func Judged(s *boulder.State, o *boulder.Open, turn int, v boulder.Verdict, now time.Time) boulder.Judged {
	v = Overrule(o.SubTask, o.Turn.Evidence, v)
	b := boulder.Judged{AttemptRef: o.Attempt.AttemptRef, Turn: turn, Verdict: v, Stalls: stalls(o, v), NeedsUser: needsUser(o, v)}
	if !v.JudgeUnavailable {
		b.Cooldown = regrown(s, s.Boulder.LedgerModel, now)
	}
	return b
}

// stalls is SEMANTICS §4: one more when there was no progress, when the agent repeats itself, when a stuck rule fired, or
// when it would be told the same again; one less on progress; none after completion. A turn that was truncated, or that
// could not be judged, says nothing about progress.
func stalls(o *boulder.Open, v boulder.Verdict) int {
	n, ended := o.SubTask.Stalls, o.Turn.Evidence.Ended
	stuck := ended.Rule != "" && ended.Rule != boulder.RuleBudget
	switch {
	case v.Completed:
		return 0
	case v.JudgeUnavailable, ended.Truncated != "" && !stuck:
		return n
	case v.IsProgress && !stuck && !v.IsInLoop && !o.Attempt.WasAsked(v.ContinuationPrompt):
		return max(0, n-1)
	}
	return n + 1
}

// Overrule takes back what no judge may say: that a sub-task is complete while one of its gates has not run or is red.
func Overrule(t *boulder.SubTask, e *boulder.Evidence, v boulder.Verdict) boulder.Verdict {
	open := t.OpenGates(e.Gates, e.NoServer)
	if !v.Completed || len(open) == 0 {
		return v
	}
	v.Completed, v.GoalAchieved, v.ContinuationPrompt = false, false, "The sub-task is not complete.\n\nSee to this:"
	v.Overruled, v.Remaining = slices.Clip(v.Overruled), slices.Clip(v.Remaining)
	for _, g := range open {
		v.Overruled, v.Remaining = append(v.Overruled, g.String()), append(v.Remaining, g.String())
		v.ContinuationPrompt += "\n- " + g.String()
	}
	return v
}

// needs is the category of what a verdict needs of the user, by its blocked_by; empty: nothing.
func needs(v boulder.Verdict) boulder.BlockerCategory {
	return map[string]boulder.BlockerCategory{
		"missing_info": boulder.BlockerQuestion, "permission": boulder.BlockerPermission, "external": boulder.BlockerOther,
	}[v.BlockedBy]
}

// needsUser is how many verdicts in a row say that only the user can remove what is in the way, this one included. That no
// judge could be had says nothing.
func needsUser(o *boulder.Open, v boulder.Verdict) int {
	switch {
	case v.JudgeUnavailable:
		return o.SubTask.NeedsUser
	case v.Completed, needs(v) == "":
		return 0
	}
	return o.SubTask.NeedsUser + 1
}

// lateAnswers are the hard blockers that the user settled while the turn was at work that raised them. The agent has not
// heard of it: whatever was judged, it could not do better.
func lateAnswers(o *boulder.Open) []boulder.RaisedBlocker {
	return slices.DeleteFunc(o.SubTask.SettledSince(o.Turn.Seq), func(b boulder.RaisedBlocker) bool {
		return !b.Hard || b.Attempt != o.Attempt.Attempt
	})
}

// newAnswers came while the turn was at work, not as replies, and differ from what the agent chose: its work rests on its
// own choice.
func newAnswers(o *boulder.Open) []boulder.RaisedBlocker {
	return slices.DeleteFunc(o.SubTask.SettledSince(max(o.Turn.Seq, o.Turn.ToldUpTo)), func(b boulder.RaisedBlocker) bool {
		return b.Status != boulder.BlockerAnswered || b.Answer == "" || b.Answer == b.Choice ||
			slices.Contains(o.Turn.Evidence.Replied, b.ID)
	})
}

// tell lets the agent have an answer: in its session if that can still be told something, else in a fresh one. Neither is a
// try, because a sub-task that was parked, and answered then, would not have used one up either.
func (c *computing) tell(o *boulder.Open, answers []boulder.RaisedBlocker) Action {
	why := "there is an answer to " + answers[0].ID
	if !c.canContinue(o) {
		return uncounted(o, why, boulder.AttemptCancelled)
	}
	b := proceed(o, why)
	b.Track = encode(enforcer.Track{}) // its answers count again
	return b
}

// canContinue reports whether the session can still be told something.
func (c *computing) canContinue(o *boulder.Open) bool {
	ended := o.Turn.Evidence.Ended
	whole := ended.Stopped == "" && (ended.Error == "" || ended.Truncated != "")
	return whole && o.Turn.Kind != boulder.TurnStanding && o.Attempt.Turns < c.l.Evaluations && !c.exhausted(o.SubTask)
}

// continueOrRetry asks the arbiter of all sessions, package enforcer, whether this one is told to go on.
func (c *computing) continueOrRetry(o *boulder.Open) Action {
	missing, p := shortcoming(o.Turn.Verdict), enforcer.RunPolicy()
	p.MaxFailures, p.MaxIterations = c.l.IdleTurns+1, c.l.Evaluations-1 // the brief is no continuation
	track, err := said(o, p)
	if err != nil { // counted from nothing, a bound would not hold
		return c.retryOrReplan(o, fmt.Sprintf("what is stored of the session cannot be read: %v", err), boulder.AttemptFailed)
	}
	b := proceed(o, missing)
	b.Track = encode(track)
	track.Iteration, track.FailureCount = o.Attempt.Turns-1, o.Attempt.Idle
	d := enforcer.Continue(track, enforcer.Situation{Checked: true, Unmet: []string{missing}}, p, c.now)
	switch {
	case d.Kind == enforcer.Send:
		return b
	case d.Gate == enforcer.GateFailures:
		d.Reason = fmt.Sprintf("stuck: %d messages in a row without a tool call", o.Attempt.Idle)
	case d.Gate == enforcer.GateIterations:
		d.Reason = fmt.Sprintf("not complete after %d turns: %s", o.Attempt.Turns, missing)
	}
	return c.retryOrReplan(o, d.Reason, boulder.AttemptFailed)
}

// said is what the attempt's continuations got for an answer without progress, the newest turn included. Nothing else of a
// track is kept of a run: its other bounds are counted by the attempt.
func said(o *boulder.Open, p enforcer.Policy) (enforcer.Track, error) {
	var t enforcer.Track
	if o.Turn.Kind == boulder.TurnContinuation { // else an earlier attempt's track may still be stored
		before, err := trackOf(o.SubTask)
		if err != nil {
			return t, err
		}
		t.Answers, t.Progress, t.Pending = before.Answers, before.Progress, "this turn"
	}
	t = enforcer.Apply(t, turnEnded(o), p)
	return enforcer.Track{Answers: t.Answers, Progress: t.Progress}, nil
}

// skip ends all that is left, dependents first, because a sub-task achieved the goal. Nothing if one of them has gates,
// which only its own work can turn green, or is at work already, or while a replan is being made.
func (c *computing) skip(done *boulder.Open) {
	if !done.Turn.Verdict.GoalAchieved || len(c.s.Live()) > 1 || c.replan != nil {
		return
	}
	var rest []*boulder.SubTask
	for _, t := range c.s.SubTasks {
		switch {
		case t == done.SubTask || t.Status.Terminal() || t.Status == boulder.SubTaskBlocked:
		case t.Status != boulder.SubTaskPending, len(t.Gates)+len(t.NoWorse)+len(t.GateHints) > 0:
			return
		default:
			rest = append(rest, t)
		}
	}
	nodes := make([]dag.Node, len(rest))
	for i, t := range rest {
		nodes[i] = dag.Node{ID: t.ID, DependsOn: t.DependsOn}
	}
	for _, level := range slices.Backward(dag.Levels(nodes)) {
		for _, i := range level {
			c.skipping = true
			c.actions = append(c.actions, boulder.SubTaskDone{
				AttemptRef: boulder.AttemptRef{SubTaskID: rest[i].ID}, Status: boulder.SubTaskSkipped,
				AttemptStatus: boulder.AttemptCancelled,
				Summary:       fmt.Sprintf("not needed any more: the goal was achieved with %q", done.SubTask.ID),
			})
		}
	}
}

// shortcoming says why a turn did not complete its sub-task. The summary of a judge who was overruled says that it did.
func shortcoming(v *boulder.Verdict) string {
	if len(v.Overruled) > 0 {
		return strings.Join(v.Overruled, "; ")
	}
	return v.Summary
}

// retryOrReplan retries in a fresh session while there are tries left, then replans while that is allowed, and then
// fails. An attempt that ends with the same changes and the same failing gates as the one before makes further tries
// pointless.
func (c *computing) retryOrReplan(o *boulder.Open, reason string, status boulder.AttemptStatus) Action {
	same := o.Attempt.Result != "" && o.Attempt.Result == o.SubTask.LastResult
	if same {
		reason += " (with the same changes and the same failing gates as the attempt before)"
	}
	switch {
	case !same && o.SubTask.Tries+1 < c.l.attempts(o.SubTask):
		return retry(o, reason, status)
	case c.mayReplan():
		return c.planAnew(o, reason)
	}
	return fail(o.Attempt.AttemptRef, reason, status)
}

// replanOrRetry replans even if there are tries left.
func (c *computing) replanOrRetry(o *boulder.Open, reason string) Action {
	if c.mayReplan() {
		return c.planAnew(o, reason)
	}
	return c.retryOrReplan(o, reason, boulder.AttemptFailed)
}

func (c *computing) mayReplan() bool {
	return c.s.Boulder.Replans < c.l.Replans && c.s.Boulder.Loop == nil
}

// planAnew begins a replan. Only one is made at a time; whoever wants another waits for it.
func (c *computing) planAnew(o *boulder.Open, reason string) Action {
	if c.replan != nil {
		return nil
	}
	return boulder.ReplanStarted{
		AttemptRef: o.Attempt.AttemptRef, Number: c.s.Boulder.Replans + 1, Reason: reason,
		Replaces: c.s.Remainder(o.SubTask.ID),
	}
}

// trouble is what follows from a fault of an attempt that is not the agent's: the attempt is taken up again after a while.
func (c *computing) trouble(o *boulder.Open, err error) []boulder.Body {
	ref := o.Attempt.AttemptRef
	kind, until, cooled := c.wait(err, c.s.ModelFor(o), o.Attempt.Troubles, ref.SubTaskID, ref.Attempt)
	return append(cooled, boulder.Trouble{
		AttemptRef: ref, Kind: kind, Reason: err.Error(), NotBefore: until,
		Uncounted: len(cooled) > 0 || kind == boulder.TroublePaused,
	})
}

// ReplanTrouble is what follows from such a fault of a replan.
func ReplanTrouble(s *boulder.State, l Limits, now time.Time, err error) []boulder.Body {
	_, until, cooled := newComputing(s, l, now).wait(err, s.Boulder.LedgerModel, s.Boulder.Replan.Troubles, "replan", s.Boulder.Replans)
	return append(cooled, boulder.ReplanTrouble{Reason: err.Error(), NotBefore: until, Uncounted: len(cooled) > 0})
}

// PlanTrouble is what follows from a fault of the first plan after which it is asked for again: the ledger's model cools
// down. Nil: nothing does, or it met its limit too often.
func PlanTrouble(s *boulder.State, l Limits, now time.Time, err error) []boulder.Body {
	_, _, cooled := newComputing(s, l, now).wait(err, s.Boulder.LedgerModel, 0, "plan", 0)
	if s.Boulder.Cooldowns[s.Boulder.LedgerModel].Hits >= l.Cooldowns {
		return nil
	}
	return cooled
}

// wait says until when whoever met a fault waits. A model that answers with a rate limit or an overload cools down, for
// everybody who uses it; that wait is its provider's wish and does not count towards giving up.
func (c *computing) wait(
	err error, model string, troubles int, who string, n int,
) (kind boulder.TroubleKind, until time.Time, cooled []boulder.Body) {
	t, known := errors.AsType[*boulder.TroubleError](err)
	if !known {
		t = &boulder.TroubleError{Kind: boulder.TroubleServer}
	}
	if t.Kind == boulder.TroubleRateLimit || t.Kind == boulder.TroubleOverloaded {
		cool := c.coolDown(cmp.Or(t.Model, model), t.RetryAfter)
		cool.Reason = err.Error()
		return t.Kind, cool.Until, []boulder.Body{cool}
	}
	d := c.jitter(doubled(c.l.Backoff, c.l.Backoff<<10, troubles+1), who, n<<8+troubles)
	return t.Kind, c.now.Add(max(d, min(t.RetryAfter, c.l.ResetMax))), nil
}

// coolDown is the pause of a model, and with how many attempts at once it continues after that: half as many. Attempts that
// meet the same limit at once count once: those that come while the model cools down already say nothing about whether the
// wait was long enough.
func (c *computing) coolDown(model string, asked time.Duration) boulder.Cooled {
	before, full := c.s.Boulder.Cooldowns[model], c.l.Model(model)
	limit, hits := full, max(before.Hits, 1)
	if before.Limit > 0 {
		limit = min(limit, before.Limit)
	}
	if !c.now.Before(before.Until) {
		limit, hits = limit/2, before.Hits+1
	}
	pause := cmp.Or(min(max(asked, 0), c.l.ResetMax), doubled(c.l.CoolBase, c.l.CoolMax, hits))
	until := c.now.Add(c.jitter(pause, model, hits))
	if before.Until.After(until) {
		until = before.Until
	}
	return boulder.Cooled{Model: model, Cooldown: boulder.Cooldown{
		Until: until, Since: c.now, Limit: max(1, limit), Full: full, Hits: hits,
	}}
}

// LiftLimit ends the cool-down that an attempt waits for, because the user does not want to wait. None: it waits for none.
func LiftLimit(s *boulder.State, o *boulder.Open, now time.Time) []boulder.Body {
	model := s.ModelFor(o)
	atWork := o.Attempt.Status == boulder.AttemptExecuting && o.Turn.MessageID != "" && !now.Before(o.Attempt.NotBefore)
	cool := s.Boulder.Cooldowns[model]
	if atWork || !now.Before(cool.Until) {
		return nil
	}
	cool.Until, cool.Since, cool.Lifted, cool.Hits = now, now, cool.Until, 0
	return []boulder.Body{boulder.Cooled{Model: model, Cooldown: cool}}
}

// regrown is the cool-down of a model after an answer came: its limit grows by one. Nil: nothing changes.
func regrown(s *boulder.State, model string, now time.Time) *boulder.Cooldown {
	c, shrunk := s.Boulder.Cooldowns[model]
	if !shrunk || now.Before(c.Until) {
		return nil
	}
	c.Limit, c.Hits = min(c.Limit+1, max(1, c.Full)), 0
	return &c
}

// doubled is the n-th wait in a row, from 1, without jitter.
func doubled(wait, most time.Duration, n int) time.Duration {
	for ; n > 1 && wait < most; n-- {
		wait += min(wait, most-wait)
	}
	return min(wait, most)
}

// jitter adds up to a quarter, and no more than 10 s, so that parallel attempts do not come back as one. How much follows
// from who waits, in which boulder, and for the how-many-th time: what happened once can be replayed.
func (c *computing) jitter(d time.Duration, who string, n int) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %d", c.s.Boulder.ID, who, n) // a hash takes everything
	return d + time.Duration(h.Sum64()%(uint64(min(d/4, 10*time.Second))+1))
}
