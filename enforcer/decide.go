package enforcer

import (
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Seen is what is known of a turn that has not ended.
type Seen struct {
	Began        time.Time // the first prompt was accepted, or the turn was taken up again
	Prompted     time.Time // the newest prompt was accepted; zero: no other than the first
	LastEvent    time.Time // of the session or a child of it
	Busy         bool      // the session was seen at work since Began
	ToolsRunning int
	OfflineSince time.Time // zero: connected
	// Looked: the session's state was read since LastEvent, and did not say why it is silent.
	Looked bool
	// Worked is how long the attempt's earlier turns took.
	Worked time.Duration
	// TimeLeft is what the budget leaves for this turn; zero: there is no such budget.
	TimeLeft time.Duration
	// Retry is the retry of a provider that OpenCode waits for, in any session of the tree; nil: none.
	Retry *Retry
	// Findings are those of all windows.
	Findings []Decision
	// Nudged is what the turn was nudged for already: it is done once for each rule.
	Nudged []boulder.Nudge
}

// Retry is OpenCode's waiting for a provider that refused or could not be reached.
type Retry struct {
	Attempt int // from 1
	Next    time.Time
	Message string
}

// Kind is what to do about a session.
type Kind string

// What to do about a running turn ([Decide]).
const (
	Wait  Kind = "wait"  // until Decision.At, unless something happens before
	Look  Kind = "look"  // read the session's state: what was seen may not be all
	Nudge Kind = "nudge" // tell the agent what was seen, in the running turn
	Stop  Kind = "stop"  // end the turn; what it did is judged all the same
	Yield Kind = "yield" // end the turn and give its slot back: the provider needs time
	Lose  Kind = "lose"  // the server cannot be reached: that is nobody's fault
)

// What to do about a session whose turn has ended ([Continue]), besides Wait and Look.
const (
	Check     Kind = "check"     // look at the costly criteria now, and ask again with Situation.Checked
	Countdown Kind = "countdown" // show Decision.Toast, and ask again at Decision.At
	Send      Kind = "send"      // send one continuation
	Fresh     Kind = "fresh"     // go on in a fresh session: this one forgets what it does
	Finish    Kind = "finish"    // everything holds
	LetGo     Kind = "let_go"    // leave it to a person
)

// Decision is the arbiter's answer.
type Decision struct {
	Kind    Kind
	Rule    boulder.Rule // of Nudge and Stop
	Reason  string       // for people; of Decide empty for Wait
	Session string       // of Nudge: whom to tell
	// At is when to ask again: of Wait, and of Countdown. Zero, which only Continue says: not before something happens.
	At time.Time
	// RetryAfter is how long OpenCode would have waited; of Yield.
	RetryAfter time.Duration
	Gate       Gate   // of Continue: the one that decided
	Toast      *Toast // of Continue: what to show people; nil: nothing
}

// Decide applies the rules, the hardest first.
func Decide(s Seen, r Rules, now time.Time) Decision {
	limits := deadlines(s, r)
	for _, l := range limits {
		if d := l.decision; d.Kind != Look && !now.Before(l.due) {
			return d
		}
	}
	if d, ok := yield(s.Retry, r, now); ok {
		return d
	}
	if d, ok := stuck(s); ok {
		return d
	}
	next := now.Add(time.Hour) // with every deadline switched off there is no harm in asking again
	for _, l := range limits {
		if !now.Before(l.due) {
			return l.decision
		}
		if l.due.Before(next) {
			next = l.due
		}
	}
	return Decision{Kind: Wait, At: next}
}

type deadline struct {
	due      time.Time
	decision Decision
}

// deadlines lists the rules of time that apply.
func deadlines(s Seen, r Rules) []deadline {
	var list []deadline
	add := func(since time.Time, limit time.Duration, d Decision) {
		list = append(list, deadline{since.Add(limit), d})
	}
	if s.TimeLeft > 0 {
		add(s.Began, s.TimeLeft, Decision{
			Kind: Stop, Rule: boulder.RuleBudget,
			Reason: fmt.Sprintf("the sub-task's time is used up: the turn ran for %s", round(s.TimeLeft)),
		})
	}
	if r.WallClock > 0 {
		reason := fmt.Sprintf("the turn ran for %s", round(r.WallClock))
		if s.Worked > 0 {
			reason = fmt.Sprintf("the turns of the attempt ran for %s", round(r.WallClock))
		}
		add(s.Began, max(0, r.WallClock-s.Worked), Decision{Kind: Stop, Rule: boulder.RuleWallClock, Reason: reason})
	}
	switch {
	case !s.OfflineSince.IsZero():
		if r.Offline > 0 {
			add(s.OfflineSince, r.Offline, Decision{
				Kind: Lose, Reason: fmt.Sprintf("the connection to OpenCode was gone for %s", round(r.Offline)),
			})
		}
	case s.Busy:
		if silence, d := silence(s, r); silence > 0 {
			add(s.awake(), silence, d)
		}
	case r.Admission > 0:
		since := s.Began
		if s.Prompted.After(since) {
			since = s.Prompted
		}
		add(since, r.Admission, Decision{
			Kind: Look, Reason: fmt.Sprintf("no turn began for %s", round(r.Admission)),
		})
	}
	return list
}

// awake is the time from which a session is silent: waiting for a retry at a known time is no silence.
func (s Seen) awake() time.Time {
	if s.Retry != nil && s.Retry.Next.After(s.LastEvent) {
		return s.Retry.Next
	}
	return s.LastEvent
}

// silence finds out why first, and stops then.
func silence(s Seen, r Rules) (time.Duration, Decision) {
	limit, what := r.Silence, "no event"
	if s.ToolsRunning > 0 {
		limit, what = r.ToolSilence, "a tool is running, but no event"
	}
	d := Decision{Kind: Look, Reason: fmt.Sprintf("%s came for %s", what, round(limit))}
	if s.Looked {
		d.Kind, d.Rule = Stop, boulder.RuleSilence
	}
	return limit, d
}

// yield says whether OpenCode's own waiting for a provider has to end.
func yield(retry *Retry, r Rules, now time.Time) (Decision, bool) {
	if retry == nil {
		return Decision{}, false
	}
	wait := max(0, retry.Next.Sub(now))
	d := Decision{Kind: Yield, RetryAfter: wait}
	switch {
	case r.ProviderRetries >= 0 && retry.Attempt > r.ProviderRetries:
		d.Reason = "OpenCode has tried again " + text.Plural(r.ProviderRetries, "time")
	case r.ProviderWait > 0 && wait > r.ProviderWait:
		d.Reason = fmt.Sprintf("OpenCode would wait for %s", round(wait))
	default:
		return Decision{}, false
	}
	return d, true
}

// stuck takes up what the windows found: a reason to stop before one to nudge.
func stuck(s Seen) (Decision, bool) {
	for _, d := range s.Findings {
		if d.Kind == Stop {
			return d, true
		}
	}
	for _, d := range s.Findings {
		nudged := func(n boulder.Nudge) bool { return n.Rule == d.Rule }
		if d.Kind == Nudge && !slices.ContainsFunc(s.Nudged, nudged) {
			return d, true
		}
	}
	return Decision{}, false
}

// round leaves out what nobody wants to read.
func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
