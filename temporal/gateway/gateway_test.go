package gateway_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/temporal/devtest"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/gateway"
	"github.com/bouldermgr/manager/temporal/worker"
)

// agents work until done is closed.
type agents struct{ done chan struct{} }

func (h agents) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	ref := job.Attempt.AttemptRef
	if job.Attempt.SessionID == "" {
		if err := report(boulder.SubTaskStart{AttemptRef: ref, SessionID: "ses"}); err != nil {
			return boulder.Evidence{}, err
		}
	}
	if job.Turn.MessageID == "" {
		if err := report(boulder.TurnSent{AttemptRef: ref, Turn: job.Turn.Number, Kind: job.Turn.Kind, MessageID: "msg"}); err != nil {
			return boulder.Evidence{}, err
		}
	}
	select {
	case <-h.done:
		return boulder.Evidence{Ended: boulder.Ended{Finish: "stop"}, ToolCount: 1, FinalMessage: "done"}, nil
	case <-ctx.Done():
		return boulder.Evidence{}, context.Cause(ctx)
	}
}

func (agents) Judge(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: "done", IsProgress: true}, boulder.Usage{Calls: 1}, nil
}

type site struct {
	*testing.T
	client client.Client
	agents agents
	file   string
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	return &site{T: t, client: devtest.Start(t, "").Dial(t), agents: agents{make(chan struct{})}, file: filepath.Join(t.TempDir(), "manager.db")}
}

// gateway opens the project's database. closed ends the gateway as the end of its process would.
func (s *site) gateway() (g *gateway.Gateway, closed func()) {
	s.Helper()
	db, err := store.Open(s.file, store.Options{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = db.Close() })
	return &gateway.Gateway{
		Client: s.client, Queue: "q", DB: db, Complete: func(context.Context, *orchestrator.Request) error { return nil },
		Input: flow.Input{Project: "/project", Limits: orchestrator.DefaultLimits(), Heartbeat: 5 * time.Second},
	}, func() { _ = db.Close() }
}

func (s *site) worker() (stop func()) {
	s.Helper()
	w := worker.New(s.client, "q", 4, worker.Parts{Judge: s.agents, Runner: s.agents})
	if err := w.Start(); err != nil {
		s.Fatal(err)
	}
	stop = sync.OnceFunc(w.Stop)
	s.Cleanup(stop)
	return stop
}

func request() orchestrator.Request {
	return orchestrator.Request{Plan: &boulder.Plan{Version: 1, Task: "the task", SubTasks: []boulder.Spec{
		{ID: "a", Subject: "Do it", Description: "Do it", SuccessCriteria: []string{"done"}},
	}}}
}

// until copies until a boulder has the status and is reported as running: paused ones are, finished ones are not.
func (s *site) until(g *gateway.Gateway, id string, status boulder.Status) {
	s.Helper()
	var b boulder.Boulder
	var running []string
	for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(20 * time.Millisecond) {
		running, _ = g.Copy(s.Context()) // queries fail until a worker answers
		if state, err := g.DB.Load(s.Context(), id); err == nil {
			if b = state.Boulder; b.Status == status && slices.Contains(running, id) != status.Terminal() {
				return
			}
		}
	}
	s.Fatalf("boulder %s is %s; at work: %q", id, b.Status, running)
}

// TestNoWorker: a boulder that no worker takes is withdrawn. Orders to a finished one change the project's database.
func TestNoWorker(t *testing.T) {
	s := newSite(t)
	g, _ := s.gateway()
	copying, stop := context.WithCancel(t.Context())
	var copies sync.WaitGroup
	copies.Go(func() {
		for copying.Err() == nil {
			_, _ = g.Copy(copying)
		}
	})
	if id, err := g.Submit(t.Context(), request()); id != "" || err == nil || !strings.HasPrefix(err.Error(), "no worker answers") {
		t.Fatalf("%q, %v", id, err)
	}
	stop()
	copies.Wait()
	large := request()
	large.Plan.Task = strings.Repeat("x", 2_500_000)
	if id, err := g.Submit(t.Context(), large); id != "" || err == nil || !strings.Contains(err.Error(), "has 2.5 MB") {
		t.Errorf("%q, %v", id, err)
	}
	close(s.agents.done)
	s.worker()
	id, err := g.Submit(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	s.until(g, id, boulder.Completed)
	if _, err := g.Copy(t.Context()); err != nil {
		t.Errorf("what was withdrawn is copied: %v", err)
	}
	if all, err := g.DB.Listing(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the project has %v, %v", all, err)
	}
	if err := g.Order(t.Context(), id, boulder.Order{Do: boulder.OrderRedo, SubTaskID: "a"}); !errors.Is(err, boulder.ErrRefused) {
		t.Errorf("redo: %v", err)
	}
	if err := g.Order(t.Context(), id, boulder.Order{Do: boulder.OrderArchive}); err != nil {
		t.Errorf("archive: %v", err)
	}
	if state, err := g.DB.Load(t.Context(), id); err != nil || state.Boulder.ArchivedAt.IsZero() {
		t.Errorf("not archived: %v", err)
	}
}

// TestLateOrder: an order that failed for want of a worker is not applied when a worker starts later.
func TestLateOrder(t *testing.T) {
	s := newSite(t)
	stop := s.worker()
	g, _ := s.gateway()
	id, err := g.Submit(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	s.until(g, id, boulder.Running)
	stop()
	if err := g.Order(t.Context(), id, boulder.Order{Do: boulder.OrderCancel}); err == nil || !strings.HasPrefix(err.Error(), "no worker answers") {
		t.Fatal(err)
	}
	close(s.agents.done)
	s.worker()
	s.until(g, id, boulder.Completed)
	if _, err := g.Submit(t.Context(), orchestrator.Request{Resume: id}); !errors.Is(err, boulder.ErrFinished) {
		t.Errorf("resume: %v", err)
	}
}

// TestGatewayAway: the next gateway copies what happened while none ran, and can steer the boulder.
func TestGatewayAway(t *testing.T) {
	s := newSite(t)
	s.worker()
	g, closed := s.gateway()
	id, err := g.Submit(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	s.until(g, id, boulder.Running)
	if err := g.Order(t.Context(), id, boulder.Order{Do: boulder.OrderPause, Now: true}); err != nil {
		t.Fatal(err)
	}
	closed()
	g, closed = s.gateway()
	s.until(g, id, boulder.Paused)
	if resumed, err := g.Submit(t.Context(), orchestrator.Request{Resume: id}); err != nil || resumed != id {
		t.Fatalf("%q, %v", resumed, err)
	}
	s.until(g, id, boulder.Running)
	closed()
	other, closed := s.gateway() // of the same project, with other workers
	other.Queue = "another"
	if _, err := other.Copy(t.Context()); err == nil || !strings.Contains(err.Error(), "--git-remote") {
		t.Errorf("a boulder of other workers: %v", err)
	}
	if err := other.Order(t.Context(), id, boulder.Order{Do: boulder.OrderPause}); !errors.Is(err, boulder.ErrRefused) {
		t.Errorf("an order to a boulder of other workers: %v", err)
	}
	closed()
	close(s.agents.done)
	var status boulder.Status
	if err := s.client.GetWorkflow(t.Context(), id, "").Get(t.Context(), &status); err != nil || status != boulder.Completed {
		t.Fatalf("%s, %v", status, err)
	}
	g, _ = s.gateway()
	s.until(g, id, boulder.Completed)
}
