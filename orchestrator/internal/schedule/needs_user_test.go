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
		want    int
	}{
		"missing information":     {0, needs("missing_info"), 1},
		"a permission":            {1, needs("permission"), 2},
		"something outside":       {2, needs("external"), 3},
		"nothing is in the way":   {1, needs("none"), 0},
		"the machine is":          {1, needs("environment"), 0},
		"the plan is":             {1, needs("wrong_plan"), 0},
		"complete":                {1, boulder.Verdict{Completed: true, BlockedBy: "external"}, 0},
		"the judge was not there": {1, boulder.Verdict{JudgeUnavailable: true}, 1},
	} {
		o := &boulder.Open{SubTask: &boulder.SubTask{NeedsUser: test.before}}
		if got := needsUser(o, test.verdict); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
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
		raise, ok := Compute(s, DefaultLimits(), epoch)[0].(boulder.BlockerRaised)
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
		parked, ok := Compute(s, DefaultLimits(), epoch)[0].(boulder.Parked)
		if !ok || parked.Reason != "waits for an answer to B1: Solve the CAPTCHA" {
			t.Fatalf("recorded: %+v", parked)
		}
		feed(t, s, epoch, parked, answers("a", "B1"))
		if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "start" || s.SubTask("a").NeedsUser != 0 {
			t.Errorf("answered: %s, with %d verdicts counted", got, s.SubTask("a").NeedsUser)
		}
	}
}
