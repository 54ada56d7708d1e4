package orchestrator

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// synthesize puts the answer together from what is stored: what was done, what failed and why, what could not run, and
// how to go on. It asks no model, so it says nothing that is not on record.
func synthesize(s *boulder.State, status boulder.Status) boulder.TaskComplete {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d sub-tasks completed.\n",
		s.Count(boulder.SubTaskCompleted), s.Planned())
	for _, t := range s.SubTasks {
		if t.Status == boulder.SubTaskSuperseded {
			continue // what took its place is listed
		}
		fmt.Fprintf(&b, "\n%s %s: %s", mark(t.Status), t.ID, t.Subject)
		if t.Status != boulder.SubTaskCompleted {
			fmt.Fprintf(&b, " (%s)", t.Status)
		}
		if text := outcomeText(t); text != "" {
			fmt.Fprintf(&b, "\n  %s", strings.ReplaceAll(text, "\n", "\n  "))
		}
		if t.Status == boulder.SubTaskCompleted {
			if len(t.Gates) > 0 {
				fmt.Fprintf(&b, "\n  verified by: %s", strings.Join(t.Gates, "; "))
			}
			if len(t.NoWorse) > 0 {
				fmt.Fprintf(&b, "\n  no worse than before: %s", strings.Join(t.NoWorse, "; "))
			}
		}
	}
	if status != boulder.Completed {
		fmt.Fprintf(&b, "\n\nTo see why: manager show %s. What is done stays in the project;"+
			" write a plan for the rest, or run the task again.", s.Boulder.ID)
	}
	return boulder.TaskComplete{
		AllCompleted: status == boulder.Completed, Summary: b.String(), Status: status, Usage: s.Boulder.Usage,
	}
}

func mark(s boulder.SubTaskStatus) string {
	switch s {
	case boulder.SubTaskCompleted:
		return "✓"
	case boulder.SubTaskFailed:
		return "✗"
	}
	return "-"
}

// outcomeText is what a sub-task came to: its summary, or why there is none.
func outcomeText(t *boulder.SubTask) string {
	if t.Status == boulder.SubTaskCompleted {
		return t.Summary
	}
	return t.Reason
}
