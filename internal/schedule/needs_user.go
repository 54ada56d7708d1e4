package schedule

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

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

// raise makes the judge's words a hard blocker. Recorded, it parks the sub-task as one of the agent's does.
func (c *computing) raise(o *boulder.Open) Raise {
	v := o.Turn.Verdict
	said := fmt.Sprintf("The judge said of %s in a row that only you can remove what is in the way (%s). %s",
		text.Plural(o.SubTask.NeedsUser, "turn"), strings.ReplaceAll(v.BlockedBy, "_", " "), v.Summary)
	return c.blocker(o, needs(*v), cmp.Or(v.StuckReason, v.Summary), said+text.Prefixed("\nLeft to do: ", strings.Join(v.Remaining, "; ")))
}

func (c *computing) blocker(o *boulder.Open, category boulder.BlockerCategory, question, about string) Raise {
	return Raise{o, boulder.Blocker{
		BlockerScope: boulder.BlockerScope{
			BoulderID: c.s.Boulder.ID, SubTaskID: o.SubTask.ID, Attempt: o.Attempt.Attempt, SessionID: o.Attempt.SessionID,
		},
		Category: category, Question: question, Hard: true, Context: about,
	}}
}

// NotRaised parks a sub-task whose blocker could not be recorded: it needs the user all the same.
func NotRaised(o *boulder.Open, b boulder.Blocker, why error) boulder.Parked {
	return park(o, fmt.Sprintf("only you can remove what is in the way: %s (not recorded as a blocker: %v)", b.Question, why))
}
