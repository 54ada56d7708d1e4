package blockers

import (
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

// StandingOf is where a blocker stands. t is its sub-task; nil if there is none, or the boulder is over. Outside of a run
// there is none either, and what is asked there stays open.
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
