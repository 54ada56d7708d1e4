package view

import (
	"iter"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/store"
)

// rowsOf makes the rows of a stored boulder, in plan order. recent are its last events, beside the boulders that share
// its limits.
func rowsOf(
	d store.Detail, recent []boulder.Event, limits schedule.Limits, beside []Neighbour, now time.Time,
) iter.Seq[row] {
	p := NewProgress(nil)
	for _, e := range recent {
		p.watch(e)
	}
	waits := waitsOf(d, limits, beside, now)
	newest := map[string]*boulder.Attempt{}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		newest[a.SubTaskID] = a // they come in order
		if a.Status.Terminal() && !a.StartedAt.IsZero() {
			p.spent[a.SubTaskID] += a.EndedAt.Sub(a.StartedAt)
		}
	}
	return func(yield func(row) bool) {
		for i := range d.SubTasks {
			t := &d.SubTasks[i]
			r := row{
				task: t, newest: newest[t.ID], doing: p.Doing[t.ID], spent: p.spent[t.ID],
				replan: inReplan(&d.Boulder, t.ID), paused: d.Boulder.Status == boulder.Paused,
			}
			if r.newest != nil && !r.newest.Status.Terminal() {
				r.attempt = r.newest
			}
			if w, ok := waits[t.ID]; ok {
				r.waits(&d.Boulder, w)
			}
			if !yield(r) {
				return
			}
		}
	}
}

// waitsOf says what waits for a slot. Of a boulder whose records contradict each other nothing can be said; `manager
// doctor` tells about those.
func waitsOf(
	d store.Detail, limits schedule.Limits, beside []Neighbour, now time.Time,
) map[string]schedule.Wait {
	waits := map[string]schedule.Wait{}
	if d.Boulder.Status != boulder.Running {
		return waits
	}
	state, err := Restore(d)
	if err != nil {
		return waits
	}
	for _, w := range schedule.Waiting(state, limits, now) {
		waits[w.SubTaskID] = w
	}
	waitsBeside(waits, state, limits, beside)
	return waits
}

// Restore makes the state of a boulder for looking at it. The turns are not read: they hold whole transcripts of
// evidence, so the state has stand-ins that say no more than that there is one.
func Restore(d store.Detail) (*boulder.State, error) {
	snap := boulder.Snapshot{Boulder: d.Boulder, Revision: d.Revision}
	for i := range d.SubTasks {
		snap.SubTasks = append(snap.SubTasks, &d.SubTasks[i])
	}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		snap.Attempts = append(snap.Attempts, a)
		if a.Turns > 0 && !a.Status.Terminal() {
			turn := &boulder.Turn{AttemptRef: a.AttemptRef, Number: a.Turns}
			if a.Status == boulder.AttemptMonitoring {
				turn.Evidence = &boulder.Evidence{}
			}
			snap.Turns = append(snap.Turns, turn)
		}
	}
	return boulder.Restore(snap)
}

// ProgressOf is the progress of a boulder that others run, up to what is stored.
func ProgressOf(db loader, d store.Detail, recent []boulder.Event, raised []boulder.Blocker) (p *progress, err error) {
	p = NewProgress(db)
	b := d.Boulder
	for _, e := range recent {
		if e.Seq <= b.Seq {
			p.watch(e)
		}
	}
	if p.State, err = Restore(d); err != nil {
		return nil, err
	}
	p.began = b.CreatedAt
	for _, t := range d.Attempts {
		if t.Status.Terminal() && !t.StartedAt.IsZero() {
			p.spent[t.SubTaskID] += t.EndedAt.Sub(t.StartedAt)
		}
	}
	for _, k := range raised {
		if !k.Status.Settled() {
			p.raised[k.ID] = k
		}
	}
	return p, nil
}
