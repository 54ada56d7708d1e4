package executor

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// ruler is a diverter that rules for ever in the same way.
type ruler struct {
	Diverter
	ruling boulder.Ruling
	err    error
}

func (r ruler) Ruling(context.Context, string) (boulder.Ruling, error) { return r.ruling, r.err }

func (ruler) Instruction(boulder.Blocker) string { return "Go on." }

// clocked is a turn that is at work, on a clock that the test turns.
func clocked(d Diverter) (*turn, *time.Time) {
	now := at(0)
	t := &turn{tree: session.NewTurn("", enforcer.DefaultRules(), nil), Executor: &Executor{
		cfg: Config{Now: func() time.Time { return now }, Redact: asItIs{}, Diverter: d}, rules: enforcer.DefaultRules(),
	}}
	t.seen.began, t.seen.lastEvent, t.seen.busy = now, now, true
	return t, &now
}

func waitingUntil(until time.Time) *ask {
	return &ask{
		Ask:    session.Ask{Permission: &opencode.PermissionRequest{ID: "p"}},
		ruling: boulder.Ruling{BlockerID: "B1", Reply: boulder.ReplyWaiting, Until: until},
	}
}

// Silence and the time of a turn are for what its agent does, and not for a person who takes their time.
func TestWaitingIsNobodysFault(t *testing.T) {
	t.Parallel()
	tu, now := clocked(nil)
	tu.job.TimeLeft = 20 * time.Minute
	tu.seen.asks = []*ask{waitingUntil(at(9 * time.Hour))}
	tu.keepTime()
	for *now = at(0); now.Before(at(8 * time.Hour)); *now = now.Add(time.Minute) {
		if d := enforcer.Decide(tu.asSeen(), tu.rules, *now); d.Kind != enforcer.Wait {
			t.Fatalf("after %s: %+v", now.Sub(at(0)), d)
		}
	}
	tu.forget(tu.seen.asks[0])
	tu.seen.lastEvent = *now
	if d := enforcer.Decide(tu.asSeen(), tu.rules, *now); d.Kind != enforcer.Wait {
		t.Errorf("as soon as a person had answered: %+v", d)
	}
	tu.seen.ended = now.Add(time.Minute)
	if got := tu.duration(); got != time.Minute {
		t.Errorf("a turn that worked for a minute is said to have worked for %s", got)
	}
	*now = now.Add(20 * time.Minute)
	tu.seen.lastEvent = *now
	if d := enforcer.Decide(tu.asSeen(), tu.rules, *now); d.Rule != boulder.RuleBudget {
		t.Errorf("after 20 minutes of work: %+v", d)
	}
}

// Whenever it is looked, what was waited is the sum of the times between a beginning and its end.
func TestPause(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p pause
		now, want, waits := at(0), time.Duration(0), false
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			d := time.Duration(rapid.IntRange(0, 1000).Draw(t, "passes")) * time.Millisecond
			now = now.Add(d)
			if waits {
				want += d
			}
			if got := p.by(now); got != want {
				t.Fatalf("waited %s, want %s", got, want)
			}
			waits = rapid.Bool().Draw(t, "waits")
			p.set(waits, now)
		}
	})
}

// A wait ends soon after its time, even if nobody says so any more; before that a database that cannot be read ends
// nothing.
func TestWaitThatNobodyEnds(t *testing.T) {
	t.Parallel()
	until := at(time.Hour)
	for name, d := range map[string]ruler{
		"the desk fails":          {err: errors.New("the disk is full")},
		"the desk waits for ever": {ruling: boulder.Ruling{Reply: boulder.ReplyWaiting, Until: until}},
	} {
		tu, now := clocked(d)
		a := waitingUntil(until)
		tu.seen.asks = []*ask{a}
		*now = until
		if tu.ruleAgain(t.Context(), a, *now) || !a.waits() {
			t.Errorf("%s: it is over at %s: %+v", name, *now, a.ruling)
		}
		*now = until.Add(overdue + time.Second)
		if !tu.ruleAgain(t.Context(), a, *now) || a.ruling.Reply != boulder.ReplyDiverted || a.ruling.BlockerID != "B1" {
			t.Errorf("%s: it goes on at %s: %+v", name, *now, a.ruling)
		}
	}
}

// While a person may answer, the turn looks once a second, whatever else it waits for.
func TestAnswersAreLookedFor(t *testing.T) {
	t.Parallel()
	tu, now := clocked(nil)
	later := at(time.Hour)
	if got := tu.askOrBefore(later); got != later {
		t.Errorf("nothing is asked, and it looks at %s", got)
	}
	tu.seen.asks, tu.seen.asksAt = []*ask{waitingUntil(later)}, now.Add(session.AnswerLook)
	if got := tu.askOrBefore(later); got != now.Add(time.Second) {
		t.Errorf("it looks after %s", got.Sub(*now))
	}
	if got := tu.askOrBefore(*now); got != *now {
		t.Errorf("it looks after %s, and something is due now", got.Sub(*now))
	}
}

func TestDeadlineAsPeopleReadIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 23, 50, 0, 0, time.Local)
	for want, until := range map[string]time.Duration{
		"23:51:00": time.Minute, "23:59": 9 * time.Minute, "Mar 2 00:10": 20 * time.Minute,
	} {
		if got := clock(now.Add(until), now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
