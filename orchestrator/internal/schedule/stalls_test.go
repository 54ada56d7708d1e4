package schedule

import (
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// TestStalls is SEMANTICS §4: what counts as the next stall after a first one.
func TestStalls(t *testing.T) {
	t.Parallel()
	ruled := func(r boulder.Rule) boulder.Evidence {
		return boulder.Evidence{Ended: boulder.Ended{Rule: r, Stopped: "by a rule"}}
	}
	truncated := boulder.Evidence{Ended: boulder.Ended{Truncated: "length"}}
	tests := map[string]struct {
		evidence boulder.Evidence
		verdict  boulder.Verdict
		want     int
	}{
		"no progress":                 {verdict: boulder.Verdict{}, want: 2},
		"progress":                    {verdict: boulder.Verdict{IsProgress: true}, want: 0},
		"in a loop":                   {verdict: boulder.Verdict{IsProgress: true, IsInLoop: true}, want: 2},
		"completed":                   {verdict: boulder.Verdict{Completed: true, IsInLoop: true}, want: 0},
		"completed although stopped":  {ruled(boulder.RuleRepeat), boulder.Verdict{Completed: true}, 0},
		"a rule fired":                {ruled(boulder.RuleRepeat), boulder.Verdict{IsProgress: true}, 2},
		"the wall clock":              {ruled(boulder.RuleWallClock), boulder.Verdict{IsProgress: true}, 2},
		"a budget is no stuck rule":   {ruled(boulder.RuleBudget), boulder.Verdict{IsProgress: true}, 0},
		"truncated":                   {truncated, boulder.Verdict{}, 1},
		"truncated and stopped":       {boulder.Evidence{Ended: boulder.Ended{Truncated: "length", Rule: boulder.RuleRepeat}}, boulder.Verdict{}, 2},
		"nobody could judge":          {verdict: boulder.Verdict{JudgeUnavailable: true}, want: 1},
		"told the same again":         {verdict: boulder.Verdict{IsProgress: true, ContinuationPrompt: "the first"}, want: 2},
		"told something else":         {verdict: boulder.Verdict{IsProgress: true, ContinuationPrompt: "the second"}, want: 0},
		"told the same, but complete": {verdict: boulder.Verdict{Completed: true, ContinuationPrompt: "the first"}, want: 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t, []boulder.Spec{{ID: "a"}}...)
			at := ref("a", 1)
			feed(t, s, epoch, boulder.Starting{AttemptRef: at}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s"})
			feed(t, s, epoch, judgedTurn(at, 1, boulder.Evidence{}, boulder.Verdict{ContinuationPrompt: "the first"})...)
			if n := s.SubTask("a").Stalls; n != 1 {
				t.Fatalf("%d stalls after a turn without progress", n)
			}
			feed(t, s, epoch, boulder.Continuation{AttemptRef: at, Turn: 2, Prompt: "go on"})
			feed(t, s, epoch, judgedTurn(at, 2, test.evidence, test.verdict)...)
			if n := s.SubTask("a").Stalls; n != test.want {
				t.Errorf("%d stalls, want %d", n, test.want)
			}
		})
	}
}

// TestStallsGoOnInTheNextAttempt: a new session does not reset the stalls, because the plan is as suspect as before.
func TestStallsGoOnInTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a"}}...)
	for n := 1; n <= 2; n++ {
		at := ref("a", n)
		feed(t, s, epoch, boulder.Starting{AttemptRef: at}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s"})
		feed(t, s, epoch, judgedTurn(at, 1, boulder.Evidence{}, boulder.Verdict{ContinuationPrompt: "the same in both"})...)
		if got := s.SubTask("a").Stalls; got != n {
			t.Errorf("%d stalls after %d attempts", got, n)
		}
		feed(t, s, epoch, boulder.Retry{AttemptRef: at, Status: boulder.AttemptFailed, Next: n + 1})
	}
}

// judgedTurn takes an executing attempt through its turn to a verdict.
func judgedTurn(at boulder.AttemptRef, turn int, e boulder.Evidence, v boulder.Verdict) []boulder.Body {
	return []boulder.Body{
		boulder.TurnSent{AttemptRef: at, Turn: turn, MessageID: "m"}, boulder.TurnEnded{AttemptRef: at, Turn: turn, Evidence: e},
		boulder.Judged{AttemptRef: at, Turn: turn, Verdict: v},
	}
}
