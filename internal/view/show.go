package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// Print shows a report to people.
func (s *Show) Print(o Out) {
	v := showView{o}
	v.head(s)
	for _, t := range s.SubTasks {
		v.subTask(t)
	}
	if line := strings.TrimSpace(s.Boulder.Summary); line != "" {
		fmt.Fprintf(v, "\n%s\n%s\n", v.Bold("Summary"), text.Indent(text.Safe(line), "  "))
	}
}

type showView struct{ Out }

func (v showView) head(s *Show) {
	b := s.Boulder
	fmt.Fprintf(v, "%s  %s\n%s\n", v.Bold(b.ID), JoinedBy("  ", v.status(b.Status), text.OneLine(b.Reason)),
		text.Indent(strings.TrimSpace(text.Safe(b.Task)), "  "))
	v.field(1, "created", StampFull(b.CreatedAt))
	v.field(1, "updated", StampFull(b.UpdatedAt))
	v.field(1, "project", b.Project)
	v.field(1, "commit", b.Base)
	v.field(1, "model", b.Model)
	v.field(1, "ledgers", b.LedgerModel)
	v.field(1, "usage", UsageText(b.Usage))
	if f := b.ForkOf; f != nil {
		v.field(1, "fork of", f.BoulderID+", from "+f.SubTaskID+" on")
	}
	v.field(1, "done when", strings.Join(b.DoneWhen, ", "))
	if l := b.Loop; l != nil {
		v.field(1, "loop", fmt.Sprintf("at most %s, ends after %s without progress",
			text.Plural(l.Iterations, "turn"), text.Plural(l.Failures, "continuation")))
	}
	if b.Status == boulder.Paused {
		v.field(1, "go on with", "manager resume "+b.ID)
	}
	v.field(1, "left at work", strings.TrimSpace(leftText(b.Left)))
	for _, n := range b.Notes {
		v.field(1, JoinedBy(" for ", StampFull(n.At)+" note", text.OneLine(n.SubTaskID)), n.Text)
	}
	if r := s.Revision; r != nil {
		edited := ""
		if r.Edited {
			edited = ", edited"
		}
		v.field(1, "plan", fmt.Sprintf("revision %d (%s%s), %s, hash %s", r.Number, r.Origin, edited,
			text.Plural(len(r.Plan.SubTasks), "sub-task"), project.Short(r.Hash)))
		v.field(1, "goal", r.Plan.Goal)
		for _, c := range r.Plan.Constraints {
			v.field(1, "constraint", c)
		}
	}
}

func (v showView) subTask(t SubTaskShow) {
	fmt.Fprintf(v, "\n%s %s %s  %s\n", v.mark(t.Status), v.Bold(fmt.Sprintf("%d.", t.Position)),
		v.Bold(text.OneLine(t.Subject)), v.Dim(fmt.Sprintf("(%s) %s", text.OneLine(t.ID), t.Status)))
	v.field(1, "why", t.Reason)
	v.field(1, "after", strings.Join(t.DependsOn, ", "))
	v.field(1, "model", t.Model)
	v.field(1, "agent", t.Agent)
	if t.Usage.Calls > 0 {
		v.field(1, "usage", UsageText(t.Usage))
	}
	if c := t.Checkpoint; c != nil {
		v.field(1, "last edit", fmt.Sprintf("%s:%d  %s", c.File, c.Line, c.Context))
	}
	for _, g := range t.GateHints {
		v.field(1, "not run", g+" (a gate that nobody approved)")
	}
	for _, b := range t.Blockers {
		v.field(1, "blocker", raisedText(b))
	}
	for _, a := range t.History {
		v.attempt(a)
	}
	if t.Status == boulder.SubTaskCompleted {
		v.field(1, "summary", t.Summary)
	}
}

func (v showView) attempt(a AttemptShow) {
	s := fmt.Sprintf("attempt %d  %s", a.Attempt.Attempt, a.Status)
	if a.SessionID != "" {
		s += "  session " + text.OneLine(a.SessionID)
	}
	if !a.EndedAt.IsZero() && !a.StartedAt.IsZero() {
		s += "  " + text.Elapsed(a.EndedAt.Sub(a.StartedAt))
	}
	fmt.Fprintf(v, "  %s\n", s)
	v.field(2, "why", a.Reason)
	for _, t := range a.History {
		v.turn(t)
	}
}

func (v showView) turn(t boulder.Turn) {
	fmt.Fprintf(v, "    turn %d (%s)%s\n", t.Number, t.Kind, v.Dim(sentAt(t)))
	if e := t.Evidence; e != nil {
		v.evidence(e)
	}
	if t.Verdict != nil {
		v.verdict(t.Verdict)
	}
}

func sentAt(t boulder.Turn) string {
	switch {
	case t.SentAt.IsZero():
		return ""
	case t.EndedAt.IsZero():
		return "  sent " + StampFull(t.SentAt)
	}
	return "  " + text.Elapsed(t.EndedAt.Sub(t.SentAt))
}

func (v showView) evidence(e *boulder.Evidence) {
	v.field(3, "ended", describeEnd(e.Ended))
	v.field(3, "saw", saw(e))
	for _, g := range e.Gates {
		mark, code := v.Green("✓"), ""
		switch {
		case g.Green():
		case g.Holds():
			mark, code = v.Yellow("~"), fmt.Sprintf(" (exit code %d, %s)", g.ExitCode, text.OneLine(g.NoWorse))
		default:
			mark, code = v.Red("✗"), fmt.Sprintf(" (exit code %d)", g.ExitCode)
		}
		fmt.Fprintf(v, "      %s gate %s%s %s\n", mark, text.OneLine(g.Command), code, v.Dim(text.Elapsed(g.Duration)))
		if out := strings.TrimSpace(text.Safe(g.Output)); !g.Holds() && out != "" {
			fmt.Fprintln(v, v.Dim(text.Indent(lastLines(out, gateLinesShown), "          ")))
		}
	}
	v.field(3, "transcript", e.Transcript)
}

// gateLinesShown is how much of a red gate's output is shown, from its end.
const gateLinesShown = 10

// saw sums up what the manager observed.
func saw(e *boulder.Evidence) string {
	parts := []string{text.Plural(e.ToolCount, "tool call")}
	if e.Diff.Unavailable != "" {
		parts = append(parts, "no diff: "+e.Diff.Unavailable)
	} else {
		own := 0
		for _, f := range e.Diff.Files {
			if f.Own {
				own++
			}
		}
		parts = append(parts, text.Plural(own, "changed file"))
	}
	if n := len(e.Todos); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d todos open", len(e.OpenTodos()), n))
	}
	return strings.Join(parts, ", ")
}

func (v showView) verdict(verdict *boulder.Verdict) {
	how := v.Yellow("not complete")
	if verdict.Completed {
		how = v.Green("complete")
	}
	fmt.Fprintf(v, "      verdict: %s  %s\n", how, text.OneLine(verdict.Summary))
	for _, c := range verdict.Criteria {
		mark := v.Red("✗")
		if c.Met {
			mark = v.Green("✓")
		}
		fmt.Fprintf(v, "        %s %s %s\n", mark, text.OneLine(c.Criterion), v.Dim(text.OneLine(c.Evidence)))
	}
	for _, o := range verdict.Overruled {
		v.field(4, "overruled", o)
	}
	if verdict.JudgeUnavailable {
		v.field(4, "note", "no usable answer came from the judge: the gates alone decided")
	}
	for _, r := range verdict.Remaining {
		v.field(4, remainingLabel(verdict), r)
	}
}

// remainingLabel tells what is left to do from what a judge named that found the turn complete all the same.
func remainingLabel(v *boulder.Verdict) string {
	if v.Completed {
		return "the judge also named"
	}
	return "remaining"
}

// field is one labelled line at a depth; one without a value is left out.
func (v showView) field(depth int, name, value string) {
	if value = text.OneLine(value); value != "" {
		fmt.Fprintf(v, "%s%s %s\n", strings.Repeat("  ", depth), v.Dim(name+":"), value)
	}
}

// lastLines keeps the last n lines of a text.
func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// StampFull is a time with its date, in the local zone.
func StampFull(t time.Time) string { return t.Local().Format(time.DateTime) }

// Show is what `manager show --json` prints: one object with the stored records. Fields are added in later
// versions, never changed.
type Show struct {
	Type     string                `json:"type"` // show
	Boulder  boulder.Boulder       `json:"boulder"`
	Revision *boulder.PlanRevision `json:"revision"`  // the plan that it runs; null while planning
	SubTasks []SubTaskShow         `json:"sub_tasks"` // in plan order
}

// SubTaskShow is a sub-task with its history.
type SubTaskShow struct {
	boulder.SubTask
	History []AttemptShow `json:"history"` // its attempts, from the first
}

// AttemptShow is an attempt with its turns.
type AttemptShow struct {
	boulder.Attempt
	History []boulder.Turn `json:"history"` // its turns, from the first: prompt, evidence, verdict
}

// TakeTurns gives each turn to its attempt.
func (s *SubTaskShow) TakeTurns(turns []boulder.Turn) {
	for _, turn := range turns {
		for i := range s.History {
			if s.History[i].Attempt.Attempt == turn.Attempt {
				s.History[i].History = append(s.History[i].History, turn)
			}
		}
	}
}
