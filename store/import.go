package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// ErrExists is returned by [DB.Import] for a boulder whose id is taken.
var ErrExists = errors.New("a boulder with this id is here already; nothing was imported")

// Import stores a boulder as it is in an export, in one transaction; [DB.Export] then gives the same again. Errors wrap
// [ErrExists], or [ErrBadExport] with what is wrong.
func (db *DB) Import(ctx context.Context, x Export) error {
	s, err := x.State()
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	events := make([]boulder.Event, len(x.Events))
	for i := range x.Events {
		events[i] = x.Events[i].Event
	}
	if err = db.commit(ctx, s, events, true); errors.Is(err, ErrConflict) {
		err = ErrExists
	}
	if err != nil {
		return fmt.Errorf("import boulder %s: %w", s.Boulder.ID, err)
	}
	return nil
}

// Adopt makes the boulder of an export one of the project that it is imported into, and returns its state and the project
// it comes from. One that is not over becomes paused; its attempts that are at work end as lost, since nobody follows their
// sessions from here: a resume gives each a fresh session, and does not count the lost one as a try. The same holds for what
// waits for an answer: the blockers stayed where they came up, with their ids, so that it is asked again.
//
// project is an absolute directory, now the time of the events that say so. The export is unchanged after an error, which
// wraps [ErrBadExport].
func (x *Export) Adopt(project string, now time.Time) (s *boulder.State, from string, err error) {
	if s, err = x.State(); err != nil {
		return nil, "", err
	}
	events := slices.Clone(x.Events)
	created := events[0].Body.(boulder.Created)
	from, created.Boulder.Project = created.Boulder.Project, project
	events[0].Body, s.Boulder.Project = created, project
	if !s.Boulder.Status.Terminal() {
		apply := func(body boulder.Body) {
			if err == nil {
				_, err = s.Apply(boulder.Event{Time: now, BoulderID: s.Boulder.ID, Body: body})
			}
		}
		apply(boulder.TakenUp{}) // the time since it was left is nobody's work
		for _, body := range append(lost(s), unanswerable(s)...) {
			apply(body)
		}
		if s.Boulder.Status != boulder.Paused {
			apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "imported"})
		}
	}
	if err != nil {
		return nil, "", badExport("boulder %s cannot be paused: %w", s.Boulder.ID, err)
	}
	for _, e := range s.TakeEvents() {
		events = append(events, boulder.Logged{Event: e})
	}
	x.Events = events
	return s, from, nil
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
