package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// synthesize puts the answer together from what is stored: what was done, what failed and why, and what could not run.
// How to look closer and go on is for whoever shows it. It asks no model, so it says nothing that is not on record.
func synthesize(s *boulder.State, status boulder.Status) boulder.TaskComplete {
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
		fmt.Fprintf(&b, "%d of %d sub-tasks completed", s.Count(boulder.SubTaskCompleted), s.Boulder.Tally.Planned)
		if red > 0 {
			fmt.Fprintf(&b, ", %d of them with a gate that is red on the final files", red)
		}
		b.WriteString(".\n")
	case status == boulder.Completed:
		b.WriteString("All criteria hold.\n")
	default:
		b.WriteString("The loop ended without success.\n")
	}
	for _, t := range s.SubTasks {
		if t.Status == boulder.SubTaskSuperseded {
			continue // what took its place is listed
		}
		id := t.ID + ": "
		if loop {
			id = ""
		}
		fmt.Fprintf(&b, "\n%s %s%s", mark(t), id, t.Subject)
		outcome, done := t.Reason, t.Status == boulder.SubTaskCompleted
		if done {
			outcome = t.Summary
		} else {
			fmt.Fprintf(&b, " (%s)", t.Status)
		}
		if outcome != "" {
			fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(outcome, "\n", "\n  "))
		}
		if !done {
			continue
		}
		if len(t.Remaining) > 0 {
			fmt.Fprintf(&b, "\n  the judge also named: %s", strings.Join(t.Remaining, "; "))
		}
		verification(&b, t)
	}
	if status != boulder.Completed {
		b.WriteString("\n\nWhat is done stays in the project.")
	}
	return boulder.TaskComplete{
		AllCompleted: status == boulder.Completed, Summary: b.String(), Status: status, Usage: s.Boulder.Usage,
	}
}

// verification names the gates that hold, and those that do not.
func verification(b *strings.Builder, t *boulder.SubTask) {
	var green, noWorse []string
	for _, g := range t.GateRuns {
		switch {
		case g.Green():
			green = append(green, g.Command)
		case g.Holds():
			noWorse = append(noWorse, g.Command)
		}
	}
	if len(green) > 0 {
		fmt.Fprintf(b, "\n  verified by: %s", strings.Join(green, "; "))
	}
	if len(noWorse) > 0 {
		fmt.Fprintf(b, "\n  no worse than before: %s", strings.Join(noWorse, "; "))
	}
	for _, g := range t.Unverified() {
		fmt.Fprintf(b, "\n  NOT verified: on the final files, %s", g)
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

// verifyRef is under what the gates run at the end; no attempt has it.
var verifyRef = boulder.AttemptRef{Attempt: -1}

// missingGate is the fault of a runner that did not run a gate of an ended turn.
func missingGate(t *boulder.SubTask, e *boulder.Evidence) error {
	for _, g := range t.OpenGates(e.Gates, e.NoServer) {
		if g.Run == nil {
			return fmt.Errorf("%w: sub-task %q: %s: a Runner has to run all gates (executor.RunCommand) and to hand them "+
				"over with its evidence", boulder.ErrFatal, t.ID, g)
		}
	}
	return nil
}

// toVerify reports whether the boulder is about to be over and gates have to run before that.
func (r *run) toVerify(a schedule.Finish) bool {
	_, can := r.o.cfg.Runner.(Verifier)
	return can && len(a.Verify) > 0 && r.verified != r.state.Boulder.Attempts
}

func (r *run) startVerify(a schedule.Finish) {
	if r.busy(verifyRef) {
		return
	}
	what := boulder.Verification{BoulderID: r.state.Boulder.ID, Project: r.state.Boulder.Project}
	for _, t := range a.Verify {
		what.SubTasks = append(what.SubTasks, *t)
	}
	if a.Last != nil {
		what.Last = a.Last.ID
	}
	begun := r.state.Boulder.Attempts
	r.launchWork(verifyRef, r.untilStop(func(ctx context.Context) error {
		return r.o.cfg.Runner.(Verifier).Verify(ctx, what, r.reporter(ctx, verifyRef))
	}), func(err error) error {
		if err == nil {
			r.verified = begun
		} else if !r.cutShort(err) {
			r.end(fmt.Errorf("run the gates once more: %w", err))
		}
		return nil
	})
}
