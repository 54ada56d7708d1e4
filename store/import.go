package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// ErrExists is returned by [DB.Import] for a boulder whose id is taken.
var ErrExists = errors.New("a boulder with this id is here already; nothing was imported")

// Import stores a boulder as it is in an export, in one transaction; [DB.Export] then gives the same again. It does not
// become the active one. Errors wrap [ErrExists], or [ErrBadExport] with every record that is wrong.
func (db *DB) Import(ctx context.Context, x Export) error {
	if err := x.Check(); err != nil {
		return fmt.Errorf("import boulder %q: %w", x.Boulder.ID, err)
	}
	if err := db.putExport(ctx, &x); err != nil {
		return fmt.Errorf("import boulder %s: %w", x.Boulder.ID, err)
	}
	return nil
}

func (db *DB) putExport(ctx context.Context, x *Export) error {
	id := x.Boulder.ID
	w := newWriter(id, db.redact)
	defer w.free()
	for i := range x.Revisions {
		w.put(inRevisions, number32(x.Revisions[i].Number), &x.Revisions[i])
	}
	w.changes(&boulder.Changes{
		Boulder: x.Boulder, SubTasks: x.SubTasks, Attempts: x.Attempts, Turns: x.Turns, Events: x.Events,
	})
	records, err := w.records()
	if err != nil {
		return err
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	err = db.view(ctx, func(s *snapshot) error {
		_, err := openWork(s, id)
		if errors.Is(err, boulder.ErrNotFound) && s.table(inBoulders).get([]byte(id)) == nil {
			return nil
		}
		return ErrExists
	})
	if err != nil {
		return err
	}
	return db.fold(ctx, &entry{id: id, records: records}, db.journal.open)
}

// Adopt makes the boulder of an export one of the project that it is imported into, and returns the project it comes from.
// One that is not over becomes paused; its attempts that are at work end as lost, since nobody follows their sessions from
// here: a resume gives each a fresh session, and does not count the lost one as a try. The same holds for what waits for an
// answer: the blockers stayed where they came up, with their ids, so that it is asked again.
//
// project is an absolute directory, now the time of the events that say so. The export is unchanged after an error, which
// wraps [ErrBadExport].
func (x *Export) Adopt(project string, now time.Time) (from string, err error) {
	if err := x.Check(); err != nil {
		return "", err
	}
	from = x.Boulder.Project
	if x.Boulder.Status.Terminal() {
		x.Boulder.Project = project
		return from, nil
	}
	s, err := x.restore()
	if err != nil {
		return "", err
	}
	apply := func(body boulder.Body) {
		if err == nil {
			_, err = s.Apply(boulder.Event{Time: now, BoulderID: x.Boulder.ID, Body: body})
		}
	}
	s.Boulder.Project = project
	apply(boulder.TakenUp{}) // the time since it was left is nobody's work
	for _, body := range append(lost(s), unanswerable(s)...) {
		apply(body)
	}
	if s.Boulder.Status != boulder.Paused {
		apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "imported"})
	}
	if err != nil {
		return "", badExport("boulder %s cannot be paused: %w", x.Boulder.ID, err)
	}
	changes, _ := s.TakeChanges()
	x.merge(&changes)
	return from, nil
}

// lost ends the attempts that hold a slot, and books what their turns were seen to use. One that has asked for a replan
// stays: its turn is over.
func lost(s *boulder.State) []boulder.Body {
	var bodies []boulder.Body
	for _, o := range s.Live() {
		ref := o.Attempt.AttemptRef
		if r := s.Boulder.Replan; r != nil && r.AttemptRef == ref {
			continue
		}
		if used := o.Running(); used != (boulder.Usage{}) {
			bodies = append(bodies, boulder.UsageReport{
				SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: boulder.UsageAttempt, Model: o.Attempt.Model, Usage: used,
			})
		}
		retry := boulder.Retry{
			AttemptRef: ref, Status: boulder.AttemptLost, Uncounted: true, Next: ref.Attempt + 1,
			Reason: "imported: its session stayed where it was",
		}
		if len(o.SubTask.AwaitedBy(ref.Attempt)) > 0 { // only a person sends that on without the answer
			retry.Status, retry.Reason = boulder.AttemptCancelled, askedElsewhere
		}
		bodies = append(bodies, retry)
	}
	return bodies
}

const askedElsewhere = "imported: what it asked a person stayed where it was, and is asked again"

// unanswerable lets parked sub-tasks go on that wait for an answer that nobody can give here.
func unanswerable(s *boulder.State) []boulder.Body {
	var bodies []boulder.Body
	for _, t := range s.SubTasks {
		if t.Parked && len(t.AwaitedBy(t.Attempts)) > 0 {
			bodies = append(bodies, boulder.Reopened{SubTaskID: t.ID, Reason: askedElsewhere})
		}
	}
	return bodies
}

// merge lays changed records over those of the export, which keeps its order.
func (x *Export) merge(c *boulder.Changes) {
	x.Boulder = c.Boulder
	x.Events = append(x.Events, c.Events...)
	x.SubTasks = overlay(x.SubTasks, c.SubTasks, func(t *boulder.SubTask) string { return t.ID })
	x.Attempts = overlay(x.Attempts, c.Attempts, func(a *boulder.Attempt) boulder.AttemptRef { return a.AttemptRef })
	type turn struct {
		boulder.AttemptRef
		number int
	}
	x.Turns = overlay(x.Turns, c.Turns, func(t *boulder.Turn) turn { return turn{t.AttemptRef, t.Number} })
	d := Detail{SubTasks: x.SubTasks, Attempts: x.Attempts}
	d.sort()
}

// overlay replaces the records of all that have the key of one of fresh, and adds the rest of fresh.
func overlay[T any, K comparable](all, fresh []T, key func(*T) K) []T {
	places := make(map[K]int, len(all))
	for i := range all {
		places[key(&all[i])] = i
	}
	for i := range fresh {
		if at, ok := places[key(&fresh[i])]; ok {
			all[at] = fresh[i]
		} else {
			all = append(all, fresh[i])
		}
	}
	return all
}
