package managertest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/managertest"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
	"github.com/bouldermgr/manager/store"
)

// run runs a plan of one sub-task in a new project, and returns the project and its events.
func run(s boulder.Spec, agent orchestrator.Runner, judge orchestrator.Judge) (dir string, events []boulder.Event, err error) {
	if dir, err = os.MkdirTemp("", "project"); err != nil {
		return "", nil, err
	}
	db, err := store.Open(filepath.Join(dir, "manager.db"), store.Options{})
	if err != nil {
		return dir, nil, err
	}
	defer db.Close()
	o, err := orchestrator.New(orchestrator.Config{Project: dir, Store: db, Runner: agent, Judge: judge})
	if err != nil {
		return dir, nil, err
	}
	plan := &boulder.Plan{Version: boulder.PlanVersion, Task: "Write it down", SubTasks: []boulder.Spec{s}}
	for event, err := range o.Run(context.Background(), orchestrator.Request{Plan: plan}) {
		if err != nil {
			return dir, events, err
		}
		events = append(events, event)
	}
	return dir, events, nil
}

// An agent claims to be done too early. The judge believes it, but the gate vetoes it, and the agent is told.
func Example() {
	agent := &managertest.Runner{Turn: func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
		if job.Turn.Kind == boulder.TurnContinuation {
			fmt.Println("told that the gate is red:", strings.Contains(job.Turn.Prompt, "grep -q dark notes.md"))
			return boulder.Evidence{FinalMessage: "Now it is there."},
				os.WriteFile(filepath.Join(job.Project, "notes.md"), []byte("dark mode\n"), 0o600)
		}
		return boulder.Evidence{FinalMessage: "It is done."}, nil
	}}
	task := boulder.Spec{
		ID: "notes", Subject: "Write the notes", Description: "Write notes.md.", Gates: []string{"grep -q dark notes.md"},
	}
	dir, events, err := run(task, agent, managertest.JudgeFunc(managertest.Believe))
	defer os.RemoveAll(dir)
	if err != nil {
		fmt.Println("stopped:", err)
	}
	for _, event := range events {
		switch e := event.Body.(type) {
		case boulder.GateRun:
			fmt.Printf("%s: exit code %d\n", e.Command, e.ExitCode)
		case boulder.SubTaskDone:
			fmt.Printf("%s: %s\n", e.Status, e.Summary)
		}
	}
	// Output:
	// told that the gate is red: true
	// grep -q dark notes.md: exit code 2
	// grep -q dark notes.md: exit code 0
	// completed: Now it is there.
}

// To test a judge of your own, or as here the Progress Ledger, script the model's answers. This one says "completed"
// but names a criterion that is not met: the sub-task is not completed.
func TestJudgeWithScriptedModel(t *testing.T) {
	t.Parallel()
	model := managertest.StartModel(t, func(_ context.Context, req managertest.Request) managertest.Reply {
		if req.Kind() != managertest.KindStructured {
			t.Errorf("asked for %s", req.Kind())
		}
		return managertest.Reply{JSON: map[string]any{
			"completed": true, "summary": "Half of it is there.", "remaining": []string{"the other half"},
			"criteria": []any{map[string]any{"id": "C1", "met": false, "evidence": "The file ends in the middle."}},
		}}
	})
	completer, err := openai.New(openai.Endpoint{Name: "scripted", BaseURL: model.URL()}, providers.Key{}, openai.Options{})
	if err != nil {
		t.Fatal(err)
	}
	judge := &progressledger.Judge{Completer: completer, Logger: slog.New(slog.DiscardHandler)}
	task := boulder.Spec{
		ID: "notes", Subject: "Write the notes", Description: "Write notes.md.", SuccessCriteria: []string{"Both halves are there"},
	}
	dir, events, err := run(task, &managertest.Runner{}, judge)
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err != nil {
		t.Fatal(err)
	}
	if last := events[len(events)-1].Body.(boulder.TaskComplete); last.AllCompleted || len(model.Requests()) == 0 {
		t.Errorf("%d verdicts, and the boulder is %s: %s", len(model.Requests()), last.Status, last.Summary)
	}
}
