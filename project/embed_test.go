package project_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/project"
)

// A program of its own runs a task on the real OpenCode, and reads what is stored of it.
func TestEmbedding(t *testing.T) {
	t.Parallel()
	model := octest.Model(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case r.Kind() == scriptmodel.KindStructured:
			return scriptmodel.Reply{JSON: map[string]any{
				"criteria":  []any{map[string]any{"id": "C1", "evidence": "the patch", "met": true}},
				"completed": true, "summary": "It is written.",
			}}
		case r.AssistantTurns() == 0:
			return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{
				{Name: "write", Args: map[string]any{"filePath": "hello.txt", "content": "hello\n"}},
			}}
		}
		return scriptmodel.Reply{Text: "All of it is done now."}
	})
	dir := octest.Repo(t, nil)
	p, err := project.Open(dir, project.Options{
		Environ: octest.Env(t, model.URL()), OpenCode: octest.Binary(t), Model: "scripted/agent", LedgerModel: "scripted/ledger",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	state, err := p.Hold(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Release()
	var last boulder.Event
	request := project.Request{Task: "Write hello.txt", Mode: boulder.PlanNever}
	for event, err := range state.Run(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		last = event
	}
	end, _ := last.Body.(boulder.TaskComplete)
	stored, err := project.Get(t.Context(), state.DB, "")
	if err != nil || !end.AllCompleted || stored.Boulder.Status != boulder.Completed {
		t.Errorf("the last event is %+v; stored: %+v, %v", last, stored.Boulder, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "hello.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("%q, %v", text, err)
	}
}
