package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/store"
)

// placed finds out who has use for answers to blockers, and sorts them: what is waited for first.
func (a *app) placed(ctx context.Context, all []boulder.Blocker) []blockerItem {
	now, subTaskOf := time.Now(), a.subTasksOf(ctx, all)
	items := make([]blockerItem, len(all))
	for i := range all {
		b := &all[i]
		items[i] = blockerItem{typeBlocker, *b, blockers.StandingOf(b, subTaskOf(b), now)}
	}
	slices.SortStableFunc(items, func(x, y blockerItem) int {
		return cmp.Or(urgency(&x, now)-urgency(&y, now), until(&x, now).Compare(until(&y, now)),
			x.CreatedAt.Compare(y.CreatedAt))
	})
	return items
}

// urgency is the place of a blocker among others: a session that holds still goes on without its answer.
func urgency(b *blockerItem, now time.Time) int {
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

// until is when a session that holds still goes on; zero of the others.
func until(b *blockerItem, now time.Time) time.Time {
	if urgency(b, now) > 0 {
		return time.Time{}
	}
	return b.Until
}

// subTasksOf reads the boulders that unsettled blockers belong to, each once. Of one that cannot be read, every blocker
// counts as waited for: that can be answered, and what is not shown cannot.
func (a *app) subTasksOf(ctx context.Context, all []boulder.Blocker) func(*boulder.Blocker) *boulder.SubTask {
	details := map[string]*store.Detail{}
	for i := range all {
		if b := &all[i]; b.BoulderID != "" && !b.Status.Settled() {
			details[b.BoulderID] = nil
		}
	}
	if len(details) > 0 {
		if r, closeReader, err := a.openReader(ctx); err == nil {
			for id := range details {
				details[id] = readDetail(ctx, r, id)
			}
			closeReader()
		}
	}
	return func(b *boulder.Blocker) *boulder.SubTask {
		d := details[b.BoulderID]
		if d == nil {
			return &boulder.SubTask{ID: b.SubTaskID, Attempts: b.Attempt}
		}
		i := slices.IndexFunc(d.SubTasks, func(t boulder.SubTask) bool { return t.ID == b.SubTaskID })
		if i < 0 || d.Boulder.Status.Terminal() {
			return nil
		}
		return &d.SubTasks[i]
	}
}

// readDetail reads a boulder; one that is not there any more is empty, and nil is not known.
func readDetail(ctx context.Context, r reader, id string) *store.Detail {
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" && !errors.Is(err, boulder.ErrNotFound) {
		return nil
	}
	return &d
}

// withoutMoot leaves out what nobody waits for any more, and counts it.
func withoutMoot(all []blockerItem) (kept []blockerItem, moot int) {
	kept = slices.DeleteFunc(all, func(b blockerItem) bool { return b.Standing == blockers.Moot })
	return kept, len(all) - len(kept)
}

// waitingBlockers counts what a person can still answer. What nobody waits for any more is not in it.
type waitingBlockers struct {
	Hard int `json:"hard"`           // sub-tasks stand still because of them, or will
	Asks int `json:"asks,omitempty"` // sessions hold still because of them, for a time
	Soft int `json:"soft"`           // the agents chose for themselves
}

// add counts one more.
func (w *waitingBlockers) add(standing blockers.Standing, hard bool) {
	switch {
	case standing == blockers.Awaited && hard:
		w.Hard++
	case standing == blockers.Awaited:
		w.Asks++
	case standing == blockers.Choice:
		w.Soft++
	}
}

func waitingOf(all []blockerItem) waitingBlockers {
	var w waitingBlockers
	for i := range all {
		w.add(all[i].Standing, all[i].Hard)
	}
	return w
}

// waitingIn counts the blockers of a boulder. records are those of the desk, as far as they can be had: a boulder does not
// know for how long a session waits, nor of an answer that is on its way.
func waitingIn(d store.Detail, records []boulder.Blocker, now time.Time) waitingBlockers {
	var w waitingBlockers
	for _, b := range morning.Blockers(d.Boulder, d.SubTasks, records, now) {
		w.add(b.Standing, b.Hard)
	}
	return w
}

// awaiting reports whether a sub-task stands still, or will, until somebody answers a blocker.
func awaiting(d store.Detail) bool { return waitingIn(d, nil, time.Now()).Hard > 0 }

// text is the count for people; empty if there is nothing to count.
func (w waitingBlockers) text() string { return joinedBy(" · ", w.awaited(), w.choices()) }

// awaited says how many wait for an answer; empty if none does.
func (w waitingBlockers) awaited() string {
	hard, asks := plural(w.Hard, degree(true)), plural(w.Asks, "ask")
	text := joinedBy(" and ", unlessNone(w.Hard, hard), unlessNone(w.Asks, asks))
	switch w.Hard + w.Asks {
	case 0:
		return ""
	case 1:
		return text + " waits for an answer"
	}
	return text + " wait for an answer"
}

// choices says how many an answer would still reach; empty if there are none.
func (w waitingBlockers) choices() string {
	return unlessNone(w.Soft, plural(w.Soft, "choice")+" can still be changed")
}

func unlessNone(n int, text string) string {
	if n == 0 {
		return ""
	}
	return text
}
