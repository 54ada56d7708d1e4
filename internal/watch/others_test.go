package watch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/store"
)

// Sessions of a run are never told anything, whatever is open in them.
func TestRunsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	model := steps(half, say("I wrote a."))
	tagged := w.talk(t, opencode.NewSession{Title: "one", Metadata: map[string]any{"manager": "manager:b/a#1"}}, model)
	titled := w.talk(t, opencode.NewSession{Title: "two [manager:b/a#1]"}, model)
	own := w.talk(t, opencode.NewSession{Title: "three"}, model)
	r := w.watch()
	for _, k := range []*talk{tagged, titled, own} {
		k.person("Write a and b.")
	}
	own.until(r, "send open")
	for _, k := range []*talk{tagged, titled} {
		if e := k.until(r, "wait owned"); !strings.Contains(e.Reason, "run") {
			t.Error(e.Reason)
		}
	}
	own.until(r, "let_go failures") // by then the others would have been sent something long ago
	for _, k := range []*talk{tagged, titled} {
		if n := len(k.continuations()); n != 0 {
			t.Errorf("%d continuations in a run's session:\n%s", n, r.said(k.id))
		}
	}
}

// While a sub-agent is at work nothing is sent, and the sub-agent's own session is not watched.
func TestSubAgentAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	var k *talk
	model := func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.SessionID != k.id {
			return scriptmodel.Reply{Text: "It is used in two places.", Wait: release}
		}
		return steps(half, use("task", map[string]any{
			"description": "Find uses", "prompt": k.mark + " Where is a used?", "subagent_type": "general",
		}), say("I know it now."), whole, say("Both are there."))(ctx, r)
	}
	k = w.talk(t, opencode.NewSession{Title: "parent"}, model)
	r := w.watch()
	k.person("Write a and b.")
	k.until(r, "wait background")
	children, err := w.dir.Children(w.ctx, k.id)
	if err != nil || len(children) != 1 {
		t.Fatal(children, err)
	}
	close(release)
	k.until(r, "send open")
	k.until(r, "finish work")
	if said := r.said(children[0].ID); said != "" && !strings.HasPrefix(said, "note") {
		t.Errorf("about the sub-agent's session:\n%s", said)
	}
	if n := len(k.continuations()); n != 1 {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// A sub-agent of a sub-agent counts as well, and after a restart too, when no event tells of it.
func TestGrandchildAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	model := func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: "It is used in two places.", Wait: release}
	}
	k := w.begin(t, steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "countdown countdown")
	child := w.talk(t, opencode.NewSession{Title: "child", ParentID: k.id}, model)
	grandchild := w.talk(t, opencode.NewSession{Title: "grandchild", ParentID: child.id}, model)
	grandchild.person("Where is a used?")
	k.until(r, "wait background")
	r.end()
	r = w.watch()
	k.next = 0
	if e := k.until(r, "wait background"); !strings.Contains(e.Reason, `"grandchild" is at work`) {
		t.Error(e.Reason)
	}
	close(release)
	k.until(r, "finish work")
	if n := len(k.continuations()); n != 1 {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// With All the session of a sub-agent is watched for itself, and told to go on when it leaves its own list undone.
func TestAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := w.talk(t, opencode.NewSession{Title: "parent"}, chat)
	child := w.talk(t, opencode.NewSession{Title: "child", ParentID: parent.id},
		steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch(func(c *watch.Config) { c.All = true })
	child.person("Write a and b.")
	child.until(r, "send open")
	child.until(r, "finish work")
	if n := len(child.continuations()); n != 1 {
		t.Errorf("%d continuations:\n%s", n, r.said(child.id))
	}
}

// A session that was compacted twice without progress is left for a fresh one, which is told what the work is, is
// watched with the counters of the old one, and finishes it. So it is after a crash that has left an empty one behind.
func TestFreshSessionAfterCompactions(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]bool{"switched": false, "crashed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goesOnAfresh(t, crash)
		})
	}
}

func goesOnAfresh(t *testing.T, crash bool) {
	t.Helper()
	w := newWorld(t)
	k := w.talk(t, opencode.NewSession{Title: "long"}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case len(r.Tools) == 0:
			return say("Summary: a is written, b is not.")
		case strings.Contains(r.FirstUser(), "another one"):
			if r.TurnsSinceUser() == 0 {
				return whole
			}
			return say("Both are there.")
		case r.AssistantTurns() == 0 && !strings.Contains(r.Text(), "Summary"):
			return half
		case strings.HasPrefix(r.LastUser(), "Continue"):
			return say("I look at it.")
		}
		reply := say("I look at it once more.")
		reply.InputTokens = 199_000 // of 200,000: OpenCode compacts
		return reply
	})
	r := w.watch(func(c *watch.Config) {
		c.OnStored(func(i watch.Intent) error {
			if i.Fresh && crash {
				return errCrash
			}
			return nil
		})
	})
	k.person("Write a and b.")
	sent := k.until(r, "fresh open")
	if crash {
		<-r.done
		_, err := w.dir.CreateSession(w.ctx, opencode.NewSession{
			Title: "left behind", Metadata: map[string]any{"manager_continues": sent.MessageID},
		})
		if err != nil {
			t.Fatal(err)
		}
		r = w.watch(func(c *watch.Config) { c.Policy.Admission /= 50 })
		k.next = 0
	}
	k.until(r, "wait stopped")
	var fresh *talk
	r.wait(t, "a decision about the fresh session", func() bool {
		for _, e := range r.log {
			if e.SessionID != k.id {
				fresh = &talk{t: t, w: w, id: e.SessionID}
			}
		}
		return fresh != nil
	})
	done := fresh.until(r, "finish work")
	all := fresh.continuations()
	if len(all) != 1 || all[0].Info.ID != sent.MessageID || all[0].Info.Agent != "build" ||
		all[0].Info.Model != agentModel {
		t.Fatalf("%d continuations:\n%s", len(all), r.said(""))
	}
	for _, want := range []string{"Write a and b.", "Summary: a is written, b is not.", "- Write b"} {
		if !strings.Contains(all[0].Text(), want) {
			t.Errorf("the fresh session is not told %q: %s", want, all[0].Text())
		}
	}
	sessions, err := w.dir.Sessions(w.ctx, opencode.SessionFilter{})
	if err != nil || len(sessions) != 2 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
	if done.Iteration != sent.Iteration {
		t.Errorf("iteration %d after %d", done.Iteration, sent.Iteration)
	}
}

// A dry run says what would be done, and neither does nor stores anything; one look does what is due.
func TestDryRunAndOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, steps(half, say("I wrote a.")))
	r := w.watch()
	k.until(r, "countdown countdown") // it is idle by then
	r.end()
	r = w.watch(func(c *watch.Config) { c.Once, c.DryRun = true, true })
	k.next = 0
	e := k.until(r, "send open")
	<-r.done
	if r.err != nil || !e.DryRun || !strings.Contains(e.Prompt, "- Write b") {
		t.Errorf("%+v, %v", e, r.err)
	}
	if n := len(k.continuations()); n > 1 {
		t.Errorf("%d continuations", n)
	}
	before := len(k.continuations())
	r = w.watch(func(c *watch.Config) { c.Once = true })
	k.next = 0
	k.until(r, "send open")
	<-r.done
	if n := len(k.continuations()); r.err != nil || n != before+1 {
		t.Errorf("%d continuations after %d, %v:\n%s", n, before, r.err, r.said(k.id))
	}
}

// Stop and start reach a watch that runs, and stay; a second watch is refused and told who has the state.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "countdown countdown")
	if _, err := watch.OpenStore(w.db, false, time.Millisecond); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a second watch: %v", err)
	}
	stop := watch.Request{Order: watch.OrderStop, Session: k.id[len(k.id)-6:]}
	if report, err := r.ask(stop); err != nil || len(report.Named) != 1 || report.Named[0] != k.id {
		t.Fatal(report.Named, err)
	}
	k.until(r, "wait stopped")
	k.person("Is it blue?") // does not lift a stop in so many words
	report, err := r.ask(watch.Request{})
	if err != nil || report.Holder.PID != 42 || !report.Online || len(report.Sessions) != 1 ||
		report.Sessions[0].Status != enforcer.Stopped || !report.Sessions[0].Watched {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err := r.ask(watch.Request{Order: watch.OrderStop, Session: "nobody"}); err != nil || len(report.Named) != 0 {
		t.Errorf("an order for nobody: %v, %v", report.Named, err)
	}
	r.end()
	r = w.watch()
	k.next = 0
	k.until(r, "wait stopped")
	if report, err := r.ask(watch.Request{Order: watch.OrderStart}); err != nil || len(report.Named) != 1 {
		t.Fatal(report.Named, err)
	}
	k.until(r, "finish work")
	if report, err := r.ask(watch.Request{Session: k.id}); err != nil || len(report.History) < 4 {
		t.Errorf("%d decisions, %v", len(report.History), err)
	}
}

// A session that is deleted is forgotten.
func TestDeletedSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, chat)
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "countdown countdown")
	if err := w.dir.DeleteSession(w.ctx, k.id); err != nil {
		t.Fatal(err)
	}
	other := w.begin(t, chat)
	other.until(r, "countdown countdown")
	records, err := r.store.Records()
	if err != nil || len(records) != 1 || records[0].SessionID != other.id {
		t.Errorf("%+v, %v", records, err)
	}
}
