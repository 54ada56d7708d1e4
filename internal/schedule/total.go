package schedule

import (
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// exhausted reports whether a sub-task and what it replaces have had all their judged turns.
func (c *computing) exhausted(t *boulder.SubTask) bool {
	return c.s.Boulder.Loop == nil && c.s.First(t).Judged >= c.l.EvaluationsTotal
}

// crowdedOut reports whether the turns of its line that are under way may be the last ones: a further one waits until they
// are judged.
func (c *computing) crowdedOut(t *boulder.SubTask) bool {
	if c.s.Boulder.Loop != nil {
		return false
	}
	first := c.s.First(t)
	n := first.Judged + c.begun[first.ID]
	for _, o := range c.s.Live() {
		if c.s.First(o.SubTask) == first && o.Turn.Verdict == nil {
			n++
		}
	}
	return n >= c.l.EvaluationsTotal
}

// withinTotal takes back what would lead to a further turn of a sub-task that has had all of them: it fails, whatever
// attempts and replans are left.
func (c *computing) withinTotal(o *boulder.Open, a Action) Action {
	reason := ""
	switch a := a.(type) {
	case boulder.Continuation:
		if reason = a.Reason; !c.exhausted(o.SubTask) {
			if c.crowdedOut(o.SubTask) {
				return nil
			}
			c.begun[c.s.First(o.SubTask).ID]++
		}
	case boulder.Retry:
		reason = a.Reason
	case boulder.ReplanStarted:
		reason = a.Reason
	default:
		return a
	}
	if !c.exhausted(o.SubTask) {
		return a
	}
	return c.outOfTurns(o, reason)
}

func (c *computing) outOfTurns(o *boulder.Open, reason string) boulder.SubTaskDone {
	return fail(o.Attempt.AttemptRef, fmt.Sprintf("it had %s with what it replaces, which is the limit; %s",
		text.Plural(c.l.EvaluationsTotal, "judged turn"), reason), boulder.AttemptFailed)
}
