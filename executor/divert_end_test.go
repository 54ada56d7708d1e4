package executor

import (
	"context"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// The manager dies after an agent has reported a hard blocker, or before its boulder has heard of that: the turn is judged as
// it is. It is told nothing before a person has answered: neither to resume nor, in a new turn, to go on.
func TestBlockedTurnIsNotPrompted(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]struct {
		at      func(boulder.Body) bool
		refusal error
		calls   int
	}{"known": {does("sleep 600"), nil, 2}, "recorded": {is[boulder.BlockerRaised], errCrash, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d away
			w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
				if req.AssistantTurns() == 0 {
					return calls(blocker(boulder.BlockerSecurity, "Which key?"))
				}
				return calls(shell("sleep 600"))
			}, diverting(t, &d, blockers.Policy{}))
			a := w.newAttempt("x", "go")
			a.dies(t, w, a.run, crash.at, crash.refusal)
			e, err := a.again(t.Context(), w)
			if err != nil || e.ToolCount < crash.calls || !strings.Contains(e.Ended.Truncated, "before a person has answered") {
				t.Errorf("%d calls, ended %+v, %v", e.ToolCount, e.Ended, err)
			}
			asked := w.prompts("")
			a.Turn.MessageID, a.Turn.Number = "", 2
			if _, err = a.again(t.Context(), w); err != nil || !a.Awaits() {
				t.Errorf("awaits %v, %v", a.SubTask.Blockers, err)
			}
			if n := w.prompts(""); n != asked || w.prompts("RESUME") != 0 {
				t.Errorf("%d prompts after %d", n, asked)
			}
			if n := len(reported[boulder.BlockerRaised](a)); n != 1 {
				t.Errorf("the blocker was reported %d times", n)
			}
		})
	}
}

// The word with which agents say that they are done counts where they have the tool, and there alone.
func TestDoneMarkerCountsWhereItIsDiverted(t *testing.T) {
	t.Parallel()
	var d away
	w := newWorld(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: "Everything works. " + boulder.DoneMarker}
	}, diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "go")
	if e, err := a.run(t.Context(), w); err != nil || !e.Promised {
		t.Errorf("promised %v with %q, %v", e.Promised, e.FinalMessage, err)
	}
	off := false
	if err := d.Switch(t.Context(), "", &off); err != nil {
		t.Fatal(err)
	}
	if e, err := a.again(t.Context(), w); err != nil || e.Promised {
		t.Errorf("switched off: promised %v, %v", e.Promised, err)
	}
}
