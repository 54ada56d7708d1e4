package boulder

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// judgedTurn brings an attempt that is executing its turn to a verdict.
func judgedTurn(ref AttemptRef, turn int, e Evidence, v Verdict) []Body {
	return []Body{
		TurnSent{AttemptRef: ref, Turn: turn, MessageID: "m"}, TurnEnded{AttemptRef: ref, Turn: turn, Evidence: e},
		Judged{AttemptRef: ref, Turn: turn, Verdict: v},
	}
}

// TestResult: two turns have the same result if they made the same changes and the same gates failed in the same way.
func TestResult(t *testing.T) {
	t.Parallel()
	red := func(hash string, gates ...Gate) Evidence { return Evidence{Diff: Diff{Hash: hash}, Gates: gates} }
	unit := Gate{Command: "make unit", ExitCode: 1, Failing: []string{"TestA"}}
	first := red("h", unit)
	tests := map[string]struct {
		evidence Evidence
		same     bool
	}{
		"the same": {red("h", unit), true},
		"other output, same test": {
			red("h", Gate{Command: "make unit", ExitCode: 2, Output: "x", Failing: []string{"TestA"}}), true,
		},
		"with a green gate":    {red("h", unit, Gate{Command: "make lint"}), true},
		"another diff":         {red("i", unit), false},
		"another test":         {red("h", Gate{Command: "make unit", ExitCode: 1, Failing: []string{"TestB"}}), false},
		"another gate":         {red("h", Gate{Command: "make lint", ExitCode: 1, Failing: []string{"TestA"}}), false},
		"one more gate":        {red("h", unit, Gate{Command: "make lint", ExitCode: 1}), false},
		"green":                {red("h", Gate{Command: "make unit"}), false},
		"no worse than before": {red("h", Gate{Command: "make unit", ExitCode: 1, NoWorse: "red before"}), false},
	}
	for name, test := range tests {
		if got := resultOf(&test.evidence) == resultOf(&first); got != test.same {
			t.Errorf("%s: same is %v", name, got)
		}
	}
	unknown := Evidence{Diff: Diff{Unavailable: "not a git repository"}, Gates: first.Gates}
	for name, e := range map[string]Evidence{"green gates": red("h", Gate{}), "no gates": red("h"), "no diff": unknown} {
		if got := resultOf(&e); got != "" {
			t.Errorf("%s: the result %q could be taken for that of another attempt", name, got)
		}
	}
}

// TestLastResult: the result of an attempt is compared with that of the counted attempt before.
func TestLastResult(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	e := Evidence{Diff: Diff{Hash: "h"}, Gates: []Gate{{Command: "make", ExitCode: 1}}}
	ref := AttemptRef{"a", 1}
	feed(t, s, Starting{AttemptRef: ref}, TurnEnded{AttemptRef: ref, Turn: 1, Evidence: e},
		Retry{AttemptRef: ref, Status: AttemptLost, Uncounted: true, Next: 2})
	if st := s.SubTask("a"); st.LastResult != "" {
		t.Errorf("a lost session left the result %q", st.LastResult)
	}
	ref.Attempt = 2
	feed(t, s, Starting{AttemptRef: ref}, TurnEnded{AttemptRef: ref, Turn: 1, Evidence: e},
		Retry{AttemptRef: ref, Status: AttemptFailed, Next: 3})
	if st := s.SubTask("a"); st.LastResult != resultOf(&e) {
		t.Errorf("a failed attempt left the result %q, want %q", st.LastResult, resultOf(&e))
	}
}

// TestTurnCounters: what a turn leaves on its attempt and its sub-task.
func TestTurnCounters(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	ref := AttemptRef{"a", 1}
	feed(t, s, Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s"})
	for turn, step := range []struct{ tools, idle int }{{0, 1}, {0, 2}, {3, 0}, {0, 1}} {
		feed(t, s, judgedTurn(ref, turn+1, Evidence{ToolCount: step.tools, Duration: time.Minute}, Verdict{})...)
		if a := s.Open("a").Attempt; a.Idle != step.idle || a.Worked != time.Duration(turn+1)*time.Minute {
			t.Errorf("after turn %d: %d idle turns, want %d; worked %s", turn+1, a.Idle, step.idle, a.Worked)
		}
		feed(t, s, Continuation{AttemptRef: ref, Turn: turn + 2})
	}
	feed(t, s, Retry{AttemptRef: ref, Status: AttemptFailed, Next: 2})
	if a := s.Open("a").Attempt; a.Idle != 0 || a.Worked != 0 || s.SubTask("a").Worked != 4*time.Minute {
		t.Errorf("the next attempt begins with %+v, the sub-task worked %s", *a, s.SubTask("a").Worked)
	}
}

func TestNewFacts(t *testing.T) {
	t.Parallel()
	s := NewState()
	s.learn([]string{"a", "b", "a"})
	s.learn([]string{"b", "c"})
	if !slices.Equal(s.Boulder.NewFacts, []string{"a", "b", "c"}) {
		t.Errorf("facts %q", s.Boulder.NewFacts)
	}
	for i := range maxNewFacts {
		s.learn([]string{fmt.Sprint(i)})
	}
	if n := len(s.Boulder.NewFacts); n != maxNewFacts || s.Boulder.NewFacts[0] != "0" {
		t.Errorf("%d facts are kept, the oldest is %q", n, s.Boulder.NewFacts[0])
	}
}
