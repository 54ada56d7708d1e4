package orchestrator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// Check is the result of making the decisions of a log again.
type Check struct {
	Events    int `json:"events"`    // that were folded
	Decisions int `json:"decisions"` // that are the same again
	// Unchecked events are of processes that logged no limits: of older managers, or of an import.
	Unchecked  int         `json:"unchecked,omitempty"`
	Difference *Difference `json:"difference,omitempty"` // the first; nil: none
}

// Difference is a decision that differs from the one in the log.
type Difference struct {
	Seq      uint64         `json:"seq"` // the differing event, or the one after which an event is missing
	Time     time.Time      `json:"time"`
	Expected *boulder.Event `json:"expected"` // decided now; nil: nothing
	Got      *boulder.Event `json:"got"`      // in the log; nil: nothing
}

func difference(at boulder.Event, expected, got boulder.Body) *Difference {
	with := func(b boulder.Body) *boulder.Event {
		if b == nil {
			return nil
		}
		return &boulder.Event{Time: at.Time, BoulderID: at.BoulderID, Seq: at.Seq, Body: b}
	}
	return &Difference{at.Seq, at.Time, with(expected), with(got)}
}

// CheckDecisions folds a log and makes each decision again, with the state, limits and time of the original, up to the
// first difference. An error means that the log cannot be folded. It does not compare texts for users and agents, which
// follow from a decision, nor decisions that depend on what is not logged: starts while other boulders shared the
// limits, and what followed from an error of a runner, judge or planner.
func CheckDecisions(events []boulder.Event) (*Check, error) {
	r := &replay{s: boulder.NewState(), check: &Check{}}
	for i, e := range events {
		last := i+1 == len(events) || !events[i+1].Time.Equal(e.Time)
		if err := r.take(e, last); err != nil {
			return nil, fmt.Errorf("event %d (%s): %w", e.Seq, boulder.TypeOf(e.Body), err)
		}
		if r.check.Difference != nil {
			break
		}
	}
	return r.check, nil
}

// replay is a log being folded. The events of one loop turn have the same time: inputs first, then decisions.
type replay struct {
	s      *boulder.State
	check  *Check
	limits *Limits // of the process; nil: not recorded

	due     []boulder.Body // decided together with the previous decision, and not yet seen
	driven  bool           // the turn has an event that no order causes, so a loop has decided at its end
	ending  bool           // the scheduler ended the run in this turn
	stopped bool           // or in an earlier turn of the process

	// missed is the first start, or end of the run, that should have come and did not. A run that is ending starts
	// nothing, so it is a difference only if another attempt starts later.
	missed *Difference
}

func (r *replay) take(e boulder.Event, last bool) error {
	switch b := e.Body.(type) {
	case boulder.Created:
		if err := r.begin(b.Limits); err != nil {
			return err
		}
	case boulder.Resumed:
		if err := r.begin(b.Limits); err != nil {
			return err
		}
	}
	if r.limits == nil {
		r.check.Unchecked++
	} else {
		r.compare(e)
	}
	if r.check.Difference != nil {
		return nil
	}
	if err := r.s.Replay(e); err != nil {
		return err
	}
	r.check.Events++
	r.driven = r.driven || !ordersLeave(e.Body)
	if last {
		r.endTurn(e)
	}
	return nil
}

// begin starts another process.
func (r *replay) begin(limits json.RawMessage) error {
	r.limits, r.due, r.missed, r.stopped = nil, nil, nil, false
	if len(limits) == 0 {
		return nil
	}
	l, err := decodeLimits(limits)
	r.limits = &l
	return err
}

// decodeLimits reads recorded limits. Those that are newer than the record get their defaults, except for batches.
func decodeLimits(text json.RawMessage) (Limits, error) {
	l := DefaultLimits()
	l.Batch = 0
	err := json.Unmarshal(text, &l)
	return l, err
}

// compare checks an event before it is applied.
func (r *replay) compare(e boulder.Event) {
	switch b := e.Body.(type) {
	case boulder.UsageReport, boulder.ClockMoved: // may precede a decision
		return
	case boulder.TurnEnded:
		if o := r.s.Open(b.SubTaskID); o != nil {
			r.same(e, schedule.TurnEnded(r.s, o, b.Turn, b.Evidence, e.Time))
		}
		return
	case boulder.Judged:
		if o := r.s.Open(b.SubTaskID); o != nil && o.Turn != nil && o.Turn.Evidence != nil {
			r.same(e, schedule.Judged(r.s, o, b.Turn, b.Verdict, e.Time))
		}
		return
	case boulder.BlockerRaised:
		if o := r.s.Open(b.SubTaskID); o != nil && o.Attempt.Status != boulder.AttemptMonitoring { // the agent's
			return
		}
	case boulder.StatusChanged:
		if b.Decided && !r.stopped {
			if due := r.decide(e.Time); !r.ending {
				r.differs(e, first(due))
				return
			}
		}
	case boulder.Starting:
		switch {
		case b.Shared:
			r.missed = nil
		case r.missed != nil:
			r.check.Difference = r.missed
			return
		}
	}
	if !isDecision(e.Body) {
		r.due = nil
		return
	}
	if len(r.due) == 0 || !r.advance(e.Body) {
		r.due = r.decide(e.Time)
	}
	switch {
	case r.advance(e.Body):
		r.same(e, r.due[0])
		r.due = r.due[1:]
	case !r.fromOutside(e.Body):
		r.differs(e, first(r.due))
	default:
		r.due = nil
		if b, refused := e.Body.(boulder.ReplanRefused); refused { // its sub-task fails, unless it is completed
			r.due = schedule.RefuseReplan(r.s, b.Reason)[1:]
		}
	}
}

func first(due []boulder.Body) boulder.Body {
	if len(due) == 0 {
		return nil
	}
	return due[0]
}

// decide returns the events that the scheduler decides. Nothing after a Stop is carried out.
func (r *replay) decide(now time.Time) (due []boulder.Body) {
	for _, action := range schedule.Compute(r.s, *r.limits, now) {
		switch a := action.(type) {
		case schedule.Stop:
			r.ending = true
			return due
		case schedule.Finish:
			due = append(due, finished(r.s, a.Status)...)
		case schedule.Apply: // anything else is work
			due = append(due, a.Body)
		}
	}
	return due
}

// advance skips decisions that may wait, up to one of b's type and attempt, and reports whether there is one.
func (r *replay) advance(b boulder.Body) bool {
	for i, due := range r.due {
		if boulder.TypeOf(due) == boulder.TypeOf(b) && boulder.AttemptOf(due) == boulder.AttemptOf(b) {
			r.due = r.due[i:]
			return true
		}
		if !r.mayWait(due) {
			break
		}
	}
	return false
}

// mayWait reports whether a decision may come later, or never if the run ends: a turn at work is stopped before its
// sub-task is parked.
func (r *replay) mayWait(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Parked:
		return !r.judged(b.SubTaskID)
	case boulder.Starting, boulder.Switched: // others may try a model, or hold the slots
		return true
	}
	return false
}

func (r *replay) judged(subTaskID string) bool {
	o := r.s.Open(subTaskID)
	return o != nil && o.Turn != nil && o.Turn.Verdict != nil
}

// fromOutside reports whether an order or an error may have caused an event that is not decided now.
func (r *replay) fromOutside(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Starting:
		return b.Shared
	case boulder.Parked:
		return !r.judged(b.SubTaskID)
	case boulder.Retry, boulder.ReplanStarted:
		return !r.judged(boulder.AttemptOf(b).SubTaskID)
	case boulder.SubTaskDone:
		return b.Attempt > 0 && !r.judged(b.SubTaskID)
	case boulder.Isolated: // after a trial of the gates
		return r.s.Boulder.Trunk.Trial
	case boulder.ReplanRefused, boulder.StatusChanged: // the event that ends a boulder says whether the user did
		return true
	}
	return false
}

func isDecision(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Starting, boulder.Continuation, boulder.Parked, boulder.ReplanStarted, boulder.ReplanRefused,
		boulder.BudgetWarning, boulder.Isolated, boulder.Integrating, boulder.BlockerRaised:
		return true
	case boulder.Retry:
		return !b.ByUser
	case boulder.LookStarted:
		return b.For == boulder.LookReview
	case boulder.SubTaskDone:
		return !b.ByUser
	case boulder.TaskComplete:
		return b.Status != boulder.Cancelled
	case boulder.StatusChanged:
		return b.Status == boulder.Synthesizing
	}
	return false
}

// ordersLeave reports whether an order may cause the event. Perhaps nothing ran then, and nothing was decided.
func ordersLeave(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Cooled:
		return !b.Lifted.IsZero()
	case boulder.Archived, boulder.StatusChanged, boulder.Noted, boulder.BlockerSettled, boulder.SubTaskDone, boulder.Reopened,
		boulder.Retry, boulder.SessionLeft, boulder.UsageReport, boulder.ReplanRefused, boulder.TaskComplete, boulder.Redone,
		boulder.Kept, boulder.Decomposed, boulder.Replanned, boulder.PlanEdited, boulder.ModelSet, boulder.RevisionAsked:
		return true
	}
	return false
}

// endTurn checks that nothing is left to decide.
func (r *replay) endTurn(e boulder.Event) {
	if r.limits != nil && r.driven && !r.ending {
		for _, due := range r.decide(e.Time) {
			_, starts := due.(boulder.Starting)
			switch {
			case starts && r.missed == nil:
				r.missed = difference(e, due, nil)
			case !r.mayWait(due) && !r.verifies(due):
				r.check.Difference = difference(e, due, nil)
			}
		}
	}
	r.due, r.driven, r.stopped, r.ending = nil, false, r.stopped || r.ending, false
}

// verifies reports whether gates may have to rerun, the request be checked, or the tip's ref move, before the end that is
// due.
func (r *replay) verifies(due boulder.Body) bool {
	switch due.(type) {
	case boulder.StatusChanged, boulder.TaskComplete:
		finish, _ := schedule.Compute(r.s, *r.limits, r.s.Boulder.UpdatedAt)[0].(schedule.Finish)
		return len(finish.Verify) > 0 || finish.Check || r.s.Boulder.Isolated()
	}
	return false
}

func (r *replay) same(e boulder.Event, expected boulder.Body) {
	if !bytes.Equal(essence(expected), essence(e.Body)) {
		r.differs(e, expected)
		return
	}
	r.check.Decisions++
}

func (r *replay) differs(e boulder.Event, expected boulder.Body) {
	r.check.Difference = difference(e, expected, e.Body)
}

// essence returns a decision without texts for users and agents, and without what the run adds.
func essence(b boulder.Body) []byte {
	var fields map[string]json.RawMessage
	text, err := json.Marshal(b)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	for _, name := range []string{"reason", "summary", "answer", "prompt", "digest", "tag", "shared", "blocked", "kept", "blocker"} {
		delete(fields, name)
	}
	if err == nil {
		text, err = json.Marshal(fields)
	}
	if err != nil {
		panic(err) // it was stored once
	}
	return text
}
