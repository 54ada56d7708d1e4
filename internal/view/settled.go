package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/project"
)

// Settled says what became of an answer to a blocker.
func Settled(r *project.Answered, now time.Time) string {
	did, with := "Answered", "with the answer"
	switch {
	case r.Status == boulder.BlockerSkipped:
		did, with = "Skipped", "without an answer"
	case r.Allowed:
		did, with = "Allowed", "with the permission"
	}
	return fmt.Sprintf("%s %s.%s", did, r.ID, report.Prefixed(" ", follows(r, with, now)))
}

// follows says what comes of it.
func follows(r *project.Answered, with string, now time.Time) string {
	switch r.Handover {
	case project.NoBoulder:
		if r.Ask != nil && r.Ask.Reply == boulder.ReplyWaiting && r.Until.After(now) {
			return "The session that waits for it gets it."
		}
		if IsSession(r.SessionID) {
			return "It came up outside of a run: its session is told by the next prompt of `manager watch`, if that watches it."
		}
		return "It came up outside of a run: nobody waits for it."
	case project.OverBefore:
		return "Nothing waited for it any more."
	case project.NotAsked:
		return fmt.Sprintf("%q gets it as soon as it has told its boulder of the blocker.", r.SubTaskID)
	case project.Kept:
		return ""
	}
	switch {
	case len(r.Awaited) > 0:
		return fmt.Sprintf("%q still waits for %s.", r.SubTaskID, strings.Join(r.Awaited, ", "))
	case GoesOnLater(r):
		return fmt.Sprintf("%q goes on %s when the boulder does: manager resume %s", r.SubTaskID, with, r.BoulderID)
	}
	return fmt.Sprintf("%q goes on %s.", r.SubTaskID, with)
}

// GoesOnLater reports whether the boulder has the answer, and the user has to resume it.
func GoesOnLater(r *project.Answered) bool {
	return r.Handover == project.HandedOver && (r.RunBy == nil || r.BoulderStatus == boulder.Paused)
}
