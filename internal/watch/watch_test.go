package watch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
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

// What is shown on the person's screen: an error for a session that is idle, a warning for one that says that it is
// done, and that it is complete. It would fail if the colours were exchanged, or a toast came without its decision.
func TestToasts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	screen := w.client.Subscribe(opencode.Filter{Directory: w.dir.Path()})
	defer screen.Close()
	r := w.watch()
	k := w.begin(t, steps(half, say("I wrote a."), half, say("All done. Everything works."), whole, say("Both are there.")))
	k.until(r, "finish work")
	var shown []string
	for len(shown) < 3 {
		select {
		case e := <-screen.C():
			if p, ok := e.Payload.(opencode.Unknown); ok && p.Type == "tui.toast.show" {
				var toast struct{ Variant, Title, Message string }
				if err := json.Unmarshal(p.Properties, &toast); err != nil {
					t.Fatal(err)
				}
				shown = append(shown, toast.Variant+": "+toast.Title+": "+toast.Message)
			}
		case <-w.ctx.Done():
			t.Fatalf("only %q was shown:\n%s", shown, r.said(k.id))
		}
	}
	for i, want := range []string{"error: manager goes on in 50ms: Idle for", "warning: ", "success: Complete: "} {
		if !strings.HasPrefix(shown[i], want) {
			t.Errorf("%q, want %q", shown[i], want)
		}
	}
	if !strings.Contains(shown[1], "It says that it is done, but there is 1 thing left to do, such as: Write b") {
		t.Error(shown[1])
	}
	if slices.ContainsFunc(shown, func(s string) bool { return strings.Contains(s, "Write a") }) {
		t.Errorf("what is done is shown as open: %q", shown)
	}
}
