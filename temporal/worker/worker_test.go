package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/worker"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/devtest"
	"github.com/bouldermgr/manager/temporal/fault"
	"github.com/bouldermgr/manager/temporal/flow"
)

// asWorker is the variable that makes the test binary a worker: the server's address, the queue, the agents' directory.
const asWorker = "MANAGER_TEST_WORKER"

func TestMain(m *testing.M) {
	if of := strings.Fields(os.Getenv(asWorker)); len(of) == 3 {
		c, err := client.Dial(client.Options{HostPort: of[0], Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		if err == nil {
			a := agents{dir: of[2]}
			w := New(c, of[1], 10, Parts{Planner: a, Judge: a, Runner: a})
			if err = w.Start(); err == nil {
				fmt.Println("READY")
				<-sdk.InterruptCh()
				w.Stop()
				os.Exit(0)
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// agents work until the file of their sub-task exists, and append notes to a file that all workers share.
type agents struct{ dir string }

func (a agents) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
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
		a.note("sent", ref)
	}
	a.note("at work", ref)
	if err := a.wait(ctx, ref, ref.SubTaskID, nudge(ref.SubTaskID)); err != nil {
		return boulder.Evidence{}, err
	}
	if a.is(nudge(ref.SubTaskID)) {
		if err := report(boulder.Nudged{AttemptRef: ref, Turn: job.Turn.Number, Rule: boulder.RuleIdle, MessageID: "nudge"}); err != nil {
			return boulder.Evidence{}, err
		}
		a.note("nudged", ref)
	}
	err := a.wait(ctx, ref, ref.SubTaskID)
	return boulder.Evidence{Ended: boulder.Ended{Finish: "stop"}, ToolCount: 1, FinalMessage: "done"}, err
}

func (a agents) wait(ctx context.Context, ref boulder.AttemptRef, files ...string) error {
	for !slices.ContainsFunc(files, a.is) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			a.note("ended", ref)
			return context.Cause(ctx)
		}
	}
	return nil
}

// Plan returns a plan with the one sub-task a, once the file plan exists.
func (a agents) Plan(ctx context.Context, _ boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	ref := boulder.AttemptRef{SubTaskID: "plan", Attempt: 1}
	a.note("at work", ref)
	plan := planOf("a")
	plan.Seal = &boulder.Seal{Hash: plan.Hash(), Origin: boulder.OriginModel}
	return plan, boulder.Usage{Calls: 1}, a.wait(ctx, ref, "plan")
}

func (a agents) Replan(context.Context, boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	return boulder.Replacement{}, boulder.Usage{}, boulder.ErrNoNewPlan
}

// nudge names the file that makes the agent of a sub-task report a nudge.
func nudge(id string) string { return id + ".nudge" }

func (a agents) is(file string) bool {
	_, err := os.Stat(filepath.Join(a.dir, file))
	return err == nil
}

func (a agents) Judge(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: "done", IsProgress: true}, boulder.Usage{Calls: 1}, nil
}

func (a agents) note(what string, ref boulder.AttemptRef) {
	f, err := os.OpenFile(filepath.Join(a.dir, "notes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %s#%d\n", what, ref.SubTaskID, ref.Attempt)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

func (a agents) count(note string) int {
	return len(slices.DeleteFunc(a.notes(), func(other string) bool { return other != note }))
}

func (a agents) notes() []string {
	data, _ := os.ReadFile(filepath.Join(a.dir, "notes"))
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// rig is a server and one boulder.
type rig struct {
	*testing.T
	agents
	server *devtest.Server
	client client.Client
	run    client.WorkflowRun
}

const queue, project, id = "q", "/project", "b1"

func planOf(ids ...string) *boulder.Plan {
	plan := &boulder.Plan{Version: 1, Task: "the task"}
	for _, id := range ids {
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{ID: id, Subject: "Do " + id, Description: "Do it", SuccessCriteria: []string{"done"}})
	}
	return plan
}

// newRig starts a boulder with these sub-tasks; if there are none, [agents.Plan] plans it.
func newRig(t *testing.T, heartbeat time.Duration, ids ...string) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{T: t, agents: agents{t.TempDir()}, server: devtest.Start(t, filepath.Join(t.TempDir(), "temporal.db"))}
	r.client = r.server.Dial(t)
	req := orchestrator.Request{Task: "the task", GatesApproved: true}
	if len(ids) > 0 {
		req.Plan = planOf(ids...)
	}
	limits := orchestrator.DefaultLimits()
	limits.Backoff = 100 * time.Millisecond
	var err error
	// A workflow task may go to a dead worker first, so its timeout is short.
	options := client.StartWorkflowOptions{ID: id, TaskQueue: queue, WorkflowTaskTimeout: 3 * time.Second}
	r.run, err = r.client.ExecuteWorkflow(t.Context(), options, flow.Workflow, flow.Input{
		BoulderID: id, Project: project, Limits: limits, Heartbeat: heartbeat, Request: req,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) process() *exec.Cmd { return r.processAt(r.server.Address) }

// processAt starts a worker that reaches the server at address. inside is a command prefix.
func (r *rig) processAt(address string, inside ...string) *exec.Cmd {
	r.Helper()
	return devtest.Process(r, fmt.Sprintf("%s=%s %s %s", asWorker, address, queue, r.dir), inside...)
}

// here starts a worker in the test's process.
func (r *rig) here() Worker {
	r.Helper()
	w := New(r.client, queue, 10, Parts{Judge: r.agents, Runner: r.agents})
	if err := w.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(w.Stop)
	return w
}

// until waits until a note was made so many times.
func (r *rig) until(note string, times int) {
	r.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(20 * time.Millisecond) {
		if r.count(note) >= times {
			return
		}
	}
	r.Fatalf("no %q, %d times; %q; %s", note, times, r.notes(), r.log())
}

func (r *rig) finish(subTasks ...string) {
	r.Helper()
	for _, id := range subTasks {
		if err := os.WriteFile(filepath.Join(r.dir, id), nil, 0o600); err != nil {
			r.Fatal(err)
		}
	}
}

// completed waits for the boulder to complete, replays its history, and returns its log, see log.
func (r *rig) completed() []string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	var status boulder.Status
	if err := r.run.Get(ctx, &status); err != nil || status != boulder.Completed {
		r.Fatalf("%s: %v; %s", status, err, r.log())
	}
	r.replayHistory()
	return r.log()
}

func (r *rig) page() (p flow.Page, err error) {
	v, err := r.client.QueryWorkflow(context.Background(), id, "", flow.QueryLog, 0)
	if err == nil {
		err = v.Get(&p)
	}
	return p, err
}

// log returns the types of the boulder's events, with their attempts.
func (r *rig) log() (all []string) {
	p, err := r.page()
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range p.Events {
		line := boulder.TypeOf(e.Body)
		if of, ok := e.Body.(interface{ Ref() boulder.AttemptRef }); ok {
			line = fmt.Sprintf("%s %s#%d", line, of.Ref().SubTaskID, of.Ref().Attempt)
		}
		all = append(all, line)
	}
	return all
}

func (r *rig) order(o boulder.Order) error {
	r.Helper()
	handle, err := r.client.UpdateWorkflow(r.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: flow.UpdateOrder, Args: []any{o, time.Time{}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var f *fault.Fault
	if err == nil {
		err = handle.Get(r.Context(), &f)
	}
	if err != nil {
		r.Fatal(err)
	}
	return f.Err()
}

// TestOrders: orders reach a running boulder, refusals come back as such, and cancelled work ends on the worker.
func TestOrders(t *testing.T) {
	r := newRig(t, 5*time.Second, "a", "b")
	r.here()
	r.until("at work a#1", 1)
	if err := r.order(boulder.Order{Do: boulder.OrderSkip, SubTaskID: "nosuch"}); !errors.Is(err, boulder.ErrRefused) {
		t.Errorf("%v", err)
	}
	if err := r.order(boulder.Order{Do: boulder.OrderPause, Now: true}); err != nil {
		t.Error(err)
	}
	r.until("ended a#1", 1)
	if err := r.order(boulder.Order{Do: boulder.OrderResume}); err != nil {
		t.Error(err)
	}
	r.until("at work a#1", 2)
	if err := r.order(boulder.Order{Do: boulder.OrderSkip, SubTaskID: "b"}); err != nil {
		t.Error(err)
	}
	r.finish("a")
	if log := r.completed(); !slices.Contains(log, "subtask-done b#1") || slices.Contains(log, "retry a#1") {
		t.Errorf("%q", log)
	}
}

// TestWorkerKilled: after kill -9 of a worker and its workflow, another one continues the attempt without a new prompt.
func TestWorkerKilled(t *testing.T) {
	r := newRig(t, 3*time.Second, "a", "b")
	first := r.process()
	r.until("at work a#1", 1)
	r.until("at work b#1", 1)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.process()
	r.until("at work a#1", 2)
	r.until("at work b#1", 2)
	r.finish("a", "b")
	log := r.completed()
	if !slices.Contains(log, "trouble a#1") || slices.Contains(log, "retry a#1") || r.count("sent a#1") != 1 {
		t.Errorf("%q, %q", log, r.notes())
	}
}

// TestWorkerFrozen: another worker gets a frozen one's work. When that thaws, its work ends and reports are refused.
func TestWorkerFrozen(t *testing.T) {
	r := newRig(t, 3*time.Second, "a")
	first := r.process()
	r.until("at work a#1", 1)
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.process()
	r.until("at work a#1", 2)
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.until("ended a#1", 1)
	r.finish("a")
	if log := r.completed(); slices.Contains(log, "retry a#1") {
		t.Errorf("%q", log)
	}
}

// TestServerFrozen: work continues while the server does not answer for 8 s, and its result arrives afterwards.
func TestServerFrozen(t *testing.T) {
	r := newRig(t, 30*time.Second, "a")
	r.here()
	r.until("at work a#1", 1)
	if err := r.server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(8 * time.Second) // the outage under test
	if err := r.server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.finish("a")
	log := r.completed()
	if slices.Contains(log, "trouble a#1") || slices.Contains(r.notes(), "ended a#1") {
		t.Errorf("%q, %q", log, r.notes())
	}
}
