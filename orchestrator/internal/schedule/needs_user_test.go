package schedule

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// Consecutive verdicts count across turns and attempts. A turn that could not be judged does not interrupt them.
func TestNeedsUser(t *testing.T) {
	t.Parallel()
	needs := func(by string) boulder.Verdict { return boulder.Verdict{BlockedBy: by} }
	for name, test := range map[string]struct {
		before  int
		verdict boulder.Verdict
		todos   []boulder.Todo
		want    int
	}{
		"missing information":         {0, needs("missing_info"), nil, 1},
		"a permission":                {1, needs("permission"), nil, 2},
		"something outside":           {2, needs("external"), nil, 3},
		"nothing is in the way":       {1, needs("none"), nil, 0},
		"the machine is":              {1, needs("environment"), nil, 0},
		"the plan is":                 {1, needs("wrong_plan"), nil, 0},
		"complete":                    {1, boulder.Verdict{Completed: true, BlockedBy: "external"}, nil, 0},
		"the judge was not there":     {1, boulder.Verdict{JudgeUnavailable: true}, nil, 1},
		"only blocked items are left": {1, needs("none"), []boulder.Todo{blockedItem, {Content: "b", Status: "completed"}}, 2},
		"an open item is left, too":   {1, needs("none"), []boulder.Todo{blockedItem, {Content: "b", Status: "pending"}}, 0},
		"complete without that item":  {1, boulder.Verdict{Completed: true}, []boulder.Todo{blockedItem}, 0},
	} {
		o := &boulder.Open{
			SubTask: &boulder.SubTask{NeedsUser: test.before}, Turn: &boulder.Turn{Evidence: &boulder.Evidence{Todos: test.todos}},
		}
		if got := needsUser(o, test.verdict); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

var blockedItem = boulder.Todo{Content: "Log in", Status: "blocked"}

// TestBlockedItems: what its agent cannot do, after all else of its list is done, does not fail the sub-task: the user is asked.
func TestBlockedItems(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"})
	feed(t, s, epoch, running("a")...)
	for turn, want := range []string{"continue", "raise"} {
		at := s.Open("a").Attempt.AttemptRef
		feed(t, s, epoch, boulder.TurnEnded{AttemptRef: at, Turn: turn + 1, Evidence: boulder.Evidence{Todos: []boulder.Todo{blockedItem}}})
		feed(t, s, epoch, Judged(s, s.Open("a"), turn+1, boulder.Verdict{Summary: "It is not logged in."}, epoch))
		got := Compute(s, DefaultLimits(), epoch)
		if kindsOf(got) != want {
			t.Fatalf("after turn %d: %s, want %s", turn+1, kindsOf(got), want)
		}
		if raised, ok := bodyOf(got[0]).(boulder.BlockerRaised); ok && raised.Blocker.Question != "Its agent cannot do what is left: Log in" {
			t.Errorf("it asks %q", raised.Blocker.Question)
		}
		if turn == 0 {
			applyAll(t, s, epoch, got)
		}
	}
}

// TestRaise: the second such verdict asks the user, in runs and in loops. The question parks the sub-task for the
// answer, and counting restarts.
func TestRaise(t *testing.T) {
	t.Parallel()
	captcha := boulder.Verdict{
		Summary: "The calendar is open.", BlockedBy: "external", StuckReason: "Solve the CAPTCHA", Remaining: []string{"read it"},
	}
	for _, head := range []boulder.Boulder{{}, {Settings: boulder.Settings{Loop: &boulder.Loop{Iterations: 100, Failures: 5}}}} {
		s := begunWith(t, head, boulder.Spec{ID: "a"})
		judged := func(turn int) {
			o := s.Open("a")
			at := o.Attempt.AttemptRef
			feed(t, s, epoch, boulder.TurnEnded{AttemptRef: at, Turn: turn})
			feed(t, s, epoch, Judged(s, s.Open("a"), turn, captcha, epoch))
		}
		feed(t, s, epoch, running("a")...)
		judged(1)
		if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "continue" {
			t.Fatalf("after one verdict: %s", got)
		}
		feed(t, s, epoch, boulder.Continuation{AttemptRef: ref("a", 1), Turn: 2})
		judged(2)
		raise, ok := bodyOf(Compute(s, DefaultLimits(), epoch)[0]).(boulder.BlockerRaised)
		if !ok {
			t.Fatalf("after two verdicts: %s", kindsOf(Compute(s, DefaultLimits(), epoch)))
		}
		b := raise.Blocker
		if b.Question != "Solve the CAPTCHA" || !b.Hard || b.Category != boulder.BlockerOther || b.SubTaskID != "a" || b.Attempt != 1 ||
			!strings.Contains(b.Context, "2 turns in a row") || !strings.Contains(b.Context, "The calendar is open.") ||
			!strings.Contains(b.Context, "Left to do: read it") {
			t.Errorf("the blocker is %+v", b)
		}
		b.ID = "B1"
		feed(t, s, epoch, boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: b})
		parked, ok := bodyOf(Compute(s, DefaultLimits(), epoch)[0]).(boulder.Parked)
		if !ok || parked.Reason != "waits for an answer to B1: Solve the CAPTCHA" {
			t.Fatalf("recorded: %+v", parked)
		}
		feed(t, s, epoch, parked, answers("a", "B1"))
		if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "start" || s.SubTask("a").NeedsUser != 0 {
			t.Errorf("answered: %s, with %d verdicts counted", got, s.SubTask("a").NeedsUser)
		}
	}
}
