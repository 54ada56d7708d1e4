package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

func (v whyView) verdict(s whyStep) {
	verdict := s.Verdict
	how := v.yellow("not complete:")
	if verdict.Completed {
		how = v.green("complete:")
	}
	v.at(s, "judged "+how, oneLine(verdict.Summary))
	if verdict.JudgeUnavailable {
		v.detail("note:", "no usable answer came from the judge: the gates alone decided")
	}
	for _, c := range verdict.Criteria {
		mark := v.red("✗")
		if c.Met {
			mark = v.green("✓")
		}
		v.say(depthDetail, mark, oneLine(c.Criterion)+v.dim(prefixed(" — ", oneLine(c.Evidence))))
	}
	for _, o := range verdict.Overruled {
		v.say(depthDetail, v.red("overruled:"), oneLine(o))
	}
	for _, r := range verdict.Remaining {
		if !slices.Contains(verdict.Overruled, r) {
			v.detail(remainingLabel(verdict)+":", r)
		}
	}
	v.detail("the judge saw:", strings.Join(noticed(verdict), "; "))
}

// noticed is what the judge found besides the criteria.
func noticed(verdict *boulder.Verdict) []string {
	var all []string
	for _, n := range []struct {
		on   bool
		what string
	}{
		{verdict.IsStuck, "stuck" + prefixed(": ", verdict.StuckReason)},
		{verdict.IsInLoop && !verdict.Completed, "a loop"},
		{!verdict.IsProgress && !verdict.Completed && !verdict.JudgeUnavailable, "no progress"},
		{verdict.NeedReplan, "a new plan is needed" + prefixed(": ", verdict.ReplanReason)},
		{
			verdict.BlockedBy != "" && verdict.BlockedBy != "none",
			"blocked by " + strings.ReplaceAll(verdict.BlockedBy, "_", " "),
		},
		{verdict.GoalAchieved, "the whole goal achieved"},
	} {
		if n.on {
			all = append(all, n.what)
		}
	}
	return all
}

func (v whyView) decision(s whyStep) {
	what, text := s.Decision, s.Reason
	switch s.Decision {
	case decidedContinuation:
		what = fmt.Sprintf("continue the session with turn %d", s.Next)
		if !s.Until.IsZero() {
			what += ", not before " + clock(s.Until)
		}
	case decidedRetry:
		what = fmt.Sprintf("retry with attempt %d", s.Next)
		if s.Uncounted {
			what += ", which does not count"
		}
	case decidedReplan:
		what = "make a new plan"
	case decidedNoReplan:
		what = "no new plan"
	case string(boulder.SubTaskSuperseded):
		what = joinedBy(" by ", "superseded", s.ReplacedBy)
	case string(boulder.SubTaskBlocked):
		text = fmt.Sprintf("%q cannot be had: %s", s.By, s.Reason)
	case decidedParked:
		what = "wait for a person"
	case decidedUnparked:
		what = "go on"
	case decidedReopened:
		what = "begin anew"
	}
	if s.By != "" && s.Decision != string(boulder.SubTaskBlocked) {
		what += fmt.Sprintf(" because of %q", s.By)
	}
	v.at(s, v.bold("→ "+v.decided(s.Decision, oneLine(what))+":"), oneLine(text))
}

// decided colours a decision.
func (v whyView) decided(decision, text string) string {
	switch decision {
	case string(boulder.SubTaskCompleted), decidedUnparked:
		return v.green(text)
	case string(boulder.SubTaskFailed), string(boulder.SubTaskCancelled):
		return v.red(text)
	}
	return v.yellow(text)
}
