package view

import (
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// WithoutMoot leaves out what nobody waits for any more, and counts it.
func WithoutMoot(all []BlockerItem) (kept []BlockerItem, moot int) {
	kept = slices.DeleteFunc(all, func(b BlockerItem) bool { return b.Standing == blockers.Moot })
	return kept, len(all) - len(kept)
}

// WaitingBlockers counts what a person can still answer. What nobody waits for any more is not in it.
type WaitingBlockers struct {
	Hard int `json:"hard"`           // sub-tasks stand still because of them, or will
	Asks int `json:"asks,omitempty"` // sessions hold still because of them, for a time
	Soft int `json:"soft"`           // the agents chose for themselves
}

// add counts one more.
func (w *WaitingBlockers) add(standing blockers.Standing, hard bool) {
	switch {
	case standing == blockers.Awaited && hard:
		w.Hard++
	case standing == blockers.Awaited:
		w.Asks++
	case standing == blockers.Choice:
		w.Soft++
	}
}

// WaitingOf counts the blockers that the user can still answer.
func WaitingOf(all []BlockerItem) WaitingBlockers {
	var w WaitingBlockers
	for i := range all {
		w.add(all[i].Standing, all[i].Hard)
	}
	return w
}

// WaitingIn counts the blockers of a boulder. records are those of the desk, as far as they can be had: a boulder does not
// know for how long a session waits, nor of an answer that is on its way.
func WaitingIn(d store.Detail, records []boulder.Blocker, now time.Time) WaitingBlockers {
	var w WaitingBlockers
	for _, b := range report.Blockers(d.Boulder, d.SubTasks, records, now) {
		w.add(b.Standing, b.Hard)
	}
	return w
}

// Text is the count for people; empty if there is nothing to count.
func (w WaitingBlockers) Text() string { return JoinedBy(" · ", w.Awaited(), w.Choices()) }

// Awaited says how many wait for an answer; empty if none does.
func (w WaitingBlockers) Awaited() string {
	hard, asks := text.Plural(w.Hard, degree(true)), text.Plural(w.Asks, "ask")
	text := JoinedBy(" and ", unlessNone(w.Hard, hard), unlessNone(w.Asks, asks))
	switch w.Hard + w.Asks {
	case 0:
		return ""
	case 1:
		return text + " waits for an answer"
	}
	return text + " wait for an answer"
}

// Choices says how many an answer would still reach; empty if there are none.
func (w WaitingBlockers) Choices() string {
	return unlessNone(w.Soft, text.Plural(w.Soft, "choice")+" can still be changed")
}

func unlessNone(n int, text string) string {
	if n == 0 {
		return ""
	}
	return text
}

// Urgency is the place of a blocker among others: a session that holds still goes on without its answer.
func Urgency(b *BlockerItem, now time.Time) int {
	switch {
	case blockers.Waiting(&b.Blocker, now) && b.Standing == blockers.Awaited:
		return 0
	case b.Standing == blockers.Awaited:
		return 1
	case b.Standing == blockers.Choice:
		return 2
	case b.Standing == blockers.Moot:
		return 3
	}
	return 4
}

// Until is when a session that holds still goes on; zero of the others.
func Until(b *BlockerItem, now time.Time) time.Time {
	if Urgency(b, now) > 0 {
		return time.Time{}
	}
	return b.Until
}

// Are counts things in a sentence: "1 blocker is", "2 blockers are".
func Are(n int, thing string) string {
	if n == 1 {
		return text.Plural(n, thing) + " is"
	}
	return text.Plural(n, thing) + " are"
}

// TypeBlocker tells the record from the event, which is of type blocker.
const TypeBlocker = "blocker-record"

// BlockerItem is a blocker in `--json`. Fields are added in later versions, never changed.
type BlockerItem struct {
	Type string `json:"type"` // blocker-record
	boulder.Blocker
	// Standing says who has use for an answer: awaited, choice, moot or settled.
	Standing blockers.Standing `json:"standing"`
}
