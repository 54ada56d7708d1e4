package executor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// secondWorld is newWorld on a stand-in for OpenCode 2.
func secondWorld(t *testing.T, handler scriptmodel.Handler, change ...func(*Config)) *world {
	t.Helper()
	return ownWorld(t, handler, func(home string, env []string) *opencode.Host {
		client, err := opencode.Attach(t.Context(), octest.ServeStandIn(t, fakeopencode.Behaviour{}, home, env), opencode.AttachConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return opencode.AttachedHost(client)
	}, change...)
}

func works(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
	if r.TurnsSinceUser() == 0 {
		return calls(shell("true"))
	}
	return scriptmodel.Reply{Text: wentOn}
}

// OpenCode 2 has no todo list. Agents get manager's own, which counts the same, with the blocker tool while diverted.
func TestTodosOfOpenCode2(t *testing.T) {
	t.Parallel()
	var d away
	w := secondWorld(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.TurnsSinceUser() == 0 {
			return calls(call("todowrite", map[string]any{"todos": []map[string]string{
				{"content": "Write a", "status": "completed", "priority": "high"}, {"content": "Write b", "status": "pending"},
			}}))
		}
		return scriptmodel.Reply{Text: wentOn}
	}, diverting(t, &d, blockers.Policy{}))
	events := w.dir().Client().Subscribe(opencode.Filter{})
	defer events.Close()
	<-events.C() // connected: from here on the client learns from events
	const list, report = "manager_todo", boulder.BlockerTool
	for _, diverted := range []bool{false, true} {
		if err := d.Switch(t.Context(), "", &diverted); err != nil {
			t.Fatal(err)
		}
		a := w.newAttempt(map[bool]string{false: "x", true: "y"}[diverted], "GO")
		a.SubTask.DoneWhen = []string{boulder.DoneTodos}
		e := a.wentOn(t, w, a.run)
		if want := []boulder.Todo{{Content: "Write a", Status: "completed"}, {Content: "Write b", Status: "pending"}}; !slices.Equal(e.Todos, want) {
			t.Errorf("evidence: %+v", e.Todos)
		}
		if !slices.ContainsFunc(reported[boulder.SubTaskProgress](a), func(p boulder.SubTaskProgress) bool {
			return p.TodosDone == 1 && p.TodosTotal == 2
		}) {
			t.Errorf("the list was not told of: %q", a.activities())
		}
		tools := w.all[len(w.all)-1].Tools
		if !slices.Contains(tools, list) || slices.Contains(tools, report) != diverted {
			t.Errorf("diverted %v: the agent has %q", diverted, tools)
		}
	}
}

// A criterion on todos is a fault where agents cannot have a list: an empty one would count as done.
func TestNoTodosAtAll(t *testing.T) {
	t.Parallel()
	var d away
	w := secondWorld(t, works, diverting(t, &d, blockers.Policy{}))
	d.noTool = errors.New("no tool today")
	a := w.newAttempt("x", "GO")
	a.SubTask.DoneWhen = []string{boulder.DoneTodos}
	if _, err := a.run(t.Context(), w); !errors.Is(err, boulder.ErrTrouble) || !strings.Contains(err.Error(), "no todo list") {
		t.Errorf("%v", err)
	}
	if n := w.prompts("GO"); n != 0 {
		t.Errorf("prompted %d times", n)
	}
	b := w.newAttempt("y", "GO")
	b.wentOn(t, w, b.run)
}

// Without language servers a run that needs diagnostics ends before a prompt, unless lint commands replace them.
func TestNoDiagnosticsOfOpenCode2(t *testing.T) {
	t.Parallel()
	w := secondWorld(t, works)
	a := w.newAttempt("x", "GO")
	a.SubTask.DoneWhen = []string{boulder.DoneDiagnostics}
	if _, err := a.run(t.Context(), w); !errors.Is(err, boulder.ErrFatal) ||
		!strings.Contains(err.Error(), "OpenCode 2 runs no language servers; use a command") {
		t.Errorf("%v", err)
	}
	if len(w.all) != 0 {
		t.Errorf("%d calls of the model", len(w.all))
	}
	a.Checks.Lint, a.SubTask.Lint = []string{"true"}, []string{"true"}
	if e := a.wentOn(t, w, a.run); !e.NoServer || len(e.Gates) != 1 || e.Gates[0].Command != "true" {
		t.Errorf("language server missing: %v, gates: %+v", e.NoServer, e.Gates)
	}
}
