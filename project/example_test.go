package project_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

// Have a task planned and run in the project in the current directory.
func Example() {
	ctx := context.Background()
	p, err := project.Open(".", project.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	state, err := p.Hold(ctx, false) // the database, held by this process, and its socket
	if err != nil {
		log.Fatal(err)
	}
	defer state.Release()
	request := project.Request{Task: "Fix the typo in README.md"} // or Plan, Fork, Resume
	for event, err := range state.Run(ctx, request, project.Approvals{}) {
		if err != nil {
			log.Fatal(err) // a Request with Resume continues it
		}
		switch e := event.Body.(type) {
		case boulder.SubTaskDone:
			fmt.Println(e.SubTaskID, e.Status, e.Summary)
		case boulder.TaskComplete:
			fmt.Println(e.Status)
		}
	}
}
