package watch_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/internal/watch"
)

// A crash between the decision and the sending: the same message is sent once, and the count goes on.
func TestRestartBetweenIntentAndSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch(func(c *watch.Config) { c.OnStored(func(watch.Intent) error { return errCrash }) })
	intended := k.until(r, "send open")
	<-r.done
	if n := len(k.continuations()); n != 0 {
		t.Fatalf("%d continuations were sent before the crash", n)
	}
	r = w.watch(func(c *watch.Config) { c.Policy.Admission /= 50 })
	k.next = 0
	k.until(r, "look in_flight")
	k.until(r, "finish work")
	all := k.continuations()
	if len(all) != 1 || all[0].Info.ID != intended.MessageID || k.times(r, "send open") != 0 {
		t.Errorf("%d continuations:\n%s", len(all), r.said(k.id))
	}
}

// A crash after the sending: while it is answered, and after it was.
func TestRestartAfterSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	k := w.begin(t, func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		reply := steps(half, say("I wrote a."), whole, say("Both are there."))(ctx, r)
		if r.AssistantTurns() == 2 {
			reply.Wait = release
		}
		return reply
	})
	r := w.watch()
	k.until(r, "send open")
	k.until(r, "wait in_flight")
	r.end()
	r = w.watch(func(c *watch.Config) { c.Policy.Admission /= 50 })
	k.next = 0
	k.until(r, "wait in_flight")
	r.end()
	close(release)
	r = w.watch(func(c *watch.Config) { c.Policy.Admission /= 50 })
	k.next = 0
	k.until(r, "finish work")
	if n := len(k.continuations()); n != 1 || k.times(r, "send open") != 0 {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// OpenCode dies while the agent is at work, and is started again: the watch waits for it, says so once, and the session
// goes on.
func TestOpenCodeRestarts(t *testing.T) {
	t.Parallel()
	if err := shared.start(); err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	defer close(hang)
	var dead atomic.Bool
	model := octest.Model(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		if dead.Load() {
			return say("Both are there.")
		}
		return scriptmodel.Reply{Text: "never heard", Wait: hang}
	})
	home := t.TempDir()
	env := scriptmodel.OpenCodeEnv(os.Environ(), home, model.URL())
	s, err := octest.Serve(home, env, "0")
	if err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, s.URL, octest.Repo(t, nil))
	k := w.begin(t, nil)
	r := w.watch()
	k.until(r, "wait idle") // at work
	s.Kill()
	r.noted(t, "does not answer")
	dead.Store(true)
	if s, err = octest.Serve(home, env, s.Port()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	r.noted(t, "answers again")
	k.until(r, "send open")
	k.until(r, "finish work")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notes) != 2 {
		t.Errorf("notes: %q", r.notes)
	}
}
