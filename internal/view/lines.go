package view

import (
	"fmt"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
)

// LinesView shows a run as plain lines on stderr, for log files and pipes.
type LinesView struct {
	Console
	prefix string // of each line, where there are several boulders

	mu       sync.Mutex // Stopping comes from another goroutine
	progress *Progress
}

// Event prints what the event says in a line or more; some say nothing.
func (v *LinesView) Event(e boulder.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.progress.Take(e); err != nil {
		v.line(e.Time, nil, "this view has lost track: "+text.OneLine(err.Error()))
		return
	}
	id, line := Describe(e.Body)
	line = text.Clip(line, 400)
	t := v.progress.State.SubTask(id)
	switch b := e.Body.(type) {
	case boulder.Created:
		v.line(e.Time, nil, fmt.Sprintf("boulder %s: %s", e.BoulderID, text.Clip(b.Boulder.Task, 100)))
	case boulder.SubTaskStart:
		name, attempt := t.ActiveForm, ""
		if name == "" {
			name = t.Subject
		}
		if b.Attempt > 1 {
			attempt = fmt.Sprintf(" (attempt %d)", b.Attempt)
		}
		v.line(e.Time, t, text.Clip(name, 100)+"  "+ModelName(b.Model)+attempt)
	case boulder.SubTaskDone:
		r := v.progress.rows(schedule.Limits{}, nil, e.Time)[t.Position-1]
		alone := ""
		if b.Completed && r.alone {
			alone = "  (by the gates alone)"
		}
		v.line(e.Time, t, fmt.Sprintf("%s %s  %s  %s  %s%s", report.Sign(t.Status), text.Clip(t.Subject, 100), ModelName(t.Model),
			text.Elapsed(r.took()), report.Usage(t.Usage), alone))
		if !b.Completed {
			v.line(e.Time, t, line)
		}
	case boulder.TaskComplete:
		printSummary(v.Stdout, e.BoulderID, b, e.Time.Sub(v.progress.began))
	default:
		step, _ := b.(boulder.SubTaskProgress)
		if noteSign(b, v.progress.news) != "" || v.Verbose && step.Activity != "" {
			v.line(e.Time, t, line)
		}
	}
	if b, ok := e.Body.(boulder.Replanned); ok {
		for _, line := range replanLines(v.progress.State, b) {
			v.line(e.Time, nil, "  "+text.OneLine(line))
		}
	}
}

func (v *LinesView) line(at time.Time, t *boulder.SubTask, line string) {
	label := ""
	if t != nil {
		label = numbered(t.Position, len(v.progress.State.SubTasks)) + " "
	}
	fmt.Fprintf(v.Stderr, "%s %s%s%s\n", Clock(at), v.prefix, label, line)
}

// Stopping says that the first signal was received.
func (v *LinesView) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintln(v.Stderr, StoppingText)
}

// Pause prints nothing into a question.
func (v *LinesView) Pause() func() {
	v.mu.Lock()
	return v.mu.Unlock
}

// Close has nothing to end.
func (v *LinesView) Close() {}
