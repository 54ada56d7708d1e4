package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// finish ends a piece of work in a random way, or lets it give a sign of life.
func (w *world) finish(ref boulder.AttemptRef) {
	j := w.due[ref]
	delete(w.due, ref)
	if j.kind == "replan" {
		w.finishReplan()
		return
	}
	o := w.state.Open(ref.SubTaskID)
	if j.kind == "judge" {
		w.finishJudge(o)
		return
	}
	if o.Attempt.Status == boulder.AttemptStarting {
		w.apply(boulder.SubTaskStart{AttemptRef: ref, SessionID: "s"})
	}
	if o.Turn.MessageID == "" {
		w.apply(boulder.TurnSent{AttemptRef: ref, Turn: o.Turn.Number, MessageID: "m"})
	}
	switch {
	case j.parked != "":
		w.applyAll(w.park(o, j.parked))
	case j.signs > 0:
		w.apply(boulder.SubTaskProgress{AttemptRef: ref, Usage: o.Attempt.Seen.Add(w.aBit())})
		j.signs--
		j.at = w.after(5 * time.Second)
		w.due[ref] = j
	default:
		w.finishTurn(o)
	}
}

func (w *world) applyAll(bodies []boulder.Body) {
	for _, b := range bodies {
		w.apply(b)
	}
}

func (w *world) aBit() boulder.Usage {
	return boulder.Usage{Input: int64(w.rng.IntN(100)), Output: 1, Calls: 1, Cost: 0.0625}
}

// ask lets the turn raise blockers, before whatever becomes of it, and a quick person answer some.
func (w *world) ask(o *boulder.Open) {
	for w.happens(w.odds.asks) {
		w.asked++
		hard, kind := w.happens(50), "soft blocker"
		if hard {
			kind = "hard blocker"
		}
		w.seen[kind]++
		w.apply(boulder.BlockerRaised{AttemptRef: o.Attempt.AttemptRef, Blocker: boulder.Blocker{
			ID: fmt.Sprint("B", w.asked), Question: "?", Hard: hard,
		}})
	}
	w.answer(o.SubTask)
}

// answer settles some of what a sub-task asked.
func (w *world) answer(t *boulder.SubTask) {
	for _, b := range t.Blockers {
		if b.Status.Settled() || t.Status.Terminal() || !w.happens(w.odds.answered) {
			continue
		}
		if t.Parked {
			w.seen["answered while parked"]++
		} else {
			w.seen["answered at work"]++
		}
		status, text := boulder.BlockerAnswered, "yes"
		if w.happens(30) {
			status, text = boulder.BlockerSkipped, ""
		}
		w.apply(boulder.BlockerSettled{SubTaskID: t.ID, BlockerID: b.ID, Status: status, Answer: text})
	}
}

func (w *world) finishTurn(o *boulder.Open) {
	ref := o.Attempt.AttemptRef
	w.ask(o)
	switch {
	case w.happens(w.odds.limited):
		w.coolDown(o, o.Attempt.Model)
		return
	case w.happens(w.odds.trouble):
		w.trouble(o)
		return
	case w.happens(w.odds.lost):
		w.brokeOff(o, Lost(o, w.limits, "no such session"))
		return
	case w.happens(w.odds.broken):
		w.brokeOff(o, Broken(w.state, o, w.limits, "broken"))
		return
	}
	w.turns[ref]++
	used := o.Running().Add(w.aBit())
	e := w.evidence(o.SubTask, used)
	w.apply(TurnEnded(w.state, o, o.Turn.Number, e, w.now))
	for _, g := range e.Gates {
		w.apply(boulder.NewGateRun(o.SubTask, ref.Attempt, g))
	}
	w.apply(w.usage(o, boulder.UsageAttempt, used))
}

// brokeOff carries out what follows from a turn that is over without evidence. What it used is booked once.
func (w *world) brokeOff(o *boulder.Open, action Action) {
	bodies := w.decision(action)
	if _, parks := action.(Park); !parks {
		bodies = append(w.brokenOff(o), bodies...)
	}
	w.applyAll(bodies)
}

func (w *world) evidence(t *boulder.SubTask, used boulder.Usage) boulder.Evidence {
	e := boulder.Evidence{
		Usage: used, Duration: time.Duration(w.rng.IntN(5000)) * time.Millisecond,
		Diff: boulder.Diff{Hash: fmt.Sprint(w.rng.IntN(3))},
	}
	if !w.happens(w.odds.idle) {
		e.ToolCount = 3
	}
	for _, command := range t.Gates {
		e.Gates = append(e.Gates, boulder.Gate{Command: command})
	}
	if w.happens(w.odds.red) {
		e.Gates = []boulder.Gate{{Command: "make", ExitCode: 1}}
	}
	if w.happens(w.odds.stopped) {
		rules := []boulder.Rule{
			boulder.RuleRepeat, boulder.RuleErrors, boulder.RuleAlternate, boulder.RuleIdle, boulder.RuleSilence,
			boulder.RuleWallClock, boulder.RuleWallClock, boulder.RuleWallClock, boulder.RuleCompaction, boulder.RuleBudget,
		}
		e.Ended = stopped(oneOf(w.rng, rules...))
	}
	if w.happens(w.odds.errored) {
		e.Ended.Error = "APIError"
		if w.happens(50) {
			e.Ended.Truncated = "length"
		}
	}
	return e
}

func (w *world) finishJudge(o *boulder.Open) {
	switch {
	case w.happens(w.odds.ledgerLimited):
		w.coolDown(o, ledgerModel)
		return
	case w.happens(w.odds.trouble):
		w.trouble(o)
		return
	}
	w.apply(w.usage(o, boulder.UsageJudge, w.aBit()))
	v := boulder.Verdict{
		Completed: w.happens(w.odds.done), IsProgress: w.happens(w.odds.progress), IsStuck: w.happens(w.odds.stuck),
		IsInLoop: w.happens(w.odds.loop), NeedReplan: w.happens(w.odds.needReplan), GoalAchieved: w.happens(w.odds.goal),
		JudgeUnavailable:   w.happens(w.odds.noJudge),
		ContinuationPrompt: fmt.Sprint("do ", w.rng.IntN(3)),
	}
	if w.happens(w.odds.wrongPlan) {
		v.BlockedBy = "wrong_plan"
	}
	w.apply(Judged(w.state, o, o.Turn.Number, v, w.now))
}

// trouble is a fault that is nobody's work.
func (w *world) trouble(o *boulder.Open) {
	w.applyAll(Trouble(w.state, w.limits, w.now, o, errors.New("no server")))
}

// coolDown is a rate limit.
func (w *world) coolDown(o *boulder.Open, model string) {
	w.seen["cool-down"]++
	limited := &boulder.TroubleError{Kind: boulder.TroubleRateLimit, Model: model, Err: errors.New("429")}
	w.applyAll(Trouble(w.state, w.limits, w.now, o, limited))
}

// finishReplan ends what the Task Ledger was asked for.
func (w *world) finishReplan() {
	r := w.state.Boulder.Replan
	switch {
	case w.happens(w.odds.trouble), w.happens(w.odds.ledgerLimited):
		w.applyAll(ReplanTrouble(w.state, w.limits, w.now, errors.New("no server")))
	case w.happens(w.odds.newPlan):
		w.seen["new plan"]++
		if r.Attempt == 0 {
			w.seen["after completion"]++
		}
		w.apply(w.newPlan(r))
	default:
		w.applyAll(w.refuse())
	}
}

// newPlan is a chain of new sub-tasks, each of which may also depend on what is done or kept.
func (w *world) newPlan(r *boulder.Replanning) boulder.Body {
	var can []string
	replaced := map[string]bool{}
	for _, id := range r.Replaces {
		replaced[id] = true
	}
	for _, t := range w.state.SubTasks {
		switch t.Status {
		case boulder.SubTaskPending, boulder.SubTaskInProgress, boulder.SubTaskCompleted:
			if !replaced[t.ID] {
				can = append(can, t.ID)
			}
		}
	}
	var specs []boulder.Spec
	for i := range 1 + w.rng.IntN(3) {
		s := boulder.Spec{ID: fmt.Sprintf("n%03d", len(w.state.SubTasks)+i), Subject: "Do it otherwise", Model: "p/two"}
		if len(can) > 0 && w.happens(50) {
			s.DependsOn = append(s.DependsOn, oneOf(w.rng, can...))
		}
		if i > 0 && w.happens(50) {
			s.DependsOn = append(s.DependsOn, specs[i-1].ID)
		}
		specs = append(specs, s)
	}
	number := w.state.Boulder.Revision + 1
	return boulder.Replanned{
		AttemptRef: r.AttemptRef, Revision: number, SubTasks: specs,
		Plan: boulder.PlanRevision{Number: number, Plan: boulder.Plan{SubTasks: specs}},
	}
}
