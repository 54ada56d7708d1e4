package enforcer

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

func at(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }

func TestDecide(t *testing.T) {
	with := func(s Seen, change func(*Seen)) Seen { change(&s); return s }
	busy := Seen{Began: at(0), LastEvent: at(0), Busy: true}
	minute := with(busy, func(s *Seen) { s.LastEvent = at(time.Minute) })
	offline := with(busy, func(s *Seen) { s.OfflineSince = at(5 * time.Minute) })
	nudge := Decision{Kind: Nudge, Rule: boulder.RuleErrors, Reason: "again and again"}
	found := with(busy, func(s *Seen) { s.Findings = []Decision{nudge} })
	retry := func(attempt int, next time.Duration) Seen {
		return with(busy, func(s *Seen) { s.Retry = &Retry{Attempt: attempt, Next: at(next)} })
	}
	for _, test := range []struct {
		name string
		seen Seen
		now  time.Duration
		want Kind
		next time.Duration // of wait
	}{
		{"just prompted", Seen{Began: at(0), LastEvent: at(0)}, time.Second, Wait, 10 * time.Second},
		{"no turn began", Seen{Began: at(0), LastEvent: at(0)}, 10 * time.Second, Look, 0},
		{"at work", minute, 2 * time.Minute, Wait, 6 * time.Minute},
		{"silent: why?", minute, 6 * time.Minute, Look, 0},
		{"silent", with(minute, func(s *Seen) { s.Looked = true }), 6 * time.Minute, Stop, 0},
		{"silent with a tool", with(minute, func(s *Seen) { s.ToolsRunning = 1 }), 6 * time.Minute, Wait, 16 * time.Minute},
		{"wall clock", with(busy, func(s *Seen) { s.LastEvent = at(30 * time.Minute) }), 30 * time.Minute, Stop, 0},
		{"wall clock of an attempt", with(minute, func(s *Seen) { s.Worked = 29 * time.Minute }), time.Minute, Stop, 0},
		{"budget", with(minute, func(s *Seen) { s.TimeLeft = time.Minute }), time.Minute, Stop, 0},
		{"waiting for a provider is not silence", retry(5, 50*time.Second), 5 * time.Minute, Wait, 5*time.Minute + 50*time.Second},
		{"one retry too many", retry(6, 50*time.Second), 0, Yield, 0},
		{"a long wait", retry(1, 61*time.Second), 0, Yield, 0},
		{"nudge", found, 0, Nudge, 0},
		{"nudged already", with(found, func(s *Seen) {
			s.Nudged = []boulder.Nudge{{Rule: boulder.RuleErrors}}
		}), 0, Wait, 5 * time.Minute},
		{"stop before nudge", with(found, func(s *Seen) {
			s.Findings = append(s.Findings, Decision{Kind: Stop, Rule: boulder.RuleRepeat, Reason: "again"})
		}), 0, Stop, 0},
		{"offline is not silence", offline, 5*time.Minute + 59*time.Second, Wait, 6 * time.Minute},
		{"offline too long", offline, 6 * time.Minute, Lose, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(test.seen, DefaultRules(), at(test.now))
			if d.Kind != test.want {
				t.Fatalf("got %s (%s), want %s", d.Kind, d.Reason, test.want)
			}
			if d.Kind == Wait && !d.At.Equal(at(test.next)) {
				t.Errorf("asks again at +%s, want +%s", d.At.Sub(at(0)), test.next)
			}
			if (d.Kind == Wait) != (d.Reason == "") {
				t.Errorf("kind %s with reason %q", d.Kind, d.Reason)
			}
		})
	}
}

// At the time that a wait names, the decision must be another one. Otherwise the executor would spin.
func TestDecideMakesProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.Int64Range(0, 60)
		seen := Seen{
			Began: at(0), LastEvent: at(time.Duration(minutes.Draw(t, "last")) * time.Minute),
			Busy: rapid.Bool().Draw(t, "busy"), ToolsRunning: rapid.IntRange(0, 2).Draw(t, "tools"),
			Looked: rapid.Bool().Draw(t, "looked"), Worked: time.Duration(minutes.Draw(t, "worked")) * time.Minute,
			TimeLeft: time.Duration(minutes.Draw(t, "left")) * time.Minute,
		}
		if rapid.Bool().Draw(t, "offline") {
			seen.OfflineSince = at(time.Duration(minutes.Draw(t, "since")) * time.Minute)
		}
		if rapid.Bool().Draw(t, "retry") {
			seen.Retry = &Retry{
				Attempt: rapid.IntRange(1, 7).Draw(t, "attempt"),
				Next:    at(time.Duration(minutes.Draw(t, "next")) * time.Minute),
			}
		}
		now := at(time.Duration(minutes.Draw(t, "now")) * time.Minute)
		d := Decide(seen, DefaultRules(), now)
		if d.Kind != Wait {
			return
		}
		if !d.At.After(now) {
			t.Fatalf("waits until %s, which is not after %s", d.At, now)
		}
		if again := Decide(seen, DefaultRules(), d.At); again.Kind == Wait {
			t.Fatalf("nothing happened, and it waits again until %s", again.At)
		}
	})
}
