package blockers

import (
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Standing says who has use for an answer to a blocker.
type Standing string

// The standings.
const (
	// Awaited: work stands still, or will at the end of the turn, until a person answers.
	Awaited Standing = "awaited"
	// Choice: the agent chose for itself and went on, and an answer still reaches it.
	Choice Standing = "choice"
	// Moot: nobody answered, and nobody waits any more.
	Moot Standing = "moot"
	// Over: a person has seen to it.
	Over Standing = "settled"
)

// SubTaskOf finds the sub-task of a boulder that an answer to a blocker reaches. If that is over, or the boulder is, or is
// not there any more, which is the zero value, there is none, and why says so.
func SubTaskOf(b *boulder.Blocker, of boulder.Boulder, tasks []boulder.SubTask) (t *boulder.SubTask, why string) {
	i := slices.IndexFunc(tasks, func(t boulder.SubTask) bool { return t.ID == b.SubTaskID })
	switch {
	case of.ID == "":
		return nil, fmt.Sprintf("boulder %s is not here any more", b.BoulderID)
	case of.Status.Terminal() || i < 0:
		return nil, fmt.Sprintf("boulder %s is %s", b.BoulderID, of.Status)
	case tasks[i].Status.Terminal():
		return nil, fmt.Sprintf("sub-task %q is %s", b.SubTaskID, tasks[i].Status)
	}
	return &tasks[i], ""
}

// StandingOf is where a blocker stands. t is its sub-task, see [SubTaskOf]. Outside of a run there is none,
// and what is asked there stays open.
func StandingOf(b *boulder.Blocker, t *boulder.SubTask, now time.Time) Standing {
	of := b.BoulderID != ""
	switch {
	case b.Status.Settled():
		return Over
	case of && (t == nil || t.Status.Terminal()):
		return Moot
	case Waiting(b, now):
		return Awaited
	case !b.Hard:
		return Choice
	case of && b.Attempt != t.Attempts: // it was tried again without the answer, as boulder.SubTask.AwaitedBy has it
		return Moot
	}
	return Awaited
}

// Waiting reports whether a session holds still for a person's answer to what OpenCode asked.
func Waiting(b *boulder.Blocker, now time.Time) bool {
	return b.Ask != nil && b.Ask.Reply == boulder.ReplyWaiting && !b.Status.Settled() && b.Until.After(now)
}
