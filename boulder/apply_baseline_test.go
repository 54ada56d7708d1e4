package boulder

import (
	"slices"
	"testing"
)

// TestBaseline: what a command of no_worse said first, or better since, is what every later sub-task is measured by: what an
// earlier one broke is no excuse, and what it mended has to stay.
func TestBaseline(t *testing.T) {
	t.Parallel()
	const tests = "make test"
	red := func(names ...string) Gate { return Gate{Command: tests, ExitCode: 1, Failing: names, Output: "long"} }
	for name, step := range map[string]struct {
		before Gate
		after  Gate // as the first sub-task left it
		want   []string
		green  bool
	}{
		"as it was":                {red("A", "B"), red("A", "B"), []string{"A", "B"}, false},
		"mended in part":           {red("A", "B"), red("B"), []string{"B"}, false},
		"mended":                   {red("A"), Gate{Command: tests}, nil, true},
		"broken in another way":    {red("A", "B"), red("C"), []string{"A", "B"}, false},
		"green, and then it broke": {Gate{Command: tests}, red("A"), nil, true},
	} {
		s := started(t, Plan{SubTasks: []Spec{
			{ID: "a", NoWorse: []string{tests}}, {ID: "b", NoWorse: []string{tests}, DependsOn: []string{"a"}},
		}})
		for _, st := range s.SubTasks {
			st.NoWorse, st.GateHints = []string{tests}, nil // as if a person had approved the plan
		}
		a, b := AttemptRef{"a", 1}, AttemptRef{"b", 1}
		feed(t, s, Starting{AttemptRef: a}, SubTaskStart{AttemptRef: a, SessionID: "s", Baseline: []Gate{step.before}})
		if !step.after.Green() {
			step.after.NoWorse = "so says the runner"
		}
		feed(t, s, judgedTurn(a, 1, Evidence{Gates: []Gate{step.after}}, Verdict{Completed: true})...)
		feed(t, s, completed(a), Starting{AttemptRef: b})
		got := gateOf(s.SubTask("b").Baseline, tests)
		if got == nil || !slices.Equal(got.Failing, step.want) || got.Green() != step.green {
			t.Errorf("%s: the next one is measured by %+v", name, got)
		}
		if got := s.SubTask("a").Baseline; len(got) != 1 || len(got[0].Failing) != len(step.before.Failing) {
			t.Errorf("%s: the first one was measured by %+v", name, got)
		}
	}
}
