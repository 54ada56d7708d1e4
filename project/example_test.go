package project_test

import (
	"context"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

// Plan and run a task in the project in the current directory.
func Example() {
	if err := run(context.Background(), ".", project.Options{}, "Fix the typo in README.md"); err != nil {
		fmt.Println(err)
	}
}

func run(ctx context.Context, dir string, options project.Options, task string) error {
	p, err := project.Open(dir, options)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Connect(ctx); err != nil {
		return err
	}
	state, err := p.Hold(ctx, false) // opens the database and serves its socket
	if err != nil {
		return err
	}
	defer state.Release()
	for event, err := range state.Run(ctx, project.Request{Task: task}) {
		if err != nil {
			return err // a Request with Resume continues it
		}
		switch e := event.Body.(type) {
		case boulder.SubTaskDone:
			fmt.Println(e.SubTaskID, e.Status, e.Summary)
		case boulder.TaskComplete:
			fmt.Println(e.Status)
		}
	}
	return nil
}
