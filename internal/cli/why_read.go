package cli

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// readWhy reads the chain of one sub-task. With an error there is a report as well if its record could be read.
func readWhy(ctx context.Context, r reader, ref, subTask string) (*view.Why, error) {
	id, err := project.Resolve(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	t, findErr := findSubTask(d, subTask)
	if t == nil {
		return nil, cmp.Or(err, findErr)
	}
	turns, turnsErr := r.Turns(ctx, id, t.ID)
	w := view.NewWhy(d, *t, turns)
	from, to := span(d, *t)
	for e, eventErr := range eventsOf(ctx, r, id, from) {
		err = errors.Join(err, eventErr)
		if eventErr != nil || e.Seq > to && len(t.GateRuns) == 0 {
			break
		}
		if g, ok := e.Body.(boulder.GateRun); e.Seq <= to || ok && g.Final && g.SubTaskID == t.ID {
			w.Take(e)
		}
	}
	w.Report.Running = project.Runs(project.HolderOf(ctx, r), d.Boulder)
	w.Report.Now = w.Now()
	return &w.Report, errors.Join(err, turnsErr)
}

// span is where the events of a sub-task lie: from its first place in the queue to its end.
func span(d store.Detail, t boulder.SubTask) (after, last uint64) {
	last = d.Boulder.Seq
	if t.EndSeq > 0 {
		last = t.EndSeq
	}
	for _, a := range d.Attempts {
		if a.SubTaskID == t.ID && a.QueueSeq > 0 {
			return a.QueueSeq - 1, last
		}
	}
	return 0, last
}

// eventPage is how many events are read at once: each reading from the process that holds the state is bounded in time.
const eventPage = 2000

// eventsOf yields the events of a boulder after a number, as far as they are stored.
func eventsOf(ctx context.Context, r reader, id string, after uint64) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		for {
			events, err := r.Events(ctx, id, after, eventPage)
			for _, e := range events {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(boulder.Event{}, err)
			}
			if err != nil || len(events) < eventPage {
				return
			}
		}
	}
}
