package schedule

import (
	"cmp"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
)

// goAround decides about the ended turn of an attempt that awaits answers to what its agent asked. They hold up what needs
// them, not the session: it is told once to do the rest, and the sub-task is parked when it says that nothing is left, when
// all open items of its list are blocked, when a turn brings no progress, or when the judge says so. Package enforcer decides,
// as for all sessions. It reports false if a verdict is needed first.
func (c *computing) goAround(o *boulder.Open) (boulder.Body, bool) {
	v, awaited := o.Turn.Verdict, o.SubTask.AwaitedBy(o.Attempt.Attempt)
	told := len(o.SubTask.AwaitedBy(o.Attempt.Attempt, o.Turn.Aside...)) == 0
	ended := o.Turn.Evidence.Ended
	switch {
	case v != nil && (!told || nothingLeft(v)): // not told: manager asks, because of the verdict
		return park(o, ""), true
	case ended.Rule == boulder.RuleBudget, overspent(o.SubTask, o) != "":
		return park(o, cmp.Or(overspent(o.SubTask, o), ended.Stopped)), true
	case c.exhausted(o.SubTask), c.crowdedOut(o.SubTask), !whole(ended): // others of its line may wait like it
		return park(o, ""), true
	}
	p, track, err := c.trackToAround(o)
	if err != nil {
		return park(o, ""), true
	}
	s := situationOf(o)
	b := boulder.Continuation{AttemptRef: o.Attempt.AttemptRef, Turn: o.Turn.Number + 1, Remaining: []string{}}
	for _, q := range awaited {
		s.Questions = append(s.Questions, enforcer.Question{ID: q.ID, Says: boulder.Awaited([]boulder.Blocker{q})})
		b.Aside = append(b.Aside, q.ID)
	}
	if len(lateAnswers(o)) > 0 { // to others: the next prompt has them
		track.Marked, track.Moved = false, true
	}
	d, at := c.whenAllowed(track, s, p)
	switch {
	case d.Kind != enforcer.Send:
		return park(o, ""), true
	case told && v == nil:
		return nil, false
	case v != nil:
		b.Remaining = append(b.Remaining, v.Remaining...)
	}
	b.Reason = d.Reason
	track = enforcer.Apply(track, enforcer.Decided{At: at, Decision: d, MessageID: "next", Aside: b.Aside}, p)
	if b.Track = encode(track); at.After(c.now) {
		b.NotBefore = at
	}
	return c.withinTotal(o, b), true
}

// nothingLeft reports whether the judge says that nothing can be done without the user.
func nothingLeft(v *boulder.Verdict) bool {
	return v.Completed || v.IsInLoop || v.Needs() != "" || stuckReason(v) != ""
}

// trackToAround returns the track of an attempt after the newest turn, and the policy by which it continues. The turns of a
// run are bounded in all, not by attempt: no fresh session can take over.
func (c *computing) trackToAround(o *boulder.Open) (p enforcer.Policy, track enforcer.Track, err error) {
	if c.s.Boulder.Loop != nil {
		p = loopPolicy(c.s.Boulder.Loop)
		track, err = loopTrack(o, p)
		return p, track, err
	}
	p = enforcer.RunPolicy()
	p.MaxIterations = -1
	track, err = answerTrack(o, p)
	return p, track, err
}

// undecided makes blockers of the plan's questions that were answered by default, each once: soft ones, as the work goes on.
func (c *computing) undecided() (raised []Action) {
	for _, q := range c.s.Undecided() {
		about := q.Why
		if ids := c.s.Revision.Plan.Resting(q.ID); len(ids) > 0 {
			about = strings.TrimSpace(about + "\nIt bears on: " + strings.Join(ids, ", "))
		}
		raised = append(raised, Apply{boulder.BlockerRaised{Blocker: boulder.Blocker{
			BlockerScope: boulder.BlockerScope{BoulderID: c.s.Boulder.ID}, PlanQuestion: q.ID, Category: boulder.BlockerQuestion,
			Question: text.Cut(q.Question, boulder.MaxQuestion), Context: text.Cut(about, boulder.MaxContext), ChosenOption: q.Answer,
			ChosenReasoning: "the default of the planner: nobody was asked", Status: boulder.BlockerPending, CreatedAt: c.now,
		}}})
	}
	return raised
}
