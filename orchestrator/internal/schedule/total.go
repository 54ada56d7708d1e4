package schedule

import (
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

func (c *computing) exhausted(t *boulder.SubTask) bool {
	return c.s.Boulder.Loop == nil && c.s.Root(t).Judged >= c.l.EvaluationsTotal
}

// crowdedOut reports whether turns under way in its chain of replans may be the last: another waits until they are judged.
func (c *computing) crowdedOut(t *boulder.SubTask) bool {
	if c.s.Boulder.Loop != nil {
		return false
	}
	first := c.s.Root(t)
	n := first.Judged + c.begun[first.ID]
	for _, o := range c.s.Live() {
		if o.SubTask != t && c.s.Root(o.SubTask) == first && o.Turn.Verdict == nil {
			n++
		}
	}
	return n >= c.l.EvaluationsTotal
}

// withinTotal replaces a decision that leads to a further turn by failure if the sub-task has had all its turns.
func (c *computing) withinTotal(o *boulder.Open, b boulder.Body) boulder.Body {
	reason := ""
	switch b := b.(type) {
	case boulder.Continuation:
		if reason = b.Reason; !c.exhausted(o.SubTask) {
			if c.crowdedOut(o.SubTask) {
				return nil
			}
			c.begun[c.s.Root(o.SubTask).ID]++
		}
	case boulder.Retry:
		reason = b.Reason
	case boulder.ReplanStarted:
		reason = b.Reason
	default:
		return b
	}
	if !c.exhausted(o.SubTask) {
		return b
	}
	return c.outOfTurns(o, reason)
}

func (c *computing) outOfTurns(o *boulder.Open, reason string) boulder.SubTaskDone {
	return fail(o.Attempt.AttemptRef, fmt.Sprintf("it had %s with what it replaces, which is the limit; %s",
		text.Plural(c.l.EvaluationsTotal, "judged turn"), reason), boulder.AttemptFailed)
}
