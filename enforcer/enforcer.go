// Package enforcer is the arbiter of a session: given what a session has been seen to do, it says whether to wait, to look
// closer, or to stop it, and why. It is pure: no clock, no I/O. The executor asks it for every turn; there is no
// second place that decides about a session.
package enforcer

import (
	"fmt"
	"time"
)

// Rules are the deadlines of a turn. A zero deadline is none.
type Rules struct {
	// Admission is how long an accepted prompt may show no sign of a turn: an accepted prompt does not prove that one
	// runs. The first prompt in a directory takes 3 s (measured); one that arrives in the moment in which the turn
	// before it fails is swallowed (seen). Defaults to 10 s.
	Admission time.Duration
	// Silence is how long a busy session may bring no event. Defaults to 5 minutes.
	Silence time.Duration
	// ToolSilence is the same while a tool runs. Defaults to 15 minutes.
	ToolSilence time.Duration
	// WallClock bounds a turn. Defaults to 30 minutes.
	WallClock time.Duration
	// Offline is how long the connection to the server may be gone. Defaults to 1 minute.
	Offline time.Duration
}

// DefaultRules returns the documented defaults.
func DefaultRules() Rules {
	return Rules{
		Admission: 10 * time.Second, Silence: 5 * time.Minute, ToolSilence: 15 * time.Minute, WallClock: 30 * time.Minute,
		Offline: time.Minute,
	}
}

// Seen is what is known of a turn that has not ended.
type Seen struct {
	Began        time.Time // the prompt was accepted, or the turn was taken up again
	LastEvent    time.Time // of the session or a child of it
	Busy         bool      // the session was seen at work since Began
	ToolsRunning int
	OfflineSince time.Time // zero: connected
}

// Kind is what to do about a session.
type Kind string

const (
	Wait Kind = "wait" // until Decision.At, unless something happens before
	Look Kind = "look" // read the session's state: what was seen may not be all
	Stop Kind = "stop" // end the turn; what it did is judged all the same
	Lose Kind = "lose" // the server cannot be reached: that is nobody's fault
)

// Decision is the arbiter's answer.
type Decision struct {
	Kind   Kind
	Reason string    // for people; empty for Wait
	At     time.Time // of Wait: ask again then
}

// Decide applies the rules, the hardest first.
func Decide(s Seen, r Rules, now time.Time) Decision {
	silence, what := r.Silence, "no event"
	if s.ToolsRunning > 0 {
		silence, what = r.ToolSilence, "a tool is running, but no event"
	}
	next := time.Time{}
	for _, rule := range []struct {
		applies bool
		since   time.Time
		limit   time.Duration
		kind    Kind
		reason  string
	}{
		{true, s.Began, r.WallClock, Stop, "the turn ran for %s"},
		{!s.OfflineSince.IsZero(), s.OfflineSince, r.Offline, Lose, "the connection to OpenCode was gone for %s"},
		{s.OfflineSince.IsZero() && s.Busy, s.LastEvent, silence, Stop, what + " came for %s"},
		{s.OfflineSince.IsZero() && !s.Busy, s.Began, r.Admission, Look, "no turn began for %s"},
	} {
		if !rule.applies || rule.limit == 0 {
			continue
		}
		due := rule.since.Add(rule.limit)
		if !now.Before(due) {
			return Decision{Kind: rule.kind, Reason: fmt.Sprintf(rule.reason, rule.limit)}
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return Decision{Kind: Wait, At: next}
}
