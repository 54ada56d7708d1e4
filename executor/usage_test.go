package executor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func delegate(t *testing.T, what, prompt string) scriptmodel.ToolCall {
	return call("task", map[string]any{
		"description": what, "prompt": t.Name() + ": " + prompt, "subagent_type": "general",
	})
}

// busyChild plays an agent that delegates, and a sub-agent that writes n-1 files and then answers.
func busyChild(t *testing.T, n int) scriptmodel.Handler {
	return func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch done := req.AssistantTurns(); {
		case strings.Contains(req.FirstUser(), "CHILD") && done < n-1:
			return calls(call("write", map[string]any{"filePath": fmt.Sprintf("%d.txt", done), "content": "x\n"}))
		case strings.Contains(req.FirstUser(), "CHILD"):
			return scriptmodel.Reply{Text: "The sub-agent has looked at everything."}
		case done == 0:
			return calls(delegate(t, "Look around", "CHILD"))
		}
		return scriptmodel.Reply{Text: "My sub-agent has looked at everything."}
	}
}

func (r *requests) asked() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.all))
}

func (a *attempt) running() boulder.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Attempt.Spent.Add(a.Attempt.Seen)
}

// sameUsage tolerates rounding of costs that were added up in another order.
func sameUsage(a, b boulder.Usage) bool {
	costs := math.Abs(a.Cost-b.Cost) < 1e-9
	a.Cost, b.Cost = 0, 0
	return a == b && costs
}

// The process dies while a sub-agent waits for its model. A call is reported when it ends, not with the parent's next
// one, and counts once after the resume, even if it was missed or cut off.
func TestUsageSurvivesAResume(t *testing.T) {
	t.Parallel()
	const fifth = 6 // the sub-agent's fifth request, after the agent's first
	atModel := make(chan struct{})
	play := busyChild(t, 6)
	var w *world
	w = newWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
		reply := play(ctx, req)
		if w.asked() == fifth {
			close(atModel)
			reply.Wait = make(chan struct{}) // until it is cut off
		}
		return reply
	})
	a := w.newAttempt("x", "go")
	a.dies(t, w, a.run, func(b boulder.Body) bool {
		p, ok := b.(boulder.SubTaskProgress)
		if ok = ok && p.Usage.Calls >= 4; ok {
			<-atModel // else OpenCode may store a message for a call that it does not make
		}
		return ok
	}, errCrash)
	if n := a.running().Calls; n != 3 || !a.saw("sub-agent: write 1.txt") {
		t.Fatalf("%d calls are stored, activities %q", n, a.activities())
	}
	e, err := a.again(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if e.Usage.Calls != fifth+1 || w.asked() != fifth+1 {
		t.Errorf("%d calls are counted, the model was asked %d times", e.Usage.Calls, w.asked())
	}
	found := slices.ContainsFunc(reported[boulder.SubTaskProgress](a), func(p boulder.SubTaskProgress) bool {
		return p.Activity == "took the turn up again" && p.Usage.Calls > 0
	})
	if !found {
		t.Errorf("the call that was not stored was not reported afterwards: %q", a.activities())
	}
	// The turn may end before its last answer is reported.
	if r := a.running(); r.Calls > e.Usage.Calls || r.Tokens() > e.Usage.Tokens() || r.Cost > e.Usage.Cost+1e-9 {
		t.Errorf("the reports end with %+v, the turn with %+v", r, e.Usage)
	}

	again, err := a.again(t.Context(), w)
	if err != nil || !sameUsage(again.Usage, e.Usage) {
		t.Errorf("looked at once more, the turn used %+v, not %+v (%v)", again.Usage, e.Usage, err)
	}
}

// A second turn reuses the first one's sub-agent: each counts only its own calls.
func TestSubAgentOfTwoTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case strings.Contains(req.FirstUser(), "CHILD"):
			return scriptmodel.Reply{Text: "The sub-agent has looked at everything."}
		case req.TurnsSinceUser() == 0:
			task := delegate(t, "Look around", "CHILD")
			for _, m := range req.Messages {
				if _, rest, found := strings.Cut(m.Text, `<task id="`); found { // the result of the first turn's call
					id, _, _ := strings.Cut(rest, `"`)
					task.Args.(map[string]any)["task_id"] = id
				}
			}
			return calls(task)
		}
		return scriptmodel.Reply{Text: "My sub-agent has looked at everything."}
	})
	a := w.newAttempt("x", "go")
	for turn := 1; turn <= 2; turn++ {
		a.Turn = boulder.Turn{AttemptRef: a.Turn.AttemptRef, Number: turn, Prompt: w.t.Name() + ": go"}
		before := w.asked()
		e, err := a.run(t.Context(), w)
		if err != nil || e.Usage.Calls != 3 || w.asked()-before != 3 {
			t.Errorf("turn %d: %d calls are counted, the model was asked %d times (%v)",
				turn, e.Usage.Calls, w.asked()-before, err)
		}
	}
	if children, err := w.dir().Children(t.Context(), a.session()); err != nil || len(children) != 1 {
		t.Errorf("%d sub-agents (%v): the test shows nothing", len(children), err)
	}
}

// Without a model of the attempt's own, answers are priced by the model that OpenCode chose.
func TestAnswersArePricedByTheirModel(t *testing.T) {
	var asked []string
	turn := bare(Config{Price: func(model string, _ boulder.Usage) (float64, bool) {
		asked = append(asked, model)
		return 0.5, true
	}}).newTurn(boulder.Job{}, func(boulder.Body) error { return nil })
	turn.tree = session.NewTurn("ses_one", enforcer.DefaultRules(), nil)
	take := func(sessionID string, p opencode.Payload) {
		t.Helper()
		if _, err := turn.event(t.Context(), opencode.Event{SessionID: sessionID, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	take("ses_two", opencode.SessionCreated{Session: opencode.Session{ID: "ses_two", ParentID: "ses_one"}})
	for _, m := range []string{"one", "two", "one"} { // the last one is an update of the first
		take("ses_"+m, opencode.MessageUpdated{Message: opencode.MessageInfo{
			ID: "msg_" + m, SessionID: "ses_" + m, Role: opencode.RoleAssistant, Model: opencode.Model("p/" + m),
			Completed: time.Now(), Tokens: opencode.Tokens{Input: 10, Output: 1},
		}})
	}
	want := boulder.Usage{Input: 20, Output: 2, Cost: 1, Calls: 2}
	if fmt.Sprint(asked) != "[p/one p/two]" || turn.seen.usage != want {
		t.Errorf("asked for %v, used %+v", asked, turn.seen.usage)
	}
}
