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
)

// place is what the user looks at; an empty id: the first there is.
type place struct{ boulder, task string }

// reading is the state as it was read, once.
type reading struct {
	place
	asked   place  // what was to be read
	version string // see [project.Project.Version]
	at      time.Time
	items   []view.ListItem  // that are not archived, the newest first
	asks    []report.Blocker // that an answer still reaches, the most urgent first
	holder  *control.Holder
	boulder.Snapshot
	status *view.Status // nil: there is no boulder, or it cannot be read
	events []boulder.Event
	limits schedule.Limits
	said   []transcript // of the sub-task's attempts
	err    error        // what could not be read; the rest is there
}

// transcript is that of an attempt up to the end of a turn.
type transcript struct {
	path          string
	attempt, turn int
	lines         []executor.Line
}

// read reads what is to be seen at a place. had is the reading before, of which a log and transcripts are taken over: they only
// grow. Nothing is held when it returns.
func (c *Config) read(ctx context.Context, at place, had *reading) *reading {
	r := &reading{place: at, asked: at, version: c.Version(), at: time.Now()}
	r.err = errors.Join(c.readState(ctx, r, had), c.readAsks(ctx, r), c.readTranscripts(r, had))
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
	active := ""
	for i := range all {
		if item := view.NewListItem(&all[i], there.Holder); item.ArchivedAt.IsZero() {
			r.items = append(r.items, item)
			if item.Active {
				active = item.BoulderID
			}
		}
	}
	is := func(id string) func(view.ListItem) bool {
		return func(i view.ListItem) bool { return i.BoulderID == id }
	}
	switch {
	case len(r.items) == 0:
		r.place = place{}
		return err
	case slices.ContainsFunc(r.items, is(r.boulder)):
	case active != "":
		r.place = place{boulder: active}
	default:
		r.place = place{boulder: r.items[0].BoulderID}
	}
	var getErr, statusErr, eventsErr error
	if r.Snapshot, getErr = there.Get(ctx, r.boulder); r.Boulder.ID == "" {
		return errors.Join(err, getErr)
	}
	if r.SubTask() == nil && len(r.SubTasks) > 0 {
		r.task = r.SubTasks[0].ID
	}
	r.status, statusErr = c.Status(ctx, there, r.Snapshot)
	var last uint64
	if had.Boulder.ID == r.boulder && len(had.events) > 0 {
		r.events = had.events
		last = had.events[len(had.events)-1].Seq
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

func (c *Config) readTranscripts(r, had *reading) (err error) {
	turns := r.turns()
	for i, t := range turns {
		last := i+1 == len(turns) || turns[i+1].Attempt != t.Attempt || turns[i+1].Evidence == nil // it has the turns before
		if !last || t.Evidence == nil || t.Evidence.Transcript == "" {
			continue
		}
		of := transcript{path: t.Evidence.Transcript, attempt: t.Attempt, turn: t.Number}
		same := func(o transcript) bool { return o.path == of.path && o.turn == of.turn }
		if i := slices.IndexFunc(had.said, same); i >= 0 && had.place == r.place {
			of = had.said[i]
		} else {
			var readErr error
			of.lines, readErr = view.ReadTranscript(r.Boulder.Project, of.path)
			err = errors.Join(err, readErr)
		}
		r.said = append(r.said, of)
	}
	return err
}

// SubTask is the one that is looked at; nil: there is none.
func (r *reading) SubTask() *boulder.SubTask {
	for _, t := range r.SubTasks {
		if t.ID == r.task {
			return t
		}
	}
	return nil
}

func (r *reading) turns() []boulder.Turn { return boulder.Turns(r.events, r.task) }
