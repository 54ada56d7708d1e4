// Parts assembles manager from its parts: OpenCode does the work, a custom judge believes the agent once all gates pass,
// and the log is kept in memory.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/workspace"
)

func main() {
	dir, err := os.Getwd()
	if err == nil {
		err = run(context.Background(), dir, opencode.ServerConfig{Dir: dir})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, server opencode.ServerConfig) error {
	files, err := workspace.Open(ctx, dir)
	if err != nil {
		return err
	}
	host := opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) { return opencode.Start(ctx, server) })
	defer host.Stop(ctx)
	runner, err := executor.New(executor.Config{Host: host, Project: dir, Workspace: files, Env: server.Env})
	if err != nil {
		return err
	}
	o, err := orchestrator.New(orchestrator.Config{Project: dir, Store: &memory{}, Runner: runner, Judge: gatesOnly{}})
	if err != nil {
		return err
	}
	plan := &boulder.Plan{Version: boulder.PlanVersion, Task: "Say hello, then goodbye", SubTasks: []boulder.Spec{
		{ID: "hello", Subject: "Say hello", Description: "Write hello.txt.", Gates: []string{"test -s hello.txt"}},
		{ID: "bye", Subject: "Say goodbye", Description: "Write bye.txt.", DependsOn: []string{"hello"}, Gates: []string{"test -s bye.txt"}},
	}}
	for event, err := range o.Run(ctx, orchestrator.Request{Plan: plan}) {
		if err != nil {
			return err
		}
		switch e := event.Body.(type) {
		case boulder.SubTaskDone:
			fmt.Println(e.SubTaskID, e.Status)
		case boulder.TaskComplete:
			fmt.Println(e.Status)
		}
	}
	return nil
}

// gatesOnly is an [orchestrator.Judge].
type gatesOnly struct{}

func (gatesOnly) Judge(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	for _, gate := range req.Turn.Evidence.Gates {
		if !gate.Holds() {
			return boulder.Verdict{Summary: gate.Command + " fails", Remaining: []string{gate.Command}}, boulder.Usage{}, nil
		}
	}
	return boulder.Verdict{Completed: true, Summary: req.Turn.Evidence.FinalMessage}, boulder.Usage{}, nil
}

// memory is an [orchestrator.Store]. Load replays the log.
type memory struct {
	mu   sync.Mutex
	logs map[string][]boulder.Event
}

func (m *memory) Commit(_ context.Context, s *boulder.State, events []boulder.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs == nil {
		m.logs = map[string][]boulder.Event{}
	}
	m.logs[s.Boulder.ID] = append(m.logs[s.Boulder.ID], events...)
	return nil
}

func (m *memory) Load(_ context.Context, id string) (*boulder.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := boulder.NewState()
	for _, event := range m.logs[id] {
		if err := s.Replay(event); err != nil {
			return nil, err
		}
	}
	if s.Boulder.ID == "" {
		return nil, boulder.ErrNotFound
	}
	return s, nil
}
