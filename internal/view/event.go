package view

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Describe is an event in a sentence, without the sub-task's name. It may hold any text; the caller cleans it.
func Describe(body boulder.Body) string {
	if b, ok := body.(boulder.SubTaskProgress); ok {
		return describeProgress(b) // which may have nothing to say
	}
	for _, about := range []func(boulder.Body) string{
		ofBoulder, ofTurn, ofAttempt, ofReplan, ofPerson, ofBlocker, ofBudget,
	} {
		if text := about(body); text != "" {
			return text
		}
	}
	return boulder.TypeOf(body)
}

// ofBoulder tells what happens to the whole boulder; it is empty for other events, as are those below.
func ofBoulder(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.Created:
		return "created: " + b.Boulder.Task
	case boulder.Planned:
		return fmt.Sprintf("plan revision %d (%s) waits for approval", b.Revision, b.Origin)
	case boulder.Decomposed:
		return describePlan(b)
	case boulder.StatusChanged:
		return Stated(string(b.Status), b.Reason)
	case boulder.TakenUp:
		return "taken up again"
	case boulder.ClockMoved:
		if b.By < 0 {
			return "the clock was set back by " + text.Elapsed(-b.By)
		}
		return "the clock went on by " + text.Elapsed(b.By) + " at once: the machine slept, or it was set"
	case boulder.TaskComplete:
		first, _, _ := strings.Cut(b.Summary, "\n")
		return joined(string(b.Status), first)
	}
	return ""
}

// ofTurn tells what goes on in a session.
func ofTurn(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.TurnSent:
		if b.Resume {
			return fmt.Sprintf("turn %d: the resume prompt is sent", b.Turn)
		}
		return fmt.Sprintf("turn %d: the %s is sent", b.Turn, b.Kind)
	case boulder.Nudged:
		return fmt.Sprintf("turn %d is nudged (%s)", b.Turn, b.Rule)
	case boulder.TurnEnded:
		return fmt.Sprintf("turn %d ended: %s", b.Turn, describeEnd(b.Ended))
	case boulder.GateRun:
		return describeGate(b)
	case boulder.Judged:
		return describeVerdict(b)
	}
	return ""
}

// ofAttempt tells how an attempt begins, goes on and ends.
func ofAttempt(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.Starting:
		return fmt.Sprintf("attempt %d has a slot", b.Attempt)
	case boulder.SubTaskStart:
		return fmt.Sprintf("attempt %d starts with %s in session %s", b.Attempt, ModelName(b.Model), b.SessionID)
	case boulder.Continuation:
		next := fmt.Sprintf("continues with turn %d", b.Turn)
		if !b.NotBefore.IsZero() {
			next += ", not before " + Clock(b.NotBefore)
		}
		return next + ": " + joined(b.Reason, strings.Join(b.Remaining, "; "))
	case boulder.Retry:
		return fmt.Sprintf("attempt %d %s: %s; attempt %d is next", b.Attempt, b.Status, b.Reason, b.Next)
	case boulder.Trouble:
		if b.Kind == boulder.TroublePaused {
			return "stopped for now: " + b.Reason
		}
		return fmt.Sprintf("trouble: %s; next try at %s", b.Reason, Clock(b.NotBefore))
	case boulder.Cooled:
		return fmt.Sprintf("%s cools down until %s, then %s at once: %s",
			ModelName(b.Model), Clock(b.Until), text.Plural(b.Limit, "attempt"), b.Reason)
	case boulder.SessionLeft:
		if b.Stopped {
			return fmt.Sprintf("attempt %d: session %s is stopped", b.Attempt, b.SessionID)
		}
		return fmt.Sprintf("attempt %d: its agent may still be at work in session %s until that is stopped",
			b.Attempt, b.SessionID)
	case boulder.SubTaskDone:
		text := Stated(string(b.Status), b.Summary)
		if len(b.Blocked) > 0 {
			text += " (blocks " + strings.Join(b.Blocked, ", ") + ")"
		}
		return text
	}
	return ""
}

// ofReplan tells how a new plan comes about.
func ofReplan(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.ReplanStarted:
		return fmt.Sprintf("replan %d: %s", b.Number, b.Reason)
	case boulder.ReplanTrouble:
		return fmt.Sprintf("trouble while planning anew: %s; next try at %s", b.Reason, Clock(b.NotBefore))
	case boulder.Replanned:
		return describeReplan(b)
	case boulder.ReplanRefused:
		return "no new plan: " + b.Reason
	}
	return ""
}

// ofPerson tells what a person is waited for, or has said.
func ofPerson(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.Parked:
		if len(b.Awaits) > 0 { // an answer
			return b.Reason
		}
		return "waits for a person: " + b.Reason
	case boulder.Unparked:
		return "goes on: " + b.Reason
	case boulder.Noted:
		return "note: " + b.Text
	case boulder.Reopened:
		return "retried: " + b.Reason
	case boulder.Archived:
		if b.Archived {
			return "archived"
		}
		return "taken back from the archive"
	}
	return ""
}

// ofBudget tells what was used, and how much may be.
func ofBudget(body boulder.Body) string {
	switch b := body.(type) {
	case boulder.BudgetSet:
		return "budget: " + cmp.Or(BudgetText(b.Budget), "none")
	case boulder.BudgetWarning:
		return describeWarning(b)
	case boulder.UsageReport:
		return fmt.Sprintf("usage of %s: %s", JoinedBy(", ", b.Source, b.Model), UsageText(b.Usage))
	}
	return ""
}

func describePlan(b boulder.Decomposed) string {
	edited := ""
	if b.Edited {
		edited = ", edited"
	}
	return fmt.Sprintf("plan revision %d (%s%s): %s", b.Revision, b.Origin, edited, text.Plural(len(b.SubTasks), "sub-task"))
}

// describeReplan names what a replan changes: + new, ~ in place of another, - dropped.
func describeReplan(b boulder.Replanned) string {
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
	return fmt.Sprintf("replan %d, plan revision %d: %s", b.Number, b.Revision, strings.Join(parts, ", "))
}

func describeWarning(b boulder.BudgetWarning) string {
	of := amountText(b.Dimension, b.Used) + " of " + amountText(b.Dimension, b.Limit)
	if b.Used >= b.Limit {
		return fmt.Sprintf("the %s budget is used up: %s", b.Dimension, of)
	}
	return fmt.Sprintf("%.0f%% of the %s budget is used: %s", math.Floor(100*b.Used/b.Limit), b.Dimension, of)
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

func describeProgress(b boulder.SubTaskProgress) string {
	text := b.Activity
	if b.TodosTotal > 0 {
		text += fmt.Sprintf(" (%d of %d todos)", b.TodosDone, b.TodosTotal)
	}
	if c := b.Checkpoint; c != nil {
		text += fmt.Sprintf(" (%s:%d)", c.File, c.Line)
	}
	return text
}

func describeEnd(e boulder.Ended) string {
	switch {
	case e.Stopped != "":
		return "stopped by the manager, " + e.Stopped
	case e.Error != "":
		return joined(e.Error, e.Message)
	case e.Truncated != "":
		return e.Truncated
	}
	return cmp.Or(e.Finish, "no answer")
}

func describeGate(b boulder.GateRun) string {
	took := text.Elapsed(time.Duration(b.Millis) * time.Millisecond)
	if b.Final {
		took += ", on the final files"
	}
	switch {
	case b.NoWorse != "":
		return fmt.Sprintf("gate no worse than before: %s (%s): %s", b.Command, took, b.NoWorse)
	case b.Passed:
		return fmt.Sprintf("gate passed: %s (%s)", b.Command, took)
	}
	return fmt.Sprintf("gate failed with exit code %d: %s (%s)", b.ExitCode, b.Command, took)
}

func describeVerdict(b boulder.Judged) string {
	how := "not complete"
	if b.Verdict.Completed {
		how = "complete"
	}
	if b.Verdict.JudgeUnavailable {
		how += " (by the gates alone)"
	}
	return fmt.Sprintf("turn %d judged %s", b.Turn, joined(how, b.Verdict.Summary))
}

// RefOf names the attempt that an event speaks of; the sub-task is empty if it speaks of the whole boulder.
func RefOf(body boulder.Body) boulder.AttemptRef {
	switch b := body.(type) {
	case boulder.Starting:
		return b.AttemptRef
	case boulder.SubTaskStart:
		return b.AttemptRef
	case boulder.TurnSent:
		return b.AttemptRef
	case boulder.SubTaskProgress:
		return b.AttemptRef
	case boulder.TurnEnded:
		return b.AttemptRef
	case boulder.Nudged:
		return b.AttemptRef
	case boulder.ReplanStarted:
		return b.AttemptRef
	case boulder.Replanned:
		return b.AttemptRef
	case boulder.ReplanRefused:
		return b.AttemptRef
	case boulder.Parked:
		return b.AttemptRef
	case boulder.Unparked:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID}
	case boulder.BlockerRaised:
		return b.AttemptRef
	case boulder.BlockerSettled:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID}
	case boulder.Noted:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID}
	case boulder.Reopened:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID}
	case boulder.BudgetSet:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID}
	case boulder.BudgetWarning:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID}
	case boulder.GateRun:
		return b.AttemptRef
	case boulder.Judged:
		return b.AttemptRef
	case boulder.Continuation:
		return b.AttemptRef
	case boulder.Retry:
		return b.AttemptRef
	case boulder.Trouble:
		return b.AttemptRef
	case boulder.UsageReport:
		return boulder.AttemptRef{SubTaskID: b.SubTaskID, Attempt: b.Attempt}
	case boulder.SubTaskDone:
		return b.AttemptRef
	}
	return boulder.AttemptRef{}
}
