package orchestrator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// Check is what became of asking the scheduler again for the decisions of a log.
type Check struct {
	Events    int `json:"events"`    // that were folded
	Decisions int `json:"decisions"` // that came out as they are recorded
	// Unchecked events are of processes that left no limits in the log: of older managers, and of an import.
	Unchecked  int         `json:"unchecked,omitempty"`
	Difference *Difference `json:"difference,omitempty"` // the first one; nil: there is none
}

// Difference is a decision that this manager makes differently than the one that wrote the log.
type Difference struct {
	Seq      uint64         `json:"seq"` // the event that differs, or after which one is missing
	Time     time.Time      `json:"time"`
	Expected *boulder.Event `json:"expected"` // what is decided now; nil: nothing
	Got      *boulder.Event `json:"got"`      // what the log has; nil: nothing
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

// CheckDecisions folds a whole log, and asks the scheduler for each decision in it with the state, the limits and the time
// that it was made with. It ends at the first difference. An error says that the log itself cannot be folded.
//
// Words for people and agents are not compared: they follow from a decision. Neither are decisions that rest on what is
// not in the log: which attempts start while other boulders share the limits, and what follows from an error of a runner,
// a judge or a planner.
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

// LimitsOf are the limits of the process that wrote the end of a log, if it recorded them.
func LimitsOf(events []boulder.Event) (l Limits, recorded bool) {
	for _, e := range slices.Backward(events) {
		var text json.RawMessage
		switch b := e.Body.(type) {
		case boulder.Created:
			text = b.Limits
		case boulder.TakenUp:
			text = b.Limits
		}
		if len(text) > 0 {
			l, err := decodeLimits(text)
			return l, err == nil
		}
	}
	return l, false
}

// replay is a log being folded. All events of a turn of the loop have its time: first what came in, then what was decided.
type replay struct {
	s      *boulder.State
	check  *Check
	limits *Limits // of the process; nil: it left none

	due     []boulder.Body // decided together with the last decision, and not seen yet
	driven  bool           // the turn has an event that no order leaves: a loop has decided at its end
	ending  bool           // the scheduler has ended the run in this turn
	stopped bool           // or in an earlier one of the process

	// The first attempt that should have started, or the end of the run that should have come, and did not. A process that is
	// to end starts nothing any more: it counts only if that one does.
	missed *Difference
}

func (r *replay) take(e boulder.Event, last bool) error {
	switch b := e.Body.(type) {
	case boulder.Created:
		if err := r.begin(b.Limits); err != nil {
			return err
		}
	case boulder.TakenUp:
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

// begin is a new process.
func (r *replay) begin(limits json.RawMessage) error {
	r.limits, r.due, r.missed, r.stopped = nil, nil, nil, false
	if len(limits) == 0 {
		return nil
	}
	l, err := decodeLimits(limits)
	r.limits = &l
	return err
}

// decodeLimits reads recorded limits. One that is newer than the record has its default: that is what it was, perhaps.
func decodeLimits(text json.RawMessage) (Limits, error) {
	l := DefaultLimits()
	err := json.Unmarshal(text, &l)
	return l, err
}

// compare checks an event before it is applied.
func (r *replay) compare(e boulder.Event) {
	switch b := e.Body.(type) {
	case boulder.UsageReport, boulder.ClockMoved: // may come before a decision
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
		if b, refused := e.Body.(boulder.ReplanRefused); refused { // whose sub-task fails, if nothing else is done with it
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

// decide are the events that the scheduler's answer comes to. The run ends with a Stop, and what is decided behind it is
// not done.
func (r *replay) decide(now time.Time) (due []boulder.Body) {
	for _, action := range schedule.Compute(r.s, *r.limits, now) {
		switch a := action.(type) {
		case schedule.Stop:
			r.ending = true
			return due
		case schedule.Finish:
			due = append(due, finished(r.s, a.Status)...)
		default:
			if boulder.TypeOf(a) != "" { // else it is work
				due = append(due, a)
			}
		}
	}
	return due
}

// advance leaves out what may come later, until what is due next is of the kind of a body, and about the same.
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

// mayWait reports whether what is decided may be done later: a turn that is at work is stopped first, before a sub-task is
// parked; one that begins may find that the run is to end.
func (r *replay) mayWait(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Parked:
		return !r.judged(b.SubTaskID)
	case boulder.Starting:
		return true
	}
	return false
}

func (r *replay) judged(subTaskID string) bool {
	o := r.s.Open(subTaskID)
	return o != nil && o.Turn != nil && o.Turn.Verdict != nil
}

// fromOutside reports whether what is not decided now may be there all the same: an order of the user, or what followed from
// an error.
func (r *replay) fromOutside(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Starting:
		return b.Shared
	case boulder.Parked: // for want of an answer, if the question could not be recorded
		return !r.judged(b.SubTaskID) || r.s.SubTask(b.SubTaskID).NeedsUser > 0
	case boulder.Retry, boulder.ReplanStarted:
		return !r.judged(boulder.AttemptOf(b).SubTaskID)
	case boulder.SubTaskDone:
		return b.Attempt > 0 && !r.judged(b.SubTaskID)
	case boulder.Isolated: // when the gates were tried
		return r.s.Boulder.Line.Trial
	case boulder.ReplanRefused, boulder.StatusChanged: // what ends a boulder says whether the user did
		return true
	}
	return false
}

// isDecision reports whether the scheduler may have decided it.
func isDecision(b boulder.Body) bool {
	switch b := b.(type) {
	case boulder.Starting, boulder.Continuation, boulder.Parked, boulder.ReplanStarted, boulder.ReplanRefused,
		boulder.BudgetWarning, boulder.Isolated, boulder.Integrating:
		return true
	case boulder.Retry:
		return !b.ByPerson
	case boulder.SubTaskDone:
		return !b.ByPerson
	case boulder.TaskComplete:
		return b.Status != boulder.Cancelled
	case boulder.StatusChanged:
		return b.Status == boulder.Synthesizing
	}
	return false
}

// ordersLeave reports whether an order of the user may come to such an event: nothing runs then, perhaps, and nothing is
// decided.
func ordersLeave(b boulder.Body) bool {
	switch b.(type) {
	case boulder.Archived, boulder.StatusChanged, boulder.Noted, boulder.BlockerSettled, boulder.SubTaskDone, boulder.Reopened,
		boulder.Retry, boulder.SessionLeft, boulder.UsageReport, boulder.ReplanRefused, boulder.TaskComplete, boulder.Redone,
		boulder.Kept, boulder.Decomposed, boulder.Replanned:
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

// verifies reports whether gates may have to run before the end that is due, or the ref of the tip has to move.
func (r *replay) verifies(due boulder.Body) bool {
	switch due.(type) {
	case boulder.StatusChanged, boulder.TaskComplete:
		finish, _ := schedule.Compute(r.s, *r.limits, r.s.Boulder.UpdatedAt)[0].(schedule.Finish)
		return len(finish.Verify) > 0 || r.s.Boulder.Isolated()
	}
	return false
}

// same compares an event with what is expected in its place.
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

// essence is a decision without its words for people and agents, and without what the run adds.
func essence(b boulder.Body) []byte {
	var fields map[string]json.RawMessage
	text, err := json.Marshal(b)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	for _, name := range []string{"reason", "summary", "prompt", "digest", "tag", "shared", "blocked", "kept"} {
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
