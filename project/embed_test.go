package project_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

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
