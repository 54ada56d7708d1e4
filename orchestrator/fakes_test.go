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

// Every run of every test waits for what it started.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memStore keeps the events of all boulders, as they came.
type memStore struct {
	mu      sync.Mutex
	events  []boulder.Event
	commits int
	// fault is asked before and after the write of each commit, numbered from 1.
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

// log is that of one boulder.
func (s *memStore) log(id string) []boulder.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e boulder.Event) bool { return e.BoulderID != id })
}

// revisions of the plan, as they were given to the store.
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

// load is what is stored, by sub-task.
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

// stored reports whether an event of the log fits.
func (s *memStore) stored(fits func(boulder.Body) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(e boulder.Event) bool { return fits(e.Body) })
}

// server is where turns run: it outlives the orchestrators that use it. Whether these keep the contract of a Runner, whatever
// happens, is looked at by package simulate.
type server struct {
	// turn is the agent: what comes of a prompt that arrived. Nil ends every turn well.
	turn func(ctx context.Context, job boulder.Job) (boulder.Evidence, error)
	// asks is what the agent comes upon, when it has a prompt, that only the user can answer.
	asks func(job boulder.Job) []boulder.Blocker

	mu      sync.Mutex
	briefs  map[boulder.AttemptRef][]string // prompts, by attempt
	prompts map[string]bool                 // that arrived, by attempt and turn
	running int
	most    int // that ran at once
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
		Gate: func(_ context.Context, _ boulder.Job, command string) boulder.Gate { // green, unless the turn says how they went
			return boulder.Gate{Command: command}
		},
	}
	return agent.Run(ctx, job, report)
}

// ended fails the test if turns are at work: the run is over.
func (s *server) ended(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 0 {
		t.Errorf("the run is over, and %d turns are at work", s.running)
	}
}

// prompted are the prompts of the jobs of an attempt.
func (s *server) prompted(ref boulder.AttemptRef) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.briefs[ref])
}

// sent is how many prompts there were in all.
func (s *server) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.prompts)
}

type judgeFunc = managertest.JudgeFunc

// agrees is a judge that finds everything complete.
func agrees(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	v := boulder.Verdict{Completed: true, Summary: "did " + req.SubTask.ID, OutputData: "output of " + req.SubTask.ID}
	return v, boulder.Usage{Calls: 1, Input: 10}, nil
}

// plannerFunc is a Planner.
type plannerFunc func(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error)

func (f plannerFunc) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	return f(ctx, req)
}

// Replan has no other plan.
func (f plannerFunc) Replan(context.Context, boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	return boulder.Replacement{}, boulder.Usage{}, boulder.ErrNoNewPlan
}

// replanner is a Planner that is asked for replans only.
type replanner func(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error)

func (f replanner) Plan(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	return nil, boulder.Usage{}, errors.New("not expected to plan")
}

func (f replanner) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	return f(ctx, req)
}

// rig is an orchestrator with everything around it. Its parts can be changed before the first run.
type rig struct {
	t      *testing.T
	store  *memStore
	server *server
	cfg    orchestrator.Config
	onSent func() // is called when a prompt was sent, once
}

func newRig(t *testing.T) *rig {
	store := &memStore{}
	server := newServer()
	return &rig{t: t, store: store, server: server, cfg: orchestrator.Config{
		Project: "/project", Store: store, Runner: server, Judge: judgeFunc(agrees),
		NewID: func() string { return "b1" },
	}}
}

// orchestrator makes a new one, as a new process does.
func (r *rig) orchestrator() *orchestrator.Orchestrator {
	r.t.Helper()
	o, err := orchestrator.New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// request runs a request in a new orchestrator, and returns its events and its error.
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

// begin runs a request on a goroutine of its own, which hands over the error that ended the run.
func (r *rig) begin(o *orchestrator.Orchestrator, req orchestrator.Request) <-chan error {
	over := make(chan error, 1)
	go func() {
		_, err := r.collect(o.Run(r.t.Context(), req))
		over <- err
	}()
	return over
}

// collect ranges over a run, and checks what holds for every run: events are numbered, an error comes last, and no work is
// left behind.
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

// completes fails the test unless a run came to its end with everything done.
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

// planOf makes a plan of sub-tasks.
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

// until blocks like a long turn: until release is closed, or ctx ends it.
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
