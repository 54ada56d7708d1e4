package watch_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// A person who writes ends a countdown, and everything is counted anew: the manager's own prompts are never taken for
// one's.
func TestPersonInBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, chat)
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = time.Minute })
	k.until(r, "countdown countdown")
	k.person("By the way, why is the sky blue?")
	k.until(r, "wait idle")
	k.until(r, "countdown countdown")
	r.end()
	if n := len(k.continuations()); n != 0 {
		t.Errorf("%d continuations in spite of the person:\n%s", n, r.said(k.id))
	}
	r = w.watch(func(c *watch.Config) { c.Policy.MaxIterations = 1 })
	k.next = 0
	k.until(r, "let_go iterations")
	k.person("Go on, please.")
	if e := k.until(r, "send open"); e.Iteration != 1 {
		t.Errorf("after the person's prompt it is iteration %d", e.Iteration)
	}
	k.until(r, "let_go iterations")
	if n := len(k.continuations()); n != 2 {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// waiting answers the second call of a tool-less model when it is released.
func waiting(release <-chan struct{}, replies ...scriptmodel.Reply) scriptmodel.Handler {
	return func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		reply := steps(replies...)(ctx, r)
		if r.AssistantTurns() == 1 {
			reply.Wait = release
		}
		return reply
	}
}

// An abort stops the session, through a restart of the watch and against a start within the window; a person's prompt
// lifts it.
func TestAbortIsObeyed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	defer close(release)
	k := w.begin(t, waiting(release, half, say("late"), say("I look at b."), say("I still look at b.")))
	r := w.watch()
	k.until(r, "wait idle") // at work
	events := w.client.Subscribe(opencode.Filter{Sessions: []string{k.id}})
	defer events.Close()
	for {
		todos, err := w.dir.Todos(w.ctx, k.id)
		if err != nil {
			t.Fatal(err)
		}
		if len(todos) > 0 {
			break
		}
		<-events.C()
	}
	if err := w.dir.Abort(w.ctx, k.id); err != nil {
		t.Fatal(err)
	}
	if e := k.until(r, "wait stopped"); !strings.Contains(e.Reason, "aborted") {
		t.Error(e.Reason)
	}
	r.end()
	r = w.watch()
	k.next = 0
	k.until(r, "wait stopped")
	r.end()
	if n := len(k.continuations()); n != 0 {
		t.Fatalf("%d continuations after an abort:\n%s", n, r.said(k.id))
	}
	w.order(t, watch.Request{Session: k.id, Order: watch.OrderStart})
	r = w.watch(func(c *watch.Config) { c.Policy.AbortWindow = never })
	k.next = 0
	k.until(r, "wait abort")
	r.end()
	r = w.watch()
	k.next = 0
	k.until(r, "send open")
}

// An abort or a "stop" holds until the user writes there again.
func TestPersonStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch told := strings.Contains(r.LastUser(), "Go on."); {
		case told && r.TurnsSinceUser() == 0:
			return whole
		case told:
			return say("Both are there.")
		case r.AssistantTurns() == 0:
			return half
		}
		return say("I look at b next.")
	})
	r := w.watch(func(c *watch.Config) { c.Policy.Idle = never })
	k.until(r, "wait idle")
	k.write("Stop!")
	if e := k.until(r, "wait stopped"); !strings.Contains(e.Reason, "wrote") {
		t.Error(e.Reason)
	}
	r.end()
	r = w.watch()
	k.next = 0
	k.until(r, "wait stopped")
	k.person("Go on.")
	k.until(r, "finish work")
	if n := len(k.continuations()); n != 0 {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// A model that does not exist is nothing that a continuation heals.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.talk(t, opencode.NewSession{Title: t.Name()}, steps())
	r := w.watch()
	err := w.dir.Prompt(w.ctx, k.id, opencode.Prompt{
		Agent: "build", Model: opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: "gone"},
		Parts: []opencode.TextPart{{Text: "Write a and b."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	k.until(r, "let_go broken")
}

// order gives an order while no watch runs.
func (w *world) order(t *testing.T, req watch.Request) {
	t.Helper()
	r := w.watch(func(c *watch.Config) {
		c.Attach = func(ctx context.Context) (*opencode.Client, error) { return nil, opencode.ErrUnavailable }
	})
	defer r.end()
	if report, err := r.ask(req); err != nil || len(report.Named) != 1 {
		t.Fatal(report.Named, err)
	}
}

// call does in a session what OpenCode's screen does for the user and the client has no call for.
func (k *talk) call(method, path, body string) {
	k.t.Helper()
	address := k.w.url + "/session/" + k.id + path + "?" + url.Values{"directory": {k.w.dir.Path()}}.Encode()
	req, err := http.NewRequestWithContext(k.w.ctx, method, address, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		k.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, text)
	}
}

// TestUndo would fail if a continuation deleted what the user may want to have back.
func TestUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = patience })
	k.until(r, "countdown countdown")
	before, err := w.dir.Messages(w.ctx, k.id, 0)
	if err != nil {
		t.Fatal(err)
	}
	k.call(http.MethodPost, "/revert", `{"messageID":"`+before[0].Info.ID+`"}`)
	k.until(r, "wait undo")
	r.end()
	r = w.watch() // which is fast, and sees it from the beginning
	k.next = 0
	k.until(r, "wait undo")
	k.call(http.MethodPost, "/unrevert", "")
	k.until(r, "send open")
	k.until(r, "finish work")
	after, err := w.dir.Messages(w.ctx, k.id, 0)
	if err != nil || len(after) <= len(before) || after[0].Info.ID != before[0].Info.ID {
		t.Errorf("%d messages of %d are left (%v)", len(after), len(before), err)
	}
}

// A session that the user archives is left alone.
func TestArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = patience })
	k.until(r, "countdown countdown")
	k.call(http.MethodPatch, "", `{"time":{"archived":1767225600000}}`)
	if e := k.until(r, "wait owned"); !strings.Contains(e.Reason, "archived") {
		t.Error(e.Reason)
	}
	if n := len(k.continuations()); n != 0 {
		t.Errorf("%d continuations", n)
	}
}

// With All, too, the sessions of a run are the run's, those of its sub-agents included.
func TestAllLeavesRunsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := w.talk(t, opencode.NewSession{Title: "parent", Metadata: map[string]any{session.TagKey: "manager:b/x#1"}}, chat)
	child := w.talk(t, opencode.NewSession{Title: "child", ParentID: parent.id}, steps(half, say("I wrote a.")))
	r := w.watch(func(c *watch.Config) { c.All = true })
	child.person("Write a and b.")
	if e := child.until(r, "wait owned"); !strings.Contains(e.Reason, "run of manager") {
		t.Error(e.Reason)
	}
}
