package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// Now says what the sub-task does or waits for.
func (w *whyMaker) Now() string {
	t := &w.Report.SubTask
	if t.Status.Terminal() || w.Report.BoulderStatus.Terminal() {
		return ""
	}
	var open *boulder.Attempt
	for i := range w.detail.Attempts {
		if a := &w.detail.Attempts[i]; a.SubTaskID == t.ID && !a.Status.Terminal() {
			open = a
		}
	}
	text := w.doing(open)
	if !w.Report.Running {
		return text + "; no process runs it: manager resume " + w.Report.BoulderID
	}
	return text
}

// doing says it while the boulder is run; open is nil if no attempt is.
func (w *whyMaker) doing(open *boulder.Attempt) string {
	t, replan := &w.Report.SubTask, w.detail.Boulder.Replan
	switch {
	case t.Parked && len(t.AwaitedBy(t.Attempts)) > 0:
		return "blocked: " + t.Reason + "; answer with: " + ClarifyHint
	case t.Status == boulder.SubTaskBlocked:
		return "blocked: " + t.Reason
	case replan != nil && slices.Contains(replan.Replaces, t.ID):
		return "waits for a new plan: " + replan.Reason
	case open == nil:
		return "waits for " + strings.Join(w.unfinished(), ", ")
	case open.Status == boulder.AttemptQueued:
		return "waits for a slot"
	case stopped(w.Report.BoulderStatus == boulder.Paused, open):
		return "stopped, to be taken up again: " + open.Reason
	case open.TurnedAway():
		return "waits until " + Clock(open.NotBefore) + ": " + open.Reason
	case open.Status == boulder.AttemptMonitoring:
		return "is being judged"
	}
	at := "at work"
	if !w.Report.Running {
		at = "left at work"
	}
	return JoinedBy(": ", at, w.activity)
}

// unfinished are the sub-tasks that it still waits for.
func (w *whyMaker) unfinished() []string {
	var ids []string
	for _, t := range w.detail.SubTasks {
		if t.Status != boulder.SubTaskCompleted && slices.Contains(w.Report.SubTask.DependsOn, t.ID) {
			ids = append(ids, fmt.Sprintf("%q", t.ID))
		}
	}
	return ids
}
