package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// TestCooldownGrowsBack: attempts that meet the same limit halve it once and count as one hit. Each answer after the
// wait adds one slot, until the cool-down is forgotten.
func TestCooldownGrowsBack(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a", Model: "p/m"}}...)
	l := DefaultLimits()
	l.PerModel = 4
	at := ref("a", 1)
	feed(t, s, epoch, boulder.Starting{AttemptRef: at}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s"})
	cool := func(now time.Time, limit, hits int) (until time.Time) {
		t.Helper()
		limited := &boulder.TroubleError{Kind: boulder.TroubleRateLimit, Err: errors.New("429")}
		feed(t, s, now, Failed(s, l, now, s.Open("a"), limited)...)
		c := s.Boulder.Cooldowns["p/m"]
		if c.Hits != hits || c.Limit != limit || s.Open("a").Attempt.Troubles != 0 {
			t.Errorf("%+v, want the %d. with limit %d", c, hits, limit)
		}
		return c.Until
	}
	first := cool(epoch, 2, 1)
	cool(epoch.Add(time.Second), 2, 1) // from an attempt that was already running
	second := cool(first.Add(time.Second), 1, 2)
	if second.Sub(first) < l.CoolBase {
		t.Errorf("the second wait, until %s, is not longer than the first, until %s", second, first)
	}
	turn := 0
	answer := func(now time.Time) boulder.Cooldown {
		turn++
		feed(t, s, now, judgedTurn(at, turn, boulder.Evidence{}, boulder.Verdict{})...)
		feed(t, s, now, boulder.Continuation{AttemptRef: at, Turn: turn + 1})
		return s.Boulder.Cooldowns["p/m"]
	}
	if c := answer(epoch); c.Limit != 1 || c.Hits != 2 {
		t.Errorf("an answer to what was asked before lets it grow: %+v", c)
	}
	for want := 2; want <= 3; want++ {
		if c := answer(second); c.Limit != want || c.Hits != 0 {
			t.Errorf("after an answer: %+v, want limit %d", c, want)
		}
	}
	if answer(second); len(s.Boulder.Cooldowns) != 0 {
		t.Errorf("grown back, but still there: %+v", s.Boulder.Cooldowns)
	}
}

// A verdict ends the cool-down of the ledger's model, which has no slots, unless the model was unavailable.
func TestLedgerModelCools(t *testing.T) {
	t.Parallel()
	for _, unavailable := range []bool{true, false} {
		s := begun(t, []boulder.Spec{{ID: "a", Model: "p/m"}}...)
		at := ref("a", 1)
		feed(t, s, epoch, boulder.Cooled{Model: ledgerModel, Cooldown: boulder.Cooldown{Until: epoch, Limit: 1}}, boulder.Starting{AttemptRef: at},
			boulder.TurnEnded{AttemptRef: at, Turn: 1},
			boulder.Judged{AttemptRef: at, Turn: 1, Verdict: boulder.Verdict{JudgeUnavailable: unavailable}})
		if _, cools := s.Boulder.Cooldowns[ledgerModel]; cools != unavailable {
			t.Errorf("judge unavailable: %v, and its model cools down: %v", unavailable, cools)
		}
	}
}

// TestLimitThatEndsTooLate: a provider that wants a longer wait than the run may make pauses it, with the date, once
// nothing else can be done. It counts as no fault. A user who resumes the run before has the model asked again.
func TestLimitThatEndsTooLate(t *testing.T) {
	t.Parallel()
	for _, kind := range []boulder.TroubleKind{boulder.TroubleRateLimit, boulder.TroubleNetwork} {
		for name, tt := range map[string]struct {
			wait    time.Duration
			judging bool
			others  bool // a sub-task with another model
			want    string
		}{
			"a day":                 {23 * time.Hour, false, false, "wake"},
			"three days":            {76 * time.Hour, false, false, "stop"},
			"of the judge":          {76 * time.Hour, true, false, "stop"},
			"the others come first": {76 * time.Hour, false, true, "start"},
		} {
			specs := []boulder.Spec{{ID: "a", Model: "p/m"}, {ID: "b", Model: "p/m"}}
			if tt.others {
				specs = append(specs, boulder.Spec{ID: "c", Model: "o/m"})
			}
			s, l := begun(t, specs...), DefaultLimits()
			l.PerModel = 1
			feed(t, s, epoch, boulder.Starting{AttemptRef: ref("a", 1)})
			if tt.judging {
				feed(t, s, epoch, boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1})
			}
			limited := &boulder.TroubleError{Kind: kind, RetryAfter: tt.wait, Err: errors.New("monthly spend limit")}
			feed(t, s, epoch, Failed(s, l, epoch, s.Open("a"), limited)...)
			actions := Compute(s, l, epoch)
			if kinds := kindsOf(actions); kinds != tt.want {
				t.Fatalf("%s, %s: %s, want %s", kind, name, kinds, tt.want)
			}
			if tt.want != "stop" {
				continue
			}
			reason := map[bool]string{false: "p/m", true: ledgerModel}[tt.judging] + " is limited until " +
				epoch.Add(tt.wait).Local().Format("Mon 2 Jan ")
			if said := actions[0].(Stop).Reason; !strings.HasPrefix(said, reason) || !strings.Contains(said, "spend limit") {
				t.Errorf("%s, %s: %q", kind, name, said)
			}
			if n := s.Open("a").Attempt.Troubles; n != 0 {
				t.Errorf("%s, %s: %d faults", kind, name, n)
			}
			feed(t, s, epoch, boulder.Resumed{})
			feed(t, s, epoch, LiftLongLimits(s, l, epoch)...)
			if kinds := kindsOf(Compute(s, l, epoch)); kinds != map[bool]string{false: "run", true: "judge"}[tt.judging] {
				t.Errorf("%s, %s: resumed: %s", kind, name, kinds)
			}
		}
	}
}
