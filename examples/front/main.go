// Front plans and runs a task in the current directory, as `manager run` does: on OpenCode, with gates, a judge, and a
// database in .manager.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

func main() {
	if err := run(context.Background(), project.Options{}, strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options project.Options, task string) error {
	p, err := project.Open(".", options)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Connect(ctx); err != nil {
		return err
	}
	state, err := p.Hold(ctx, false)
	if err != nil {
		return err
	}
	defer state.Release()
	for event, err := range state.Run(ctx, project.Request{Task: task}) {
		if err != nil {
			return err
		}
		switch e := event.Body.(type) {
		case boulder.GateRun:
			fmt.Println(e.SubTaskID, "gate:", e.Command, "passed:", e.Passed)
		case boulder.TaskComplete:
			fmt.Println(e.Summary)
		}
	}
	return nil
}
