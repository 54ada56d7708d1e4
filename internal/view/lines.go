package view

import (
	"fmt"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// LinesView shows a run as plain lines on stderr, for log files and pipes.
type LinesView struct {
	Console
	prefix string // of each line, where there are several boulders

	mu       sync.Mutex // Stopping comes from another goroutine
	Progress *progress
}

// Event prints what the event says in a line or more; some say nothing.
func (v *LinesView) Event(e boulder.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.Progress.Take(e); err != nil {
		v.line(e.Time, "this view has lost track: %v", err)
		return
	}
	switch b := e.Body.(type) {
	case boulder.Created:
		v.line(e.Time, "boulder %s: %s", e.BoulderID, text.Clip(b.Boulder.Task, 100))
	case boulder.SubTaskStart:
		t := v.Progress.State.SubTask(b.SubTaskID)
		name := text.Clip(v.Progress.row(t).name(), 100)
		v.line(e.Time, "%s %s  %s%s", v.label(t), name, ModelName(b.Model), again(b.Attempt))
	case boulder.SubTaskDone:
		v.done(e.Time, b)
	case boulder.TaskComplete:
		printSummary(v.Stdout, e.BoulderID, b, e.Time.Sub(v.Progress.began))
	case boulder.SubTaskProgress:
		if v.Verbose && b.Activity != "" || v.Progress.news {
			v.about(e)
		}
	case boulder.StatusChanged:
		if b.Status != boulder.Synthesizing { // what follows at once says more
			v.about(e)
		}
	case boulder.Replanned:
		v.about(e)
		for _, line := range replanLines(v.Progress.State, b) {
			v.line(e.Time, "  %s", line)
		}
	case boulder.Decomposed, boulder.GateRun, boulder.Continuation, boulder.Retry, boulder.Trouble, boulder.Cooled,
		boulder.Nudged, boulder.ReplanStarted, boulder.ReplanTrouble, boulder.ReplanRefused, boulder.BudgetWarning,
		boulder.Parked, boulder.Unparked, boulder.Noted, boulder.Reopened, boulder.BlockerRaised, boulder.BlockerSettled:
		v.about(e)
	}
}

// again tells that an attempt is not the first.
func again(attempt int) string {
	if attempt <= 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", attempt)
}

// done is the line of a sub-task that is over: what it was, and what it took.
func (v *LinesView) done(at time.Time, b boulder.SubTaskDone) {
	t := v.Progress.State.SubTask(b.SubTaskID)
	r := v.Progress.row(t)
	how := ""
	if b.Completed && v.Progress.alone[t.ID] {
		how = "  (by the gates alone)"
	}
	v.line(at, "%s %s %s  %s  %s  %s%s", v.label(t), Paint{}.mark(t.Status), text.Clip(t.Subject, 100), ModelName(t.Model),
		text.Elapsed(r.took(at)), UsageText(t.Usage), how)
	if !b.Completed {
		v.line(at, "%s %s", v.label(t), text.Clip(Describe(b), 400))
	}
}

func (v *LinesView) about(e boulder.Event) {
	text := text.Clip(Describe(e.Body), 400)
	if t := v.Progress.State.SubTask(RefOf(e.Body).SubTaskID); t != nil {
		text = v.label(t) + " " + text
	}
	v.line(e.Time, "%s", text)
}

func (v *LinesView) label(t *boulder.SubTask) string {
	return fmt.Sprintf("[%d/%d]", t.Position, v.Progress.total())
}

func (v *LinesView) line(at time.Time, format string, args ...any) {
	fmt.Fprintf(v.Stderr, "%s %s%s\n", Clock(at), v.prefix, fmt.Sprintf(format, args...))
}

// Stopping says that the first signal was received.
func (v *LinesView) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintln(v.Stderr, StoppingText)
}

// Pause has nothing to hold back: lines do not disturb a question.
func (v *LinesView) Pause() func() {
	v.mu.Lock() // nothing is printed into a question
	return v.mu.Unlock
}

// Close has nothing to end.
func (v *LinesView) Close() {}
