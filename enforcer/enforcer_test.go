package enforcer

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }

func TestDecide(t *testing.T) {
	rules := DefaultRules()
	for _, test := range []struct {
		name string
		seen Seen
		now  time.Duration
		want Kind
		next time.Duration // of wait
	}{
		{"just prompted", Seen{Began: at(0), LastEvent: at(0)}, time.Second, Wait, 10 * time.Second},
		{"no turn began", Seen{Began: at(0), LastEvent: at(0)}, 10 * time.Second, Look, 0},
		{"at work", Seen{Began: at(0), LastEvent: at(time.Minute), Busy: true}, 2 * time.Minute, Wait, 6 * time.Minute},
		{"silent", Seen{Began: at(0), LastEvent: at(time.Minute), Busy: true}, 6 * time.Minute, Stop, 0},
		{
			"silent with a tool", Seen{Began: at(0), LastEvent: at(time.Minute), Busy: true, ToolsRunning: 1},
			6 * time.Minute, Wait, 16 * time.Minute,
		},
		{"wall clock", Seen{Began: at(0), LastEvent: at(30 * time.Minute), Busy: true}, 30 * time.Minute, Stop, 0},
		{
			"offline is not silence", Seen{Began: at(0), LastEvent: at(0), Busy: true, OfflineSince: at(5 * time.Minute)},
			5*time.Minute + 59*time.Second, Wait, 6 * time.Minute,
		},
		{
			"offline too long", Seen{Began: at(0), LastEvent: at(0), Busy: true, OfflineSince: at(5 * time.Minute)},
			6 * time.Minute, Lose, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(test.seen, rules, at(test.now))
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

// Waiting until the time that Decide names must bring another answer: else the executor would spin.
func TestDecideMakesProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.Int64Range(0, 60)
		seen := Seen{
			Began: at(0), LastEvent: at(time.Duration(minutes.Draw(t, "last")) * time.Minute),
			Busy: rapid.Bool().Draw(t, "busy"), ToolsRunning: rapid.IntRange(0, 2).Draw(t, "tools"),
		}
		if rapid.Bool().Draw(t, "offline") {
			seen.OfflineSince = at(time.Duration(minutes.Draw(t, "since")) * time.Minute)
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
