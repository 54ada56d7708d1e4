package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
)

// widestLabel bounds the column of sub-task ids, which may have 64 characters.
const widestLabel = 20

// printStatus shows a report to people.
func (a *app) printStatus(s *statusReport) {
	v := statusView{paint: a.paint(a.Stdout), out: a.Stdout, report: s, width: terminalSize(a.Stdout).Width}
	v.head()
	v.state()
	v.subTasks()
}

type statusView struct {
	paint
	out    io.Writer
	report *statusReport
	width  int
}

func (v statusView) head() {
	s := v.report
	head := v.bold(s.BoulderID) + "  " + v.status(s.Status)
	if s.Total > 0 {
		head += fmt.Sprintf("  %d/%d done", s.Completed, s.Total)
	}
	sep := "  "
	rest := fmt.Sprintf("%s  started %s ago", usageText(s.Usage), elapsed(s.now.Sub(s.CreatedAt)))
	if ansi.StringWidthWc(head+sep+rest) >= v.width {
		sep = "\n"
	}
	v.say(head + sep + v.dim(rest))
	v.say(clipText(s.Task, 2*v.width))
}

// say prints a text with its lines broken between words.
func (v statusView) say(text string) { fmt.Fprintln(v.out, wrap(text, v.width-1)) }

// state says whether it goes on by itself, and if not, why and what to do.
func (v statusView) state() {
	s := v.report
	if text := s.Waiting.text(); text != "" {
		if s.Waiting.awaited() != "" {
			text = v.yellow(text)
		}
		v.say(text + ": " + clarifyHint)
	}
	if len(s.Left) > 0 {
		v.say(v.yellow(strings.TrimSpace(leftText(s.Left))))
	}
	goOn := "Go on with: manager resume " + s.BoulderID
	if s.Waiting.Hard > 0 {
		goOn = "Answer first, then go on with: manager resume " + s.BoulderID
	}
	switch {
	case s.RunBy != nil:
		v.say(v.dim(fmt.Sprintf("run by process %d since %s: %s", s.RunBy.PID, stamp(s.RunBy.Since, s.now),
			clipText(s.RunBy.Command, v.width))))
		if s.Status == boulder.Paused {
			v.say(v.yellow(stated("paused", oneLine(s.Reason))) + ". " + goOn)
		}
	case s.Status == boulder.Paused:
		v.say(stated("paused", oneLine(s.Reason)) + "\n" + goOn)
	case s.Status == boulder.AwaitingApproval:
		v.say("The plan waits for approval. Go on with: manager resume " + s.BoulderID)
	case s.Resumable:
		v.say(v.yellow("interrupted") + ": no process runs it. Go on with: manager resume " + s.BoulderID)
	case s.Reason != "":
		v.say(oneLine(s.Reason))
	}
}

func (v statusView) subTasks() {
	if len(v.report.SubTasks) == 0 {
		return
	}
	labels := 0
	for _, t := range v.report.SubTasks {
		labels = max(labels, min(ansi.StringWidthWc(t.ID), widestLabel))
	}
	byID := map[string]*boulder.SubTask{}
	var rows []row
	for _, s := range v.report.SubTasks {
		byID[s.ID] = s.row.task
		rows = append(rows, s.row)
	}
	t := newTable(v.paint, v.width, labels, func(t *boulder.SubTask) string { return t.ID },
		func(id string) string { return unlessDone(byID[id]) })
	t.now = v.report.now
	t.size(rows)
	fmt.Fprintln(v.out)
	for _, s := range v.report.SubTasks {
		t.now = v.report.now
		if v.report.RunBy == nil && s.row.attempt != nil {
			t.now = s.row.attempt.UpdatedAt
		}
		fmt.Fprintln(v.out, t.line(s.row))
		if more := v.more(t, s); more != "" {
			fmt.Fprintln(v.out, t.below(more))
		}
	}
}

// more is a second line for what did not go well, or is at work.
func (v statusView) more(t *table, s subTaskStatus) string {
	switch {
	case s.row.live() && v.report.RunBy == nil:
		return joinedBy(" · ", left(s), checkpointText(s.Checkpoint))
	case s.row.live():
		return joinedBy(" · ", t.activity(s.row), checkpointText(s.Checkpoint))
	case s.Status == boulder.SubTaskFailed, s.Status == boulder.SubTaskCancelled, s.Status == boulder.SubTaskSkipped,
		s.Status == boulder.SubTaskSuperseded:
		return s.Reason
	}
	return ""
}

// left says where a sub-task is that nobody is at.
func left(s subTaskStatus) string {
	where := fmt.Sprintf("in turn %d", s.Turn)
	switch {
	case s.row.replan:
		return "waits for a new plan"
	case s.Turn == 0:
		where = "before the first turn"
	case s.AttemptStatus == boulder.AttemptMonitoring:
		where = fmt.Sprintf("after turn %d", s.Turn)
	}
	return fmt.Sprintf("left %s of attempt %d", where, s.Attempt)
}

func checkpointText(c *boulder.Checkpoint) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("last edit %s:%d", c.File, c.Line)
}

// stamp is a time as people say it: today without the date.
func stamp(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
