package enforcer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// due is a session that ended its turn at 0 with one open item, and was watched.
func due() (Track, Situation) {
	t := Apply(Track{}, TurnEnded{At: at(0), Message: "m1", Reached: Reached{
		Todos: []boulder.Todo{{Content: "Write the tests", Status: "pending"}}, Tools: true, Answer: "I looked around.",
	}}, WatchPolicy())
	return t, Situation{Owned: true, Unmet: []string{"Write the tests"}, Checked: true}
}

// counted is a session whose countdown has run out at 32 s.
func counted() (Track, Situation) {
	t, s := due()
	t.CountdownAt = at(32 * time.Second)
	return t, s
}

// Each gate alone keeps a session that is due from being prompted, says so, and says when to ask again.
func TestGates(t *testing.T) {
	const now = 40 * time.Second // idle long enough, the countdown over
	for _, test := range []struct {
		gate   Gate
		name   string
		change func(*view)
		want   Kind
		next   time.Duration // At; 0: zero
		reason string
	}{
		{GateOpen, "all open", func(*view) {}, Send, 0, "idle for 40s with 1 thing left to do, such as: Write"},
		{GateOwned, "a child", func(v *view) {
			v.Owned, v.NotOwned = false, "it is a sub-agent's"
		}, Wait, 0, "not watched: it is a sub-agent's"},
		{GateStopped, "by a command", func(v *view) {
			v.Track = Apply(v.Track, StopAsked{at(35 * time.Second)}, v.Policy)
		}, Wait, 0, "stopped: a person stopped it"},
		{GateStopped, "by an abort", func(v *view) {
			v.Track = Apply(v.Track, Aborted{at(1 * time.Second)}, v.Policy)
		}, Wait, 0, "stopped: a person aborted the turn"},
		{GateStopped, "by a word", func(v *view) {
			v.Track = Apply(v.Track, Prompted{At: at(1 * time.Second), Stop: true}, v.Policy)
		}, Wait, 0, "stopped: a person wrote"},
		{GateLetGo, "before", func(v *view) {
			v.Track = Apply(v.Track, Decided{At: at(1), Decision: Decision{Kind: LetGo, Reason: "the budget is used up"}}, v.Policy)
		}, Wait, 0, "left to a person: the budget"},
		{GateAbort, "started again at once", func(v *view) {
			v.Track = Apply(v.Track, Aborted{at(38 * time.Second)}, v.Policy)
			v.Track = Apply(v.Track, Started{at(39 * time.Second)}, v.Policy)
		}, Wait, 41 * time.Second, "aborted a moment ago: 1s left"},
		{GateUndo, "a turn", func(v *view) { v.Reverted = true }, Wait, 0, "undid a turn"},
		{GateWork, "complete", func(v *view) { v.Unmet = nil }, Finish, 0, "holds"},
		{GateWork, "complete before", func(v *view) {
			v.Unmet, v.Status, v.Reason = nil, Complete, "everything holds"
		}, Wait, 0, "complete: everything holds"},
		{GateWork, "nothing was asked yet", func(v *view) { v.Unmet, v.Turn = nil, "" }, Wait, 0, "no turn has ended"},
		{GateWork, "all blocked", func(v *view) {
			v.Unmet, v.Blocked = nil, 2
		}, LetGo, 0, "nothing is left that the agent can do: 2 items are blocked"},
		{GateBackground, "a child", func(v *view) {
			v.Background = []string{"Look for uses"}
		}, Wait, 0, "1 task is in the background: Look for uses"},
		{GateBackground, "a child, and the list is empty", func(v *view) {
			v.Background, v.Unmet = []string{"a", "b"}, nil
		}, Wait, 0, "2 tasks are in the background: a, b"},
		{GateAsks, "a permission", func(v *view) {
			v.Asks = []string{"permission bash: rm -r build"}
		}, Wait, 0, "waits for an answer: permission bash"},
		{GateCompaction, "under way", func(v *view) { v.Compacting = true }, Wait, 0, "compacted"},
		{GateInFlight, "at work", func(v *view) { v.Pending, v.Busy = "m2", true }, Wait, 0, "at work"},
		{GateInFlight, "not seen yet", func(v *view) {
			v.Pending, v.LastEnforcement = "m2", at(35*time.Second)
		}, Wait, 45 * time.Second, "on its way: 5s left"},
		{GateInFlight, "not seen for 10 s", func(v *view) {
			v.Pending, v.LastEnforcement = "m2", at(30*time.Second)
		}, Look, 0, "no turn began for 10s"},
		{GateBroken, "a dead model", func(v *view) {
			v.Broken, v.Hopeless = "unknown model x/y", true
		}, LetGo, 0, "no continuation heals: unknown model x/y"},
		{GateIdle, "not long enough", func(v *view) {
			v.Track = Apply(v.Track, Activity{at(15 * time.Second)}, v.Policy)
		}, Wait, 45 * time.Second, "not idle for 30s yet: 5s left"},
		{GateIdle, "busy", func(v *view) { v.Busy = true }, Wait, 0, "at work"},
		{GateAnswers, "the same five times", func(v *view) {
			v.Answers = said(0, 30*time.Second, 60*time.Second, 90*time.Second, 120*time.Second)
		}, LetGo, 0, "the same answer 5 times within 2m0s"},
		{GateOpen, "five times, over a longer time", func(v *view) {
			v.Answers = said(0, 30*time.Second, 60*time.Second, 90*time.Second, 121*time.Second)
		}, Send, 0, ""},
		{GateOpen, "four times, and something else", func(v *view) {
			v.Answers = append([]Answer{{"other", at(0)}}, said(1, 2, 3, 4)...)
		}, Send, 0, ""},
		{GateCooldown, "first", func(v *view) {
			v.LastEnforcement = at(11 * time.Second)
		}, Wait, 41 * time.Second, "cool-down of 30s after 0 continuations"},
		{GateCooldown, "after a failure", func(v *view) {
			v.LastEnforcement, v.FailureCount = at(0), 1
		}, Wait, 60 * time.Second, "cool-down of 1m0s after 1 continuation"},
		{GateCooldown, "after four", func(v *view) {
			v.LastEnforcement, v.FailureCount = at(0), 4
		}, Wait, 480 * time.Second, "cool-down of 8m0s"},
		{GateFailures, "five, forgotten later", func(v *view) {
			v.LastEnforcement, v.LastFailure, v.FailureCount = at(1*time.Second), at(2*time.Second), 5
		}, Wait, 302 * time.Second, "5 continuations in a row brought no progress"},
		{GateFailures, "five more", func(v *view) {
			v.LastEnforcement, v.LastFailure, v.FailureCount, v.Track.Resets = at(1*time.Second), at(2*time.Second), 5, 1
		}, LetGo, 0, "5 continuations in a row brought no progress"},
		{GateFailures, "a dead provider", func(v *view) {
			v.FailureCount, v.FailureReset, v.Broken = 5, 0, "connection refused"
		}, LetGo, 0, "no progress; the last one ended with: connection refused"},
		{GateFailures, "the same answer", func(v *view) {
			v.FailureCount, v.Same = 4, 5
		}, LetGo, 0, "said the same 5 times and called no tool"},
		{GateFailures, "the same answer, long ago", func(v *view) {
			v.FailureCount, v.Same, v.LastFailure = 5, 5, at(-time.Hour)
		}, LetGo, 0, "said the same 5 times"},
		{GateFailures, "none allowed", func(v *view) { v.MaxFailures = 0 }, LetGo, 0, "allowed"},
		{GateIterations, "the last was the last", func(v *view) { v.Iteration = 100 }, LetGo, 0, "100 times"},
		{GateIterations, "one is left", func(v *view) { v.Iteration = 99 }, Send, 0, ""},
		{GateBudget, "used up", func(v *view) {
			v.Overspent = "2.00 of 2.00 dollars"
		}, LetGo, 0, "budget is used up: 2.00"},
		{GateCheck, "costly criteria", func(v *view) {
			v.Unmet, v.Checked = nil, false
		}, Check, 0, "the checks that take time"},
		{GateOpen, "known to be incomplete", func(v *view) { v.Checked = false }, Send, 0, "Write"},
		{GateCountdown, "to be started", func(v *view) {
			v.CountdownAt = time.Time{}
		}, Countdown, 42 * time.Second, "idle for 40s"},
		{GateCountdown, "running", func(v *view) {
			v.CountdownAt = at(41 * time.Second)
		}, Wait, 41 * time.Second, "counting down"},
		{GateCountdown, "nobody saw it", func(v *view) {
			v.CountdownAt = at(-21 * time.Second)
		}, Countdown, 42 * time.Second, ""},
	} {
		t.Run(fmt.Sprint(test.gate, ": ", test.name), func(t *testing.T) {
			track, situation := counted()
			v := &view{track, situation, WatchPolicy(), at(now)}
			test.change(v)
			d := Continue(v.Track, v.Situation, v.Policy, v.now)
			gate := test.gate
			if test.want == Send {
				gate = GateOpen
			}
			if d.Kind != test.want || d.Gate != gate {
				t.Fatalf("%s by %s (%s), want %s by %s", d.Kind, d.Gate, d.Reason, test.want, gate)
			}
			var next time.Time
			if test.next != 0 {
				next = at(test.next)
			}
			if !d.At.Equal(next) {
				t.Errorf("asks again at %v, want %v", d.At.Sub(at(0)), test.next)
			}
			if d.Reason == "" || !strings.Contains(d.Reason, test.reason) {
				t.Errorf("reason %q, want one with %q", d.Reason, test.reason)
			}
		})
	}
}

// said are answers of the same words.
func said(when ...time.Duration) []Answer {
	var all []Answer
	for _, after := range when {
		all = append(all, Answer{"words", at(after)})
	}
	return all
}

// The order is that of SEMANTICS §6: of two shut gates the first is told.
func TestOrderOfGates(t *testing.T) {
	shut := map[Gate]func(*view){
		GateOwned:      func(v *view) { v.Owned = false },
		GateStopped:    func(v *view) { v.StopRequested = true },
		GateLetGo:      func(v *view) { v.Status = Exhausted },
		GateAbort:      func(v *view) { v.AbortedAt = at(39 * time.Second) },
		GateUndo:       func(v *view) { v.Reverted = true },
		GateBackground: func(v *view) { v.Background = []string{"x"} },
		GateAsks:       func(v *view) { v.Asks = []string{"x"} },
		GateCompaction: func(v *view) { v.Compacting = true },
		GateInFlight:   func(v *view) { v.Pending = "m" },
		GateBroken:     func(v *view) { v.Hopeless = true },
		GateIdle:       func(v *view) { v.LastActivity = at(39 * time.Second) },
		GateAnswers:    func(v *view) { v.Answers = said(1, 2, 3, 4, 5) },
		GateCooldown:   func(v *view) { v.LastEnforcement = at(39 * time.Second) },
		GateFailures:   func(v *view) { v.Same = 5 },
		GateIterations: func(v *view) { v.Iteration = 100 },
		GateBudget:     func(v *view) { v.Overspent = "x" },
		GateCountdown:  func(v *view) { v.CountdownAt = time.Time{} },
	}
	alone := map[Gate]bool{GateWork: true, GateCheck: true} // they need an empty list, see TestGates
	for i, first := range gates {
		if shut[first.name] == nil != alone[first.name] {
			t.Errorf("gate %s is not in this test", first.name)
		}
		for _, second := range gates[i:] {
			if alone[first.name] || alone[second.name] {
				continue
			}
			track, situation := counted()
			v := &view{track, situation, WatchPolicy(), at(40 * time.Second)}
			shut[second.name](v)
			shut[first.name](v)
			if d := Continue(v.Track, v.Situation, v.Policy, v.now); d.Gate != first.name {
				t.Errorf("%s and %s are shut, and %s is told", first.name, second.name, d.Gate)
			}
		}
	}
}

// Words trigger: no wait for 30 s, and a warning. Evidence decides, and every other gate holds.
func TestClaimOfCompletion(t *testing.T) {
	p := WatchPolicy()
	said := func(answer string) Track {
		return Apply(Track{}, TurnEnded{At: at(0), Message: "m", Reached: Reached{Tools: true, Answer: answer}}, p)
	}
	open := Situation{Owned: true, Unmet: []string{"Write the tests"}, Checked: true}
	for _, test := range []struct {
		name      string
		track     Track
		situation Situation
		want      Kind
		gate      Gate
		variant   Variant
	}{
		{"a claim", said("All done."), open, Countdown, GateCountdown, Warning},
		{"no claim", said("I am still looking."), open, Wait, GateIdle, ""},
		{"a claim that holds", said("All done."), Situation{Owned: true, Checked: true}, Finish, GateWork, Success},
		{"a claim to be checked", said("All done."), Situation{Owned: true}, Check, GateCheck, ""},
		{"a claim while a child works", said("Done."), Situation{Owned: true, Background: []string{"x"}}, Wait, GateBackground, ""},
		{"a claim in the cool-down", func() Track {
			t := said("Done.")
			t.LastEnforcement = at(-time.Second)
			return t
		}(), open, Wait, GateCooldown, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Continue(test.track, test.situation, p, at(time.Second))
			if d.Kind != test.want || d.Gate != test.gate {
				t.Fatalf("%s by %s (%s)", d.Kind, d.Gate, d.Reason)
			}
			if got := variantOf(d); got != test.variant {
				t.Errorf("toast %q, want %q", got, test.variant)
			}
		})
	}
	t.Run("idle is an error", func(t *testing.T) {
		d := Continue(said("I am still looking."), open, p, at(30*time.Second))
		if d.Kind != Countdown || variantOf(d) != Error {
			t.Errorf("%s with toast %q", d.Kind, variantOf(d))
		}
	})
}

func variantOf(d Decision) Variant {
	if d.Toast == nil {
		return ""
	}
	return d.Toast.Variant
}

func TestContinuous(t *testing.T) {
	p := WatchPolicy()
	p.Continuous = true
	track, s := counted()
	s.Unmet = nil
	d := Continue(track, s, p, at(40*time.Second))
	if d.Kind != Send || !strings.Contains(d.Reason, "improving") {
		t.Errorf("complete, but to be improved: %s (%s)", d.Kind, d.Reason)
	}
	s.Overspent = "2.00 of 2.00 dollars"
	if d = Continue(track, s, p, at(40*time.Second)); d.Kind != LetGo || d.Gate != GateBudget {
		t.Errorf("without a budget: %s by %s", d.Kind, d.Gate)
	}
	track.Status, s.Overspent = Complete, "" // from a time when it was not continuous
	if d = Continue(track, s, p, at(40*time.Second)); d.Kind != Send {
		t.Errorf("it was complete before: %s by %s", d.Kind, d.Gate)
	}
	s.Checked = false
	if d = Continue(track, s, p, at(40*time.Second)); d.Kind != Check {
		t.Errorf("whether it holds is not known: %s by %s", d.Kind, d.Gate)
	}
}

func TestFreshSession(t *testing.T) {
	p := WatchPolicy()
	for _, test := range []struct {
		name   string
		events []Event
		over   bool
		want   Kind
	}{
		{"one compaction", []Event{Compacted{at(0)}}, false, Send},
		{"two", []Event{Compacted{at(0)}, Compacted{at(0)}}, false, Fresh},
		{"two with progress between", []Event{Compacted{at(0)}, done(0, "a", "Write a"), Compacted{at(0)}}, false, Send},
		{"two and chatter between", []Event{Compacted{at(0)}, done(0, "a"), Compacted{at(0)}}, false, Fresh},
		{"the context is used up", nil, true, Fresh},
	} {
		t.Run(test.name, func(t *testing.T) {
			track, s := due()
			for _, e := range test.events {
				track = Apply(track, e, p)
			}
			track.CountdownAt, s.Overflow = at(40*time.Second), test.over
			d := Continue(track, s, p, at(40*time.Second))
			if d.Kind != test.want {
				t.Fatalf("%s (%s), want %s", d.Kind, d.Reason, test.want)
			}
			if test.want == Fresh {
				next := Apply(track, Decided{At: at(40 * time.Second), Decision: d, MessageID: "m"}, p)
				if next.Compactions != 0 || next.Iteration != track.Iteration+1 || next.Pending != "m" {
					t.Errorf("a fresh session counts on, and has not been compacted: %+v", next)
				}
			}
		})
	}
}

// done is the end of a turn that completed the items.
func done(after time.Duration, message string, items ...string) TurnEnded {
	e := TurnEnded{At: at(after), Message: message, Reached: Reached{Tools: true, Answer: "ok " + message}}
	for _, item := range items {
		e.Reached.Todos = append(e.Reached.Todos, boulder.Todo{Content: item, Status: "completed"})
	}
	return e
}

// After a turn that broke off there is work left, whatever the list says.
func TestBrokenTurnIsIncomplete(t *testing.T) {
	track, s := counted()
	s.Unmet, s.Broken = nil, "HTTP 503: overloaded"
	d := Continue(track, s, WatchPolicy(), at(40*time.Second))
	if d.Kind != Send || !strings.Contains(d.Reason, "HTTP 503") {
		t.Errorf("%s (%s)", d.Kind, d.Reason)
	}
}

func TestNumbersOfGates(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Track, *Policy)
		want   Kind
	}{
		{"no idle time", func(t *Track, p *Policy) { p.Idle, t.LastActivity = 0, at(40*time.Second) }, Send},
		{"no cool-down", func(t *Track, p *Policy) { p.Cooldown, t.LastEnforcement = 0, at(40*time.Second) }, Send},
		{"no countdown", func(t *Track, p *Policy) { p.Countdown, t.CountdownAt = 0, time.Time{} }, Send},
		{"no abort window", func(t *Track, p *Policy) { p.AbortWindow, t.AbortedAt = 0, at(40*time.Second) }, Send},
		{"any number of failures", func(t *Track, p *Policy) { p.MaxFailures, t.FailureCount = -1, 1000 }, Send},
		{"any number of turns", func(t *Track, p *Policy) { p.MaxIterations, t.Iteration = -1, 1000 }, Send},
		{"no turns", func(_ *Track, p *Policy) { p.MaxIterations = 0 }, LetGo},
		{"never forgotten", func(t *Track, p *Policy) { p.FailureReset, t.FailureCount = 0, 5 }, LetGo},
		{"forgotten without a bound", func(t *Track, p *Policy) { p.Resets, t.Resets, t.FailureCount = -1, 1000, 5 }, Send},
		{"any number of equal answers", func(t *Track, p *Policy) {
			p.SameAnswers, t.Answers = -1, said(1, 2, 3, 4, 5, 6, 7, 8)
		}, Send},
		{"equal answers at any time", func(t *Track, p *Policy) { p.SameWindow, t.Answers = 0, said(1, 2, 3, 4, 5) }, Send},
		{"never a fresh session", func(t *Track, p *Policy) { p.Compactions, t.Compactions = -1, 1000 }, Send},
	} {
		t.Run(test.name, func(t *testing.T) {
			track, s := counted()
			p := WatchPolicy()
			test.change(&track, &p)
			if d := Continue(track, s, p, at(40*time.Second)); d.Kind != test.want {
				t.Errorf("%s by %s (%s), want %s", d.Kind, d.Gate, d.Reason, test.want)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	p := WatchPolicy()
	var got []time.Duration
	for n := range 9 {
		got = append(got, backoff(p, n))
	}
	want := []time.Duration{
		30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute,
		time.Hour, time.Hour,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	p.Cooldown = 2 * time.Hour
	if got := backoff(p, 1<<30); got != 2*time.Hour {
		t.Errorf("a long cool-down becomes %v", got)
	}
}
