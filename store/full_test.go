package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// limited is a place for a database that has little room, until room is made.
type limited struct {
	dir  string
	room func() error // makes more of it
	full func(error) bool
}

// runUntilFull lets the orchestrator run a plan for which there is too little room, looks at what is left, makes room and
// resumes. It is a play for another process: the room is that process's.
func runUntilFull(l limited) error {
	path := filepath.Join(l.dir, FileName)
	worker := &worker{runs: map[string]int{}}
	id, err := worker.try(path, func(o *orchestrator.Orchestrator) (string, error) {
		return outcome(o.Run(context.Background(), orchestrator.Request{Plan: bigPlan()}))
	})
	if err == nil || !l.full(err) {
		return fmt.Errorf("the run ended with: %w", err)
	}
	if worker.late > 0 {
		return fmt.Errorf("%d commits were tried after the one that failed", worker.late)
	}
	done, err := completedIn(path, id)
	if err != nil {
		return fmt.Errorf("look at what is left: %w", err)
	}
	if len(done) == 0 || len(done) == subTasksOfBigPlan {
		return fmt.Errorf("%d sub-tasks were completed when it was full", len(done))
	}
	if err := l.room(); err != nil {
		return err
	}
	if _, err := worker.try(path, func(o *orchestrator.Orchestrator) (string, error) {
		return outcome(o.Resume(context.Background(), id, orchestrator.ResumeRequest{}))
	}); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	for _, id := range done {
		if n := worker.runs[id]; n != 1 {
			return fmt.Errorf("sub-task %s, which was completed when it was full, was done %d times", id, n)
		}
	}
	if done, err := completedIn(path, id); err != nil || len(done) != subTasksOfBigPlan {
		return fmt.Errorf("at the end %d sub-tasks are completed, %w", len(done), err)
	}
	return nil
}

const subTasksOfBigPlan = 60

// bigPlan is a chain. Each of its sub-tasks leaves some 36 KiB.
func bigPlan() *boulder.Plan {
	plan := &boulder.Plan{Version: boulder.PlanVersion, Task: "Fill the disk"}
	for i := range subTasksOfBigPlan {
		s := boulder.Spec{ID: fmt.Sprintf("t%02d", i), Subject: "Write", Description: "Write much"}
		if i > 0 {
			s.DependsOn = []string{plan.SubTasks[i-1].ID}
		}
		plan.SubTasks = append(plan.SubTasks, s)
	}
	return plan
}

// worker is an agent and a judge that believes it. It is a store as well, which counts.
type worker struct {
	*DB

	mu     sync.Mutex
	runs   map[string]int // by sub-task
	failed bool
	late   int // commits after one that failed
}

func (w *worker) Run(_ context.Context, job boulder.Job, _ func(boulder.Body) error) (boulder.Evidence, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[job.SubTask.ID]++
	return boulder.Evidence{FinalMessage: strings.Repeat("done. ", 6000)}, nil
}

func (w *worker) Judge(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: "done"}, boulder.Usage{}, nil
}

func (w *worker) Commit(ctx context.Context, s *boulder.State, events []boulder.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed {
		w.late++
	}
	err := w.DB.Commit(ctx, s, events)
	w.failed = w.failed || err != nil
	return err
}

// try opens the database, runs, and closes it.
func (w *worker) try(path string, run func(*orchestrator.Orchestrator) (string, error)) (id string, err error) {
	if w.DB, err = Open(path, Options{}); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.failed = false
	o, err := orchestrator.New(orchestrator.Config{Project: filepath.Dir(path), Store: w, Runner: w, Judge: w})
	if err != nil {
		return "", err
	}
	return run(o)
}

func outcome(events func(func(boulder.Event, error) bool)) (id string, err error) {
	for e, err := range events {
		if err != nil {
			return id, err
		}
		id = e.BoulderID
	}
	return id, nil
}

// completedIn lists the completed sub-tasks of a boulder.
func completedIn(path, id string) (done []string, err error) {
	db, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Load(context.Background(), id)
	if err != nil {
		return nil, err
	}
	for _, t := range s.Completed(subTasksOfBigPlan) {
		done = append(done, t.ID)
	}
	return done, nil
}

// ballast takes up room that can be given back.
func ballast(dir string, size int) (release func() error, err error) {
	path := filepath.Join(dir, "ballast")
	return func() error { return os.Remove(path) }, os.WriteFile(path, make([]byte, size), 0o600)
}
