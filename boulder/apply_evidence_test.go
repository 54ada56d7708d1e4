package boulder

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// judgedTurn takes an executing attempt through its turn to a verdict.
func judgedTurn(ref AttemptRef, turn int, e Evidence, v Verdict) []Body {
	return []Body{
		TurnSent{AttemptRef: ref, Turn: turn, MessageID: "m"}, TurnEnded{AttemptRef: ref, Turn: turn, Evidence: e},
		Judged{AttemptRef: ref, Turn: turn, Verdict: v},
	}
}

// TestResult: two turns have the same result if their changes are equal and the same gates failed in the same way.
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

// TestLastResult: only a counted attempt leaves its result for comparison with the next one.
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
	s, ref := started(t, Plan{SubTasks: []Spec{{ID: "a"}}}), AttemptRef{"a", 1}
	feed(t, s, Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s"})
	feed(t, s, judgedTurn(ref, 1, Evidence{}, Verdict{NewFacts: []string{"a", "b", "a"}})...)
	feed(t, s, Continuation{AttemptRef: ref, Turn: 2})
	want := []string{"a", "b", "c"}
	for i := range maxNewFacts {
		want = append(want, fmt.Sprint(i))
	}
	feed(t, s, judgedTurn(ref, 2, Evidence{}, Verdict{NewFacts: want})...)
	if got := s.Boulder.NewFacts; !slices.Equal(got, want[3:]) {
		t.Errorf("facts %q: the oldest go first", got)
	}
}

// TestBaseline: a later sub-task is measured against the best result so far of a no_worse or lint command. Failures
// that an earlier sub-task added excuse nothing, and what it fixed must stay fixed.
func TestBaseline(t *testing.T) {
	t.Parallel()
	const tests = "make test"
	red := func(names ...string) Gate { return Gate{Command: tests, ExitCode: 1, Failing: names, Output: "long"} }
	for name, step := range map[string]struct {
		before Gate
		after  Gate // after the first sub-task
		want   []string
		green  bool
	}{
		"as it was":                {red("A", "B"), red("A", "B"), []string{"A", "B"}, false},
		"mended in part":           {red("A", "B"), red("B"), []string{"B"}, false},
		"mended":                   {red("A"), Gate{Command: tests}, nil, true},
		"broken in another way":    {red("A", "B"), red("C"), []string{"A", "B"}, false},
		"green, and then it broke": {Gate{Command: tests}, red("A"), nil, true},
	} {
		for _, lint := range []bool{false, true} {
			s := started(t, Plan{SubTasks: []Spec{
				{ID: "a", NoWorse: []string{tests}}, {ID: "b", NoWorse: []string{tests}, DependsOn: []string{"a"}},
			}})
			for _, st := range s.SubTasks {
				st.NoWorse, st.GateHints = []string{tests}, nil // as if approved by the user
				if lint {
					st.NoWorse, st.Lint = nil, st.NoWorse
				}
			}
			a, b := AttemptRef{"a", 1}, AttemptRef{"b", 1}
			feed(t, s, Starting{AttemptRef: a}, SubTaskStart{AttemptRef: a, SessionID: "s", Baseline: []Gate{step.before}})
			if !step.after.Green() {
				step.after.NoWorse = "so says the runner"
			}
			feed(t, s, judgedTurn(a, 1, Evidence{NoServer: lint, Gates: []Gate{step.after}}, Verdict{Completed: true})...)
			feed(t, s, completed(a), Starting{AttemptRef: b})
			got := GateOf(s.SubTask("b").Baseline, tests)
			if got == nil || !slices.Equal(got.Failing, step.want) || got.Green() != step.green {
				t.Errorf("%s: the next one is measured by %+v", name, got)
			}
			if got := s.SubTask("a").Baseline; len(got) != 1 || len(got[0].Failing) != len(step.before.Failing) {
				t.Errorf("%s: the first one was measured by %+v", name, got)
			}
		}
	}
}

// TestGateOrigin: a gate that a replan took over is still attributed to the sub-task that the user wrote it for.
func TestGateOrigin(t *testing.T) {
	t.Parallel()
	b := Boulder{Settings: Settings{Gates: []string{"make lint"}}}
	all := []*SubTask{
		{ID: "hard", Revision: 1, Status: SubTaskSuperseded, Gates: []string{"make", "make lint"}, NoWorse: []string{"make old"}},
		{ID: "done", Revision: 1, Status: SubTaskCompleted, Gates: []string{"make mine"}},
		{ID: "easier", Revision: 2, Gates: []string{"make", "make lint", "make mine"}, NoWorse: []string{"make old"}},
	}
	for gate, want := range map[string]string{"make": "hard", "make old": "hard", "make lint": "", "make mine": ""} {
		if got := b.GateOrigin(all[2], all, gate); got != want {
			t.Errorf("%s: %q, want %q", gate, got, want)
		}
	}
	if got := b.GateOrigin(all[0], all, "make"); got != "" {
		t.Errorf("its own gate is from %q", got)
	}
}

// TestWhatBaselinesMean: what a command did before the work says what its result means after it.
func TestWhatBaselinesMean(t *testing.T) {
	t.Parallel()
	const tests = "npm test"
	for name, c := range map[string]struct {
		before Gate
		own    bool // the plan names the criteria
		gate   bool // it has to be green
		want   SubTask
	}{
		"green":                     {before: Gate{}},
		"stopped, detected":         {before: Gate{ExitCode: -1, TimedOut: true}, want: SubTask{NoGates: []Gate{{}}}},
		"stopped, by the plan":      {before: Gate{ExitCode: -1, TimedOut: true}, own: true},
		"stopped, has to be green":  {before: Gate{ExitCode: -1, TimedOut: true}, gate: true},
		"red without names":         {before: Gate{ExitCode: 1}, want: SubTask{Reason: "forgiven"}},
		"red without names, a gate": {before: Gate{ExitCode: 1}, gate: true},
		"red":                       {before: Gate{ExitCode: 1, Failing: []string{"A"}}},
	} {
		s := SubTask{DoneDefault: !c.own, NoWorse: []string{tests}}
		if c.gate {
			s.Gates, s.NoWorse = s.NoWorse, nil
		}
		c.before.Command = tests
		s.AddBaseline(Checks{Tests: []string{tests}}, c.before)
		s.AddBaseline(Checks{Tests: []string{tests}}, Gate{Command: tests, ExitCode: 7})
		open := len(s.OpenGates(nil, false)) > 0
		if len(s.Baseline) != 1 || len(s.NoGates) != len(c.want.NoGates) || open != (len(s.NoGates) == 0) {
			t.Errorf("%s: %+v, open: %v", name, s, open)
		}
		if forgiven := s.Baseline[0].NoWorse != ""; forgiven != (c.want.Reason != "") || s.GreenBefore(tests) != c.before.Green() {
			t.Errorf("%s: forgiven: %v, green before: %v", name, forgiven, s.GreenBefore(tests))
		}
	}
	long := Gate{Duration: 10*time.Minute + time.Second}
	if got := long.NeverEnded(); got != "did not end in 10 minutes before the work; is it a watch mode?" {
		t.Error(got)
	}
}

// TestGreenForAnother: a gate that another sub-task turned green is green before the next one begins.
func TestGreenForAnother(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}})
	for _, st := range s.SubTasks {
		st.Gates = []string{"make test"}
	}
	a := AttemptRef{"a", 1}
	feed(t, s, Starting{AttemptRef: a}, SubTaskStart{AttemptRef: a, SessionID: "s", Baseline: []Gate{{Command: "make test", ExitCode: 1}}})
	feed(t, s, judgedTurn(a, 1, Evidence{Gates: []Gate{{Command: "make test"}}}, Verdict{Completed: true})...)
	feed(t, s, GateRun{AttemptRef: a, Command: "make test", Passed: true}, completed(a), Starting{AttemptRef: AttemptRef{"b", 1}})
	if s.SubTask("a").GreenBefore("make test") || !s.SubTask("b").GreenBefore("make test") {
		t.Errorf("a: %+v, b: %+v", s.SubTask("a").Baseline, s.SubTask("b").Baseline)
	}
}
