package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
)

// placed finds out who has use for answers to blockers, and sorts them: what is waited for first.
func (a *app) placed(ctx context.Context, all []boulder.Blocker) []view.BlockerItem {
	now, subTaskOf := time.Now(), a.subTasksOf(ctx, all)
	items := make([]view.BlockerItem, len(all))
	for i := range all {
		b := &all[i]
		items[i] = view.BlockerItem{Type: view.TypeBlocker, Blocker: *b, Standing: blockers.StandingOf(b, subTaskOf(b), now)}
	}
	slices.SortStableFunc(items, func(x, y view.BlockerItem) int {
		return cmp.Or(view.Urgency(&x, now)-view.Urgency(&y, now), view.Until(&x, now).Compare(view.Until(&y, now)),
			x.CreatedAt.Compare(y.CreatedAt))
	})
	return items
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

// awaiting reports whether a sub-task stands still, or will, until somebody answers a blocker.
func awaiting(d store.Detail) bool { return view.WaitingIn(d, nil, time.Now()).Hard > 0 }
