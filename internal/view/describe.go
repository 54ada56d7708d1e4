package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
)

// Describe tells an event in a sentence, and the id of the sub-task that it speaks of; empty: the whole boulder. The
// sentence may hold any text: the caller cleans it. It is empty for a sign of life that says nothing.
//
// The sign marks the line that the event leaves where a run is shown; empty: it leaves none.
func Describe(body boulder.Body) (subTask, sign, line string) {
	switch b := body.(type) {
	case boulder.Created:
		return "", "", "created: " + b.Boulder.Task
	case boulder.Planned:
		return "", "", fmt.Sprintf("plan revision %d (%s) waits for approval", b.Revision, b.Origin)
	case boulder.Decomposed:
		return "", inPicture, fmt.Sprintf("plan revision %d (%s%s): %s", b.Revision, b.Origin, when(b.Edited, ", edited"),
			text.Plural(len(b.SubTasks), "sub-task"))
	case boulder.StatusChanged:
		sign = when(b.Status != boulder.Synthesizing, inPicture) // what follows that at once says more
		return "", sign, report.Stated(string(b.Status), b.Reason)
	case boulder.TakenUp:
		return "", "", "resumed by another process"
	case boulder.ClockMoved:
		if b.By < 0 {
			return "", "", "the clock was set back by " + text.Elapsed(-b.By)
		}
		return "", "", "the clock went on by " + text.Elapsed(b.By) + " at once: the machine slept, or it was set"
	case boulder.SessionLeft:
		if b.Stopped {
			return b.SubTaskID, "", fmt.Sprintf("attempt %d: session %s is stopped", b.Attempt, b.SessionID)
		}
		return b.SubTaskID, "", fmt.Sprintf("attempt %d: its agent may still be at work in session %s until that is stopped",
			b.Attempt, b.SessionID)
	case boulder.Starting:
		return b.SubTaskID, "", fmt.Sprintf("attempt %d has a slot", b.Attempt)
	case boulder.SubTaskStart:
		return b.SubTaskID, "", fmt.Sprintf("attempt %d starts with %s in session %s", b.Attempt, ModelName(b.Model), b.SessionID)
	case boulder.TurnSent:
		what := string(b.Kind)
		if b.Resume {
			what = "resume prompt"
		}
		return b.SubTaskID, "", fmt.Sprintf("turn %d: the %s is sent", b.Turn, what)
	case boulder.Nudged:
		return b.SubTaskID, "↻", fmt.Sprintf("turn %d is nudged (rule %s)", b.Turn, b.Rule)
	case boulder.SubTaskProgress:
		line = b.Activity
		if b.TodosTotal > 0 {
			line += fmt.Sprintf(" (%d of %d todos)", b.TodosDone, b.TodosTotal)
		}
		if c := b.Checkpoint; c != nil {
			line += fmt.Sprintf(" (%s:%d)", c.File, c.Line)
		}
		return b.SubTaskID, when(b.Notice, "!"), line
	case boulder.TurnEnded:
		return b.SubTaskID, "", fmt.Sprintf("turn %d ended: %s", b.Turn, endText(b.Ended))
	case boulder.GateRun:
		sign = map[bool]string{true: inPicture, false: "✗"}[b.Passed]
		g := report.NewGate(gateOf(b))
		_, how := g.Text()
		took := text.Elapsed(time.Duration(b.Millis)*time.Millisecond) + when(b.Final, ", on the final files")
		return b.SubTaskID, sign, fmt.Sprintf("gate %s: %s (%s)%s", how, b.Command, took, report.Prefixed(": ", g.Why))
	case boulder.Judged:
		how := when(!b.Verdict.Completed, "not ") + "complete" + when(b.Verdict.JudgeUnavailable, " (by the gates alone)")
		return b.SubTaskID, "", fmt.Sprintf("turn %d judged %s", b.Turn, joined(how, b.Verdict.Summary))
	case boulder.Continuation:
		line = fmt.Sprintf("continues with turn %d", b.Turn) + when(!b.NotBefore.IsZero(), ", not before "+Clock(b.NotBefore))
		return b.SubTaskID, inPicture, line + ": " + joined(b.Reason, strings.Join(b.Remaining, "; "))
	case boulder.Retry:
		return b.SubTaskID, "↻", fmt.Sprintf("attempt %d %s: %s; attempt %d is next", b.Attempt, b.Status, b.Reason, b.Next)
	case boulder.Trouble:
		if b.Kind == boulder.TroublePaused { // not a fault, and it ends when the user says so
			return b.SubTaskID, inPicture, "stopped for now: " + b.Reason
		}
		kind := when(b.Kind != "" && b.Kind != boulder.TroubleServer, " ("+strings.ReplaceAll(string(b.Kind), "_", " ")+")")
		return b.SubTaskID, inPicture, fmt.Sprintf("fault%s: %s; tried again at %s", kind, b.Reason, Clock(b.NotBefore))
	case boulder.Cooled:
		return "", "!", fmt.Sprintf("%s cools down until %s, then %s at once: %s",
			ModelName(b.Model), Clock(b.Until), text.Plural(b.Limit, "attempt"), b.Reason)
	case boulder.ReplanStarted:
		return b.SubTaskID, "↻", fmt.Sprintf("replan %d: %s", b.Number, b.Reason)
	case boulder.ReplanTrouble:
		return "", "!", fmt.Sprintf("fault while replanning: %s; tried again at %s", b.Reason, Clock(b.NotBefore))
	case boulder.Replanned:
		var parts []string
		for _, c := range b.Changed {
			parts = append(parts, fmt.Sprintf("~ %s → %s", c.From, c.To.ID))
		}
		for _, t := range b.Added {
			parts = append(parts, "+ "+t.ID)
		}
		for _, id := range b.Removed {
			parts = append(parts, "- "+id)
		}
		return b.SubTaskID, "↻", fmt.Sprintf("replan %d, plan revision %d: %s", b.Number, b.Revision, strings.Join(parts, ", "))
	case boulder.ReplanRefused:
		return b.SubTaskID, "↻", "no new plan: " + b.Reason
	case boulder.BudgetSet:
		return b.SubTaskID, "", "budget: " + cmp.Or(report.Budget(b.Budget), "none")
	case boulder.BudgetWarning:
		line = fmt.Sprintf("%.0f%% of the %s budget is used: ", math.Floor(100*b.Used/b.Limit), b.Dimension)
		if b.Used >= b.Limit {
			line = fmt.Sprintf("the %s budget is used up: ", b.Dimension)
		}
		return b.SubTaskID, "!", line + amountText(b.Dimension, b.Used) + " of " + amountText(b.Dimension, b.Limit)
	case boulder.Parked:
		return b.SubTaskID, "!", when(len(b.Awaits) == 0, "waits for you: ") + b.Reason // else it waits for an answer
	case boulder.Unparked:
		return b.SubTaskID, "↻", "continues: " + b.Reason
	case boulder.Noted:
		return b.SubTaskID, "✎", "note: " + b.Text
	case boulder.Reopened:
		return b.SubTaskID, "✎", "retried: " + b.Reason
	case boulder.Archived:
		if b.Archived {
			return "", "", "archived"
		}
		return "", "", "taken back from the archive"
	case boulder.BlockerRaised:
		return b.SubTaskID, "?", fmt.Sprintf("%s blocker %s (%s): %s%s", report.Hardness(b.Blocker.Hard), b.Blocker.ID,
			b.Blocker.Category, b.Blocker.Question, report.Prefixed("; chosen for now: ", b.Blocker.ChosenOption))
	case boulder.BlockerSettled:
		return b.SubTaskID, "✎", b.BlockerID + " " + settledText(b.Status, b.Allowed, b.Answer)
	case boulder.UsageReport:
		return b.SubTaskID, "", fmt.Sprintf("usage of %s: %s", JoinedBy(", ", b.Source, b.Model), report.Usage(b.Usage))
	case boulder.SubTaskDone:
		blocks := when(len(b.Blocked) > 0, " (blocks "+strings.Join(b.Blocked, ", ")+")")
		return b.SubTaskID, report.Sign(b.Status), report.Stated(string(b.Status), b.Summary) + blocks
	case boulder.TaskComplete:
		first, _, _ := strings.Cut(b.Summary, "\n")
		return "", "", joined(string(b.Status), first)
	}
	return "", "", boulder.TypeOf(body)
}

// inPicture is the sign of what the live picture shows: only plain lines tell it.
const inPicture = "·"

// gateOf is the run of a gate that an event tells of.
func gateOf(b boulder.GateRun) boulder.Gate {
	return boulder.Gate{
		Command: b.Command, ExitCode: b.ExitCode, Output: b.Output, NoWorse: b.NoWorse, TimedOut: b.TimedOut,
		Duration: time.Duration(b.Millis) * time.Millisecond,
	}
}

// amountText is an amount of a budget's dimension.
func amountText(dimension string, n float64) string {
	switch dimension {
	case "cost":
		return fmt.Sprintf("$%.2f", n)
	case "time":
		return text.Elapsed(time.Duration(n * float64(time.Second)))
	case "tokens":
		return text.Count(int64(n))
	}
	return fmt.Sprintf("%.0f", n)
}

func endText(e boulder.Ended) string {
	switch {
	case e.Stopped != "":
		return "stopped by the manager, " + e.Stopped + report.Prefixed(", rule ", string(e.Rule))
	case e.Error != "":
		return joined(e.Error, e.Message)
	}
	return cmp.Or(e.Truncated, e.Finish, "no answer")
}

func settledText(status boulder.BlockerStatus, allowed bool, answer string) string {
	switch {
	case status == boulder.BlockerSkipped:
		return "gets no answer: continue without"
	case allowed:
		return JoinedBy(": ", "is allowed", answer)
	}
	return JoinedBy(": ", "is answered", answer)
}

// joined is "a: b", or only a if b says nothing new.
func joined(a, b string) string {
	if strings.Contains(a, b) {
		return a
	}
	return JoinedBy(": ", a, b)
}

// JoinedBy puts sep between the texts that are not empty.
func JoinedBy(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}

// when is a text on a condition, else none.
func when(on bool, s string) string {
	if on {
		return s
	}
	return ""
}

// ModelName names a model for people; empty is what OpenCode uses when none is named.
func ModelName(model string) string { return cmp.Or(model, "OpenCode's default model") }

// Clock is a time of the day, here.
func Clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// Stamp is a time with its date, here.
func Stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }
