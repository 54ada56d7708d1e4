package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// linesView shows a run as plain lines on stderr, for log files and pipes.
type linesView struct {
	app    *app
	prefix string // of each line, where there are several boulders

	mu       sync.Mutex // Stopping comes from another goroutine
	progress *progress
}

func (v *linesView) Event(e boulder.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.progress.take(e); err != nil {
		v.line(e.Time, "this view has lost track: %v", err)
		return
	}
	switch b := e.Body.(type) {
	case boulder.Created:
		v.line(e.Time, "boulder %s: %s", e.BoulderID, clipText(b.Boulder.Task, 100))
	case boulder.SubTaskStart:
		t := v.progress.state.SubTask(b.SubTaskID)
		name := clipText(v.progress.row(t).name(), 100)
		v.line(e.Time, "%s %s  %s%s", v.label(t), name, modelName(b.Model), again(b.Attempt))
	case boulder.SubTaskDone:
		v.done(e.Time, b)
	case boulder.TaskComplete:
		v.app.printSummary(e.BoulderID, b, e.Time.Sub(v.progress.began))
	case boulder.SubTaskProgress:
		if v.app.verbose && b.Activity != "" || v.progress.news {
			v.about(e)
		}
	case boulder.StatusChanged:
		if b.Status != boulder.Synthesizing { // what follows at once says more
			v.about(e)
		}
	case boulder.Replanned:
		v.about(e)
		for _, line := range replanLines(v.progress.state, b) {
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
func (v *linesView) done(at time.Time, b boulder.SubTaskDone) {
	t := v.progress.state.SubTask(b.SubTaskID)
	r := v.progress.row(t)
	how := ""
	if b.Completed && v.progress.alone[t.ID] {
		how = "  (by the gates alone)"
	}
	v.line(at, "%s %s %s  %s  %s  %s%s", v.label(t), paint{}.mark(t.Status), clipText(t.Subject, 100), modelName(t.Model),
		elapsed(r.took(at)), usageText(t.Usage), how)
	if !b.Completed {
		v.line(at, "%s %s", v.label(t), clipText(describe(b), 400))
	}
}

func (v *linesView) about(e boulder.Event) {
	text := clipText(describe(e.Body), 400)
	if t := v.progress.state.SubTask(refOf(e.Body).SubTaskID); t != nil {
		text = v.label(t) + " " + text
	}
	v.line(e.Time, "%s", text)
}

func (v *linesView) label(t *boulder.SubTask) string {
	return fmt.Sprintf("[%d/%d]", t.Position, v.progress.total())
}

func (v *linesView) line(at time.Time, format string, args ...any) {
	fmt.Fprintf(v.app.Stderr, "%s %s%s\n", clock(at), v.prefix, fmt.Sprintf(format, args...))
}

func (v *linesView) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintln(v.app.Stderr, stoppingText)
}

func (v *linesView) Pause() func() {
	v.mu.Lock() // nothing is printed into a question
	return v.mu.Unlock
}

func (v *linesView) Close() {}
