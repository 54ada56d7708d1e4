package limiter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/temporal/devtest"
)

const (
	queue = "boulders"
	limit = 3
)

// sessions run with permits. Each lasts until the test ends it.
type sessions struct {
	sync.Mutex
	running map[string]chan struct{} // by boulder/name
	peak    int
	began   chan string
}

func (s *sessions) session(ctx context.Context, name string) error {
	name = activity.GetInfo(ctx).WorkflowExecution.ID + "/" + name
	end := make(chan struct{})
	s.Lock()
	s.running[name] = end
	s.peak = max(s.peak, len(s.running))
	s.Unlock()
	s.began <- name
	defer func() {
		s.Lock()
		delete(s.running, name)
		s.Unlock()
	}()
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sessions) end(name string) {
	s.Lock()
	defer s.Unlock()
	close(s.running[name])
}

func (s *sessions) boulder(ctx workflow.Context, model string, n int) error {
	permits, err := NewPermits(ctx)
	if err != nil {
		return err
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	all := workflow.NewWaitGroup(ctx)
	for i := range n {
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			name := fmt.Sprint(i)
			release, e := permits.Acquire(ctx, model, limit, name)
			if e == nil {
				e = workflow.ExecuteActivity(ctx, s.session, name).Get(ctx, nil)
				release()
			}
			if e != nil {
				err = e
			}
		})
	}
	all.Wait(ctx)
	return err
}

type cluster struct {
	*sessions
	t      *testing.T
	server *devtest.Server
	c      client.Client
	runs   map[string]client.WorkflowRun
}

// newCluster starts a server with three workers, each for limiters, boulders and sessions.
func newCluster(t *testing.T) *cluster {
	k := newServer(t)
	for range 3 {
		k.limits(Register)
		w := worker.New(k.server.Dial(t), queue, worker.Options{WorkflowPanicPolicy: worker.FailWorkflow})
		w.RegisterWorkflowWithOptions(k.boulder, workflow.RegisterOptions{Name: BoulderType})
		w.RegisterActivity(k.session)
		w.RegisterWorkflowWithOptions(lookUp, workflow.RegisterOptions{Name: "look-up"})
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
	}
	return k
}

func newServer(t *testing.T) *cluster {
	server := devtest.Start(t, "")
	return &cluster{
		sessions: &sessions{running: map[string]chan struct{}{}, began: make(chan string, 1000)},
		t:        t, server: server, c: server.Dial(t), runs: map[string]client.WorkflowRun{},
	}
}

// limits starts a worker for limiters.
func (k *cluster) limits(register func(worker.Registry)) (stop func()) {
	k.t.Helper()
	w := worker.New(k.server.Dial(k.t), Queue, worker.Options{WorkflowPanicPolicy: worker.FailWorkflow})
	register(w)
	if err := w.Start(); err != nil {
		k.t.Fatal(err)
	}
	stop = sync.OnceFunc(w.Stop)
	k.t.Cleanup(stop)
	return stop
}

func (k *cluster) start(boulder, model string, n int) {
	k.t.Helper()
	run, err := k.c.ExecuteWorkflow(k.t.Context(), client.StartWorkflowOptions{ID: boulder, TaskQueue: queue}, BoulderType, model, n)
	if err != nil {
		k.t.Fatal(err)
	}
	k.runs[boulder] = run
}

// next waits until the next session begins and returns its name.
func (k *cluster) next() string {
	k.t.Helper()
	select {
	case name := <-k.began:
		return name
	case <-time.After(30 * time.Second):
		k.t.Fatal("no session begins")
		return ""
	}
}

// awaitStatus waits until the only limiter has so many permits held and waiting.
func (k *cluster) awaitStatus(held, waiting int) Status {
	k.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		all, err := List(k.t.Context(), k.c)
		if err == nil && len(all) == 1 && len(all[0].Held) == held && len(all[0].Waiting) == waiting && !all[0].Rebuilding {
			return all[0]
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("limiters: %+v, %v; want %d permits held and %d waited for", all, err, held, waiting)
		}
	}
}

// finish ends n sessions, the running ones first and others as they begin, and waits for the boulders.
func (k *cluster) finish(n int, running ...string) {
	k.t.Helper()
	for n -= len(running); len(running) > 0; running = running[1:] {
		k.end(running[0])
		if n > 0 {
			running = append(running, k.next())
			n--
		}
	}
	for boulder, run := range k.runs {
		if err := run.Get(k.t.Context(), nil); err != nil {
			k.t.Errorf("boulder %s: %v", boulder, err)
		}
	}
}

// Two boulders on three workers share one cap and take turns.
func TestServerCap(t *testing.T) {
	t.Parallel()
	k := newCluster(t)
	k.start("a", "m", 6)
	k.awaitStatus(limit, 3)
	k.start("b", "m", 6)
	k.awaitStatus(limit, 9)
	running := []string{k.next(), k.next(), k.next()}
	var turns string
	for n := 9; len(running) > 0; running = running[1:] {
		k.end(running[0])
		if n--; n >= 0 {
			running = append(running, k.next())
			turns += running[len(running)-1][:1]
		}
	}
	k.finish(0)
	if k.peak != limit || turns != "abababbbb" {
		t.Errorf("%d sessions at once, with a cap of %d; turns %s", k.peak, limit, turns)
	}
	k.awaitStatus(0, 0)
	k.replay("cap")
}

// The successor of a terminated limiter has its cap, counts the running sessions and not one that ended meanwhile, and
// keeps the waiting requests.
func TestServerTerminate(t *testing.T) {
	t.Parallel()
	k := newCluster(t)
	k.start("a", "m", 4)
	k.start("b", "m", 2)
	before := k.awaitStatus(limit, 3)
	running := []string{k.next(), k.next(), k.next()}
	if _, err := SetCap(t.Context(), k.c, "m", 2); err != nil {
		t.Fatal(err)
	}
	if err := k.c.TerminateWorkflow(t.Context(), WorkflowID("m"), "", "test"); err != nil {
		t.Fatal(err)
	}
	k.end(running[0])
	k.start("c", "m", 1)
	after := k.awaitStatus(2, 4)
	for _, held := range after.Held {
		what, _, _ := strings.Cut(held.ID, "#")
		if name := held.Boulder + "/" + what; !slices.Contains(before.Held, held) || !slices.Contains(running[1:], name) {
			t.Errorf("%s is held after the limiter was terminated; running are %q", name, running[1:])
		}
	}
	if after.Cap != 2 || len(k.began) > 0 {
		t.Errorf("the cap is %d, and %d sessions began", after.Cap, len(k.began))
	}
	k.Lock()
	k.peak = 0
	k.Unlock()
	k.finish(6, running[1:]...)
	if k.peak > 2 {
		t.Errorf("%d sessions at once after that", k.peak)
	}
	k.replay("terminate")
}

// A new cap applies at once: a larger one starts sessions, a smaller one starts none until enough have ended.
func TestServerSetCap(t *testing.T) {
	t.Parallel()
	k := newCluster(t)
	if s, err := SetCap(t.Context(), k.c, "m", 2); err != nil || s.Cap != 2 { // before the first request
		t.Fatalf("set: %+v, %v", s, err)
	}
	k.start("a", "m", 8)
	k.awaitStatus(2, 6)
	running := []string{k.next(), k.next()}
	if _, err := SetCap(t.Context(), k.c, "m", 5); err != nil {
		t.Fatal(err)
	}
	running = append(running, k.next(), k.next(), k.next())
	k.awaitStatus(5, 3)
	if _, err := SetCap(t.Context(), k.c, "m", 1); err != nil {
		t.Fatal(err)
	}
	for _, name := range running[:4] {
		k.end(name)
	}
	k.awaitStatus(1, 3)
	if k.peak != 5 || len(k.began) > 0 {
		t.Errorf("%d sessions at once, and %d began with a cap of 1", k.peak, len(k.began))
	}
	k.finish(4, running[4])
	k.replay("set-cap")
}

func lookUp(ctx workflow.Context, held []Permit) (gone []Permit, err error) {
	err = workflow.ExecuteLocalActivity(local(ctx), ended, held).Get(ctx, &gone)
	return gone, err
}

// A terminated boulder loses its permits, also if it was started again. Other boulders keep theirs.
func TestServerEnded(t *testing.T) {
	t.Parallel()
	k := newCluster(t)
	k.start("a", "m", 1)
	k.start("b", "m", 1)
	held := k.awaitStatus(2, 0).Held
	gone := func(want int) {
		t.Helper()
		run, err := k.c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, "look-up", held)
		var got []Permit
		if err == nil {
			err = run.Get(t.Context(), &got)
		}
		if err != nil || len(got) != want || want > 0 && got[0].Boulder != "a" {
			t.Errorf("gone of %v: %v, %v; want %d", held, got, err, want)
		}
	}
	gone(0)
	if err := k.c.TerminateWorkflow(t.Context(), "a", "", "test"); err != nil {
		t.Fatal(err)
	}
	gone(1)
	k.start("a", "m", 1)
	gone(1)
}

// TestWorkerLostWhileAsking: if a worker is lost while it asks the boulders for a new limiter, another one does so soon.
func TestWorkerLostWhileAsking(t *testing.T) {
	t.Parallel()
	k := newServer(t)
	asking, lost := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(lost) })
	stop := k.limits(func(r worker.Registry) {
		r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowType})
		r.RegisterActivityWithOptions(func(context.Context, string) (found, error) {
			close(asking)
			<-lost
			return found{}, nil
		}, activity.RegisterOptions{Name: "rebuild"})
	})
	if _, err := SetCap(t.Context(), k.c, "m", limit); err != nil { // starts the limiter
		t.Fatal(err)
	}
	<-asking
	stop()
	k.limits(Register)
	k.awaitStatus(0, 0)
}
