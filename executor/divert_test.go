package executor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// away diverts with the real register and the real tool. noTool and broken make them fail.
type away struct {
	*blockers.Register
	server *mcptool.Server
	noTool error
	broken atomic.Pointer[error]
}

func (d *away) Tools(ctx context.Context, names ...string) (opencode.MCPServer, error) {
	tools, err := d.server.Tools(ctx, names...)
	return tools, cmp.Or(d.noTool, err)
}

func (d *away) Called(c boulder.BlockerCall) { d.server.Called(c) }

func (d *away) Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error) {
	if err := d.broken.Load(); err != nil {
		return boulder.Ruling{}, *err
	}
	return d.Register.Divert(ctx, ask)
}

// diverting configures an executor to divert, and opens d's register when the world opens.
func diverting(t *testing.T, d *away, policy blockers.Policy) func(*Config) {
	t.Helper()
	return func(c *Config) {
		register, err := blockers.Open(blockers.Config{
			Root: c.Project, Enabled: true, Policy: policy,
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Register, c.Diverter, d.server = register, d, mcptool.New(mcptool.Config{Register: register})
		t.Cleanup(func() {
			if err := d.server.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

const wentOn = "I went on, and this is the end of it."

// wentOn runs a turn with a.run or a.again, and fails the test unless it ends by itself with the message wentOn.
func (a *attempt) wentOn(t *testing.T, w *world, run run) boulder.Evidence {
	t.Helper()
	e, err := run(t.Context(), w)
	if err != nil || e.FinalMessage != wentOn || e.Ended != (boulder.Ended{Finish: "stop"}) {
		t.Fatalf("ended %+v with %q, %v; activities %q", e.Ended, e.FinalMessage, err, a.activities())
	}
	return e
}

// Every ask is recorded and reported before the turn ends. The agent is told, and continues in the same turn.
func TestDiverted(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, asker(t), diverting(t, &d, blockers.Policy{}))
	for _, test := range []struct {
		prompt, question, saw, told, arguments string
	}{
		{"ONE", "May the agent use bash: echo one?", "refused permission bash [echo one]", "Move on", `"echo one"`},
		{"QUESTION", "Which colour?", "unanswered: the question Which colour?", "Move on", `"Which colour?"`},
		// Of two parallel asks one is recorded; normally the newest.
		{"TASK", "May the agent use bash: echo child", "(sub-agent)", "", `"echo child`},
	} {
		a := w.newAttempt(strings.ToLower(test.prompt), test.prompt)
		e := a.wentOn(t, w, a.run)
		var b boulder.Blocker
		for question, taken := range w.records() {
			if strings.HasPrefix(question, test.question) {
				b = taken
			}
		}
		if b.Ask == nil || b.SubTaskID != a.SubTask.ID || b.SessionID != a.Attempt.SessionID || b.BoulderID != "b" ||
			b.Hard || !strings.Contains(b.Context, a.SubTask.Subject) {
			t.Fatalf("%s: taken down %+v", test.prompt, b)
		}
		if ask := b.Ask; ask.Tool == "" || !strings.Contains(ask.Arguments, test.arguments) {
			t.Errorf("%s: the call was %+v", test.prompt, ask)
		}
		if !a.saw(test.saw) || !strings.Contains(e.ToolCalls[0].Output, test.told) {
			t.Errorf("%s: activities %q, told %q", test.prompt, a.activities(), e.ToolCalls[0].Output)
		}
		if n := w.prompts(": " + test.prompt); n != 1 {
			t.Errorf("%s: %d prompts", test.prompt, n)
		}
	}
	if q := w.records()["Which colour?"]; q.Category != boulder.BlockerQuestion || !slices.Equal(q.Options, []string{"red"}) {
		t.Errorf("%+v", q)
	}
	a := w.newAttempt("doom", "DOOM")
	a.wentOn(t, w, a.run)
	if !a.saw("allowed permission doom_loop") || len(reported[boulder.BlockerRaised](a)) > 0 {
		t.Errorf("activities %q", a.activities())
	}
}

// steps plays the agent named in the prompt: one message per step, then wentOn.
func steps(agents map[string][][]scriptmodel.ToolCall) scriptmodel.Handler {
	return func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		for name, steps := range agents {
			if strings.Contains(req.FirstUser(), ": "+name) && req.AssistantTurns() < len(steps) {
				return calls(steps[req.AssistantTurns()]...)
			}
		}
		return scriptmodel.Reply{Text: wentOn}
	}
}

// The diverter is switched on and off during a session. Each switch applies from the next ask.
func TestDivertedSinceTheSwitch(t *testing.T) {
	t.Parallel()
	d := away{noTool: errors.New("no tool today")}
	w := newAskingWorld(t, steps(map[string][][]scriptmodel.ToolCall{
		"THREE": {{shell("echo one")}, {shell("echo two")}, {shell("echo three")}},
	}), diverting(t, &d, blockers.Policy{}))
	turn := func(on bool) {
		if err := d.Switch(t.Context(), "", &on); err != nil {
			t.Error(err)
		}
	}
	turn(false)
	a := w.newAttempt("x", "THREE")
	a.refuse = func(b boulder.Body) error {
		if p, ok := b.(boulder.SubTaskProgress); ok && strings.HasPrefix(p.Activity, "refused permission") {
			turn(strings.Contains(p.Activity, "one"))
		}
		return nil
	}
	e := a.wentOn(t, w, a.run)
	for i, told := range []string{refusal, "Move on", refusal} {
		if got := e.ToolCalls[i].Output; !strings.Contains(got, told) {
			t.Errorf("call %d: told %q", i+1, got)
		}
	}
	if all := w.records(); len(all) != 1 || all["May the agent use bash: echo two?"].ID == "" {
		t.Errorf("taken down %+v", all)
	}
	if !a.saw("agents have no tool to report blockers with") || !a.saw("manager's tools are not served: no tool today") {
		t.Errorf("activities %q", a.activities())
	}
}

// If recording fails, the agent is still told to move on, and the user sees why nothing was recorded. The next ask is.
func TestDiverterThatFails(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, asker(t), diverting(t, &d, blockers.Policy{}))
	d.broken.Store(new(errors.New("the disk is full")))
	a := w.newAttempt("x", "PARALLEL")
	e := a.wentOn(t, w, a.run)
	if !a.saw("refused permission bash [echo one], which could not be recorded: the disk is full") {
		t.Errorf("activities %q", a.activities())
	}
	if !strings.Contains(e.ToolCalls[0].Output+e.ToolCalls[1].Output, "Move on") || len(w.records()) != 0 {
		t.Errorf("told %+v, taken down %+v", e.ToolCalls, w.records())
	}
	d.broken.Store(nil)
	after := w.newAttempt("y", "ONE")
	after.wentOn(t, w, after.run)
	if len(w.records()) != 1 {
		t.Errorf("taken down %+v", w.records())
	}
}

// A blocker that the boulder does not store is not taken for recorded: the agent reads that, and what it asked is refused.
func TestBoulderThatRefusesBlockers(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, steps(map[string][][]scriptmodel.ToolCall{
		"GO": {{blocker(boulder.BlockerSecurity, "Which key?")}, {shell("echo one")}},
	}), diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "GO")
	a.refuse = func(b boulder.Body) error {
		if is[boulder.BlockerRaised](b) {
			return errors.New("the disk is full")
		}
		return nil
	}
	e := a.wentOn(t, w, a.run)
	for i, want := range []string{"The blocker could not be recorded: the disk is full", "Move on"} {
		if !strings.Contains(e.ToolCalls[i].Output, want) {
			t.Errorf("told %q", e.ToolCalls[i].Output)
		}
	}
	if !a.saw("could not be recorded: the disk is full") || len(w.records()) != 0 {
		t.Errorf("activities %q, taken down %+v", a.activities(), w.records())
	}
}

// What an agent records after its turn is refused: nobody would read it before the next turn.
func TestCallAfterTheTurn(t *testing.T) {
	t.Parallel()
	var d away
	w := newAskingWorld(t, asker(t), diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "ONE")
	a.wentOn(t, w, a.run)
	at := w.records()["May the agent use bash: echo one?"].BlockerScope
	_, err := d.Raise(t.Context(), at, boulder.Blocker{
		Category: boulder.BlockerOther, Question: "Who pays?", Context: "It is late.", Hard: true,
	})
	if !errors.Is(err, blockers.ErrOver) || len(w.records()) != 1 {
		t.Errorf("taken down %+v, %v", w.records(), err)
	}
}

// The manager dies after a hard blocker. If it is stored, the turn is judged as it is, and until the user answers, the
// session gets no prompt, neither to resume nor for a new turn. If it is not, the agent has to report it again.
func TestBlockedTurnIsNotPrompted(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]struct {
		at      func(boulder.Body) bool
		refusal error
		resumed int
	}{"stored": {does("sleep 600"), nil, 0}, "lost": {is[boulder.BlockerRaised], errCrash, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d away
			w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
				resumed := strings.Contains(req.LastUser(), "RESUME")
				switch {
				case req.AssistantTurns() == 0, resumed && req.TurnsSinceUser() == 0:
					return calls(blocker(boulder.BlockerSecurity, "Which key?"))
				case resumed:
					return scriptmodel.Reply{Text: wentOn}
				}
				return calls(shell("sleep 600"))
			}, diverting(t, &d, blockers.Policy{}))
			a := w.newAttempt("x", "go")
			a.dies(t, w, a.run, crash.at, crash.refusal)
			e, err := a.again(t.Context(), w)
			if err != nil || e.ToolCount < 2 || strings.Contains(e.Ended.Truncated, "a question that has no answer") != (crash.resumed == 0) {
				t.Errorf("%d calls, ended %+v, %v", e.ToolCount, e.Ended, err)
			}
			asked := w.prompts("")
			a.Turn.MessageID, a.Turn.Number = "", 2
			if e, err = a.again(t.Context(), w); err != nil || !strings.Contains(e.Ended.Truncated, "a question that has no answer") {
				t.Errorf("ended %+v, %v", e.Ended, err)
			}
			if n := w.prompts(""); n != asked || w.prompts("RESUME") != crash.resumed {
				t.Errorf("%d prompts after %d", n, asked)
			}
			if b := w.records()["Which key?"]; !b.Hard || len(reported[boulder.BlockerRaised](a)) != 1 {
				t.Errorf("%d reported, %+v", len(reported[boulder.BlockerRaised](a)), b)
			}
		})
	}
}

// The done marker counts only while agents are diverted, and so know of it.
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
