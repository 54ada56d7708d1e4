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

// agent stands for whatever does the work. It has no sessions that could be lost or found again, so it has nothing to
// report.
type agent struct{}

func (agent) Run(_ context.Context, job boulder.Job, _ func(boulder.Body) error) (boulder.Evidence, error) {
	return boulder.Evidence{FinalMessage: "I have done it: " + job.SubTask.Subject}, nil
}

// believer is a judge that takes the agent's word for it.
type believer struct{}

func (believer) Judge(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: req.Turn.Evidence.FinalMessage}, boulder.Usage{}, nil
}

// A program of its own runs a plan with its own agent and its own judge, and keeps everything in a bbolt file.
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
