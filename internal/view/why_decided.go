package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

func (v WhyView) verdict(s WhyStep) {
	verdict := s.Verdict
	how := v.Yellow("not complete:")
	if verdict.Completed {
		how = v.Green("complete:")
	}
	v.at(s, "judged "+how, text.OneLine(verdict.Summary))
	if verdict.JudgeUnavailable {
		v.detail("note:", "no usable answer came from the judge: the gates alone decided")
	}
	for _, c := range verdict.Criteria {
		mark := v.Red("✗")
		if c.Met {
			mark = v.Green("✓")
		}
		v.say(depthDetail, mark, text.OneLine(c.Criterion)+v.Dim(Prefixed(" — ", text.OneLine(c.Evidence))))
	}
	for _, o := range verdict.Overruled {
		v.say(depthDetail, v.Red("overruled:"), text.OneLine(o))
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
		{verdict.IsStuck, "stuck" + Prefixed(": ", verdict.StuckReason)},
		{verdict.IsInLoop && !verdict.Completed, "a loop"},
		{!verdict.IsProgress && !verdict.Completed && !verdict.JudgeUnavailable, "no progress"},
		{verdict.NeedReplan, "a new plan is needed" + Prefixed(": ", verdict.ReplanReason)},
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

func (v WhyView) decision(s WhyStep) {
	what, line := s.Decision, s.Reason
	switch s.Decision {
	case decidedContinuation:
		what = fmt.Sprintf("continue the session with turn %d", s.Next)
		if !s.Until.IsZero() {
			what += ", not before " + Clock(s.Until)
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
		what = JoinedBy(" by ", "superseded", s.ReplacedBy)
	case string(boulder.SubTaskBlocked):
		line = fmt.Sprintf("%q cannot be had: %s", s.By, s.Reason)
	case decidedParked:
		what = "wait for a person"
	case decidedUnparked:
		what = "continue"
	case decidedReopened:
		what = "retry"
	}
	if s.By != "" && s.Decision != string(boulder.SubTaskBlocked) {
		what += fmt.Sprintf(" because of %q", s.By)
	}
	v.at(s, v.Bold("→ "+v.decided(s.Decision, text.OneLine(what))+":"), text.OneLine(line))
}

// decided colours a decision.
func (v WhyView) decided(decision, text string) string {
	switch decision {
	case string(boulder.SubTaskCompleted), decidedUnparked:
		return v.Green(text)
	case string(boulder.SubTaskFailed), string(boulder.SubTaskCancelled):
		return v.Red(text)
	}
	return v.Yellow(text)
}
