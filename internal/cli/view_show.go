package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

// printShow shows a report to people.
func (a *app) printShow(s *showReport) {
	v := showView{paint: a.paint(a.Stdout), out: a.Stdout}
	v.head(s)
	for _, t := range s.SubTasks {
		v.subTask(t)
	}
	if text := strings.TrimSpace(s.Boulder.Summary); text != "" {
		fmt.Fprintf(v.out, "\n%s\n%s\n", v.bold("Summary"), indent(safeText(text), "  "))
	}
}

type showView struct {
	paint
	out io.Writer
}

func (v showView) head(s *showReport) {
	b := s.Boulder
	fmt.Fprintf(v.out, "%s  %s\n%s\n", v.bold(b.ID), joinedBy("  ", v.status(b.Status), oneLine(b.Reason)),
		indent(strings.TrimSpace(safeText(b.Task)), "  "))
	v.field(1, "created", stampFull(b.CreatedAt))
	v.field(1, "updated", stampFull(b.UpdatedAt))
	v.field(1, "project", b.Project)
	v.field(1, "commit", b.Base)
	v.field(1, "model", b.Model)
	v.field(1, "ledgers", b.LedgerModel)
	v.field(1, "usage", usageText(b.Usage))
	if f := b.ForkOf; f != nil {
		v.field(1, "fork of", f.BoulderID+", from "+f.SubTaskID+" on")
	}
	v.field(1, "done when", strings.Join(b.DoneWhen, ", "))
	if l := b.Loop; l != nil {
		v.field(1, "loop", fmt.Sprintf("at most %s, ends after %s without progress",
			plural(l.Iterations, "turn"), plural(l.Failures, "continuation")))
	}
	if b.Status == boulder.Paused {
		v.field(1, "go on with", "manager resume "+b.ID)
	}
	v.field(1, "left at work", strings.TrimSpace(leftText(b.Left)))
	for _, n := range b.Notes {
		v.field(1, joinedBy(" for ", stampFull(n.At)+" note", oneLine(n.SubTaskID)), n.Text)
	}
	if r := s.Revision; r != nil {
		edited := ""
		if r.Edited {
			edited = ", edited"
		}
		v.field(1, "plan", fmt.Sprintf("revision %d (%s%s), %s, hash %s", r.Number, r.Origin, edited,
			plural(len(r.Plan.SubTasks), "sub-task"), project.Short(r.Hash)))
		v.field(1, "goal", r.Plan.Goal)
		for _, c := range r.Plan.Constraints {
			v.field(1, "constraint", c)
		}
	}
}

func (v showView) subTask(t subTaskShow) {
	fmt.Fprintf(v.out, "\n%s %s %s  %s\n", v.mark(t.Status), v.bold(fmt.Sprintf("%d.", t.Position)),
		v.bold(oneLine(t.Subject)), v.dim(fmt.Sprintf("(%s) %s", oneLine(t.ID), t.Status)))
	v.field(1, "why", t.Reason)
	v.field(1, "after", strings.Join(t.DependsOn, ", "))
	v.field(1, "model", t.Model)
	v.field(1, "agent", t.Agent)
	if t.Usage.Calls > 0 {
		v.field(1, "usage", usageText(t.Usage))
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

func (v showView) attempt(a attemptShow) {
	text := fmt.Sprintf("attempt %d  %s", a.Attempt.Attempt, a.Status)
	if a.SessionID != "" {
		text += "  session " + oneLine(a.SessionID)
	}
	if !a.EndedAt.IsZero() && !a.StartedAt.IsZero() {
		text += "  " + elapsed(a.EndedAt.Sub(a.StartedAt))
	}
	fmt.Fprintf(v.out, "  %s\n", text)
	v.field(2, "why", a.Reason)
	for _, t := range a.History {
		v.turn(t)
	}
}

func (v showView) turn(t boulder.Turn) {
	fmt.Fprintf(v.out, "    turn %d (%s)%s\n", t.Number, t.Kind, v.dim(sentAt(t)))
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
		return "  sent " + stampFull(t.SentAt)
	}
	return "  " + elapsed(t.EndedAt.Sub(t.SentAt))
}

func (v showView) evidence(e *boulder.Evidence) {
	v.field(3, "ended", describeEnd(e.Ended))
	v.field(3, "saw", saw(e))
	for _, g := range e.Gates {
		mark, code := v.green("✓"), ""
		switch {
		case g.Green():
		case g.Holds():
			mark, code = v.yellow("~"), fmt.Sprintf(" (exit code %d, %s)", g.ExitCode, oneLine(g.NoWorse))
		default:
			mark, code = v.red("✗"), fmt.Sprintf(" (exit code %d)", g.ExitCode)
		}
		fmt.Fprintf(v.out, "      %s gate %s%s %s\n", mark, oneLine(g.Command), code, v.dim(elapsed(g.Duration)))
		if out := strings.TrimSpace(safeText(g.Output)); !g.Holds() && out != "" {
			fmt.Fprintln(v.out, v.dim(indent(lastLines(out, gateLinesShown), "          ")))
		}
	}
	v.field(3, "transcript", e.Transcript)
}

// gateLinesShown is how much of a red gate's output is shown, from its end.
const gateLinesShown = 10

// saw sums up what the manager observed.
func saw(e *boulder.Evidence) string {
	parts := []string{plural(e.ToolCount, "tool call")}
	if e.Diff.Unavailable != "" {
		parts = append(parts, "no diff: "+e.Diff.Unavailable)
	} else {
		own := 0
		for _, f := range e.Diff.Files {
			if f.Own {
				own++
			}
		}
		parts = append(parts, plural(own, "changed file"))
	}
	if n := len(e.Todos); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d todos open", len(e.OpenTodos()), n))
	}
	return strings.Join(parts, ", ")
}

func (v showView) verdict(verdict *boulder.Verdict) {
	how := v.yellow("not complete")
	if verdict.Completed {
		how = v.green("complete")
	}
	fmt.Fprintf(v.out, "      verdict: %s  %s\n", how, oneLine(verdict.Summary))
	for _, c := range verdict.Criteria {
		mark := v.red("✗")
		if c.Met {
			mark = v.green("✓")
		}
		fmt.Fprintf(v.out, "        %s %s %s\n", mark, oneLine(c.Criterion), v.dim(oneLine(c.Evidence)))
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
	if value = oneLine(value); value != "" {
		fmt.Fprintf(v.out, "%s%s %s\n", strings.Repeat("  ", depth), v.dim(name+":"), value)
	}
}

// lastLines keeps the last n lines of a text.
func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func stampFull(t time.Time) string { return t.Local().Format(time.DateTime) }
