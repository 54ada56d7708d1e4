package watch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
)

// A watch that is started again goes on with a session that waits for an answer, however long it rested.
func TestAnswerAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.talk(t, opencode.NewSession{Title: t.Name()}, steps(
		mayDelete,
		say("I cannot go on without an answer."), say("It is gone.\n"+boulder.DoneMarker),
	))
	change := func(c *watch.Config) { c.Diverter, c.Since = away, time.Nanosecond }
	events := w.client.Subscribe(opencode.Filter{Directory: w.dir.Path()})
	defer events.Close()
	r := w.watch(change)
	r.noted(t, blockers.DefaultTool)
	k.person("Delete what nothing uses.")
	k.until(r, "wait asks")
	for e := range events.C() { // it waits for that while it is still at work
		if p, ok := e.Payload.(opencode.StatusChanged); ok && e.SessionID == k.id && p.Status.Type == opencode.Idle {
			break
		}
	}
	r.end()
	const answer = "Yes, but keep old/LICENSE."
	if _, err := away.Settle(w.ctx, "B1", blockers.Settlement{Status: boulder.BlockerAnswered, Answer: answer}); err != nil {
		t.Fatal(err)
	}
	r = w.watch(change)
	k.next = 0
	if sent := k.until(r, "send open"); !strings.Contains(sent.Prompt, answer) {
		t.Errorf("the continuation lacks the answer:\n%s", sent.Prompt)
	}
	k.until(r, "finish work")
}
