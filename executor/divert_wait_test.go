package executor

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// someWait waits an hour for questions and "echo wait*", a second for "echo late". Other asks are refused.
var someWait = blockers.Policy{
	Questions: blockers.AskMe, Wait: time.Hour,
	Permissions: []blockers.Rule{
		{Permission: "bash", Pattern: "echo wait*", Action: blockers.AskMe},
		{Permission: "bash", Pattern: "echo late", Action: blockers.AskMe, Wait: time.Second},
	},
}

var allowed = blockers.Settlement{Status: boulder.BlockerAnswered, Allowed: true}

// onWait calls do with the blocker's id whenever the turn reports that it waits for the user.
func (a *attempt) onWait(t *testing.T, do func(id string) error) {
	t.Helper()
	notice := regexp.MustCompile(`^waits for the user until (?:\w+ \d+ \w+ )?\d\d:\d\d(?::\d\d)? \S+: .* \((B\d+)\)$`)
	a.refuse = func(b boulder.Body) error {
		switch b := b.(type) {
		case boulder.BlockerRaised:
			if a.knows(func(k boulder.Blocker) bool { return k.Key == b.Blocker.Key }) {
				t.Errorf("%s is reported twice", b.Blocker.Question)
			}
		case boulder.SubTaskProgress:
			m := notice.FindStringSubmatch(b.Activity)
			if m == nil || !b.Notice {
				return nil
			}
			if !a.knows(func(k boulder.Blocker) bool { return k.ID == m[1] }) {
				t.Errorf("%s is waited for and not stored: nobody can answer it", m[1])
			}
			return do(m[1])
		}
		return nil
	}
}

func (a *attempt) knows(is func(boulder.Blocker) bool) bool {
	return slices.ContainsFunc(a.raised.of(a.SubTask.ID), is)
}

// The agent continues in the same turn, whether the user allows, refuses or does not answer in time.
func TestPersonIsWaitedFor(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, steps(map[string][][]scriptmodel.ToolCall{
		"ALLOWED": {{shell("echo no"), shell("echo wait")}}, "REFUSED": {{shell("echo wait 2"), shell("echo wait 3")}},
		"LATE": {{shell("echo late")}}, "QUESTION": {{whichColour()}},
		"TASK": {{delegate(t, "Ask", "CHILD")}}, "CHILD": {{shell("echo wait child")}},
	}), diverting(t, &d, someWait))
	no := blockers.Settlement{Status: boulder.BlockerAnswered, Answer: "Never. Use printf."}
	first := blockers.Settlement{Status: boulder.BlockerAnswered, Answer: "1"}
	for _, test := range []struct {
		prompt  string
		says    blockers.Settlement
		outputs []string // of the calls
		saw     string
	}{
		{"ALLOWED", allowed, []string{"Move on", "wait"}, "allowed permission bash [echo wait], as the user answered B"},
		{"REFUSED", no, []string{"", ""}, "refused permission bash [echo wait 2], as the user answered B"},
		{"LATE", blockers.Settlement{}, []string{"Move on"}, "refused permission bash [echo late] when its time was over, recorded as B"},
		{"QUESTION", first, []string{`="red"`}, "answered the question Which colour?, as the user answered B"},
		{"TASK", allowed, []string{wentOn}, "allowed permission bash [echo wait child] (sub-agent), as the user answered"},
	} {
		a := w.newAttempt(strings.ToLower(test.prompt), test.prompt)
		a.onWait(t, func(id string) error {
			if test.says.Status != "" {
				w.settle(&d, id, test.says)
			}
			return nil
		})
		e := a.wentOn(t, w, a.run)
		if !a.saw(test.saw) || len(e.ToolCalls) != len(test.outputs) {
			t.Fatalf("%s: activities %q, calls %+v", test.prompt, a.activities(), e.ToolCalls)
		}
		all := ""
		for i, want := range test.outputs {
			all += e.ToolCalls[i].Output
			if !strings.Contains(e.ToolCalls[i].Output, want) {
				t.Errorf("%s: call %d gave %q", test.prompt, i, e.ToolCalls[i].Output)
			}
		}
		heard := len(test.outputs)
		switch test.prompt {
		case "ALLOWED", "REFUSED": // the other was refused by the policy, or swept away with the first
			heard = 1
		case "LATE":
			heard = 0
		}
		has := slices.DeleteFunc(w.raised.of(a.SubTask.ID), func(b boulder.Blocker) bool { return !b.Replied })
		if len(has) != heard {
			t.Errorf("%s: the agent is said to have heard the answers to %+v, want %d", test.prompt, has, heard)
		}
		if test.prompt == "REFUSED" && !strings.Contains(all, no.Answer) {
			t.Errorf("the agent was not told what the person said: %q", all)
		}
	}
}

// The run is interrupted while it waits. OpenCode lists the dead ask forever; it must not disturb later asks.
func TestTurnIsAbortedWhileItWaits(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.AssistantTurns() == 0:
			return calls(shell("echo wait"))
		case strings.Contains(req.LastUser(), "RESUME") && req.TurnsSinceUser() == 0:
			return calls(shell("echo two"))
		}
		return scriptmodel.Reply{Text: wentOn}
	}, diverting(t, &d, someWait))
	a := w.newAttempt("x", "go")
	ctx, cancel := context.WithCancelCause(t.Context())
	a.onWait(t, func(string) error { cancel(errCrash); return nil })
	if _, err := a.run(ctx, w); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if b := w.records()["May the agent use bash: echo wait?"]; !b.Gone || b.Waiting(time.Now()) {
		t.Errorf("taken down %+v", b)
	}
	a.refuse = nil
	e := a.wentOn(t, w, a.again)
	if last := e.ToolCalls[len(e.ToolCalls)-1]; !strings.Contains(last.Output, "Move on") {
		t.Errorf("the agent was told %q", last.Output)
	}
	if n := len(w.records()); n != 2 {
		t.Errorf("%d records", n)
	}
}

// The manager dies while a turn waits. The next one waits for the same answer, and no longer.
func TestManagerDiesWhileTurnWaits(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, steps(map[string][][]scriptmodel.ToolCall{"GO": {{shell("echo wait"), shell("echo no")}}}),
		diverting(t, &d, someWait))
	a := w.newAttempt("x", "GO")
	a.onWait(t, func(string) error { return errCrash })
	if _, err := a.run(t.Context(), w); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	a.onWait(t, func(id string) error { w.settle(&d, id, allowed); return nil })
	e := a.wentOn(t, w, a.again)
	for _, c := range e.ToolCalls {
		if waited := strings.Contains(c.Input, "wait"); waited != (c.Status == "completed") {
			t.Errorf("%s: %s", c.Input, c.Output)
		}
	}
	if n := len(w.records()); n != 2 || w.prompts("RESUME") != 0 {
		t.Errorf("%d records; %d resume prompts", n, w.prompts("RESUME"))
	}
}

// An attached server restarts during two calls, one of which waits for the user: that ask dies. Each session soon
// resumes with one prompt, a repeated ask reuses its blocker and answer, and the new server gets the tool.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	var d away
	policy := someWait
	policy.Permissions = append([]blockers.Rule{
		{Permission: "task", Action: blockers.Allow}, {Permission: "bash", Pattern: "sleep*", Action: blockers.Allow},
	}, policy.Permissions...)
	var serve func(port string) *octest.Server
	var running *octest.Server
	w := ownWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		resumed := strings.Contains(req.LastUser(), "RESUME")
		switch n := req.TurnsSinceUser(); {
		case n == 0 && strings.Contains(req.FirstUser(), "CHILD"):
			return calls(blocker(boulder.BlockerSecurity, "Which key?"))
		case n == 0 && strings.Contains(req.FirstUser(), ": WAIT"):
			return calls(shell("echo wait"))
		case n == 1 && resumed:
			return calls(delegate(t, "Help", "CHILD"))
		case n == 0 && !resumed:
			return calls(shell("sleep 600"))
		}
		return scriptmodel.Reply{Text: wentOn}
	}, func(home string, env []string) *opencode.Host {
		env = append(env, `OPENCODE_PERMISSION={"*": "ask"}`)
		serve = func(port string) *octest.Server {
			s, err := octest.Serve(home, env, port)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Kill)
			return s
		}
		running = serve("0")
		client, err := opencode.Attach(t.Context(), running.URL, opencode.AttachConfig{CallTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return opencode.AttachedHost(client)
	}, diverting(t, &d, policy), func(c *Config) {
		c.Rules = new(enforcer.DefaultRules())
		c.Rules.Offline = patience                                          // a busy machine takes a minute to start OpenCode
		c.Rules.Silence, c.Rules.ToolSilence = 2*time.Minute, 2*time.Minute // end the turn if the restart is missed
	})
	work, a := w.newAttempt("work", "WORK"), w.newAttempt("x", "WAIT")
	// A turn that was not seen at work does not count as cut off, and would get its prompt again.
	inTool, waits, atWork := make(chan struct{}, 1), make(chan struct{}, 1), does("sleep 600")
	work.refuse = func(b boulder.Body) error {
		if atWork(b) {
			inTool <- struct{}{}
		}
		return nil
	}
	a.onWait(t, func(string) error { waits <- struct{}{}; return nil })
	first, second := work.start(t.Context(), w, work.run, ""), a.start(t.Context(), w, a.run, "")
	await(t, inTool, first)
	await(t, waits, second)
	running.Kill()
	serve(running.Port())
	for _, broken := range []<-chan error{first, second} {
		if err := <-broken; !errors.Is(err, boulder.ErrTrouble) {
			t.Fatalf("got %v", err)
		}
	}
	work.refuse = nil
	work.wentOn(t, w, work.again)
	if b := w.records()["May the agent use bash: echo wait?"]; !b.Gone || b.Waiting(time.Now()) {
		t.Errorf("taken down %+v", b)
	}
	a.onWait(t, func(id string) error { w.settle(&d, id, allowed); return nil })
	session := a.Attempt.SessionID
	e := a.wentOn(t, w, a.again)
	if c := e.ToolCalls; a.Attempt.SessionID != session || len(c) != 3 || c[1].Status != "completed" || !strings.Contains(c[1].Output, "wait") {
		t.Errorf("the agent got %+v", e.ToolCalls)
	}
	all := w.records()
	if key := all["Which key?"]; !key.Hard || len(all) != 2 {
		t.Errorf("taken down %+v", all)
	}
	if begun, resumed := w.prompts(": WORK")+w.prompts(": WAIT"), w.prompts("RESUME"); begun != 2 || resumed != 2 {
		t.Errorf("the prompts reached the model %d times, the resume prompts %d times", begun, resumed)
	}
	if !a.saw("allowed permission " + boulder.BlockerTool + " [*] (sub-agent)") {
		t.Errorf("activities %q", a.activities())
	}
}

// waits is a Diverter that waits for the user, until at(9h), for every ask.
type waits struct{ session.Diverter }

func (waits) On(boulder.BlockerScope) bool { return true }
func (waits) Divert(context.Context, boulder.Blocker) (boulder.Ruling, error) {
	return boulder.Ruling{BlockerID: "B1", Reply: boulder.ReplyWaiting, Until: at(9 * time.Hour)}, nil
}
func (waits) Ruling(context.Context, boulder.BlockerScope, string) (boulder.Ruling, error) {
	return boulder.Ruling{Reply: boulder.ReplyWaiting, Until: at(9 * time.Hour)}, nil
}
func (waits) EndWait(context.Context, boulder.BlockerScope, string, bool) error { return nil }

// Waiting for the user counts neither as silence nor as time of the turn.
func TestWaitingIsNobodysFault(t *testing.T) {
	t.Parallel()
	now := at(0)
	clock := func() time.Time { return now }
	e := bare(Config{Now: clock, Diverter: waits{}})
	tu := e.newTurn(boulder.Job{TimeLeft: 20 * time.Minute}, func(boulder.Body) error { return nil })
	tu.tree = session.NewTurn("ses", enforcer.DefaultRules(), nil)
	tu.seen.Began, tu.seen.LastEvent, tu.seen.Busy = now, now, true
	tu.asks.Tell = func(context.Context, []*session.Ruled) error { return nil }
	tu.asks.Tree = tu.tree.Tree
	for _, p := range []opencode.Payload{
		opencode.StatusChanged{Status: opencode.Status{Type: opencode.Busy}},
		opencode.Asked{Request: opencode.Request{ID: "p", SessionID: "ses", Permission: "bash"}},
	} {
		tu.tree.Take(opencode.Event{SessionID: "ses", Payload: p}, now)
	}
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
		t.Errorf("as soon as the user had answered: %+v", d)
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
