package orchestrator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// agent stands for your own agent. It has no sessions to lose or find again, so it reports nothing.
type agent struct{}

func (agent) Run(_ context.Context, job boulder.Job, _ func(boulder.Body) error) (boulder.Evidence, error) {
	return boulder.Evidence{FinalMessage: "I have done it: " + job.SubTask.Subject}, nil
}

// believer is a judge that trusts the agent.
type believer struct{}

func (believer) Judge(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: req.Turn.Evidence.FinalMessage}, boulder.Usage{}, nil
}

// A program runs a plan with its own agent and judge, and keeps the state in a bbolt file.
func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(filepath.Join(dir, "manager.db"), store.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	o, err := orchestrator.New(orchestrator.Config{Project: dir, Store: db, Runner: agent{}, Judge: believer{}})
	if err != nil {
		panic(err)
	}
	plan := boulder.Plan{Version: boulder.PlanVersion, Task: "Add dark mode", SubTasks: []boulder.Spec{
		{ID: "toggle", Subject: "Add the toggle", Description: "…"},
		{ID: "colours", Subject: "Define the colours", Description: "…", DependsOn: []string{"toggle"}},
	}}
	for event, err := range o.Run(context.Background(), orchestrator.Request{Plan: &plan}) {
		if err != nil {
			fmt.Println("stopped:", err)
			return
		}
		switch e := event.Body.(type) {
		case boulder.SubTaskDone:
			fmt.Printf("%s: %s\n", e.SubTaskID, e.Summary)
		case boulder.TaskComplete:
			fmt.Println(e.Status)
		}
	}
	// Output:
	// toggle: I have done it: Add the toggle
	// colours: I have done it: Define the colours
	// completed
}
