package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

// Settled says what became of an answer to a blocker, and what comes of it.
func Settled(r *project.Answered, now time.Time) string {
	did, with := "Answered", "with the answer"
	switch {
	case r.Status == boulder.BlockerSkipped:
		did, with = "Skipped", "without an answer"
	case r.Allowed:
		did, with = "Allowed", "with the permission"
	}
	follows := fmt.Sprintf("%q goes on %s.", r.SubTaskID, with)
	switch {
	case r.Handover == project.NoBoulder && r.Ask != nil && r.Ask.Reply == boulder.ReplyWaiting && r.Until.After(now):
		follows = "The session that waits for it gets it."
	case r.Handover == project.NoBoulder && IsSession(r.SessionID):
		follows = "It came up outside of a run: its session is told by the next prompt of `manager watch`, if that watches it."
	case r.Handover == project.NoBoulder:
		follows = "It came up outside of a run: nobody waits for it."
	case r.Handover == project.OverBefore:
		follows = "Nothing waited for it any more."
	case r.Handover == project.NotAsked:
		follows = fmt.Sprintf("%q gets it as soon as it has told its boulder of the blocker.", r.SubTaskID)
	case r.Handover == project.Kept:
		follows = ""
	case len(r.Awaited) > 0:
		follows = fmt.Sprintf("%q still waits for %s.", r.SubTaskID, strings.Join(r.Awaited, ", "))
	case GoesOnLater(r):
		follows = fmt.Sprintf("%q goes on %s when the boulder does: manager resume %s", r.SubTaskID, with, r.BoulderID)
	}
	return strings.TrimSpace(did + " " + r.ID + ". " + follows)
}

// GoesOnLater reports whether the boulder has the answer, and the user has to resume it.
func GoesOnLater(r *project.Answered) bool {
	return r.Handover == project.HandedOver && (r.RunBy == nil || r.BoulderStatus == boulder.Paused)
}
