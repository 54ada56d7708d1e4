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
	Began        time.Time // the first prompt was accepted, or the turn was resumed
	Prompted     time.Time // the newest prompt was accepted; zero: there was only the first
	LastEvent    time.Time // of the session or one of its children
	Busy         bool      // the session was seen at work since Began
	ToolsRunning int
	OfflineSince time.Time       // zero: connected
	Looked       bool            // its state was read since LastEvent, and did not explain the silence
	Worked       time.Duration   // by the attempt's earlier turns
	TimeLeft     time.Duration   // what the budget leaves for this turn; zero: there is no such budget
	Retry        *Retry          // in any session of the tree; nil: none
	Findings     []Decision      // of all windows
	Nudged       []boulder.Nudge // in this turn: each rule nudges once
}

// Retry says that OpenCode waits for a provider that refused or could not be reached.
type Retry struct {
	Attempt int // from 1
	Next    time.Time
	Message string
	Model   string // empty: unknown
}

// Kind is what to do about a session.
type Kind string

// What to do about a running turn ([Decide]).
const (
	Wait  Kind = "wait"  // until Decision.At, unless something happens before
	Look  Kind = "look"  // read the session's state: events may have been missed
	Nudge Kind = "nudge" // tell the agent in the running turn what was seen
	Stop  Kind = "stop"  // end the turn; its work is judged all the same
	Yield Kind = "yield" // end the turn and give its slot back: the provider needs time
	Lose  Kind = "lose"  // the server cannot be reached: not the agent's failure
)

// What to do about a session whose turn has ended ([Continue]), besides Wait and Look.
const (
	Check     Kind = "check"     // check the costly criteria, and ask again with Situation.Checked
	Countdown Kind = "countdown" // show Decision.Toast, and ask again at Decision.At
	Send      Kind = "send"      // send one continuation
	Fresh     Kind = "fresh"     // continue in a fresh session: this one forgets what it does
	Finish    Kind = "finish"    // everything holds
	LetGo     Kind = "let_go"    // leave it to the user
)

// Decision is the arbiter's answer.
type Decision struct {
	Kind    Kind
	Rule    boulder.Rule // of Nudge and Stop
	Reason  string       // for users; of Decide empty for Wait
	Session string       // of Nudge: the one to tell
	At      time.Time    // when to ask again after Wait or Countdown; zero, of Continue only: when something happens
	Gate    Gate         // of Continue: the one that decided
	Toast   *Toast       // of Continue: what to show the user; nil: nothing
}

// Decide applies the rules, the hardest first.
func Decide(s Seen, r Rules, now time.Time) Decision {
	next := now.Add(time.Hour) // with every limit off, asking again does no harm
	for _, l := range limits(s, r, now) {
		if !now.Before(l.due) {
			return l.decision
		}
		if l.due.Before(next) {
			next = l.due
		}
	}
	return Decision{Kind: Wait, At: next}
}

type limit struct {
	due      time.Time
	decision Decision
}

// limits returns the rules that apply, the hardest first.
func limits(s Seen, r Rules, now time.Time) (all []limit) {
	add := func(due time.Time, kind Kind, rule boulder.Rule, format string, args ...any) {
		all = append(all, limit{due, Decision{Kind: kind, Rule: rule, Reason: fmt.Sprintf(format, args...)}})
	}
	if s.TimeLeft > 0 {
		add(s.Began.Add(s.TimeLeft), Stop, boulder.RuleBudget, "the sub-task's time is used up: the turn ran for %s",
			round(s.TimeLeft))
	}
	if r.WallClock > 0 {
		add(s.Began.Add(max(0, r.WallClock-s.Worked)), Stop, boulder.RuleWallClock, "the turn%s ran for %s",
			text.If(s.Worked > 0, "s of the attempt"), round(r.WallClock))
	}
	offline := !s.OfflineSince.IsZero()
	if offline && r.Offline > 0 {
		add(s.OfflineSince.Add(r.Offline), Lose, "", "the connection to OpenCode was gone for %s", round(r.Offline))
	}
	silence, what := r.Silence, "no event"
	if s.ToolsRunning > 0 {
		silence, what = r.ToolSilence, "a tool is running, but no event"
	}
	awake := s.LastEvent // waiting for a retry at a known time is no silence
	if s.Retry != nil {
		awake = later(awake, s.Retry.Next)
	}
	silent := s.Busy && !offline && silence > 0
	if silent && s.Looked {
		add(awake.Add(silence), Stop, boulder.RuleSilence, "%s came for %s", what, round(silence))
	}
	if s.Retry != nil {
		wait := max(0, s.Retry.Next.Sub(now))
		switch {
		case r.ProviderRetries >= 0 && s.Retry.Attempt > r.ProviderRetries:
			add(now, Yield, "", "OpenCode has tried again %s", text.Plural(r.ProviderRetries, "time"))
		case r.ProviderWait > 0 && wait > r.ProviderWait:
			add(now, Yield, "", "OpenCode would wait for %s", round(wait))
		}
	}
	for _, kind := range []Kind{Stop, Nudge} {
		for _, d := range s.Findings {
			nudged := func(n boulder.Nudge) bool { return n.Rule == d.Rule }
			if d.Kind == kind && (kind == Stop || !slices.ContainsFunc(s.Nudged, nudged)) {
				all = append(all, limit{now, d})
			}
		}
	}
	switch {
	case silent && !s.Looked: // find out why first
		add(awake.Add(silence), Look, "", "%s came for %s", what, round(silence))
	case !s.Busy && !offline && r.Admission > 0:
		add(later(s.Began, s.Prompted).Add(r.Admission), Look, "", "no turn began for %s", round(r.Admission))
	}
	return all
}

// round drops digits that do not matter to a reader.
func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
