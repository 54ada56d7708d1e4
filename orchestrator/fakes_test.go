package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/managertest"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestMain checks that every run waits for what it started.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memStore keeps the events of all boulders, in order.
type memStore struct {
	mu      sync.Mutex
	events  []boulder.Event
	commits int
	// fault is called before and after the write of each commit, numbered from 1.
	fault func(commit int, written bool) error
}

func (s *memStore) Commit(_ context.Context, _ *boulder.State, events []boulder.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	if s.fault != nil {
		if err := s.fault(s.commits, false); err != nil {
			return err
		}
	}
	s.events = append(s.events, events...)
	if s.fault != nil {
		return s.fault(s.commits, true)
	}
	return nil
}

func (s *memStore) Load(_ context.Context, id string) (*boulder.State, error) {
	log := s.log(id)
	if len(log) == 0 {
		return nil, fmt.Errorf("%s: %w", id, boulder.ErrNotFound)
	}
	state := boulder.NewState()
	for _, e := range log {
		if err := state.Replay(e); err != nil {
			return nil, err
		}
	}
	return state, nil
}

func (s *memStore) log(id string) []boulder.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e boulder.Event) bool { return e.BoulderID != id })
}

func (s *memStore) revisions() (all []boulder.PlanRevision) {
	for _, e := range s.events {
		switch b := e.Body.(type) {
		case boulder.Planned:
			all = append(all, b.Plan)
		case boulder.Decomposed:
			all = append(all, b.Plan)
		}
	}
	return all
}

// load returns the stored boulder, and its sub-tasks by id.
func (s *memStore) load(t *testing.T) (boulder.Boulder, map[string]boulder.SubTask) {
	t.Helper()
	r, err := s.Load(t.Context(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	byID := map[string]boulder.SubTask{}
	for _, st := range r.SubTasks {
		byID[st.ID] = *st
	}
	return r.Boulder, byID
}

func (s *memStore) stored(fits func(boulder.Body) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(e boulder.Event) bool { return fits(e.Body) })
}

// server runs turns, and outlives its orchestrators. Package simulate checks that these keep the contract of a Runner.
type server struct {
	// turn is the agent: the result of a prompt that arrived. If nil, every turn ends well.
	turn func(ctx context.Context, job boulder.Job) (boulder.Evidence, error)
	// asks returns the blockers that the agent raises when it has a prompt.
	asks func(job boulder.Job) []boulder.Blocker

	mu      sync.Mutex
	briefs  map[boulder.AttemptRef][]string // prompts, by attempt
	prompts map[string]bool                 // by attempt and turn
	running int
	most    int // at once
	calls   int
}

func newServer() *server {
	return &server{
		prompts: map[string]bool{}, briefs: map[boulder.AttemptRef][]string{},
		asks: func(boulder.Job) []boulder.Blocker { return nil },
	}
}

func (s *server) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	ref := job.Attempt.AttemptRef
	s.mu.Lock()
	s.calls++
	s.briefs[ref] = append(s.briefs[ref], job.Turn.Prompt)
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	agent := managertest.Runner{
		Turn: func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
			s.mu.Lock()
			s.prompts[fmt.Sprint(ref, job.Turn.Number)] = true
			var asked []boulder.Blocker
			if job.Turn.MessageID == "" {
				asked = s.asks(job)
			}
			s.mu.Unlock()
			for _, b := range asked {
				if err := report(boulder.BlockerRaised{AttemptRef: ref, Blocker: b}); err != nil {
					return boulder.Evidence{}, err
				}
			}
			if s.turn == nil {
				return boulder.Evidence{FinalMessage: "done"}, nil
			}
			return s.turn(ctx, job)
		},
		Gate: func(_ context.Context, _ boulder.Job, command string) boulder.Gate { // green, unless the turn sets the gates
			return boulder.Gate{Command: command}
		},
	}
	return agent.Run(ctx, job, report)
}

func (s *server) ended(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 0 {
		t.Errorf("the run is over, and %d turns are at work", s.running)
	}
}

func (s *server) prompted(ref boulder.AttemptRef) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.briefs[ref])
}

func (s *server) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.prompts)
}

type judgeFunc = managertest.JudgeFunc

func agrees(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	v := boulder.Verdict{Completed: true, Summary: "did " + req.SubTask.ID, OutputData: "output of " + req.SubTask.ID}
	return v, boulder.Usage{Calls: 1, Input: 10}, nil
}

type plannerFunc func(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error)

func (f plannerFunc) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	return f(ctx, req)
}

// Replan offers no other plan.
func (f plannerFunc) Replan(context.Context, boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	return boulder.Replacement{}, boulder.Usage{}, boulder.ErrNoNewPlan
}

// replanner is a Planner for replans only.
type replanner func(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error)

func (f replanner) Plan(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	return nil, boulder.Usage{}, errors.New("not expected to plan")
}

func (f replanner) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	return f(ctx, req)
}

// rig is an orchestrator with its fakes. Change its parts before the first run.
type rig struct {
	t      *testing.T
	store  *memStore
	server *server
	cfg    orchestrator.Config
	onSent func() // called once, when a prompt was sent
}

func newRig(t *testing.T) *rig {
	store := &memStore{}
	server := newServer()
	return &rig{t: t, store: store, server: server, cfg: orchestrator.Config{
		Project: "/project", Store: store, Runner: server, Judge: judgeFunc(agrees),
		NewID: func() string { return "b1" },
	}}
}

// orchestrator returns a new one, as in a new process.
func (r *rig) orchestrator() *orchestrator.Orchestrator {
	r.t.Helper()
	o, err := orchestrator.New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

func (r *rig) request(req orchestrator.Request) ([]boulder.Event, error) {
	r.t.Helper()
	return r.collect(r.orchestrator().Run(r.t.Context(), req))
}

func (r *rig) run(plan *boulder.Plan) ([]boulder.Event, error) {
	r.t.Helper()
	return r.request(orchestrator.Request{Plan: plan})
}

func (r *rig) resume() ([]boulder.Event, error) {
	r.t.Helper()
	return r.request(orchestrator.Request{Resume: "b1"})
}

// begin runs a request on its own goroutine, and returns a channel for the run's error.
func (r *rig) begin(o *orchestrator.Orchestrator, req orchestrator.Request) <-chan error {
	over := make(chan error, 1)
	go func() {
		_, err := r.collect(o.Run(r.t.Context(), req))
		over <- err
	}()
	return over
}

// collect ranges over a run, and checks what holds for all: events are numbered, an error comes last, no work is left.
func (r *rig) collect(seq func(func(boulder.Event, error) bool)) (events []boulder.Event, err error) {
	r.t.Helper()
	for e, problem := range seq {
		if err != nil {
			r.t.Fatalf("after the error %v came %v, %v", err, e, problem)
		}
		if err = problem; err != nil {
			continue
		}
		if n := len(events); n > 0 && e.Seq != events[n-1].Seq+1 {
			r.t.Errorf("event %d follows event %d", e.Seq, events[n-1].Seq)
		}
		events = append(events, e)
		if do := r.onSent; do != nil && boulder.TypeOf(e.Body) == "turn-sent" {
			r.onSent = nil
			do()
		}
	}
	r.server.ended(r.t)
	return events, err
}

// completes fails the test unless a run ended with everything completed.
func (r *rig) completes(events []boulder.Event, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	done, ok := events[len(events)-1].Body.(boulder.TaskComplete)
	if !ok || !done.AllCompleted {
		r.t.Fatalf("the run ended with %+v", events[len(events)-1])
	}
}

func types(events []boulder.Event) []string {
	var names []string
	for _, e := range events {
		names = append(names, boulder.TypeOf(e.Body))
	}
	return names
}

func planOf(specs ...boulder.Spec) *boulder.Plan {
	for i := range specs {
		specs[i].Subject, specs[i].Description = "Do "+specs[i].ID, "Do all of "+specs[i].ID
	}
	return &boulder.Plan{Version: 1, Task: "the task", Goal: "the goal", SubTasks: specs}
}

func spec(id string, deps ...string) boulder.Spec { return boulder.Spec{ID: id, DependsOn: deps} }

func diamond() *boulder.Plan {
	return planOf(spec("a"), spec("b", "a"), spec("c", "a"), spec("d", "b", "c"))
}

var errDisk = errors.New("disk full")

// until is a long turn: it blocks until release is closed or ctx ends.
func until(release <-chan struct{}) func(context.Context, boulder.Job) (boulder.Evidence, error) {
	return func(ctx context.Context, _ boulder.Job) (boulder.Evidence, error) {
		select {
		case <-release:
			return boulder.Evidence{FinalMessage: "done"}, nil
		case <-ctx.Done():
			return boulder.Evidence{}, context.Cause(ctx)
		}
	}
}
