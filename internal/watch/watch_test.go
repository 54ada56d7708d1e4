package watch_test

import (
	"strings"
	"testing"
)

// TestGoesOnUntilComplete: a session that is left with open items is told to go on, once, and left alone when they are
// done. It would fail if the prompt were taken for a person's, were sent twice, or lost the agent or the model.
func TestGoesOnUntilComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.begin(t, steps(half, say("I wrote a."), whole, say("Both are there.")))
	r := w.watch()
	sent := k.until(r, "send open")
	k.until(r, "finish work")
	all := k.continuations()
	if len(all) != 1 {
		t.Fatalf("%d continuations:\n%s", len(all), r.said(k.id))
	}
	m := all[0]
	if m.Info.ID != sent.MessageID || m.Info.Agent != "build" || m.Info.Model != agentModel || m.Text() != sent.Prompt {
		t.Errorf("%+v, and %+v", m, sent)
	}
	if !strings.Contains(m.Text(), "Write b") || strings.Contains(m.Text(), "Write a") {
		t.Errorf("the prompt names what is open, and nothing else: %s", m.Text())
	}
	if sent.Iteration != 1 || k.times(r, "countdown countdown") != 1 {
		t.Error(r.said(k.id))
	}
}
