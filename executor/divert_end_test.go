package executor

import (
	"context"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// A turn that was broken off after its agent had reported a hard blocker is judged as it is. It is told nothing
// before a person has answered: neither to resume nor, in a new turn, to go on.
func TestBlockedTurnIsNotPrompted(t *testing.T) {
	t.Parallel()
	var d away
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if req.AssistantTurns() == 0 {
			return calls(hard(boulder.BlockerSecurity, "Which key?"))
		}
		return calls(shell("sleep 600"))
	}, diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "go")
	a.dies(t, w, a.run, does("sleep 600"), nil)
	if !a.Awaits() {
		t.Fatalf("blockers %+v", a.SubTask.Blockers)
	}
	e, err := a.again(t.Context(), w)
	if err != nil || e.ToolCount != 2 || !strings.Contains(e.Ended.Truncated, "before a person has answered") {
		t.Errorf("%d calls, ended %+v, %v", e.ToolCount, e.Ended, err)
	}
	asked := w.prompts("")
	a.Turn.MessageID, a.Turn.Number = "", 2
	if _, err = a.again(t.Context(), w); err != nil {
		t.Error(err)
	}
	if n := w.prompts(""); n != asked || w.prompts("RESUME") != 0 {
		t.Errorf("%d prompts after %d", n, asked)
	}
	if n := len(reported[boulder.BlockerRaised](a)); n != 1 {
		t.Errorf("the blocker was reported %d times", n)
	}
}

// The manager dies when a hard blocker is recorded and its boulder has not heard of it: the boulder hears of it before the
// session would be told to go on, and then it is not.
func TestBlockedTurnIsNotResumedAfterACrash(t *testing.T) {
	t.Parallel()
	var d away
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.AssistantTurns() == 0:
			return calls(hard(boulder.BlockerSecurity, "Which key?"))
		case strings.Contains(req.LastUser(), "RESUME"):
			return scriptmodel.Reply{Text: wentOn}
		}
		return calls(shell("sleep 600"))
	}, diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "go")
	a.dies(t, w, a.run, is[boulder.BlockerRaised], errCrash)
	e, err := a.again(t.Context(), w)
	if err != nil || !strings.Contains(e.Ended.Truncated, "before a person has answered") || w.prompts("RESUME") != 0 {
		t.Errorf("ended %+v after %d resume prompts, %v", e.Ended, w.prompts("RESUME"), err)
	}
	if n := len(reported[boulder.BlockerRaised](a)); n != 1 {
		t.Errorf("the blocker was reported %d times", n)
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
