// Package schedule decides what a boulder does next. [Compute] is pure: the same state, limits and time give the same
// actions, so it can be property-tested, simulated, and driven by another engine than the orchestrator's loop.
package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Action is something to do. [Start], [Complete], [Continue], [Retry], [Fail] and [Finish] are decisions: each becomes
// an event, after which Compute is asked again. [Run] and [Judge] are work that should be under way now: whoever drives
// Compute starts what it has not started yet. [Wake] asks to be called again at a time.
type Action interface{ action() }

// Start gives a queued attempt a slot.
type Start struct{ Open *boulder.Open }

// Complete ends a sub-task whose newest turn was judged complete.
type Complete struct{ Open *boulder.Open }

// Continue tells the attempt's session to go on.
type Continue struct {
	Open   *boulder.Open
	Reason string
}

// Retry ends an attempt and queues the next one.
type Retry struct {
	Open      *boulder.Open
	Reason    string
	Status    boulder.AttemptStatus // what the ended attempt becomes
	Uncounted bool                  // the ended attempt is not a try
}

// Fail ends a sub-task without success.
type Fail struct {
	Open   *boulder.Open
	Reason string
	Status boulder.AttemptStatus // what the attempt becomes
}

// Run says that the attempt's newest turn should be running.
type Run struct{ Open *boulder.Open }

// Judge says that the attempt's newest turn should be being judged.
type Judge struct{ Open *boulder.Open }

// Finish says that nothing is ready or live any more.
type Finish struct{ Status boulder.Status }

// Wake asks for another Compute at this time; the earliest one is given.
type Wake struct{ At time.Time }

func (Start) action()    {}
func (Complete) action() {}
func (Continue) action() {}
func (Retry) action()    {}
func (Fail) action()     {}
func (Run) action()      {}
func (Judge) action()    {}
func (Finish) action()   {}
func (Wake) action()     {}

// Compute returns what to do. It looks at the live attempts and the heads of the queues only, so its cost does not grow
// with the plan. A boulder that is not running gets no actions; one that is gets at least one, if it is [Startable].
func Compute(s *boulder.State, l Limits, now time.Time) []Action {
	if s.Boulder.Status != boulder.Running {
		return nil
	}
	if s.Settled() {
		return []Action{Finish{Status: outcome(s)}}
	}
	var actions []Action
	var wake time.Time
	for _, o := range s.Live() {
		switch a := next(o, l, now); a := a.(type) {
		case Wake:
			if wake.IsZero() || a.At.Before(wake) {
				wake = a.At
			}
		default:
			actions = append(actions, a)
		}
	}
	actions = append(actions, dispatch(s, l)...)
	if !wake.IsZero() {
		actions = append(actions, Wake{At: wake})
	}
	return actions
}

// outcome says how a settled boulder ends.
func outcome(s *boulder.State) boulder.Status {
	good := s.Count(boulder.SubTaskCompleted) + s.Count(boulder.SubTaskSkipped)
	switch {
	case good+s.Count(boulder.SubTaskSuperseded) == len(s.SubTasks):
		return boulder.Completed
	case good > 0:
		return boulder.Partial
	}
	return boulder.Failed
}

// next says what a live attempt needs.
func next(o *boulder.Open, l Limits, now time.Time) Action {
	a := o.Attempt
	switch {
	case a.Troubles > 0 && a.Troubles >= l.Troubles:
		return Fail{o, fmt.Sprintf("gave up after %d faults in a row: %s", a.Troubles, a.Reason), boulder.AttemptFailed}
	case a.Status == boulder.AttemptMonitoring && o.Turn.Verdict != nil:
		return afterVerdict(o, l)
	case now.Before(a.NotBefore):
		return Wake{At: a.NotBefore}
	case a.Status == boulder.AttemptMonitoring:
		return Judge{o}
	}
	return Run{o}
}

// afterVerdict is SEMANTICS §4: hand on, continue the same session, try a fresh one, or give up.
func afterVerdict(o *boulder.Open, l Limits) Action {
	v, ended := o.Turn.Verdict, o.Turn.Evidence.Ended
	switch {
	case v.Completed:
		return Complete{o}
	case ended.Stopped != "":
		return again(o, l, "the turn was stopped: "+ended.Stopped, boulder.AttemptTimeout)
	case ended.Error != "":
		return again(o, l, fmt.Sprintf("the session broke: %s: %s", ended.Error, ended.Message), boulder.AttemptFailed)
	case v.IsStuck:
		return again(o, l, "stuck: "+v.StuckReason, boulder.AttemptFailed)
	case v.IsInLoop:
		return again(o, l, "going in circles: "+v.Summary, boulder.AttemptFailed)
	case o.Attempt.Turns >= l.Evaluations:
		reason := fmt.Sprintf("not complete after %d turns: %s", o.Attempt.Turns, shortcoming(v))
		return again(o, l, reason, boulder.AttemptFailed)
	}
	return Continue{o, shortcoming(v)}
}

// shortcoming says why a turn did not complete its sub-task. The summary of a judge who was overruled says that it did.
func shortcoming(v *boulder.Verdict) string {
	if len(v.Overruled) > 0 {
		return strings.Join(v.Overruled, "; ")
	}
	return v.Summary
}

// again retries in a fresh session while there are tries left.
func again(o *boulder.Open, l Limits, reason string, status boulder.AttemptStatus) Action {
	if o.SubTask.Tries+1 >= l.attempts(o.SubTask) {
		return Fail{o, reason, status}
	}
	return Retry{Open: o, Reason: reason, Status: status}
}

// Broken says what follows when an attempt's turn ended in an error that is neither trouble nor fatal.
func Broken(o *boulder.Open, l Limits, reason string) Action {
	return again(o, l, reason, boulder.AttemptFailed)
}

// Lost says what follows when an attempt's session does not exist any more. That is not a try, but a sub-task that
// loses session after session fails.
func Lost(o *boulder.Open, l Limits, reason string) Action {
	if lost := o.SubTask.Attempts - o.SubTask.Tries; lost > l.Troubles {
		return Fail{o, fmt.Sprintf("lost %d sessions: %s", lost, reason), boulder.AttemptLost}
	}
	return Retry{Open: o, Reason: reason, Status: boulder.AttemptLost, Uncounted: true}
}

// Backoff is the wait after the n-th fault in a row, from 1: 0.5 s × 2ⁿ⁻¹ by default, without jitter.
func Backoff(l Limits, n int) time.Duration { return l.Backoff << min(max(n-1, 0), 10) }
