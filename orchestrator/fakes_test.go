package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// Every run of every test waits for what it started.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memStore keeps the logs of boulders as a real store does: as JSON.
type memStore struct {
	mu      sync.Mutex
	logs    map[string][][]byte
	events  []boulder.Event // of the log, as they came
	commits int
	// fault is asked before and after the write of each commit, numbered from 1.
	fault func(commit int, written bool) error
}

func newStore() *memStore { return &memStore{logs: map[string][][]byte{}} }

func (s *memStore) Commit(_ context.Context, _ *boulder.State, events []boulder.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	if s.fault != nil {
		if err := s.fault(s.commits, false); err != nil {
			return err
		}
	}
	for _, e := range events {
		s.logs[e.BoulderID] = append(s.logs[e.BoulderID], mustEncode(boulder.Logged{Event: e}))
	}
	s.events = append(s.events, events...)
	if s.fault != nil {
		return s.fault(s.commits, true)
	}
	return nil
}

func (s *memStore) Load(_ context.Context, id string) (*boulder.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs[id] == nil {
		return nil, fmt.Errorf("%s: %w", id, boulder.ErrNotFound)
	}
	state := boulder.NewState()
	for _, line := range s.logs[id] {
		if err := state.Replay(mustDecode[boulder.Event](line)); err != nil {
			return nil, err
		}
	}
	return state, nil
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

func mustEncode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func mustDecode[T any](b []byte) (v T) {
	if err := json.Unmarshal(b, &v); err != nil {
		panic(err)
	}
	return v
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

// server is where sessions live: it outlives the orchestrators that use it. As a Runner it keeps the contract, and
// notes every way in which the orchestrator does not.
type server struct {
	store *memStore
	// turn is the agent: what comes of a prompt that arrived. Nil ends every turn well.
	turn func(ctx context.Context, job boulder.Job) (boulder.Evidence, error)
	// asks is what the agent comes upon, when it has a prompt, that only a person can answer. Nil: nothing.
	asks func(job boulder.Job) []boulder.Blocker

	mu       sync.Mutex
	briefs   map[boulder.AttemptRef][]string // prompts, by attempt
	sessions map[string]*session             // by tag
	prompts  map[prompt]int                  // times sent
	running  map[string]bool                 // by tag
	most     int                             // that ran at once
	calls    int
	wrong    []string
}

type session struct {
	id       string
	answered map[string]bool // by message
}

type prompt struct {
	tag  string
	turn int
	id   string
}

func newServer(store *memStore) *server {
	return &server{
		store: store, sessions: map[string]*session{}, prompts: map[prompt]int{}, running: map[string]bool{},
		briefs: map[boulder.AttemptRef][]string{}, asks: func(boulder.Job) []boulder.Blocker { return nil },
	}
}

func (s *server) blame(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *server) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	defer s.enter(job)()
	sess, err := s.open(job, report)
	if err != nil {
		return boulder.Evidence{}, err
	}
	id := job.Turn.MessageID
	if id == "" {
		s.mu.Lock()
		id = fmt.Sprintf("m%d", len(s.prompts)+s.calls)
		s.mu.Unlock()
		sent := boulder.TurnSent{AttemptRef: job.Attempt.AttemptRef, Turn: job.Turn.Number, MessageID: id, ToldUpTo: job.Turn.ToldUpTo}
		if err := s.report(report, sent, func(b boulder.Body) bool { return reflect.DeepEqual(b, boulder.Body(sent)) }); err != nil {
			return boulder.Evidence{}, err
		}
		for _, b := range s.asks(job) {
			if err := report(boulder.BlockerRaised{AttemptRef: job.Attempt.AttemptRef, Blocker: b}); err != nil {
				return boulder.Evidence{}, err
			}
		}
	}
	s.send(sess, prompt{job.Attempt.Tag, job.Turn.Number, id})
	e := boulder.Evidence{FinalMessage: "done"}
	if s.turn != nil {
		if e, err = s.turn(ctx, job); err != nil {
			return e, err
		}
	}
	for _, command := range job.SubTask.Gates { // green, unless the turn says how they went
		if !slices.ContainsFunc(e.Gates, func(g boulder.Gate) bool { return g.Command == command }) {
			e.Gates = append(e.Gates, boulder.Gate{Command: command})
		}
	}
	return e, nil
}

// enter notes that a turn runs, until the function that it returns is called.
func (s *server) enter(job boulder.Job) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref, tag := job.Attempt.AttemptRef, job.Attempt.Tag
	s.calls++
	s.briefs[ref] = append(s.briefs[ref], job.Turn.Prompt)
	if s.running[tag] {
		s.blame("two turns of %v at once", tag)
	}
	if job.Project == "" || job.BoulderID == "" || job.Turn.Prompt == "" || job.Alone == nil ||
		(job.Resume != "") != (job.Recovered || job.Turn.MessageID != "") {
		s.blame("the job of %v lacks something: %+v", ref, job)
	}
	s.running[tag] = true
	s.most = max(s.most, len(s.running))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, tag)
	}
}

// report fails the test if a report that was answered is not on disk.
func (s *server) report(report func(boulder.Body) error, b boulder.Body, fits func(boulder.Body) bool) error {
	err := report(b)
	if err == nil && !s.store.stored(fits) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.blame("%s was acknowledged before it was stored", boulder.TypeOf(b))
	}
	return err
}

func (s *server) open(job boulder.Job, report func(boulder.Body) error) (*session, error) {
	s.mu.Lock()
	tag := job.Attempt.Tag
	sess := s.sessions[tag]
	switch {
	case job.Attempt.SessionID != "":
		s.mu.Unlock()
		return sess, nil
	case sess != nil && !job.Recovered:
		s.blame("%s has a session, but the job does not say that it may", tag)
	case sess == nil:
		sess = &session{id: fmt.Sprintf("s%d", len(s.sessions)+1), answered: map[string]bool{}}
		s.sessions[tag] = sess
	}
	s.mu.Unlock()
	start := boulder.SubTaskStart{AttemptRef: job.Attempt.AttemptRef, SessionID: sess.id, Model: job.Attempt.Model}
	return sess, s.report(report, start, func(b boulder.Body) bool { return reflect.DeepEqual(b, boulder.Body(start)) })
}

// send gives the session a prompt that it does not have yet.
func (s *server) send(sess *session, p prompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.answered[p.id] {
		return
	}
	sess.answered[p.id] = true
	for other := range s.prompts {
		if other.tag == p.tag && other.turn == p.turn {
			s.blame("turn %d of %v was prompted as %s and as %s", p.turn, p.tag, other.id, p.id)
		}
	}
	s.prompts[p]++
}

// check fails the test for what the orchestrator did wrong.
func (s *server) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wrong {
		t.Error(w)
	}
	for p, n := range s.prompts {
		if n > 1 {
			t.Errorf("%v was sent %d times", p, n)
		}
	}
	if len(s.running) > 0 {
		t.Errorf("the run is over, and %v are at work", slices.Collect(maps.Keys(s.running)))
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

// judgeFunc is a Judge.
type judgeFunc func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error)

func (f judgeFunc) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return f(ctx, req)
}

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
	store := newStore()
	server := newServer(store)
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

// collect ranges over a run, and checks what holds for every run: events are numbered and stored, an error comes last,
// and no work is left behind.
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
		if !r.store.stored(func(b boulder.Body) bool { return boulder.TypeOf(b) == boulder.TypeOf(e.Body) }) {
			r.t.Errorf("%s was shown before it was stored", boulder.TypeOf(e.Body))
		}
		events = append(events, e)
		if do := r.onSent; do != nil && boulder.TypeOf(e.Body) == "turn-sent" {
			r.onSent = nil
			do()
		}
	}
	r.server.check(r.t)
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
