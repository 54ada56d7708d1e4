package top

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// place is what the user looks at; an empty id: the first there is.
type place struct{ boulder, task string }

// reading is the state as it was read, once.
type reading struct {
	asked place // what was to be read
	place       // what there is
	boulder.Snapshot
	version string // see [project.Project.Version]
	at      time.Time
	items   []view.ListItem  // that are not archived, the newest first
	asks    []report.Blocker // that an answer still reaches, the most urgent first
	holder  *control.Holder
	limits  schedule.Limits
	status  *view.Status // nil: there is no boulder, or it cannot be read
	events  []boulder.Event
	turns   []boulder.Turn // of the sub-task
	said    []transcript   // of its attempts
	err     error          // what could not be read; the rest is there
}

type transcript struct {
	path    string
	attempt int
	lines   []executor.Line
}

// read reads what is to be seen at a place. had is the reading before: a log only grows. Nothing is held when it returns.
func (c *Config) read(ctx context.Context, at place, had *reading) *reading {
	r := &reading{asked: at, place: at, version: c.Version(), at: time.Now()}
	r.err = errors.Join(c.readState(ctx, r, had), c.readAsks(ctx, r), r.readTranscripts())
	return r
}

func (c *Config) readState(ctx context.Context, r, had *reading) error {
	there, err := c.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	r.holder, r.limits = there.Holder, c.Limits(there.Holder)
	all, err := there.Listing(ctx)
	for i := range all {
		if all[i].ArchivedAt.IsZero() {
			r.items = append(r.items, view.NewListItem(&all[i], there.Holder))
		}
	}
	if !slices.ContainsFunc(r.items, func(i view.ListItem) bool { return i.BoulderID == r.boulder }) {
		if r.place = (place{}); len(r.items) == 0 {
			return err
		}
		if r.boulder, err = project.Resolve(ctx, there, ""); err != nil {
			return err
		}
	}
	var getErr, statusErr, eventsErr error
	if r.Snapshot, getErr = there.Get(ctx, r.boulder); r.Boulder.ID == "" {
		return errors.Join(err, getErr)
	}
	if r.subTask() == nil && len(r.SubTasks) > 0 {
		r.task = r.SubTasks[0].ID
	}
	r.status, statusErr = c.Status(ctx, there, r.Snapshot)
	if had.boulder == r.boulder {
		r.events = had.events
	}
	var last uint64
	if n := len(r.events); n > 0 {
		last = r.events[n-1].Seq
	}
	more, eventsErr := there.Events(ctx, r.boulder, last, 0)
	r.events = slices.Concat(r.events, more)
	return errors.Join(err, getErr, statusErr, eventsErr)
}

func (c *Config) readAsks(ctx context.Context, r *reading) error {
	desk, err := c.Blockers()
	if err != nil {
		return err
	}
	pending, err := desk.List(ctx, blockers.Filter{Status: boulder.BlockerPending})
	r.asks = view.WithoutMoot(c.Placed(ctx, pending))
	return err
}

func (r *reading) readTranscripts() (err error) {
	r.turns = boulder.Turns(r.events, r.task)
	for i, t := range r.turns {
		if t.Evidence == nil || t.Evidence.Transcript == "" {
			continue
		}
		if next := i + 1; next < len(r.turns) && r.turns[next].Attempt == t.Attempt && r.turns[next].Evidence != nil {
			continue // that one's has the whole session
		}
		lines, readErr := view.ReadTranscript(r.Boulder.Project, t.Evidence.Transcript)
		err = errors.Join(err, readErr)
		r.said = append(r.said, transcript{t.Evidence.Transcript, t.Attempt, lines})
	}
	return err
}

// subTask is the one that is looked at; nil: there is none.
func (r *reading) subTask() *boulder.SubTask {
	for _, t := range r.SubTasks {
		if t.ID == r.task {
			return t
		}
	}
	return nil
}
