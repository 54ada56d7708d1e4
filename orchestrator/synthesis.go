package orchestrator

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const maxOutput = 4_000 // characters of an output in the summary

// synthesize builds the summary from stored records: what is missing of the request, what was done, what failed, why, and
// how far it had come, what a replan replaced, and what could not run. It asks no model, so it says only what is on record.
// The answer is the one that came with the check of the request, or the summary with all outputs. How to look closer or
// continue is up to the views.
func synthesize(s *boulder.State, status boulder.Status) boulder.TaskComplete {
	done := boulder.TaskComplete{AllCompleted: status == boulder.Completed, Status: status, Usage: s.Boulder.Usage}
	if check := s.Boulder.Checked(); check != nil {
		done.Answer, done.Request, done.Missing = check.Answer, check.Rows, check.Missing
		done.RequestUnchecked = check.Unchecked != ""
	}
	if only := onlyCompleted(s); only != nil {
		done.Answer = only.Answer
	}
	done.Summary = summary(s, status, done.Answer == "")
	done.Answer = cmp.Or(done.Answer, done.Summary)
	return done
}

// onlyCompleted returns the only sub-task if it is completed, or nil.
func onlyCompleted(s *boulder.State) *boulder.SubTask {
	if s.Boulder.Tally.Planned != 1 || s.Boulder.Tally.Completed != 1 {
		return nil
	}
	return s.Completed(1)[0]
}

func summary(s *boulder.State, status boulder.Status, outputs bool) string {
	var b strings.Builder
	loop := s.Boulder.Loop != nil
	switch {
	case !loop:
		red := 0
		for _, t := range s.SubTasks {
			if t.Status == boulder.SubTaskCompleted && len(t.Unverified()) > 0 {
				red++
			}
		}
		fmt.Fprintf(&b, "%d of %d sub-tasks completed", s.Boulder.Tally.Completed, s.Boulder.Tally.Planned)
		if red > 0 {
			fmt.Fprintf(&b, ", %d of them with a gate that is red on the final files", red)
		}
		b.WriteString(".\n")
	case status == boulder.Completed:
		b.WriteString("All criteria hold.\n")
	default:
		b.WriteString("The loop ended without success.\n")
	}
	if check := s.Boulder.Checked(); check != nil && len(check.Missing) > 0 {
		b.WriteString("\nMissing of the request:\n")
		for _, missing := range check.Missing {
			fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(missing, "\n", "\n  "))
		}
	}
	for _, t := range s.SubTasks {
		fmt.Fprintf(&b, "\n%s %s%s", mark(t), text.If(!loop, t.ID+": "), t.Subject)
		outcome, done := t.Reason, t.Status == boulder.SubTaskCompleted
		if done {
			outcome = t.Summary
		} else {
			fmt.Fprintf(&b, " (%s)", t.Status)
		}
		b.WriteString(text.Prefixed("\n  ", strings.ReplaceAll(outcome, "\n", "\n  ")))
		if done && outputs && !strings.Contains(outcome, t.Output) {
			output := text.Excerpt(t.Output, maxOutput, text.Start)
			b.WriteString(text.Prefixed("\n  output: ", strings.ReplaceAll(output, "\n", "\n  ")))
		}
		if done {
			b.WriteString(text.Prefixed("\n  the judge also named: ", strings.Join(t.Remaining, "; ")))
			verification(&b, t)
		} else {
			achieved(&b, t)
		}
	}
	if status != boulder.Completed && !s.Boulder.Isolated() {
		b.WriteString("\n\nWhat is done stays in the project.")
	}
	return b.String()
}

// achieved says what is there of an incomplete sub-task, by its newest verdict and its diffs.
func achieved(b *strings.Builder, t *boulder.SubTask) {
	if !strings.Contains(t.Reason, t.PartialSummary) { // the reason may quote it
		b.WriteString(text.Prefixed("\n  achieved: ", text.Short(t.PartialSummary, 500)))
	}
	b.WriteString(text.Prefixed("\n  criteria met: ", text.Short(strings.Join(t.PartialMet, "; "), 500)))
	b.WriteString(text.Prefixed("\n  changed: ", text.Short(strings.Join(t.Files, ", "), 300)))
}

func verification(b *strings.Builder, t *boulder.SubTask) {
	var green, asBefore, noWorse []string
	for _, g := range t.GateRuns {
		switch {
		case g.Green() && t.GreenBefore(g.Command):
			asBefore = append(asBefore, g.Command)
		case g.Green():
			green = append(green, g.Command)
		case g.Holds():
			noWorse = append(noWorse, g.Command)
		}
	}
	b.WriteString(text.Prefixed("\n  verified by: ", strings.Join(green, "; ")))
	b.WriteString(text.Prefixed("\n  ≈ was green before: ", strings.Join(asBefore, "; ")))
	b.WriteString(text.Prefixed("\n  no worse than before: ", strings.Join(noWorse, "; ")))
	for _, g := range t.Unverified() {
		fmt.Fprintf(b, "\n  NOT verified: on the final files, %s", g)
	}
	for _, g := range t.NoGates {
		fmt.Fprintf(b, "\n  no gate: `%s` %s", g.Command, g.NeverEnded())
	}
}

func mark(t *boulder.SubTask) string {
	switch {
	case t.Status == boulder.SubTaskCompleted && len(t.Unverified()) > 0:
		return "!"
	case t.Status == boulder.SubTaskCompleted:
		return "✓"
	case t.Status == boulder.SubTaskFailed:
		return "✗"
	}
	return "-"
}
