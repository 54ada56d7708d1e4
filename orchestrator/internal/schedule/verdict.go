package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
)

// afterVerdict returns what follows a verdict (docs/judging.md): complete, continue the same session, retry in a fresh one,
// replan, or give up.
func (c *computing) afterVerdict(o *boulder.Open) Action {
	v, ended := o.Turn.Verdict, o.Turn.Evidence.Ended
	failed := boulder.AttemptFailed
	switch {
	case len(o.Turn.Evidence.Escaped) > 0 && len(lateAnswers(o)) == 0:
		return apply(c.blocker(o, boulder.BlockerEscape, fmt.Sprintf("%q changed files of your project itself: are they to be as they are now?", o.SubTask.ID),
			fmt.Sprintf("%s.\nIt was to work in %s. Nothing was reverted, and these changes are no part of its result: move them "+
				"into the slot, undo or keep them. Then answer, and it continues.",
				strings.Join(o.Turn.Evidence.Escaped, ", "), c.slotOf(o.SubTask))))
	case v.Completed && o.SubTask.Integrated != "" && c.s.FirstOnTip() != o:
		return nil // in the order of the trunk
	case v.Completed && o.SubTask.Integrated != "":
		return apply(complete(o))
	case v.Completed && c.s.Boulder.Loop != nil && o.SubTask.DoneNeeds(boulder.DoneTodos) && len(o.Turn.Evidence.Blocked()) > 0:
		// Items that only someone else can close are neither open work nor done.
		return apply(park(o, "all that can be done is done"+blockedItems(o.Turn.Evidence)))
	case v.Completed && len(c.newAnswers(o)) > 0 && c.canContinue(o):
		return apply(c.deliverAnswer(o, c.newAnswers(o)))
	case v.Completed && c.s.Boulder.Isolated():
		return c.integrate(o)
	case v.Completed:
		return apply(complete(o))
	case o.SubTask.NeedsUser >= c.l.NeedsUser && (v.Needs() != "" || onlyBlocked(o) && c.s.Boulder.Loop == nil):
		return apply(c.raise(o))
	case ended.Rule == boulder.RuleBudget, overspent(o.SubTask, o) != "":
		return apply(park(o, cmp.Or(overspent(o.SubTask, o), ended.Stopped)))
	case c.s.Boulder.Loop != nil:
		return c.loopTurn(o)
	case len(lateAnswers(o)) > 0:
		return apply(c.deliverAnswer(o, lateAnswers(o)))
	case o.SubTask.Reconciling() != nil:
		return apply(c.afterConflict(o))
	case v.NeedReplan, v.BlockedBy == "wrong_plan":
		return apply(c.replanOrRetry(o, "the plan is wrong: "+cmp.Or(v.ReplanReason, v.StuckReason, shortcoming(v))))
	case o.SubTask.Stalls >= c.l.Stalls:
		return apply(c.replanOrRetry(o, fmt.Sprintf("no progress in %s: %s", text.Plural(o.SubTask.Stalls, "turn"), shortcoming(v))))
	case ended.Rule == boulder.RuleWallClock:
		return apply(c.retryOrReplan(o, "the turn was stopped: "+ended.Stopped, boulder.AttemptTimeout))
	case ended.Stopped != "":
		return apply(c.retryOrReplan(o, "the turn was stopped: "+ended.Stopped, failed))
	case ended.Error != "" && ended.Truncated == "":
		return apply(c.retryOrReplan(o, fmt.Sprintf("the session broke: %s: %s", ended.Error, ended.Message), failed))
	case v.IsStuck:
		return apply(c.retryOrReplan(o, "stuck: "+v.StuckReason, failed))
	case v.IsInLoop:
		return apply(c.retryOrReplan(o, "repeats itself: "+v.Summary, failed))
	}
	return apply(c.continueOrRetry(o))
}

// TurnEnded returns the event of an ended turn.
func TurnEnded(s *boulder.State, o *boulder.Open, turn int, e boulder.Evidence, now time.Time) boulder.TurnEnded {
	return boulder.TurnEnded{
		AttemptRef: o.Attempt.AttemptRef, Turn: turn, Ended: e.Ended, Evidence: e, Cooldown: regrown(s, o.Attempt.Model, now),
	}
}

// Judged returns the event of a verdict. Unless JudgeUnavailable, it counts as an answer of the ledger's model.
func Judged(s *boulder.State, o *boulder.Open, turn int, v boulder.Verdict, now time.Time) boulder.Judged {
	v = Overrule(o.SubTask, o.Turn.Evidence, v)
	b := boulder.Judged{AttemptRef: o.Attempt.AttemptRef, Turn: turn, Verdict: v, Stalls: stalls(o, v), NeedsUser: needsUser(o, v)}
	if !v.JudgeUnavailable {
		b.Cooldown = regrown(s, s.Boulder.Ledger(), now)
	}
	return b
}

// stalls returns the new count of stalls: plus one without progress, if the agent repeats itself, if a stuck rule fired, or if the next
// prompt would repeat the last; minus one on progress; 0 after completion. A truncated turn, or one that could not be
// judged, does not count.
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

// Overrule corrects a verdict that calls a sub-task complete while one of its gates has not run or is red.
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

// needsUser counts verdicts in a row that only the user can remove an obstacle, or that find it incomplete where only items that
// the agent calls blocked are left. JudgeUnavailable does not count.
func needsUser(o *boulder.Open, v boulder.Verdict) int {
	switch {
	case v.JudgeUnavailable:
		return o.SubTask.NeedsUser
	case v.Completed, v.Needs() == "" && !onlyBlocked(o):
		return 0
	}
	return o.SubTask.NeedsUser + 1
}

// lateAnswers returns the hard blockers of this attempt that the user settled during the turn. The agent does not know
// the answers, so it could not do better.
func lateAnswers(o *boulder.Open) []boulder.Blocker {
	return slices.DeleteFunc(o.SubTask.SettledSince(o.Turn.Seq), func(b boulder.Blocker) bool {
		return !b.Hard || b.Attempt != o.Attempt.Attempt
	})
}

// newAnswers returns answers given during the turn, other than replies, that differ from the choice the work rests on.
func (c *computing) newAnswers(o *boulder.Open) []boulder.Blocker {
	return slices.DeleteFunc(c.s.SettledSince(o.SubTask, max(o.Turn.Seq, o.Turn.ToldUpTo)), func(b boulder.Blocker) bool {
		return b.Status != boulder.BlockerAnswered || b.Answer == "" || b.Answer == b.ChosenOption || b.Replied
	})
}

// deliverAnswer gives the agent an answer: in its session if possible, otherwise in a fresh one. Neither counts as a
// try: if parked and answered then, the sub-task would not have used one up either.
func (c *computing) deliverAnswer(o *boulder.Open, answers []boulder.Blocker) boulder.Body {
	why := "there is an answer to " + answers[0].ID
	if !c.canContinue(o) {
		return uncounted(o, why, boulder.AttemptCancelled)
	}
	b := proceed(o, why)
	b.Track = encode(enforcer.Track{}) // the agent's answers are counted from zero
	return b
}

// canContinue reports whether the session can take another prompt.
func (c *computing) canContinue(o *boulder.Open) bool {
	return whole(o.Turn.Evidence.Ended) && o.Turn.Kind != boulder.TurnReuse && o.Attempt.Turns < c.l.Evaluations && !c.exhausted(o.SubTask)
}

// whole reports whether a turn left its session as one that can be prompted.
func whole(e boulder.Ended) bool { return e.Stopped == "" && (e.Error == "" || e.Truncated != "") }

// continueOrRetry asks package enforcer, the arbiter of all sessions, whether this one gets a continuation.
func (c *computing) continueOrRetry(o *boulder.Open) boulder.Body {
	missing, p := shortcoming(o.Turn.Verdict), enforcer.RunPolicy()
	p.MaxFailures, p.MaxIterations = c.l.IdleTurns+1, c.l.Evaluations-1 // the brief is no continuation
	track, err := answerTrack(o, p)
	if err != nil { // with a track that starts from zero a bound would not hold
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
		d.Reason = fmt.Sprintf("not complete after %s: %s", text.Plural(o.Attempt.Turns, "turn"), missing)
	}
	return c.retryOrReplan(o, d.Reason, boulder.AttemptFailed)
}

// answerTrack returns the agent's answers to continuations that brought no progress, the newest turn included. A run
// keeps nothing else of a track: its other bounds are counted by the attempt.
func answerTrack(o *boulder.Open, p enforcer.Policy) (enforcer.Track, error) {
	var t enforcer.Track
	if o.Turn.Kind == boulder.TurnContinuation { // otherwise an earlier attempt's track may be stored
		before, err := trackOf(o.SubTask)
		if err != nil {
			return t, err
		}
		t.Answers, t.Progress, t.Aside, t.Pending = before.Answers, before.Progress, before.Aside, "this turn"
	}
	t = enforcer.Apply(t, turnEnded(o), p)
	return enforcer.Track{Answers: t.Answers, Progress: t.Progress, Aside: t.Aside, Moved: t.Moved, Marked: t.Marked}, nil
}

// skip skips the rest of the plan, dependents first, because a sub-task achieved the goal; but not if one of them has
// gates, which only its own work can turn green, or has started, or if there is a replan.
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
			c.actions = append(c.actions, Apply{boulder.SubTaskDone{
				AttemptRef: boulder.AttemptRef{SubTaskID: rest[i].ID}, Status: boulder.SubTaskSkipped,
				AttemptStatus: boulder.AttemptCancelled,
				Summary:       fmt.Sprintf("not needed any more: the goal was achieved with %q", done.SubTask.ID),
			}})
		}
	}
}

// shortcoming says why a turn did not complete its sub-task. The summary of an overruled judge would say that it did.
func shortcoming(v *boulder.Verdict) string {
	if len(v.Overruled) > 0 {
		return strings.Join(v.Overruled, "; ")
	}
	return v.Summary
}

// retryOrReplan retries in a fresh session while tries are left, then replans while allowed, then fails. It does not
// retry after the same changes and the same failing gates as in the attempt before.
func (c *computing) retryOrReplan(o *boulder.Open, reason string, status boulder.AttemptStatus) boulder.Body {
	same := o.Attempt.Result != "" && o.Attempt.Result == o.SubTask.LastResult
	if same {
		reason += " (with the same changes and the same failing gates as the attempt before)"
	}
	switch {
	case !same && o.SubTask.Tries+1 < c.l.attempts(o.SubTask):
		return retry(o, reason, status)
	case c.mayReplan():
		return c.startReplan(o, reason)
	}
	return fail(o.Attempt.AttemptRef, reason, status)
}

func (c *computing) replanOrRetry(o *boulder.Open, reason string) boulder.Body {
	if c.mayReplan() {
		return c.startReplan(o, reason)
	}
	return c.retryOrReplan(o, reason, boulder.AttemptFailed)
}

func (c *computing) mayReplan() bool {
	return c.s.Boulder.Replans < c.l.Replans && c.s.Boulder.Loop == nil
}

// startReplan begins a replan, or waits for the one in progress.
func (c *computing) startReplan(o *boulder.Open, reason string) boulder.Body {
	if c.replan != nil {
		return nil
	}
	return boulder.ReplanStarted{
		AttemptRef: o.Attempt.AttemptRef, Number: c.s.Boulder.Replans + 1, Reason: reason,
		Replaces: c.s.Remainder(o.SubTask.ID),
	}
}

// trouble returns what follows from an infrastructure error of an attempt, which is resumed after a wait.
func (c *computing) trouble(o *boulder.Open, err error) []boulder.Body {
	ref := o.Attempt.AttemptRef
	kind, until, cooled := c.wait(err, c.s.ModelFor(o), c.modelsFor(o), o.Attempt.Troubles, ref.SubTaskID, ref.Attempt)
	return append(cooled, boulder.Trouble{
		AttemptRef: ref, Kind: kind, Reason: err.Error(), NotBefore: until,
		Uncounted: len(cooled) > 0 || kind == boulder.TroublePaused,
	})
}

// PlanTrouble returns what follows from an infrastructure error of a plan or a replan.
func PlanTrouble(s *boulder.State, l Limits, now time.Time, err error) []boulder.Body {
	_, until, cooled := newComputing(s, l, now).wait(err, s.Boulder.Ledger(), s.Boulder.LedgerModel, s.Boulder.Faults().Troubles, "plan", s.Boulder.Replans)
	return append(cooled, boulder.PlanTrouble{Reason: err.Error(), NotBefore: until, Uncounted: len(cooled) > 0})
}

// LookFailed returns what follows from an error of a look: after trouble it goes on later, a few times, else it is void.
func LookFailed(s *boulder.State, l Limits, now time.Time, err error) []boulder.Body {
	troubles := s.Boulder.Faults().Troubles
	goesOn := s.Boulder.Look.For != boulder.LookReview || s.AllOver() // else an order has begun something again
	if !errors.Is(err, boulder.ErrTrouble) || troubles+1 >= l.Troubles || !goesOn {
		return []boulder.Body{boulder.Looked{Void: err.Error()}}
	}
	_, until, cooled := newComputing(s, l, now).wait(err, s.Boulder.Look.Model, "", troubles, "look", 0)
	return append(cooled, boulder.PlanTrouble{Reason: err.Error(), NotBefore: until})
}

// wait returns when to try again after a fault. A model that answers with a rate limit or an overload, or whose provider
// wants more than the run may wait, cools down for all its users. The provider asked for that wait, so it does not count
// towards giving up.
func (c *computing) wait(
	err error, model string, models boulder.Models, troubles int, who string, n int,
) (kind boulder.TroubleKind, until time.Time, cooled []boulder.Body) {
	t, known := errors.AsType[*boulder.TroubleError](err)
	if !known {
		t = &boulder.TroubleError{Kind: boulder.TroubleServer}
	}
	if t.Kind == boulder.TroubleRateLimit || t.Kind == boulder.TroubleOverloaded || t.RetryAfter > c.l.ResetMax {
		cool := c.coolDown(cmp.Or(t.Model, model), t.RetryAfter)
		if !t.Guessed && t.RetryAfter >= leastReset && !cool.Endless() {
			cool.Reset = c.now.Add(t.RetryAfter)
		}
		if cool.Reason = err.Error(); cool.Model != model {
			models = "" // it is a sub-agent's, say: another model of the agent does not help
		}
		c.takeOut(&cool, t.Kind, models)
		if until = cool.Until; cool.Out != "" && cool.Model != model {
			until = c.now.Add(max(t.RetryAfter, c.l.CoolBase))
		}
		return t.Kind, until, []boulder.Body{cool}
	}
	d := c.jitter(doubled(c.l.Backoff, c.l.Backoff<<10, troubles+1), who, n<<8+troubles)
	return t.Kind, c.now.Add(max(d, t.RetryAfter)), nil
}

// leastReset is the shortest wait that is the end of a limit. Shorter ones are pauses between requests, perhaps OpenCode's own.
const leastReset = time.Minute

// coolDown returns the pause of a model, and half its limit for the time after. Hits during a cool-down come from
// parallel attempts and count once: they do not show that the wait was too short.
func (c *computing) coolDown(model string, asked time.Duration) boulder.Cooled {
	before, full := c.s.Boulder.Cooldowns[model], c.l.Model(model)
	limit, hits := full, max(before.Hits, 1)
	if before.Limit > 0 {
		limit = min(limit, before.Limit)
	}
	if !c.now.Before(before.Until) {
		limit, hits = limit/2, before.Hits+1
	}
	pause := cmp.Or(max(asked, 0), doubled(c.l.CoolBase, c.l.CoolMax, hits))
	until := c.now.Add(c.jitter(pause, model, hits))
	if before.Until.After(until) {
		until = before.Until
	}
	cool := boulder.Cooldown{Until: until, Since: c.now, Limit: max(1, limit), Full: full, Hits: hits}
	if c.now.Before(before.Reset) {
		cool.Reset = before.Reset
	}
	return boulder.Cooled{Model: model, Cooldown: cool}
}

// LiftLimit ends the cool-down that an attempt waits for, on the user's wish. It returns nil if there is none.
func LiftLimit(s *boulder.State, o *boulder.Open, now time.Time) []boulder.Body {
	model := s.ModelFor(o)
	atWork := o.Attempt.Status == boulder.AttemptExecuting && o.Turn.MessageID != "" && !now.Before(o.Attempt.NotBefore)
	if atWork || !now.Before(s.Boulder.Cooldowns[model].Until) {
		return nil
	}
	return []boulder.Body{lifted(s, model, now)}
}

// LiftLongLimits ends the cool-downs that are too long to wait for, since the user resumes the run nevertheless.
func LiftLongLimits(s *boulder.State, l Limits, now time.Time) (bodies []boulder.Body) {
	for _, model := range slices.Sorted(maps.Keys(s.Boulder.Cooldowns)) {
		c := newComputing(s, l, now)
		if _, out := c.out(model); out || c.tooLong(model, "") {
			bodies = append(bodies, lifted(s, model, now))
		}
	}
	return bodies
}

// LiftOutages ends the outages, since the user resumes the run: what they come from may have been seen to.
func LiftOutages(s *boulder.State, now time.Time) []boulder.Body {
	return LiftLongLimits(s, Limits{ResetMax: math.MaxInt64 - maxJitter}, now)
}

func lifted(s *boulder.State, model string, now time.Time) boulder.Cooled {
	cool := s.Boulder.Cooldowns[model]
	cool.Until, cool.Since, cool.Lifted, cool.Hits = now, now, cool.Until, 0
	return boulder.Cooled{Model: model, Cooldown: cool}
}

// regrown returns the cool-down of a model after an answer, with its limit grown by one, or nil if nothing changes.
func regrown(s *boulder.State, model string, now time.Time) *boulder.Cooldown {
	c, shrunk := s.Boulder.Cooldowns[model]
	if !shrunk || now.Before(c.Until) {
		return nil
	}
	c.Limit, c.Hits, c.Out = min(c.Limit+1, max(1, c.Full)), 0, ""
	return &c
}

// doubled returns the n-th wait in a row, from 1, without jitter.
func doubled(wait, most time.Duration, n int) time.Duration {
	for ; n > 1 && wait < most; n-- {
		wait += min(wait, most-wait)
	}
	return min(wait, most)
}

const maxJitter = 10 * time.Second

// jitter adds up to a quarter of d, at most maxJitter, so that parallel attempts do not return together. It is a hash of the
// boulder, who waits, and the n-th wait, so that it can be replayed.
func (c *computing) jitter(d time.Duration, who string, n int) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %d", c.s.Boulder.ID, who, n) // a hash takes everything
	return d + time.Duration(h.Sum64()%(uint64(min(d/4, maxJitter))+1))
}
