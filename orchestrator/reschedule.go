package orchestrator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// Span is when an attempt held its slot, measured from the start of the boulder without pauses.
type Span struct {
	From, To time.Duration // 0 if the attempt has not ended
}

// MarshalJSON writes milliseconds.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		From int64 `json:"from_ms"`
		To   int64 `json:"to_ms,omitempty"`
	}{s.From.Milliseconds(), s.To.Milliseconds()})
}

// Scheduled is an attempt of a log: when it ran, and when it would have run with other limits.
type Scheduled struct {
	boulder.AttemptRef
	Was     Span `json:"was"`
	WouldBe Span `json:"would_be"`
}

// Reschedule computes when the attempts of a log would have run with other limits, if each had taken as long and had
// the same outcome. It ignores budgets, cool-downs, integration, and boulders that shared the limits. It fails if the
// log cannot be folded, has a redo, or if an outcome would have been impossible: for example, a sub-task that a replan
// replaced would have been at work.
func Reschedule(events []boulder.Event, limits Limits) ([]Scheduled, error) {
	r := &rescheduling{s: boulder.NewState(), limits: limits, at: map[boulder.AttemptRef]int{}}
	if err := r.read(events); err != nil {
		return nil, err
	}
	if err := startable(r.s, limits); err != nil {
		return nil, err
	}
	for {
		if err := r.dispatch(); err != nil {
			return nil, err
		}
		if len(r.coming) == 0 {
			return r.all, nil
		}
		r.now = r.coming[0].at
		for len(r.coming) > 0 && r.coming[0].at == r.now {
			next := r.coming[0]
			r.coming = r.coming[1:]
			if err := r.apply(next.body); err != nil {
				return nil, fmt.Errorf("%s of sub-task %q, after %s: %w", boulder.TypeOf(next.body), subTaskOf(next.body), r.now, err)
			}
		}
	}
}

type rescheduling struct {
	s      *boulder.State // with the other limits
	limits Limits
	begun  time.Time
	now    time.Duration
	coming []timed // what will happen, by time

	all     []Scheduled // in the order of their start
	at      map[boulder.AttemptRef]int
	follows [][]timed // per entry of all: the events of its sub-task until its next start, by time since the start
}

type timed struct {
	at   time.Duration
	body boulder.Body
}

// read folds the log and records what happened in each attempt, without what does not change when attempts run. The
// rescheduled state begins with the plan.
func (r *rescheduling) read(events []boulder.Event) error {
	was, newest := boulder.NewState(), map[string]int{}
	for _, e := range events {
		if err := was.Replay(e); err != nil {
			return fmt.Errorf("event %d (%s): %w", e.Seq, boulder.TypeOf(e.Body), err)
		}
		worked := was.Boulder.Worked
		switch b := e.Body.(type) {
		case boulder.Created:
			b.Boulder.Budget, b.Boulder.Line, r.begun = nil, boulder.Line{}, e.Time
			e.Body = b
		case boulder.Planned:
		case boulder.Decomposed:
			r.now = worked
		case boulder.Starting:
			newest[b.SubTaskID], r.at[b.AttemptRef] = len(r.all), len(r.all)
			r.all = append(r.all, Scheduled{AttemptRef: b.AttemptRef, Was: Span{From: worked}})
			r.follows = append(r.follows, nil)
			continue
		case boulder.TurnEnded:
			b.Cooldown = nil
			e.Body = b
		case boulder.Judged:
			b.Cooldown = nil
			e.Body = b
		case boulder.Redone:
			return fmt.Errorf("event %d is a redo, and when the user would have wanted that is not known: give `--to %d`", e.Seq, e.Seq-1)
		case boulder.GateRun:
			if b.Tree != "" {
				continue
			}
		case boulder.SubTaskProgress, boulder.UsageReport, boulder.BudgetSet, boulder.BudgetWarning, boulder.SessionLeft,
			boulder.Isolated, boulder.Integrating, boulder.Integrated, boulder.Conflict, boulder.Kept, boulder.Landed:
			continue
		}
		i, begun := newest[subTaskOf(e.Body)]
		switch {
		case begun:
			if o := was.Open(r.all[i].SubTaskID); r.all[i].Was.To == 0 && (o == nil || o.Attempt.AttemptRef != r.all[i].AttemptRef) {
				r.all[i].Was.To = worked
			}
			r.follows[i] = append(r.follows[i], timed{worked - r.all[i].Was.From, e.Body})
		case len(was.SubTasks) == 0 || boulder.TypeOf(e.Body) == boulder.TypeOf(boulder.Decomposed{}):
			if _, err := r.s.Apply(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rescheduling) apply(b boulder.Body) error {
	_, err := r.s.Apply(boulder.Event{Time: r.begun.Add(r.now), BoulderID: r.s.Boulder.ID, Body: b})
	return err
}

// dispatch starts the attempts that may start now, and queues their recorded events.
func (r *rescheduling) dispatch() error {
	for _, action := range schedule.Compute(r.s, r.limits, r.begun.Add(r.now)) {
		start, ok := action.(boulder.Starting)
		if !ok {
			continue
		}
		i, known := r.at[start.AttemptRef]
		if !known { // the log ends before its start
			continue
		}
		if err := r.apply(start); err != nil {
			return err
		}
		a := &r.all[i]
		a.WouldBe.From = r.now
		if a.Was.To > 0 {
			a.WouldBe.To = r.now + a.Was.To - a.Was.From
		}
		for _, f := range r.follows[i] {
			f.at += r.now
			at, _ := slices.BinarySearchFunc(r.coming, f.at, func(t timed, at time.Duration) int {
				return cmp.Or(cmp.Compare(t.at, at), -1) // after those of the same time
			})
			r.coming = slices.Insert(r.coming, at, f)
		}
	}
	return nil
}

func subTaskOf(b boulder.Body) string {
	switch b := b.(type) {
	case boulder.BlockerSettled:
		return b.SubTaskID
	case boulder.Unparked:
		return b.SubTaskID
	case boulder.Reopened:
		return b.SubTaskID
	}
	return boulder.AttemptOf(b).SubTaskID
}
