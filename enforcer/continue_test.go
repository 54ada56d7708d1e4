package enforcer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// due is a watched session that ended its turn at 0 with one open item.
func due() (Track, Situation) {
	t := Apply(Track{}, TurnEnded{At: at(0), Message: "m1", Reached: Reached{
		Todos: []boulder.Todo{{Content: "Write the tests", Status: "pending"}}, Tools: true, Answer: "I looked around.",
	}}, WatchPolicy())
	return t, Situation{Unmet: []string{"Write the tests"}, Checked: true}
}

// countedDown is a session whose countdown ended at 32 s.
func countedDown() (Track, Situation) {
	t, s := due()
	t.CountdownAt = at(32 * time.Second)
	return t, s
}

// TestGates: each gate alone holds back a session that is otherwise due, with a reason and the time to ask again.
func TestGates(t *testing.T) {
	const now = 40 * time.Second // idle for long enough, after the countdown
	for _, test := range []struct {
		gate   Gate
		name   string
		want   Kind
		next   time.Duration // Decision.At; 0: the zero time
		reason string
		change func(*view)
	}{
		{GateOpen, "all open", Send, 0, "idle for 40s with 1 thing left to do, such as: Write", func(*view) {}},
		{GateOwned, "a child", Wait, 0, "not watched: it is a sub-agent's", func(v *view) {
			v.NotOwned = "it is a sub-agent's"
		}},
		{GateAgent, "one that plans with the user", Wait, 0, "the agent plan is left to the user", func(v *view) {
			v.Agent = "plan"
		}},
		{GateOpen, "an agent that is not left alone any more", Send, 0, "", func(v *view) {
			v.Agent, v.SkipAgents = "plan", []string{"compaction"}
		}},
		{GateStopped, "by a command", Wait, 0, "stopped: the user stopped it", func(v *view) {
			v.Track = Apply(v.Track, StopAsked{at(35 * time.Second)}, v.Policy)
		}},
		{GateStopped, "by an abort", Wait, 0, "stopped: the user aborted the turn", func(v *view) {
			v.Track = Apply(v.Track, Aborted{at(1 * time.Second)}, v.Policy)
		}},
		{GateStopped, "by a word", Wait, 0, "stopped: the user wrote", func(v *view) {
			v.Track = Apply(v.Track, Prompted{At: at(1 * time.Second), Stop: true}, v.Policy)
		}},
		{GateLetGo, "before", Wait, 0, "left to the user: the budget", func(v *view) {
			v.Track = Apply(v.Track, Decided{At: at(1), Decision: Decision{Kind: LetGo, Reason: "the budget is used up"}}, v.Policy)
		}},
		{GateAbort, "started again at once", Wait, 41 * time.Second, "aborted a moment ago: 1s left", func(v *view) {
			v.Track = Apply(v.Track, Aborted{at(38 * time.Second)}, v.Policy)
			v.Track = Apply(v.Track, Started{at(39 * time.Second)}, v.Policy)
		}},
		{GateUndo, "a turn", Wait, 0, "undid a turn", func(v *view) { v.Reverted = true }},
		{GateWork, "complete", Finish, 0, "holds", func(v *view) { v.Unmet = nil }},
		{GateWork, "complete before", Wait, 0, "complete: everything holds", func(v *view) {
			v.Unmet, v.Status, v.Reason = nil, Complete, "everything holds"
		}},
		{GateWork, "nothing was asked yet", Wait, 0, "no turn has ended", func(v *view) { v.Unmet, v.Turn = nil, "" }},
		{GateWork, "all blocked", LetGo, 0, "nothing is left that the agent can do: 2 items are blocked", func(v *view) {
			v.Unmet, v.Blocked = nil, 2
		}},
		{GateBackground, "a child", Wait, 0, "1 task is in the background: Look for uses", func(v *view) {
			v.Background = []string{"Look for uses"}
		}},
		{GateBackground, "a child, and the list is empty", Wait, 0, "2 tasks are in the background: a, b", func(v *view) {
			v.Background, v.Unmet = []string{"a", "b"}, nil
		}},
		{GateAsks, "a permission", Wait, 0, "waits for an answer: permission bash", func(v *view) {
			v.Asks = []string{"permission bash: rm -r build"}
		}},
		{GateOpen, "a question, untold", Send, 0, "it can go on without an answer to B1", func(v *view) { v.Questions = []Question{b1} }},
		{GateOpen, "a question, and nothing is known to be left", Send, 0, "without an answer to B1", func(v *view) {
			v.Questions, v.Unmet, v.Checked = []Question{b1}, nil, false
		}},
		{GateAsks, "a question, and nothing else is left", Wait, 0, "waits for an answer: an answer to B1", func(v *view) {
			v.Questions, v.Marked = []Question{b1}, true
		}},
		{GateAsks, "a question, and the list is blocked", Wait, 0, "an answer to B1", func(v *view) {
			v.Questions, v.Blocked, v.OpenItems = []Question{b1}, 1, 0
		}},
		{GateOpen, "a question, and one item is not blocked", Send, 0, "", func(v *view) {
			v.Questions, v.Blocked, v.OpenItems = []Question{b1}, 1, 1
		}},
		{GateAsks, "told, and no progress", Wait, 0, "an answer to B1", func(v *view) { v.Questions, v.Aside, v.Moved = []Question{b1}, []string{"B1"}, false }},
		{GateOpen, "told, and progress", Send, 0, "1 thing left", func(v *view) { v.Questions, v.Aside, v.Moved = []Question{b1}, []string{"B1"}, true }},
		{GateAsks, "told, and nothing is known to be left", Wait, 0, "an answer to B1", func(v *view) {
			v.Questions, v.Aside, v.Moved, v.Unmet = []Question{b1}, []string{"B1"}, true, nil
		}},
		{GateOpen, "another question", Send, 0, "without an answer to B2", func(v *view) {
			v.Questions, v.Aside, v.Moved = []Question{b1, {"B2", "an answer to B2"}}, []string{"B1"}, false
		}},
		{GateAsks, "a question, and only a fresh session helps", Wait, 0, "an answer to B1", func(v *view) { v.Questions, v.Overflow = []Question{b1}, true }},
		{GateCompaction, "under way", Wait, 0, "compacted", func(v *view) { v.Compacting = true }},
		{GateInFlight, "at work", Wait, 0, "at work", func(v *view) { v.Pending, v.Busy = "m2", true }},
		{GateInFlight, "not seen yet", Wait, 45 * time.Second, "on its way: 5s left", func(v *view) {
			v.Pending, v.LastEnforcement = "m2", at(35*time.Second)
		}},
		{GateInFlight, "not seen for 10 s", Look, 0, "no turn began for 10s", func(v *view) {
			v.Pending, v.LastEnforcement = "m2", at(30*time.Second)
		}},
		{GateBroken, "a dead model", LetGo, 0, "no continuation heals: unknown model x/y", func(v *view) {
			v.Broken, v.Hopeless = "unknown model x/y", true
		}},
		{GateStuck, "twice", LetGo, 0, "of 2 turns in a row that it is stuck: no form", func(v *view) {
			v.Track.Stuck, v.Policy.Stuck, v.StuckReason = 2, 2, "no form"
		}},
		{GateOpen, "stuck once", Send, 0, "", func(v *view) { v.Track.Stuck, v.Policy.Stuck = 1, 2 }},
		{GateIdle, "not long enough", Wait, 45 * time.Second, "not idle for 30s yet: 5s left", func(v *view) {
			v.Track = Apply(v.Track, Activity{at(15 * time.Second)}, v.Policy)
		}},
		{GateIdle, "busy", Wait, 0, "at work", func(v *view) { v.Busy = true }},
		{GateAnswers, "the same five times", LetGo, 0, "the same answer 5 times within 2m0s", func(v *view) {
			v.Answers = equalAnswers(0, 30*time.Second, 60*time.Second, 90*time.Second, 120*time.Second)
		}},
		{GateOpen, "five times, over a longer time", Send, 0, "", func(v *view) {
			v.Answers = equalAnswers(0, 30*time.Second, 60*time.Second, 90*time.Second, 121*time.Second)
		}},
		{GateOpen, "four times, and something else", Send, 0, "", func(v *view) {
			v.Answers = append([]Answer{{"other", at(0)}}, equalAnswers(1, 2, 3, 4)...)
		}},
		{GateCooldown, "first", Wait, 41 * time.Second, "cool-down of 30s after 0 continuations", func(v *view) {
			v.LastEnforcement = at(11 * time.Second)
		}},
		{GateCooldown, "after a failure", Wait, 60 * time.Second, "cool-down of 1m0s after 1 continuation", func(v *view) {
			v.LastEnforcement, v.FailureCount = at(0), 1
		}},
		{GateCooldown, "after four", Wait, 480 * time.Second, "cool-down of 8m0s", func(v *view) {
			v.LastEnforcement, v.FailureCount = at(0), 4
		}},
		{GateOpen, "for the marker, soon", Send, 0, "", func(v *view) {
			v.Marker, v.LastEnforcement, v.FailureCount, v.LastActivity = "DONE!", at(28*time.Second), 3, at(28*time.Second)
		}},
		{GateCooldown, "an error mends no sooner", Wait, 268 * time.Second, "cool-down of 4m0s", func(v *view) {
			v.Marker, v.Broken, v.LastEnforcement, v.FailureCount = "DONE!", "HTTP 503", at(28*time.Second), 3
		}},
		{GateFailures, "five, forgotten later", Wait, 302 * time.Second, "5 continuations in a row brought no", func(v *view) {
			v.LastEnforcement, v.LastFailure, v.FailureCount = at(1*time.Second), at(2*time.Second), 5
		}},
		{GateFailures, "five more", LetGo, 0, "5 continuations in a row brought no progress", func(v *view) {
			v.LastEnforcement, v.LastFailure, v.FailureCount, v.Track.Resets = at(1*time.Second), at(2*time.Second), 5, 1
		}},
		{GateFailures, "a dead provider", LetGo, 0, "no progress; the last one ended with: connection refused", func(v *view) {
			v.FailureCount, v.FailureReset, v.Broken = 5, 0, "connection refused"
		}},
		{GateFailures, "the same answer", LetGo, 0, "said the same 5 times and called no tool", func(v *view) {
			v.FailureCount, v.Same = 4, 5
		}},
		{GateFailures, "the same answer, long ago", LetGo, 0, "said the same 5 times", func(v *view) {
			v.FailureCount, v.Same, v.LastFailure = 5, 5, at(-time.Hour)
		}},
		{GateFailures, "none allowed", LetGo, 0, "allowed", func(v *view) { v.MaxFailures = 0 }},
		{GateIterations, "the last was the last", LetGo, 0, "100 times", func(v *view) { v.Iteration = 100 }},
		{GateOpen, "one turn is left", Send, 0, "", func(v *view) { v.Iteration = 99 }},
		{GateBudget, "used up", LetGo, 0, "budget is used up: 2.00", func(v *view) { v.Overspent = "2.00 of 2.00 dollars" }},
		{GateCheck, "costly criteria", Check, 0, "the checks that take time", func(v *view) {
			v.Unmet, v.Checked = nil, false
		}},
		{GateOpen, "known to be incomplete", Send, 0, "Write", func(v *view) { v.Checked = false }},
		{GateCountdown, "to be started", Countdown, 42 * time.Second, "idle for 40s", func(v *view) {
			v.CountdownAt = time.Time{}
		}},
		// A claim skips the idle wait of 30 s. The evidence still decides, and all other gates hold.
		{GateCountdown, "a claim", Countdown, 42 * time.Second, "it says that it is done, but there is 1", func(v *view) {
			v.CountdownAt, v.LastActivity, v.Claimed = time.Time{}, at(now), true
		}},
		{GateCooldown, "a claim", Wait, 69 * time.Second, "cool-down", func(v *view) {
			v.LastEnforcement, v.Claimed = at(39*time.Second), true
		}},
		{GateCountdown, "running", Wait, 41 * time.Second, "counting down", func(v *view) {
			v.CountdownAt = at(41 * time.Second)
		}},
		{GateCountdown, "nobody saw it", Countdown, 42 * time.Second, "", func(v *view) {
			v.CountdownAt = at(-21 * time.Second)
		}},
		{GateOpen, "a turn that broke off", Send, 0, "HTTP 503", func(v *view) { v.Unmet, v.Broken = nil, "HTTP 503: full" }},
		{GateCooldown, "after any number", Wait, time.Hour, "cool-down of 1h0m0s", func(v *view) {
			v.LastEnforcement, v.FailureCount, v.MaxFailures = at(0), 1<<30, -1
		}},
		{GateCooldown, "a long one after four", Wait, 2 * time.Hour, "cool-down of 2h0m0s", func(v *view) {
			v.LastEnforcement, v.FailureCount, v.Cooldown = at(0), 4, 2*time.Hour
		}},
		{GateOpen, "continuous", Send, 0, "improving", func(v *view) { v.Continuous, v.Unmet = true, nil }},
		{GateOpen, "complete before it was continuous", Send, 0, "", func(v *view) {
			v.Continuous, v.Unmet, v.Status = true, nil, Complete
		}},
		{GateCheck, "continuous, and not known to hold", Check, 0, "", func(v *view) {
			v.Continuous, v.Unmet, v.Status, v.Checked = true, nil, Complete, false
		}},
		{GateOpen, "no idle time", Send, 0, "", func(v *view) { v.Idle, v.LastActivity = 0, at(now) }},
		{GateOpen, "no cool-down", Send, 0, "", func(v *view) { v.Cooldown, v.LastEnforcement = 0, at(now) }},
		{GateOpen, "no countdown", Send, 0, "", func(v *view) { v.Countdown, v.CountdownAt = 0, time.Time{} }},
		{GateOpen, "no abort window", Send, 0, "", func(v *view) { v.AbortWindow, v.AbortedAt = 0, at(now) }},
		{GateOpen, "any number of failures", Send, 0, "", func(v *view) { v.MaxFailures, v.FailureCount = -1, 1000 }},
		{GateOpen, "any number of turns", Send, 0, "", func(v *view) { v.MaxIterations, v.Iteration = -1, 1000 }},
		{GateIterations, "no turns", LetGo, 0, "", func(v *view) { v.MaxIterations = 0 }},
		{GateFailures, "never forgotten", LetGo, 0, "", func(v *view) { v.FailureReset, v.FailureCount = 0, 5 }},
		{GateOpen, "forgotten without a bound", Send, 0, "", func(v *view) {
			v.Policy.Resets, v.Track.Resets, v.FailureCount = -1, 1000, 5
		}},
		{GateOpen, "any number of equal answers", Send, 0, "", func(v *view) {
			v.SameAnswers, v.Answers = -1, equalAnswers(1, 2, 3, 4, 5, 6, 7, 8)
		}},
		{GateOpen, "equal answers at any time", Send, 0, "", func(v *view) { v.SameWindow, v.Answers = 0, equalAnswers(1, 2, 3, 4, 5) }},
		{GateOpen, "never a fresh session", Send, 0, "", func(v *view) {
			v.Policy.Compactions, v.Track.Compactions = -1, 1000
		}},
	} {
		t.Run(fmt.Sprint(test.gate, ": ", test.name), func(t *testing.T) {
			track, situation := countedDown()
			v := &view{track, situation, WatchPolicy(), at(now)}
			test.change(v)
			d := Continue(v.Track, v.Situation, v.Policy, v.now)
			if d.Kind != test.want || d.Gate != test.gate {
				t.Fatalf("%s by %s (%s), want %s by %s", d.Kind, d.Gate, d.Reason, test.want, test.gate)
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
			want := map[Kind]string{Finish: Success, LetGo: Error, Countdown: Error}[d.Kind]
			if d.Kind == Countdown && v.Claimed {
				want = Warning
			}
			if want == "" && d.Toast != nil || want != "" && (d.Toast == nil || d.Toast.Variant != want) {
				t.Errorf("toast %+v, want %q", d.Toast, want)
			}
		})
	}
}

var b1 = Question{"B1", "an answer to B1"}

func equalAnswers(when ...time.Duration) []Answer {
	var all []Answer
	for _, after := range when {
		all = append(all, Answer{"words", at(after)})
	}
	return all
}

// TestOrderOfGates: of two shut gates, the first in the order of SEMANTICS §6 is reported.
func TestOrderOfGates(t *testing.T) {
	shut := map[Gate]func(*view){
		GateOwned:      func(v *view) { v.NotOwned = "it is archived" },
		GateAgent:      func(v *view) { v.Agent = "plan" },
		GateStopped:    func(v *view) { v.StopRequested = true },
		GateLetGo:      func(v *view) { v.Status = Exhausted },
		GateAbort:      func(v *view) { v.AbortedAt = at(39 * time.Second) },
		GateUndo:       func(v *view) { v.Reverted = true },
		GateBackground: func(v *view) { v.Background = []string{"x"} },
		GateAsks:       func(v *view) { v.Asks = []string{"x"} },
		GateCompaction: func(v *view) { v.Compacting = true },
		GateInFlight:   func(v *view) { v.Pending = "m" },
		GateBroken:     func(v *view) { v.Hopeless = true },
		GateStuck:      func(v *view) { v.Track.Stuck = 2 },
		GateIdle:       func(v *view) { v.LastActivity = at(39 * time.Second) },
		GateAnswers:    func(v *view) { v.Answers = equalAnswers(1, 2, 3, 4, 5) },
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
			track, situation := countedDown()
			v := &view{track, situation, WatchPolicy(), at(40 * time.Second)}
			shut[second.name](v)
			shut[first.name](v)
			if d := Continue(v.Track, v.Situation, v.Policy, v.now); d.Gate != first.name {
				t.Errorf("%s and %s are shut, and %s is told", first.name, second.name, d.Gate)
			}
		}
	}
}

// A session that keeps forgetting is replaced by a new one. Iterations keep counting, compactions start from zero.
func TestFreshSession(t *testing.T) {
	p := WatchPolicy()
	for name, test := range map[string]struct {
		events []Event
		over   bool
		want   Kind
	}{
		"one compaction":            {[]Event{Compacted{at(0)}}, false, Send},
		"two":                       {[]Event{Compacted{at(0)}, Compacted{at(0)}}, false, Fresh},
		"two with progress between": {[]Event{Compacted{at(0)}, done(0, "a", "Write a"), Compacted{at(0)}}, false, Send},
		"two and chatter between":   {[]Event{Compacted{at(0)}, done(0, "a"), Compacted{at(0)}}, false, Fresh},
		"the context is used up":    {nil, true, Fresh},
	} {
		track, s := due()
		for _, e := range test.events {
			track = Apply(track, e, p)
		}
		track.CountdownAt, s.Overflow = at(40*time.Second), test.over
		d := Continue(track, s, p, at(40*time.Second))
		next := Apply(track, Decided{At: at(40 * time.Second), Decision: d, MessageID: "m"}, p)
		if d.Kind != test.want || next.Iteration != track.Iteration+1 || next.Pending != "m" {
			t.Errorf("%s: %s (%s), want %s, and then %+v", name, d.Kind, d.Reason, test.want, next)
		}
		if d.Kind == Fresh && next.Compactions != 0 {
			t.Errorf("%s: the fresh session was compacted %d times", name, next.Compactions)
		}
	}
}

// done ends a turn that completed the items.
func done(after time.Duration, message string, items ...string) TurnEnded {
	e := TurnEnded{At: at(after), Message: message, Reached: Reached{Tools: true, Answer: "ok " + message}}
	for _, item := range items {
		e.Reached.Todos = append(e.Reached.Todos, boulder.Todo{Content: item, Status: "completed"})
	}
	return e
}
