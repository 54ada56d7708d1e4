package executor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func shell(command string) scriptmodel.ToolCall {
	return call("bash", map[string]any{"command": command, "description": "Run"})
}

func whichColour() scriptmodel.ToolCall {
	return call("question", map[string]any{"questions": []any{map[string]any{
		"question": "Which colour?", "header": "Colour", "options": []any{map[string]any{"label": "red", "description": "red"}},
	}}})
}

// asker plays the agent named in the prompt: it asks for something, then answers wentOn.
func asker(t *testing.T) scriptmodel.Handler {
	same := readFile("hello.txt")
	first := map[string][]scriptmodel.ToolCall{
		"ONE": {shell("echo one")}, "PARALLEL": {shell("echo one"), shell("echo two")}, "DOOM": {same, same, same},
		"QUESTION": {whichColour()}, "TASK": {delegate(t, "Ask", "CHILD")}, "CHILD": {shell("echo child"), shell("echo child two")},
		"OUTSIDE": {readFile("/etc/hostname")},
	}
	return func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		for name, c := range first {
			if strings.Contains(req.FirstUser(), name) && req.AssistantTurns() == 0 {
				return calls(c...)
			}
		}
		return scriptmodel.Reply{Text: wentOn}
	}
}

// No ask waits for the user, and no refusal ends the turn. Later tests cover asks of sub-agents.
func TestAsks(t *testing.T) {
	t.Parallel()
	for policy, tests := range map[Asks][]struct{ prompt, told, saw string }{
		AsksReject: {
			// Which of the two gets the text depends on whether both have asked by then; normally the newest.
			{"PARALLEL", refusal, "refused permission bash [echo "},
			{"DOOM", "three", "allowed permission doom_loop"},
			{"OUTSIDE", refusal, "refused permission external_directory"},
		},
		AsksAllow: {{"PARALLEL", "one", "allowed permission bash"}},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newAskingWorld(t, asker(t), func(c *Config) { c.Asks = policy })
			for _, test := range tests {
				a := w.newAttempt(test.prompt, test.prompt)
				e, told := a.wentOn(t, w, a.run), ""
				for _, c := range e.ToolCalls { // of parallel asks, one gets the text
					told += c.Output + "\n"
				}
				if !a.saw(test.saw) || !strings.Contains(told, test.told) {
					t.Errorf("%s: activities %q, told %q", test.prompt, a.activities(), told)
				}
			}
		})
	}
}

// The process dies between a sub-agent's ask and the answer. The next process finds the ask and answers it.
func TestAskThatNobodyAnsweredBefore(t *testing.T) {
	t.Parallel()
	w := newAskingWorld(t, asker(t))
	a := w.newAttempt("x", "TASK")
	a.refuse = func(b boulder.Body) error { // without aborting the turn
		if does("refused permission")(b) {
			return errCrash
		}
		return nil
	}
	if _, err := a.run(t.Context(), w); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	a.refuse = nil
	e, err := a.again(t.Context(), w)
	if err != nil || e.Ended != (boulder.Ended{Finish: "stop"}) || !a.saw("refused permission bash [echo child") {
		t.Errorf("ended %+v, activities %q, %v", e.Ended, a.activities(), err)
	}
	if n := w.prompts("RESUME"); n != 0 {
		t.Errorf("a turn that was at work got %d resume prompts", n)
	}
}

// Asks of a sub-agent in another directory are answered too, permissions and questions.
func TestAsksElsewhere(t *testing.T) {
	t.Parallel()
	w, f := newFamily(t, asker(t), func(*Config) {})
	dir := w.dir().Client().In(octest.Repo(t, asks))
	for _, prompt := range []string{"ONE", "QUESTION"} {
		f.elsewhere(t, dir, prompt)
	}
	f.end(t)
	if !f.saw("refused permission bash [echo one]") || !f.saw("unanswered: the question Which colour?") {
		t.Errorf("activities %q", f.activities())
	}
}
