package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func TestTurnGathersEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {first_user: "write it"}
    replies:
      - tool_calls: [{name: todowrite, args: {todos: [{content: write, status: in_progress, priority: high}]}}]
      - tool_calls: [{name: write, args: {filePath: out.txt, content: "a\nb\n"}}]
      - tool_calls: [{name: edit, args: {filePath: hello.txt, oldString: "two", newString: "zwei"}}]
      - tool_calls: [{name: bash, args: {command: "true", description: Nothing}}]
      - tool_calls: [{name: read, args: {filePath: missing.txt}}]
      - text: All done.
`))
	a := w.newAttempt("write", "write it")
	a.SubTask.Gates = []string{"test -f out.txt", "echo broken >&2; exit 3"}
	a.Files = []boulder.File{{Path: filepath.Join(w.project, ".manager/runs/b/up/output.md"), Text: "whole"}}
	e := a.mustRun(t, w)
	if e.Ended != (boulder.Ended{Finish: "stop"}) || e.FinalMessage != "All done." {
		t.Errorf("ended %+v with %q", e.Ended, e.FinalMessage)
	}
	if e.ToolCount != 5 || len(e.ToolCalls) != 5 || e.ToolCalls[1].Tool != "write" || e.ToolCalls[1].Status != "completed" {
		t.Errorf("tool calls: %+v", e.ToolCalls)
	}
	if len(e.Todos) != 1 || !e.Todos[0].Open() {
		t.Errorf("todos: %+v", e.Todos)
	}
	if len(e.Gates) != 2 || !e.Gates[0].Green() || e.Gates[1].ExitCode != 3 || e.Gates[1].Output != "broken" {
		t.Errorf("gates: %+v", e.Gates)
	}
	if e.Usage.Calls != 6 || e.Usage.Output == 0 || e.Usage.Cost == 0 || e.Usage.Unpriced != 0 {
		t.Errorf("usage: %+v", e.Usage)
	}
	var changed []string
	for _, f := range e.Diff.Files {
		changed = append(changed, fmt.Sprintf("%s +%d -%d %v", f.Path, f.Added, f.Removed, f.Own))
	}
	if want := []string{"hello.txt +1 -1 true", "out.txt +2 -0 true"}; !slices.Equal(changed, want) {
		t.Errorf("diff: %q (%s), want %q", changed, e.Diff.Unavailable, want)
	}
	// Before the session begins only the gates run.
	if len(a.bodies) < 5 || boulder.TypeOf(a.bodies[2]) != "subtask-start" || boulder.TypeOf(a.bodies[3]) != "turn-sent" {
		t.Fatalf("the intents were not reported first: %v", a.bodies)
	}
	var at []string // checkpoints
	for _, p := range reported[boulder.SubTaskProgress](a) {
		if p.Checkpoint != nil {
			at = append(at, fmt.Sprintf("%s:%d %s", p.Checkpoint.File, p.Checkpoint.Line, p.Checkpoint.Context))
		}
	}
	if want := []string{"out.txt:2 b", "hello.txt:2 zwei"}; !slices.Equal(at, want) {
		t.Errorf("checkpoints %q, want %q", at, want)
	}
	if !sameUsage(a.running(), e.Usage) {
		t.Errorf("the reports end with %+v, the turn with %+v", a.running(), e.Usage)
	}
	// A call is announced when it begins, and again only if it fails.
	said := slices.DeleteFunc(a.activities(), func(s string) bool { return s == "" })
	if len(said) > 2 && said[2] == "the model answered" { // if it came before the event of the todo list
		said = slices.Delete(said, 2, 3)
	}
	if want := []string{
		"gate, before the work begins: test -f out.txt", "gate, before the work begins: echo broken >&2; exit 3", "todo list", "write out.txt", "edit hello.txt", "bash: true", "read (failed)", "gate: test -f out.txt",
		"gate: echo broken >&2; exit 3",
	}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	for _, want := range []string{`"type":"prompt"`, `"tool":"edit"`, `"text":"All done."`} {
		if !strings.Contains(w.file(e.Transcript), want) {
			t.Errorf("the transcript lacks %s", want)
		}
	}
	if w.file(".manager/runs/b/up/output.md") != "whole" {
		t.Error("the file that the brief refers to was not written")
	}
}

// A second turn in a session counts only its own work. Without the session, it ends with ErrSessionLost.
func TestContinuation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {last_user: "and now the rest"}
    replies: [{tool_calls: [{name: write, args: {filePath: b.txt, content: "b\n"}}]}, {text: Second.}]
  - when: {first_user: "begin"}
    replies: [{tool_calls: [{name: write, args: {filePath: a.txt, content: "a\n"}}]}, {text: First.}]
`))
	a := w.newAttempt("go", "begin")
	first := a.mustRun(t, w)
	a.Turn = boulder.Turn{AttemptRef: a.Turn.AttemptRef, Number: 2, Kind: boulder.TurnContinuation, Prompt: "and now the rest"}
	second := a.mustRun(t, w)
	if first.FinalMessage != "First." || second.FinalMessage != "Second." || second.ToolCount != 1 {
		t.Errorf("turn 1 said %q, turn 2 %q with %d tool calls", first.FinalMessage, second.FinalMessage, second.ToolCount)
	}
	if len(second.Diff.Files) != 2 {
		t.Errorf("the diff is since the attempt began, but shows %+v", second.Diff.Files)
	}
	if n := len(reported[boulder.SubTaskStart](a)); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if err := w.dir().DeleteSession(t.Context(), a.Attempt.SessionID); err != nil {
		t.Fatal(err)
	}
	for range 2 { // resuming the sent prompt, and sending a new one
		if _, err := a.again(t.Context(), w); !errors.Is(err, boulder.ErrSessionLost) {
			t.Errorf("got %v without the session", err)
		}
		a.Turn.MessageID = ""
	}
}

// While others run, a file that this session did not write is not its own.
func TestOwnChangesBesideOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {first_user: "mine"}
    replies: [{tool_calls: [{name: write, args: {filePath: mine.txt, content: "a\n"}}]}, {text: Done.}]
`))
	a := w.newAttempt("mine", "mine")
	a.Alone = func() bool { return false }
	a.SubTask.Gates = nil
	a.refuse = func(b boulder.Body) error {
		if _, ok := b.(boulder.TurnSent); ok {
			return os.WriteFile(filepath.Join(w.project, "theirs.txt"), []byte("x\n"), 0o600)
		}
		return nil
	}
	e := a.mustRun(t, w)
	own := map[string]bool{}
	for _, f := range e.Diff.Files {
		own[f.Path] = f.Own
	}
	if len(own) != 2 || !own["mine.txt"] || own["theirs.txt"] {
		t.Errorf("own files: %v", own)
	}
}

// An unknown model ends the run. After a request that the provider refuses, the turn is judged on what it did.
func TestFaultsOfTheModel(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]error{"scripted/nonsense": boulder.ErrFatal, "scripted/agent": nil} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
				return scriptmodel.Reply{Status: http.StatusBadRequest}
			})
			a := w.newAttempt("x", "go")
			a.Attempt.Model = model
			if e, err := a.run(t.Context(), w); !errors.Is(err, want) || err == nil && e.Ended.Error == "" {
				t.Errorf("ended %+v, error %v, want %v", e.Ended, err, want)
			}
		})
	}
}

func TestCancelAbortsTheTurn(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	w := newWorld(t, func(ctx context.Context, _ scriptmodel.Request) scriptmodel.Reply {
		asked <- struct{}{}
		<-ctx.Done()
		return scriptmodel.Reply{}
	})
	a := w.newAttempt("x", "go")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := a.start(ctx, w, a.run, "")
	await(t, asked, done)
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	statuses, err := w.dir().Statuses(t.Context())
	if s := statuses[a.Attempt.SessionID]; err != nil || s.Type == "busy" {
		t.Errorf("the session is still %q (%v)", s.Type, err)
	}
}

// hurry is a clock that runs fast while the model is silent.
type hurry struct{ ahead atomic.Int64 }

func (h *hurry) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// after fires early, since the clock may jump meanwhile; its caller looks at the clock again.
func (h *hurry) after(d time.Duration) <-chan time.Time {
	return time.After(min(d, 50*time.Millisecond))
}

// hang is a model that writes a file, then stays silent while the clock runs.
func (h *hurry) hang(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.AssistantTurns() == 0 {
		return calls(call("write", map[string]any{"filePath": "out.txt", "content": "x\n"}))
	}
	for ctx.Err() == nil {
		h.ahead.Add(int64(time.Minute))
		select {
		case <-h.after(time.Minute):
		case <-ctx.Done():
		}
	}
	return scriptmodel.Reply{}
}

// A turn that takes too long or stays silent is stopped, with its work as evidence. The budget precedes the rules.
func TestTimeStopsTheTurn(t *testing.T) {
	t.Parallel()
	for rule, test := range map[boulder.Rule]struct {
		left   time.Duration
		reason string
	}{
		boulder.RuleBudget:  {4 * time.Minute, "the turn ran for 4m0s"},
		boulder.RuleSilence: {0, "no event came for 5m0s"},
	} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			h, rules := &hurry{}, enforcer.DefaultRules()
			rules.WallClock = 0 // the fast clock could reach it before the silence
			w := newWorld(t, h.hang, func(c *Config) { c.Now, c.After, c.Rules = h.now, h.after, &rules })
			a := w.newAttempt("x", "go")
			a.TimeLeft = test.left
			e := a.mustRun(t, w)
			wantStopped(t, e, rule, test.reason)
			if e.Duration < 4*time.Minute || e.ToolCount != 1 || len(e.Diff.Files) != 1 {
				t.Errorf("after %s, %d calls, diff %+v", e.Duration, e.ToolCount, e.Diff)
			}
		})
	}
}
