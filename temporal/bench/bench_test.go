// Package bench measures boulders on Temporal: `make bench-temporal`. It runs on one machine, with the development
// server and its database in a file. The work itself takes no time, so the numbers are Temporal's overhead.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/temporal/devtest"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/limiter"
	"github.com/bouldermgr/manager/temporal/worker"
)

// asWorker is the variable that makes the test binary a worker: the server's address and the directory of signs.
const asWorker = "MANAGER_BENCH_WORKER"

const queue = "bench"

func TestMain(m *testing.M) {
	if of := strings.Fields(os.Getenv(asWorker)); len(of) == 2 {
		c, err := client.Dial(client.Options{
			HostPort: of[0], Logger: quiet(), ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{worker.Reconnect}},
		})
		if err == nil {
			s := signs{of[1]}
			if err = worker.New(c, queue, 50, worker.Parts{Judge: s, Runner: s}).Start(); err == nil {
				fmt.Println("READY")
				select {}
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// signs are files by which agents and benchmarks communicate. A sub-task whose id ends with - works until the file stop
// exists, one with _ for 500 ms, any other ends at once.
type signs struct{ dir string }

func (s signs) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
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
	if s.dir != "" && strings.HasSuffix(ref.SubTaskID, "_") { // counted by BenchmarkLimit
		using := filepath.Join(s.dir, "using", job.BoulderID+ref.SubTaskID)
		if err := os.WriteFile(using, nil, 0o600); err != nil {
			return boulder.Evidence{}, err
		}
		<-time.After(500 * time.Millisecond) // the work
		if err := os.Remove(using); err != nil {
			return boulder.Evidence{}, err
		}
	}
	if s.dir != "" && strings.HasSuffix(ref.SubTaskID, "-") {
		sign := fmt.Sprintf("%s%d", ref.SubTaskID, os.Getpid())
		if err := os.WriteFile(filepath.Join(s.dir, sign), nil, 0o600); err != nil {
			return boulder.Evidence{}, err
		}
		if err := s.until(ctx, "stop"); err != nil {
			return boulder.Evidence{}, err
		}
	}
	return boulder.Evidence{Ended: boulder.Ended{Finish: "stop"}, ToolCount: 1, FinalMessage: "done"}, nil
}

func (signs) Judge(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: "done", IsProgress: true}, boulder.Usage{Calls: 1}, nil
}

func (s signs) until(ctx context.Context, sign string) error {
	for {
		if _, err := os.Stat(filepath.Join(s.dir, sign)); err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

type bench struct {
	*testing.B
	signs
	server *devtest.Server
	client client.Client
}

func newBench(b *testing.B) *bench {
	b.Helper()
	if b.N > 1 {
		b.Skip("with -benchtime 1x")
	}
	m := &bench{B: b, signs: signs{b.TempDir()}, server: devtest.Start(b, filepath.Join(b.TempDir(), "temporal.db"))}
	m.client = m.server.Dial(b)
	return m
}

func (m *bench) worker() *exec.Cmd {
	m.Helper()
	return devtest.Process(m, fmt.Sprintf("%s=%s %s", asWorker, m.server.Address, m.dir))
}

// limits are wide enough that few boulders wait for others.
func limits() orchestrator.Limits {
	l := orchestrator.DefaultLimits()
	l.PerModel = 50
	return l
}

func plan(ids ...string) orchestrator.Request {
	plan := boulder.Plan{Version: boulder.PlanVersion, Task: "the task"}
	for _, id := range ids {
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{
			ID: id, Subject: "Do " + id, Description: "Do it, and do it well", SuccessCriteria: []string{"It is done"},
		})
	}
	return orchestrator.Request{Plan: &plan}
}

// parallel returns a request with independent sub-tasks.
func parallel(subTasks int) orchestrator.Request {
	var ids []string
	for i := range subTasks {
		ids = append(ids, "t"+strconv.Itoa(i))
	}
	return plan(ids...)
}

func (m *bench) begin(heartbeat time.Duration, req orchestrator.Request) (client.WorkflowRun, error) {
	id := uuid.NewString()
	return m.client.ExecuteWorkflow(m.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, flow.Workflow, flow.Input{
		BoulderID: id, Project: "/project", Limits: limits(), Heartbeat: heartbeat, Request: req,
	})
}

func (m *bench) completed(run client.WorkflowRun) {
	m.Helper()
	var status boulder.Status
	if err := run.Get(m.Context(), &status); err != nil || status != boulder.Completed {
		m.Fatalf("%s: %v", status, err)
	}
}

func (m *bench) run(req orchestrator.Request) client.WorkflowRun {
	m.Helper()
	run := m.begun(time.Minute, req)
	m.completed(run)
	return run
}

func (m *bench) begun(heartbeat time.Duration, req orchestrator.Request) client.WorkflowRun {
	m.Helper()
	run, err := m.begin(heartbeat, req)
	if err != nil {
		m.Fatal(err)
	}
	return run
}

// history returns the length of a workflow's history, over all its runs.
func (m *bench) history(id string) (events, bytes int64) {
	m.Helper()
	runs := map[string]bool{"": true} // the latest run, which may not be listed yet
	page, err := m.client.ListWorkflow(m.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + id + "'"})
	for _, w := range page.GetExecutions() {
		runs[w.GetExecution().GetRunId()] = true
	}
	seen := map[string]bool{}
	for run := range runs {
		about, missing := m.client.DescribeWorkflowExecution(m.Context(), id, run)
		err = errors.Join(err, missing)
		if w := about.GetWorkflowExecutionInfo(); !seen[w.GetExecution().GetRunId()] {
			seen[w.GetExecution().GetRunId()] = true
			events, bytes = events+w.GetHistoryLength(), bytes+w.GetHistorySizeBytes()
		}
	}
	if err != nil {
		m.Fatal(err)
	}
	return events, bytes
}

func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("processes are measured on Linux:", err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, _ := strconv.Atoi(fields[12])
	system, _ := strconv.Atoi(fields[13])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident returns the resident memory of a process, in MB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	var kB float64
	for line := range strings.Lines(string(status)) {
		if n, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, err = fmt.Sscan(n, &kB)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return kB / 1e3
}

// local runs a boulder without Temporal and returns the time it takes.
func local(b *testing.B, req orchestrator.Request) time.Duration {
	b.Helper()
	db, err := store.Open(filepath.Join(b.TempDir(), "manager.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	l := limits()
	o, err := orchestrator.New(orchestrator.Config{Project: "/project", Store: db, Runner: signs{}, Judge: signs{}, Limits: &l})
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	for _, err := range o.Run(b.Context(), req) {
		if err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begun)
}

// perThousand returns the seconds for 1,000, given the time d for n.
func perThousand(d time.Duration, n int) float64 { return d.Seconds() / float64(n) * 1000 }

// BenchmarkOverhead runs the same boulders on both engines in turns, five times each, and compares the medians.
func BenchmarkOverhead(b *testing.B) {
	for _, subTasks := range []int{5, 50} {
		b.Run(fmt.Sprintf("sub-tasks=%d", subTasks), func(b *testing.B) {
			m := newBench(b)
			w := m.worker()
			m.run(parallel(1)) // warm-up: connections, limiter
			const times = 5
			var here, there []time.Duration
			limiterEvents, limiterBytes := m.history("limiter/default")
			server, work := cpu(b, m.server.PID()), cpu(b, w.Process.Pid)
			var run client.WorkflowRun
			for range times {
				here = append(here, local(b, parallel(subTasks)))
				begun := time.Now()
				run = m.run(parallel(subTasks))
				there = append(there, time.Since(begun))
			}
			slices.Sort(here)
			slices.Sort(there)
			all := times * subTasks
			b.ReportMetric(float64(here[times/2].Microseconds())/1e3/float64(subTasks), "local-ms/sub-task")
			b.ReportMetric(float64(there[times/2].Microseconds())/1e3/float64(subTasks), "ms/sub-task")
			b.ReportMetric(float64(there[times/2])/float64(here[times/2]), "x-local")
			events, bytes := m.history(run.GetID())
			b.ReportMetric(float64(events)/float64(subTasks), "events/sub-task")
			b.ReportMetric(float64(bytes)/float64(subTasks), "B/sub-task")
			events, bytes = m.history("limiter/default")
			b.ReportMetric(float64(events-limiterEvents)/float64(all), "limiter-events/sub-task")
			b.ReportMetric(float64(bytes-limiterBytes)/float64(all), "limiter-B/sub-task")
			b.ReportMetric(perThousand(cpu(b, m.server.PID())-server, all), "server-cpu-s/1000")
			b.ReportMetric(perThousand(cpu(b, w.Process.Pid)-work, all), "worker-cpu-s/1000")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkGrowth runs boulders with one sub-task each, all at once, on one worker.
func BenchmarkGrowth(b *testing.B) {
	for _, boulders := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("boulders=%d", boulders), func(b *testing.B) {
			m := newBench(b)
			w := m.worker()
			m.run(parallel(1))
			server, work, begun := cpu(b, m.server.PID()), cpu(b, w.Process.Pid), time.Now()
			var beginning errgroup.Group
			beginning.SetLimit(8)
			runs := make([]client.WorkflowRun, boulders)
			for i := range runs {
				beginning.Go(func() (err error) {
					runs[i], err = m.begin(time.Minute, parallel(1))
					return err
				})
			}
			if err := beginning.Wait(); err != nil {
				b.Fatal(err)
			}
			for _, run := range runs {
				m.completed(run)
			}
			b.ReportMetric(float64(time.Since(begun).Milliseconds())/float64(boulders), "ms/boulder")
			b.ReportMetric(float64((cpu(b, m.server.PID())-server).Milliseconds())/float64(boulders), "server-cpu-ms/boulder")
			b.ReportMetric(float64((cpu(b, w.Process.Pid)-work).Milliseconds())/float64(boulders), "worker-cpu-ms/boulder")
			b.ReportMetric(resident(b, m.server.PID()), "server-MB")
			b.ReportMetric(resident(b, w.Process.Pid), "worker-MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLimit runs 50 boulders of 20 sub-tasks on 3 workers with a limit of 5, and samples how many work at once.
func BenchmarkLimit(b *testing.B) {
	const limit, boulders = 5, 50
	m := newBench(b)
	if err := os.Mkdir(filepath.Join(m.dir, "using"), 0o700); err != nil {
		b.Fatal(err)
	}
	for range 3 {
		m.worker()
	}
	if _, err := limiter.SetCap(b.Context(), m.client, "test/model", limit); err != nil {
		b.Fatal(err)
	}
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("t%d_", i))
	}
	begun := time.Now()
	runs := make([]client.WorkflowRun, boulders)
	for i := range runs {
		req := plan(ids...)
		req.Plan.Model = "test/model"
		runs[i] = m.begun(time.Minute, req)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, run := range runs {
			_ = run.Get(b.Context(), nil)
		}
	}()
	most, samples, full := 0, 0, 0
	for sampling := true; sampling; samples++ {
		using, err := os.ReadDir(filepath.Join(m.dir, "using"))
		if err != nil {
			b.Fatal(err)
		}
		most = max(most, len(using))
		if len(using) == limit {
			full++
		}
		select {
		case <-over:
			sampling = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, run := range runs {
		m.completed(run)
	}
	b.ReportMetric(float64(most), "most-at-work")
	b.ReportMetric(float64(samples), "samples")
	b.ReportMetric(float64(full)/float64(samples), "share-at-limit")
	b.ReportMetric(float64(boulders*len(ids))/time.Since(begun).Seconds(), "sub-tasks/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWorkerKilled measures the time from kill -9 of a worker, which also ran the workflow, until another works.
func BenchmarkWorkerKilled(b *testing.B) {
	for _, heartbeat := range []time.Duration{5 * time.Second, 30 * time.Second} {
		b.Run("heartbeat="+heartbeat.String(), func(b *testing.B) {
			m := newBench(b)
			first := m.worker()
			run := m.begun(heartbeat, plan("a-"))
			m.wait(fmt.Sprintf("a-%d", first.Process.Pid))
			second := m.worker()
			if err := first.Process.Kill(); err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			m.wait(fmt.Sprintf("a-%d", second.Process.Pid))
			b.ReportMetric(time.Since(begun).Seconds(), "s")
			b.ReportMetric(float64(time.Since(begun))/float64(heartbeat), "heartbeats")
			m.finish(run)
		})
	}
}

// BenchmarkServerKilled measures the times from the restart of a server, killed 10 s before, until it is up and until
// the first decision: a turn that ended meanwhile is judged, and the next sub-task starts.
func BenchmarkServerKilled(b *testing.B) {
	m := newBench(b)
	w := m.worker()
	req := plan("a-", "b-")
	req.Plan.SubTasks[1].DependsOn = []string{"a-"}
	run := m.begun(30*time.Second, req)
	m.wait(fmt.Sprintf("a-%d", w.Process.Pid))
	if err := m.server.Kill(); err != nil {
		b.Fatal(err)
	}
	m.sign("stop")
	<-time.After(10 * time.Second) // the outage
	begun := time.Now()
	if err := m.server.Restart(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(begun).Seconds(), "s-until-up")
	m.wait(fmt.Sprintf("b-%d", w.Process.Pid))
	b.ReportMetric(time.Since(begun).Seconds(), "s-until-decision")
	m.finish(run)
}

func (m *bench) wait(sign string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 5*time.Minute)
	defer cancel()
	if err := m.until(ctx, sign); err != nil {
		m.Fatalf("no %s: %v", sign, err)
	}
}

func (m *bench) sign(sign string) {
	m.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, sign), nil, 0o600); err != nil {
		m.Fatal(err)
	}
}

// finish ends the work and checks that the measured boulder completes.
func (m *bench) finish(run client.WorkflowRun) {
	m.Helper()
	m.sign("stop")
	m.completed(run)
	m.ReportMetric(0, "ns/op")
}
