package project_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/managertest"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
)

// The example's program runs a task, and another one reads it; examples/front is the same on the real OpenCode.
func TestEmbedding(t *testing.T) {
	t.Parallel()
	model := managertest.StartModel(t, func(_ context.Context, r managertest.Request) managertest.Reply {
		switch {
		case r.Kind() == managertest.KindStructured:
			return managertest.Reply{JSON: map[string]any{
				"criteria":  []any{map[string]any{"id": "C1", "evidence": "the patch", "met": true}},
				"completed": true, "summary": "It is written.",
			}}
		case r.AssistantTurns() == 0:
			return managertest.Reply{ToolCalls: []managertest.ToolCall{
				{Name: "write", Args: map[string]any{"filePath": "hello.txt", "content": "hello\n"}},
			}}
		}
		return managertest.Reply{Text: "All of it is done now."}
	})
	dir := octest.Repo(t, nil)
	env := octest.Env(t, model.URL())
	options := project.Options{
		Environ: env, Attach: octest.ServeStandIn(t, fakeopencode.Behaviour{}, dir, env),
		Model: "scripted/agent", LedgerModel: "scripted/ledger",
	}
	if err := run(t.Context(), dir, options, "Write hello.txt"); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if stored, err := project.Get(t.Context(), r, ""); err != nil || stored.Boulder.Status != boulder.Completed {
		t.Errorf("stored: %+v, %v", stored.Boulder, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "hello.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// A plan that a Go program hands over is checked as the command's: see the error of each mistake.
func TestGivenPlans(t *testing.T) {
	t.Parallel()
	model := managertest.StartModel(t, func(_ context.Context, r managertest.Request) managertest.Reply {
		t.Errorf("a model was asked: %s", r.Text())
		return managertest.Reply{}
	})
	dir := octest.Repo(t, nil)
	env := octest.Env(t, model.URL())
	p, err := project.Open(dir, project.Options{
		Environ: env, Attach: octest.ServeStandIn(t, fakeopencode.Behaviour{}, dir, env),
		Model: "scripted/agent", LedgerModel: "scripted/ledger",
	})
	if err == nil {
		err = p.Connect(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	state, err := p.Hold(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Release()
	seal := &boulder.Seal{
		Base: "0123456789abcdef0123456789abcdef01234567", Hash: "h", Origin: boulder.OriginModel, CreatedAt: time.Unix(1, 0),
	}
	tests := map[string]struct {
		plan   boulder.Plan
		spec   boulder.Spec // the only sub-task
		rest   boulder.Settings
		wanted string
	}{
		"mistake": {
			spec:   boulder.Spec{DependsOn: []string{"b"}},
			wanted: `the given plan: sub_tasks[0].depends_on[0]: sub-task "a" depends on "b", which is not in the plan: add it or`,
		},
		"gate": {
			spec:   boulder.Spec{Gates: []string{"make 'all"}},
			wanted: "the given plan: sub_tasks[0].gates[0]: the shell cannot read the command",
		},
		"version": {plan: boulder.Plan{Version: 9}, wanted: "the given plan: version: this plan has version 9, this manager reads version 1"},
		"secret": {
			spec:   boulder.Spec{Gates: []string{"curl -H 'Authorization: Bearer " + "sk-ant-" + strings.Repeat("a1B2", 12) + "'"}},
			wanted: `gates of sub-task "a"`,
		},
		"other commit": {
			plan:   boulder.Plan{Seal: seal},
			wanted: "the plan was made for commit 0123456789, and the project is at " + project.Short(p.Base()) + ": plan again, or run it all",
		},
		"model": {
			spec:   boulder.Spec{Model: "scripted/none"},
			wanted: `sub-task "a" names the model scripted/none, which OpenCode does not offer`,
		},
		"model of the request": {
			rest:   boulder.Settings{Model: "scripted/none"},
			wanted: "the request names the model scripted/none, which OpenCode does not offer",
		},
		"agent": {
			rest:   boulder.Settings{Agent: "none"},
			wanted: "the request names the agent none, which OpenCode does not have",
		},
		"criterion": {
			spec:   boulder.Spec{DoneWhen: boulder.DoneWhen{boulder.DoneTests}},
			wanted: `sub-task "a": done when tests pass, but no command is known that runs them`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan := test.plan
			test.spec.ID, test.spec.Description = "a", "Do a."
			plan.SubTasks = []boulder.Spec{test.spec}
			var err error
			for _, err = range state.Run(t.Context(), project.Request{Plan: &plan, Settings: test.rest}) {
				if err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), test.wanted) {
				t.Errorf("%v\nwanted: %s", err, test.wanted)
			}
		})
	}
	if _, err := project.Get(t.Context(), state.DB, ""); !errors.Is(err, boulder.ErrNotFound) {
		t.Errorf("something was run: %v", err)
	}
}
