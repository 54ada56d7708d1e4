package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// feed applies events at a time. All must be accepted.
func feed(t rapid.TB, s *boulder.State, now time.Time, bodies ...boulder.Body) {
	t.Helper()
	for _, b := range bodies {
		b = withPolicy(s, now, b)
		if _, err := s.Apply(boulder.Event{Time: now, BoulderID: "b1", Body: b}); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); err != nil {
			t.Fatalf("after %s: %v", boulder.TypeOf(b), err)
		}
	}
}

// withPolicy adds to an event what policy decides.
func withPolicy(s *boulder.State, now time.Time, body boulder.Body) boulder.Body {
	switch b := body.(type) {
	case boulder.TurnEnded:
		if o := s.Open(b.SubTaskID); o != nil {
			return TurnEnded(s, o, b.Turn, b.Evidence, now)
		}
	case boulder.Judged:
		if o := s.Open(b.SubTaskID); o != nil {
			return Judged(s, o, b.Turn, b.Verdict, now)
		}
	case boulder.Cooled:
		b.Hits = max(1, b.Hits)
		return b
	}
	return body
}

func ref(id string, attempt int) boulder.AttemptRef {
	return boulder.AttemptRef{SubTaskID: id, Attempt: attempt}
}

// running takes a sub-task's first attempt to its first prompt.
func running(id string) []boulder.Body {
	r := ref(id, 1)
	return []boulder.Body{
		boulder.Starting{AttemptRef: r}, boulder.SubTaskStart{AttemptRef: r, SessionID: "s"},
		boulder.TurnSent{AttemptRef: r, Turn: 1, MessageID: "m"},
	}
}

// judged takes a sub-task's first attempt to a verdict on its first turn.
func judged(id string, v boulder.Verdict) []boulder.Body {
	r := ref(id, 1)
	return append(running(id), boulder.TurnEnded{AttemptRef: r, Turn: 1, Evidence: boulder.Evidence{ToolCount: 1}},
		boulder.Judged{AttemptRef: r, Turn: 1, Verdict: v})
}

func use(id string, u boulder.Usage) boulder.Body {
	return boulder.UsageReport{SubTaskID: id, Attempt: 1, Source: boulder.UsageAttempt, Usage: u}
}

func seen(id string, u boulder.Usage) boulder.Body {
	return boulder.SubTaskProgress{AttemptRef: ref(id, 1), Usage: u}
}

func abc() []boulder.Spec { return []boulder.Spec{{ID: "a"}, {ID: "b"}, {ID: "c"}} }

// applyAll applies one answer's decisions in order, as the orchestrator does.
func applyAll(t *testing.T, s *boulder.State, now time.Time, actions []Action) {
	t.Helper()
	for _, action := range actions {
		if body := bodyOf(action); body != nil {
			feed(t, s, now, body)
		}
	}
}

// TestRunBudget is SEMANTICS §8 for the run: what may still start, and what ends the run.
func TestRunBudget(t *testing.T) {
	t.Parallel()
	tokens := func(n int64) boulder.Usage { return boulder.Usage{Input: n} }
	going := boulder.Verdict{IsProgress: true}
	minute := boulder.Budget{Time: boulder.Duration(time.Minute)}
	tests := map[string]struct {
		budget boulder.Budget
		before []boulder.Body
		full   bool // no free slot
		after  time.Duration
		want   string
		why    string // of a stop
	}{
		"no limit":     {want: "start, start, start"},
		"a token left": {budget: boulder.Budget{Tokens: 101}, before: []boulder.Body{use("", tokens(100))}, want: "start"},
		"tokens": {
			budget: boulder.Budget{Tokens: 100}, before: []boulder.Body{use("", tokens(100))}, want: "stop", why: "100 tokens",
		},
		"calls": {
			budget: boulder.Budget{Calls: 2}, before: []boulder.Body{use("", boulder.Usage{Calls: 2})},
			want: "stop", why: "2 model calls",
		},
		"money": {
			budget: boulder.Budget{Cost: 0.5}, before: []boulder.Body{use("", boulder.Usage{Cost: 0.5})},
			want: "stop", why: "$0.50",
		},
		"time":         {budget: minute, after: time.Minute, want: "stop", why: "1m0s"},
		"time is left": {budget: minute, after: time.Minute - 1, want: "start, start, start, wake"},
		"unknown cost": {
			budget: boulder.Budget{Cost: 5}, before: []boulder.Body{use("", boulder.Usage{Calls: 1, Unpriced: 1})},
			want: "stop", why: "cost of 1 model call is not known",
		},
		"unknown cost, but no budget of money": {
			budget: boulder.Budget{Tokens: 5}, before: []boulder.Body{use("", boulder.Usage{Calls: 1, Unpriced: 1})},
			want: "start, start, start",
		},

		"attempts left":    {budget: boulder.Budget{Attempts: 2}, want: "start, start"},
		"one attempt left": {budget: boulder.Budget{Attempts: 2}, before: running("a"), want: "run, start"},
		"no attempt left: what is at work goes on": {
			budget: boulder.Budget{Attempts: 1}, before: running("a"), want: "run",
		},
		"no attempt left, a turn more": {budget: boulder.Budget{Attempts: 1}, before: judged("a", going), want: "continue"},
		"no attempt left at all": {
			budget: boulder.Budget{Attempts: 1},
			before: append(judged("a", boulder.Verdict{Completed: true}), boulder.SubTaskDone{
				AttemptRef: ref("a", 1), Completed: true, Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted,
			}),
			want: "stop", why: "1 attempt is used up",
		},

		"what is seen of a running turn counts": {
			budget: boulder.Budget{Tokens: 100}, before: append(running("a"), seen("a", tokens(100))), want: "stop",
			why: "100 tokens",
		},
		"also what it had used before a fault": {
			budget: boulder.Budget{Tokens: 100},
			before: append(running("a"), seen("a", tokens(60)), boulder.Trouble{AttemptRef: ref("a", 1)}, seen("a", tokens(40))),
			want:   "stop", why: "100 tokens",
		},
		// A turn used 50, so each new one is expected to use 50.
		"running turns are reserved for": {
			budget: boulder.Budget{Tokens: 100}, before: append([]boulder.Body{use("", tokens(50))}, running("a")...),
			want: "run",
		},
		"less what was seen of them": {
			budget: boulder.Budget{Tokens: 101},
			before: append(append([]boulder.Body{use("", tokens(50))}, running("a")...), seen("a", tokens(30))),
			want:   "run, start",
		},
		"turns that begin at the same time too": {
			budget: boulder.Budget{Tokens: 120}, before: []boulder.Body{use("", tokens(50))}, want: "start, start",
		},
		"a continuation as well": {
			budget: boulder.Budget{Tokens: 120}, before: append(judged("a", going), use("a", tokens(50))),
			want: "continue, start",
		},
		"a continuation waits for what is running": {
			budget: boulder.Budget{Tokens: 100},
			before: append(append(judged("a", going), use("a", tokens(50))), running("b")...), full: true, want: "run",
		},
		"what remains is enough for one": {
			budget: boulder.Budget{Tokens: 51}, before: append(judged("a", going), use("a", tokens(50))), full: true,
			want: "continue",
		},
		"the work of before is not judged any more": {
			budget: boulder.Budget{Tokens: 100},
			before: append(running("a"), boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1}, use("a", tokens(100))),
			want:   "stop", why: "100 tokens",
		},
		"but what was judged is handed on first": {
			budget: boulder.Budget{Tokens: 100},
			before: append(judged("a", boulder.Verdict{Completed: true}), use("a", tokens(100))), want: "complete",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t, abc()...)
			feed(t, s, epoch, boulder.BudgetSet{Budget: test.budget})
			feed(t, s, epoch, test.before...)
			l := DefaultLimits()
			l.Warn = 0
			if test.full {
				l.Global = 0
			}
			got := Compute(s, l, epoch.Add(test.after))
			if kinds := kindsOf(got); kinds != test.want {
				t.Fatalf("got %s, want %s", kinds, test.want)
			}
			if stop, ok := got[len(got)-1].(Stop); ok && (!stop.Budget || !strings.Contains(stop.Reason, test.why)) {
				t.Errorf("stopped because %q, want %q", stop.Reason, test.why)
			}
		})
	}
}

// TestTimeBudgetWakes: a run ends on time without any event. Pauses do not count.
func TestTimeBudgetWakes(t *testing.T) {
	t.Parallel()
	s := begun(t, abc()...)
	feed(t, s, epoch, boulder.BudgetSet{Budget: boulder.Budget{Time: boulder.Duration(time.Minute)}})
	feed(t, s, epoch.Add(10*time.Second), boulder.StatusChanged{Status: boulder.Paused})
	resumed := epoch.Add(time.Hour)
	feed(t, s, resumed, boulder.Resumed{}, boulder.StatusChanged{Status: boulder.Running})
	got := Compute(s, DefaultLimits(), resumed)
	if want := (Wake{At: resumed.Add(38*time.Second + time.Millisecond)}); got[len(got)-1] != want {
		t.Errorf("got %v, want %v at its end: the warning at 80 %%", got, want)
	}
	feed(t, s, resumed, boulder.BudgetWarning{Dimension: "time", Used: 48, Limit: 60})
	got = Compute(s, DefaultLimits(), resumed)
	if want := (Wake{At: resumed.Add(50 * time.Second)}); got[len(got)-1] != want {
		t.Errorf("got %v, want %v at its end", got, want)
	}
}

// TestUnknownCostIsAccepted: setting a budget again accepts earlier calls of unknown cost; later ones count.
func TestUnknownCostIsAccepted(t *testing.T) {
	t.Parallel()
	s := begun(t, abc()...)
	feed(t, s, epoch, boulder.BudgetSet{Budget: boulder.Budget{Cost: 5}})
	unknown := boulder.UsageReport{Source: boulder.UsagePlan, Usage: boulder.Usage{Calls: 1, Input: 1, Unpriced: 1}}
	stops := func() bool {
		actions := Compute(s, DefaultLimits(), epoch)
		_, stopped := actions[0].(Stop)
		return stopped
	}
	feed(t, s, epoch, unknown)
	if !stops() {
		t.Error("a call of unknown cost did not stop it")
	}
	feed(t, s, epoch, boulder.BudgetSet{Budget: boulder.Budget{Cost: 5}})
	if stops() {
		t.Error("it stops although the budget was set again")
	}
	feed(t, s, epoch, unknown)
	if !stops() {
		t.Error("a later call of unknown cost did not stop it")
	}
}

// TestBudgetWaitsForNothing: a run whose budget is used up does not wait for a cool-down first.
func TestBudgetWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a", Model: "p/a"}, {ID: "b", Model: "p/b"}}...)
	feed(t, s, epoch, judged("a", boulder.Verdict{Completed: true})...)
	feed(t, s, epoch, complete(s.Open("a")), boulder.BudgetSet{Budget: boulder.Budget{Attempts: 1}},
		boulder.Cooled{Model: "p/b", Cooldown: boulder.Cooldown{Until: epoch.Add(time.Hour), Limit: 1, Full: 5, Reason: "429"}})
	l := DefaultLimits()
	l.Warn = 0
	if got := kindsOf(Compute(s, l, epoch)); got != "stop" {
		t.Errorf("got %s, want stop", got)
	}
}

// TestBudgetWarning: each limit warns once, at 80 %, and again after the user changed the budget.
func TestBudgetWarning(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a", Budget: &boulder.Budget{Calls: 10}}, {ID: "b"}}...)
	warnings := func() (all []boulder.BudgetWarning) {
		for range 10 {
			w, ok := bodyOf(Compute(s, DefaultLimits(), epoch)[0]).(boulder.BudgetWarning)
			if !ok {
				return all
			}
			all = append(all, w)
			feed(t, s, epoch, w)
		}
		t.Fatal("there is no end of warnings")
		return nil
	}
	expect := func(when string, want ...boulder.BudgetWarning) {
		t.Helper()
		if d := cmp.Diff(want, warnings()); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	feed(t, s, epoch, boulder.BudgetSet{Budget: boulder.Budget{Tokens: 100, Attempts: 5}})
	feed(t, s, epoch, running("a")...)
	feed(t, s, epoch, seen("a", boulder.Usage{Input: 79, Calls: 7}))
	expect("below all")
	feed(t, s, epoch, seen("a", boulder.Usage{Input: 80, Calls: 8}))
	expect("at 80 %", boulder.BudgetWarning{Dimension: "tokens", Used: 80, Limit: 100},
		boulder.BudgetWarning{SubTaskID: "a", Dimension: "calls", Used: 8, Limit: 10})
	feed(t, s, epoch, seen("a", boulder.Usage{Input: 90, Calls: 9}))
	expect("after it was given")
	feed(t, s, epoch, boulder.BudgetSet{Budget: boulder.Budget{Tokens: 110}})
	expect("with another budget", boulder.BudgetWarning{Dimension: "tokens", Used: 90, Limit: 110})
}

// TestPark: a sub-task with a used-up budget waits for the user. The others continue, and the run ends after them.
func TestPark(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{
		{ID: "a", Budget: &boulder.Budget{Tokens: 100}}, {ID: "b"}, {ID: "c", DependsOn: []string{"a"}},
	}...)
	l := DefaultLimits()
	l.Warn = 0
	feed(t, s, epoch, append(running("a"), seen("a", boulder.Usage{Output: 120}))...)
	got := Compute(s, l, epoch)
	if kinds := kindsOf(got); kinds != "park, start" {
		t.Fatalf("got %s, want park and the start of b", kinds)
	}
	why := "its budget of 100 tokens is used up (120 tokens)"
	if reason := bodyOf(got[0]).(boulder.Parked).Reason; reason != why {
		t.Errorf("parked because %q", reason)
	}
	feed(t, s, epoch, use("a", boulder.Usage{Output: 120}), boulder.Parked{AttemptRef: ref("a", 1), Reason: why})
	feed(t, s, epoch, judged("b", boulder.Verdict{Completed: true})...)
	applyAll(t, s, epoch, Compute(s, l, epoch)[:1])
	if got := Compute(s, l, epoch); len(got) != 1 || got[0] != (Stop{`sub-task "a": ` + why, "a", true, false}) {
		t.Errorf("with a parked sub-task left, got %v", got)
	}
	if overspent(s.SubTask("a"), nil) == "" {
		t.Error("a can go on although its budget is used up")
	}
	feed(t, s, epoch, boulder.BudgetSet{SubTaskID: "a", Budget: boulder.Budget{Tokens: 200}})
	if overspent(s.SubTask("a"), nil) != "" {
		t.Error("a cannot go on although its budget was raised")
	}
	feed(t, s, epoch, boulder.Unparked{SubTaskID: "a"})
	if got := kindsOf(Compute(s, l, epoch)); got != "start" {
		t.Errorf("after the user raised the budget, got %s", got)
	}
}
