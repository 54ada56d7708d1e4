package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func call(name string, args map[string]any) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: name, Args: args}
}

func readFile(name string) scriptmodel.ToolCall {
	return call("read", map[string]any{"filePath": name})
}

func calls(c ...scriptmodel.ToolCall) scriptmodel.Reply { return scriptmodel.Reply{ToolCalls: c} }

// atMost plays an endless model, and fails the test after n answers.
func atMost(t *testing.T, n int, next func(req scriptmodel.Request) scriptmodel.Reply) scriptmodel.Handler {
	return func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if req.AssistantTurns() >= n {
			t.Errorf("the model was asked %d times", req.AssistantTurns()+1)
			return scriptmodel.Reply{Text: "That is enough of it, so this is the end."}
		}
		return next(req)
	}
}

// closeOnNudge closes the channel when a nudge arrives. Scripted models wait for it, as they answer faster than real
// ones.
func (w *world) closeOnNudge(nudge chan<- struct{}) {
	events := w.dir().Client().Subscribe(opencode.Filter{Directory: w.project})
	w.t.Cleanup(events.Close)
	go func() {
		for e := range events.C() {
			if p, ok := e.Payload.(opencode.PartUpdated); ok && strings.Contains(p.Part.Text, "You seem to be stuck") {
				close(nudge)
				return
			}
		}
	}()
}

// wantStopped fails the test unless the rule stopped the turn, with evidence of what it did.
func wantStopped(t *testing.T, e boulder.Evidence, rule boulder.Rule, reason string) {
	t.Helper()
	if e.Ended.Rule != rule || !strings.Contains(e.Ended.Stopped, reason) || e.Ended.Error != "" {
		t.Errorf("ended %+v, want %s: %s; calls: %+v", e.Ended, rule, reason, e.ToolCalls)
	}
	if e.Transcript == "" || e.Duration == 0 {
		t.Errorf("no evidence of it: %+v", e)
	}
}

func TestStuckTurnsAreStopped(t *testing.T) {
	t.Parallel()
	type request = scriptmodel.Request
	for name, test := range map[string]struct {
		next   func(*testing.T, request) scriptmodel.Reply
		rule   boulder.Rule
		reason string
		nudges int
	}{
		// Some providers number the calls of each answer from 0: parts distinguish them.
		"the same call": {func(*testing.T, request) scriptmodel.Reply {
			return calls(scriptmodel.ToolCall{ID: "call_0", Name: "read", Args: map[string]any{"filePath": "hello.txt"}})
		}, boulder.RuleRepeat, "hello.txt\"} was called 4 times", 0},
		"a nudge that is ignored": {func(*testing.T, request) scriptmodel.Reply {
			return calls(readFile("missing.txt"))
		}, boulder.RuleErrors, "missing.txt\"} failed", 1},
		// After a finish reason that it does not know OpenCode asks the model again, endlessly.
		"messages without end": {func(*testing.T, request) scriptmodel.Reply {
			return scriptmodel.Reply{Text: "I am thinking about what to do.", Finish: "no_such_reason"}
		}, boulder.RuleIdle, "messages in a row called no tool", 1},
		"compactions": {func(_ *testing.T, req request) scriptmodel.Reply {
			if len(req.Tools) == 0 {
				return scriptmodel.Reply{Text: "## Summary\nThe file was read, and nothing else was done."}
			}
			c := calls(readFile("hello.txt"))
			c.InputTokens = 199_000 // of 200,000: OpenCode compacts
			return c
		}, boulder.RuleCompaction, "compacted 2 times", 0},
		"a sub-agent": {func(t *testing.T, req request) scriptmodel.Reply {
			if strings.Contains(req.FirstUser(), "CHILD") {
				return calls(readFile("hello.txt"))
			}
			return calls(delegate(t, "Read", "CHILD"))
		}, boulder.RuleRepeat, "was called 4 times", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nudge := make(chan struct{})
			w := newWorld(t, atMost(t, 30, func(req request) scriptmodel.Reply {
				if test.nudges > 0 && req.AssistantTurns() == 3 {
					<-nudge
				}
				return test.next(t, req)
			}))
			w.closeOnNudge(nudge)
			a := w.newAttempt("x", "go")
			a.SubTask.Gates = []string{"true"}
			e := a.mustRun(t, w)
			wantStopped(t, e, test.rule, test.reason)
			if len(e.Gates) != 1 || strings.Contains(e.FinalMessage, "Summary") {
				t.Errorf("not judged on what it did: %+v", e)
			}
			if n := strings.Count(strings.Join(a.activities(), "\n"), "read hello.txt"); name == "the same call" && n < 4 {
				t.Errorf("%d of the calls were reported", n)
			}
			nudges := reported[boulder.Nudged](a)
			heard := w.count(func(req request) bool { return strings.Contains(req.Text(), "You seem to be stuck") })
			if len(nudges) != test.nudges || test.nudges > 0 && (nudges[0].Rule != test.rule || heard == 0) {
				t.Errorf("nudges: %+v", nudges)
			}
			if statuses, err := w.dir().Statuses(t.Context()); err != nil || statuses[a.Attempt.SessionID].Type != "" {
				t.Errorf("the session is %+v (%v)", statuses[a.Attempt.SessionID], err)
			}
		})
	}
}

// An agent that obeys the nudge gets one, in the running turn, and is not stopped.
func TestNudgeIsObeyed(t *testing.T) {
	t.Parallel()
	nudge := make(chan struct{})
	w := newWorld(t, atMost(t, 12, func(req scriptmodel.Request) scriptmodel.Reply {
		if req.AssistantTurns() == 3 {
			<-nudge
		}
		switch {
		case !strings.Contains(req.LastUser(), "You seem to be stuck"):
			return calls(readFile("missing.txt"))
		case req.TurnsSinceUser() == 0:
			return calls(readFile("hello.txt"))
		}
		return scriptmodel.Reply{Text: "There was no such file, so I read another one."}
	}))
	w.closeOnNudge(nudge)
	a := w.newAttempt("x", "go")
	e := a.mustRun(t, w)
	if e.Ended != (boulder.Ended{Finish: "stop"}) || !strings.HasPrefix(e.FinalMessage, "There was no such file") {
		t.Errorf("ended %+v with %q", e.Ended, e.FinalMessage)
	}
	nudges := reported[boulder.Nudged](a)
	if len(nudges) != 1 || nudges[0].Rule != boulder.RuleErrors || !strings.Contains(nudges[0].Prompt, "failed 3 times in the same way") {
		t.Fatalf("nudges: %+v", nudges)
	}
	m, err := w.dir().Message(t.Context(), a.Attempt.SessionID, nudges[0].MessageID)
	if err != nil || len(m.Parts) != 1 || m.Parts[0].Metadata[session.TagKey] != a.Attempt.Tag ||
		m.Parts[0].Text != nudges[0].Prompt {
		t.Errorf("the nudge in the session: %+v (%v)", m, err)
	}

	// After a crash between the turn's end and its verdict nothing is prompted again.
	asked := len(w.all)
	again, err := a.again(t.Context(), w)
	if err != nil || again.FinalMessage != e.FinalMessage || again.ToolCount != e.ToolCount || len(w.all) != asked {
		t.Errorf("after a crash: %q, %d calls, the model was asked %d times more (%v)",
			again.FinalMessage, again.ToolCount, len(w.all)-asked, err)
	}
	if again.Duration != 0 {
		t.Errorf("after a crash the turn took %s, but it had ended by then: its time is booked already", again.Duration)
	}
}

// A nudge stored before a crash is not sent again, and the rule stops the turn.
func TestNudgeIsGivenOnce(t *testing.T) {
	t.Parallel()
	died := make(chan struct{})
	w := newWorld(t, atMost(t, 300, func(req scriptmodel.Request) scriptmodel.Reply {
		if req.AssistantTurns() == 3 {
			<-died
		}
		return calls(readFile("missing.txt"))
	}))
	a := w.newAttempt("x", "go")
	a.dies(t, w, a.run, is[boulder.Nudged], nil)
	close(died)
	e, err := a.again(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	wantStopped(t, e, boulder.RuleErrors, "failed")
	if n := len(reported[boulder.Nudged](a)); n != 1 {
		t.Errorf("%d nudges", n)
	}
}

// After a compaction the answers belong to a synthetic prompt of OpenCode.
func TestCompactedTurnThatEndedIsNotPromptedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case len(req.Tools) == 0:
			return scriptmodel.Reply{Text: "## Summary\nThe file was read, and nothing else was done."}
		case req.AssistantTurns() == 0:
			c := calls(readFile("hello.txt"))
			c.InputTokens = 199_000
			return c
		}
		return scriptmodel.Reply{Text: "The file says one, two and three."}
	})
	a := w.newAttempt("x", "go")
	for _, run := range []func(context.Context, *world) (boulder.Evidence, error){a.run, a.again} {
		e, err := run(t.Context(), w)
		if err != nil || e.Ended != (boulder.Ended{Finish: "stop"}) || e.FinalMessage != "The file says one, two and three." {
			t.Fatalf("%+v, %q, %v", e.Ended, e.FinalMessage, err)
		}
	}
	if n := len(w.all); n != 3 {
		t.Errorf("the model was asked %d times, want 3", n)
	}
}

func TestNudgeReachesASubAgent(t *testing.T) {
	t.Parallel()
	nudge := make(chan struct{})
	w := newWorld(t, atMost(t, 12, func(req scriptmodel.Request) scriptmodel.Reply {
		child := strings.Contains(req.FirstUser(), "CHILD")
		if child && req.AssistantTurns() == 3 {
			<-nudge
		}
		switch {
		case child && strings.Contains(req.LastUser(), "You seem to be stuck"):
			return scriptmodel.Reply{Text: "There is no such file, says the sub-agent."}
		case child:
			return calls(readFile("missing.txt"))
		case req.AssistantTurns() == 0:
			return calls(delegate(t, "Read", "CHILD"))
		}
		return scriptmodel.Reply{Text: "The sub-agent found no such file."}
	}))
	w.closeOnNudge(nudge)
	a := w.newAttempt("x", "go")
	e, err := a.run(t.Context(), w)
	if err != nil || e.Ended != (boulder.Ended{Finish: "stop"}) || len(reported[boulder.Nudged](a)) != 1 {
		t.Errorf("ended %+v with %d nudges, %v", e.Ended, len(reported[boulder.Nudged](a)), err)
	}
}

func TestProviderThatMakesItWait(t *testing.T) {
	t.Parallel()
	after := map[string]string{"Retry-After": "90"}
	for name, test := range map[string]struct {
		reply   scriptmodel.Reply
		retries int
		kind    boulder.TroubleKind
		least   time.Duration // 0: OpenCode's own two seconds, which may be over by then
	}{
		"retry after":     {scriptmodel.Reply{Status: 429, Header: after}, 5, boulder.TroubleRateLimit, 80 * time.Second},
		"for days":        {scriptmodel.Reply{Status: 429, Header: map[string]string{"Retry-After": "260000"}}, 5, boulder.TroubleRateLimit, 72 * time.Hour},
		"overloaded":      {scriptmodel.Reply{Status: 529, Body: `{"error":{"type":"overloaded_error","message":"Overloaded"}}`}, 0, boulder.TroubleOverloaded, 0},
		"unavailable":     {scriptmodel.Reply{Status: 503}, 0, boulder.TroubleOverloaded, 0},
		"one retry more":  {scriptmodel.Reply{Status: 500}, 1, boulder.TroubleNetwork, 0},
		"cut connections": {scriptmodel.Reply{Text: strings.Repeat("some text ", 20), Cut: true}, 0, boulder.TroubleNetwork, 0},
		"nothing listens": {scriptmodel.Reply{}, 0, boulder.TroubleNetwork, 0}, // OpenCode retries forever
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply { return test.reply }, func(c *Config) {
				c.Rules = new(enforcer.DefaultRules())
				c.Rules.ProviderRetries = test.retries
			})
			a := w.newAttempt("x", "go")
			if name == "nothing listens" {
				a.Attempt.Model = "nowhere/agent"
			}
			_, err := a.run(t.Context(), w)
			trouble, ok := errors.AsType[*boulder.TroubleError](err)
			if !ok || trouble.Kind != test.kind || trouble.RetryAfter < test.least || !errors.Is(err, boulder.ErrTrouble) {
				t.Fatalf("got %+v (%v), want %s", trouble, err, test.kind)
			}
			if !strings.HasPrefix(err.Error(), a.Attempt.Model+": ") {
				t.Errorf("nobody knows which model: %v", err)
			}
			if said := text.If(test.kind == boulder.TroubleNetwork, "no answer from the model's provider ("); !a.saw(cmp.Or(said, "makes it wait (try 1")) {
				t.Errorf("the waiting was not shown: %q", a.activities())
			}
			if all := strings.Join(a.activities(), "\n"); test.least > 24*time.Hour && !regexp.MustCompile(`until [A-Z][a-z]+ \d+ `).MatchString(all) {
				t.Errorf("the day was not shown: %s", all)
			}
		})
	}
}

// A NoWorse gate that names new failures may be flaky: it runs once more, and is reported. One that must pass does not.
func TestNewFailuresRunOnceMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {first_user: "begin"}
    replies: [{tool_calls: [{name: write, args: {filePath: a.txt, content: "x\n"}}]}, {text: "I wrote the file, as was asked."}]
`))
	runs := filepath.Join(t.TempDir(), "runs")
	counted := func(name, then string) string {
		return fmt.Sprintf("echo %[1]s >> %[2]s; n=$(grep -c %[1]s %[2]s); echo 'not ok 1 - old'; %[3]s; exit 1", name, runs, then)
	}
	flaky, worse := counted("flaky", "test $n != 2 || echo 'not ok 2 - new'"), counted("worse", "test $n = 1 || echo 'not ok 2 - new'")
	same, must := counted("same", ":"), counted("must", "test $n = 1 || echo 'not ok 2 - new'")
	a := w.newAttempt("x", "begin")
	a.SubTask.Gates, a.SubTask.NoWorse = []string{must}, []string{flaky, worse, same}
	e := a.mustRun(t, w)
	for i, want := range []struct{ holds, flaky bool }{{}, {true, true}, {}, {true, false}} {
		if g := e.Gates[i]; g.Holds() != want.holds || g.FlakySuspected != want.flaky {
			t.Errorf("%+v", g)
		}
	}
	said, err := os.ReadFile(runs)
	for name, want := range map[string]int{"flaky": 3, "worse": 3, "same": 2, "must": 2} {
		if n := strings.Count(string(said), name); err != nil || n != want {
			t.Errorf("%s ran %d times, not %d (%v)", name, n, want, err)
		}
	}
	if !a.saw("gate, once more: echo flaky") {
		t.Errorf("%q", a.activities())
	}
}

// A NoWorse gate that was red before may stay red for the same tests; a plain gate may not.
func TestGatesThatWereRedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {first_user: "begin"}
    replies: [{tool_calls: [{name: write, args: {filePath: broken.txt, content: "x\n"}}]}, {text: "I wrote the file, as was asked."}]
`))
	old, broken := "echo 'not ok 1 - old'; exit 1", "echo 'not ok 1 - old'; test ! -f broken.txt || echo 'not ok 2 - new'; exit 1"
	restless := "date +%s%N; exit 1" // a default gate; its output names no test and never repeats
	a := w.newAttempt("x", "begin")
	a.SubTask.Gates, a.SubTask.NoWorse = []string{old}, []string{old, broken, "touch litter; true", restless}
	a.SubTask.DoneDefault, a.Checks.Tests = true, []string{restless}
	e := a.mustRun(t, w)
	if b := a.SubTask.Baseline; len(b) != 4 || b[0].Failing[0] != "old" || !b[2].Green() {
		t.Errorf("before: %+v", b)
	}
	if len(e.Gates) != 5 || !e.Gates[4].Holds() || e.Gates[0].Holds() || e.Gates[1].NoWorse != "red before too: old" || e.Gates[2].Holds() || !e.Gates[3].Green() {
		t.Errorf("gates: %+v", e.Gates)
	}
	if !a.saw("gate, before the work begins: echo") || len(e.Diff.Files) != 1 {
		t.Errorf("activities %q, diff %+v: what a gate leaves behind is not the agent's", a.activities(), e.Diff.Files)
	}
	if len(e.Diff.Hash) != 64 {
		t.Errorf("hash %q", e.Diff.Hash)
	}
}
