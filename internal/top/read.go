package top

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// place is what the user looks at; an empty id: the first there is.
type place struct{ boulder, task string }

// reading is the state as it was read, once.
type reading struct {
	asked place // what was to be read
	place       // what there is
	project.Reading
	version string           // see [project.Project.Version]
	items   []view.ListItem  // that are not archived, the newest first
	asks    []report.Blocker // that an answer still reaches, the most urgent first
	status  *view.Status     // nil: there is no boulder, or it cannot be read
	sub     *boulder.SubTask // that is looked at; nil: there is none
	turns   []boulder.Turn   // of that
	said    []view.Said      // in its attempts
	err     error            // what could not be read; the rest is there
}

// read reads what is to be seen at a place. had is the reading before: a log only grows. Nothing is held when it returns.
func (m *model) read(ctx context.Context, at place, had *reading) *reading {
	r := &reading{asked: at, place: at, version: m.Version(), Reading: project.Reading{Now: time.Now()}}
	pending, asksErr := m.Blockers().List(ctx, blockers.Filter{Status: boulder.BlockerPending})
	r.asks = view.WithoutMoot(m.Placed(ctx, pending))
	stateErr := m.readState(ctx, r, had)
	r.turns = boulder.Turns(r.Events, r.task)
	var saidErr error
	r.said, saidErr = view.ReadSaid(r.Boulder.Project, r.turns)
	r.err = errors.Join(stateErr, asksErr, saidErr)
	return r
}

func (m *model) readState(ctx context.Context, r, before *reading) error {
	there, err := m.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	r.Holder = there.Holder
	all, err := there.Listing(ctx)
	known := false
	for i := range all {
		if item := view.NewListItem(&all[i], there.Holder); item.ArchivedAt.IsZero() {
			r.items, known = append(r.items, item), known || item.BoulderID == r.boulder
		}
	}
	if !known {
		active, err := project.Resolve(ctx, there, "")
		if r.place = (place{boulder: active}); err != nil {
			return err
		}
	}
	d, getErr := there.Get(ctx, r.boulder)
	if d.Boulder.ID == "" {
		return errors.Join(err, getErr)
	}
	var had []boulder.Event // that were read before
	var last uint64
	if n := len(before.Events); before.boulder == r.boulder && n > 0 {
		had, last = before.Events, before.Events[n-1].Seq
	}
	more, eventsErr := there.Events(ctx, r.boulder, last, 0)
	read := m.Reading(ctx, there, d, slices.Concat(had, more))
	r.Reading, r.status = *read, view.NewStatus(read)
	for _, t := range r.SubTasks {
		if r.sub == nil || t.ID == r.asked.task {
			r.sub, r.task = t, t.ID
		}
	}
	return errors.Join(err, getErr, eventsErr, read.Unread)
}
