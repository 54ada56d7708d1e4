package executor

import (
	"context"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// waits is a diverter that has the user asked, who takes their time.
type waits struct{ session.Diverter }

func (waits) On(boulder.BlockerScope) bool { return true }
func (waits) ToolName() string             { return "blocker" }
func (waits) Divert(context.Context, boulder.Blocker) (boulder.Ruling, error) {
	return boulder.Ruling{BlockerID: "B1", Reply: boulder.ReplyWaiting, Until: at(9 * time.Hour)}, nil
}
func (waits) Ruling(context.Context, string) (boulder.Ruling, error) {
	return boulder.Ruling{Reply: boulder.ReplyWaiting, Until: at(9 * time.Hour)}, nil
}
func (waits) Gone(context.Context, string) error { return nil }

// Silence and the time of a turn are for what its agent does, and not for a person who takes their time.
func TestWaitingIsNobodysFault(t *testing.T) {
	t.Parallel()
	now := at(0)
	clock := func() time.Time { return now }
	e := bare(Config{Now: clock, Diverter: waits{}})
	tu := e.newTurn(boulder.Job{TimeLeft: 20 * time.Minute}, func(boulder.Body) error { return nil })
	tu.tree = session.NewTurn("ses", enforcer.DefaultRules(), nil)
	tu.seen.Began, tu.seen.LastEvent, tu.seen.Busy = now, now, true
	tu.asks.Tell = func(context.Context, []*session.Ruled) error { return nil }
	tu.asks.In = func(string) *opencode.Directory { return nil }
	tu.tree.Take(opencode.Event{
		SessionID: "ses", Payload: opencode.StatusChanged{Status: opencode.Status{Type: opencode.Busy}},
	}, now)
	tu.tree.Ask(opencode.Request{ID: "p", SessionID: "ses", Permission: "bash"}, now)
	for ; now.Before(at(8 * time.Hour)); now = now.Add(time.Minute) {
		if _, err := tu.answerAsks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := enforcer.Decide(tu.asSeen(), *e.cfg.Rules, now); d.Kind != enforcer.Wait {
			t.Fatalf("after %s: %+v", now.Sub(at(0)), d)
		}
	}
	tu.tree.Take(opencode.Event{SessionID: "ses", Payload: opencode.RequestClosed{RequestID: "p"}}, now)
	if _, err := tu.answerAsks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := enforcer.Decide(tu.asSeen(), *e.cfg.Rules, now); d.Kind != enforcer.Wait {
		t.Errorf("as soon as a person had answered: %+v", d)
	}
	if got := now.Add(time.Minute).Sub(tu.seen.Began); got != time.Minute {
		t.Errorf("a turn that worked for a minute is said to have worked for %s", got)
	}
	now = now.Add(20 * time.Minute)
	tu.seen.LastEvent = now
	if d := enforcer.Decide(tu.asSeen(), *e.cfg.Rules, now); d.Rule != boulder.RuleBudget {
		t.Errorf("after 20 minutes of work: %+v", d)
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
