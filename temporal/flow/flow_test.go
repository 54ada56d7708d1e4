package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/fault"
	"github.com/bouldermgr/manager/testkit/simulate"
)

// worlds takes about ten seconds.
const worlds = 600

// TestSameDecisions plays random worlds on goroutines and in a workflow, and compares the logs event by event.
// Decisions that depend on goroutine or map order, on real time, or on a field that a payload loses would break it.
func TestSameDecisions(t *testing.T) {
	t.Parallel()
	events, kinds := 0, map[string]int{}
	for seed := uint64(1); seed <= worlds; seed++ {
		local, flow := onMachine(t, seed), inWorkflow(t, seed)
		for i := range max(len(local), len(flow)) {
			if i >= len(local) || i >= len(flow) || !bytes.Equal(comparably(t, local[i]), comparably(t, flow[i])) {
				t.Fatalf("seed %d: event %d differs, of %d and %d:\n%s\n%s", seed, i+1, len(local), len(flow), at(t, local, i), at(t, flow, i))
			}
			kinds[boulder.TypeOf(local[i].Body)]++
		}
		if check, err := orchestrator.CheckDecisions(flow); err != nil || check.Difference != nil {
			t.Fatalf("seed %d: %v, %+v", seed, err, check)
		}
		events += len(local)
	}
	t.Logf("%d events: %v", events, kinds)
	for _, kind := range []string{
		"attempt-starting", "judged", "continuation", "retry", "replan", "trouble", "cooldown", "parked", "blocker-settled", "budget",
		"budget-set", "resumed", "note", "request-checked", "session-left", "reopened", "plan-edited", "model-set", "model-switched", "task-complete",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no world has a %s", kind)
		}
	}
}

func at(t *testing.T, events []boulder.Event, i int) string {
	t.Helper()
	if i >= len(events) {
		return "none"
	}
	return string(comparably(t, events[i]))
}

// fine matches the digits of a time below a millisecond, and the used seconds of a budget.
var fine = regexp.MustCompile(`("\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}|"dimension":"time","used":)[\d.]+`)

// comparably returns an event as JSON without fine: a workflow's clock is some nanoseconds ahead, see coroutines.now.
func comparably(t *testing.T, e boulder.Event) []byte {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return fine.ReplaceAll(data, []byte("$1"))
}

type memory struct{ flow }

func onMachine(t *testing.T, seed uint64) (events []boulder.Event) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := simulate.NewScript(seed, time.Now())
		s.Now = time.Now
		s.Sleep = func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		m, limits := &memory{flow{in: Input{FirstBlocker: 1, BoulderID: "b1"}}}, s.Limits()
		o, err := orchestrator.New(orchestrator.Config{
			Project: "/project", Planner: s, Judge: s, Runner: s, Store: m, Limits: &limits,
			NewID: func() string { return "b1" },
		})
		if err != nil {
			t.Fatal(err)
		}
		over, ended, requests := false, error(nil), make(chan orchestrator.Request, 1)
		requests <- s.Request()
		go func() { // the user
			defer close(requests)
			begun := time.Now()
			for _, said := range s.User() {
				<-time.After(said.After - time.Since(begun))
				synctest.Wait()
				switch {
				case over:
					return
				case said.Order != nil:
					_ = o.Order(t.Context(), "b1", s.Edit(*said.Order, m.state))
					continue
				}
				for _, answer := range simulate.Answers(m.state) {
					_ = o.Order(t.Context(), "b1", answer)
				}
				if ended != nil && !m.status().Terminal() {
					req := s.Resume(ended)
					req.Resume, ended = "b1", nil
					requests <- req
				}
			}
		}()
		for req := range requests {
			for _, err := range o.Run(t.Context(), req) {
				ended = err
			}
			over = m.status().Terminal()
		}
		events = m.log
	})
	return events
}

// inWorkflow plays a world in a workflow. The world's ports get and return payloads, as activities do.
func inWorkflow(t *testing.T, seed uint64) (events []boulder.Event) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	env.SetStartTime(begun)
	env.SetTestTimeout(time.Minute)
	s := simulate.NewScript(seed, begun)
	var f *flow
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in Input) (boulder.Status, error) {
		root, _ := workflow.NewDisconnectedContext(ctx)
		f = &flow{in: in, coroutines: &coroutines{root: root}, calls: map[int]*call{}}
		s.Now = func() time.Time { return workflow.Now(root) }
		s.Sleep = func(ctx context.Context, d time.Duration) error {
			own := workflowContext(ctx)
			if ctx.Done() == nil {
				own = uncancelled(ctx)
			}
			_ = workflow.Sleep(own, d)
			return context.Cause(ctx)
		}
		status, err := f.boulder(ctx, jsonPorts{s})
		events = f.log
		return status, err
	}, workflow.RegisterOptions{Name: Workflow})
	update := func(name string, what any) {
		env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {},
		}, what, time.Time{})
	}
	for _, said := range s.User() {
		env.RegisterDelayedCallback(func() {
			if env.IsWorkflowCompleted() {
				return
			}
			if said.Order != nil {
				update(UpdateOrder, s.Edit(*said.Order, f.state))
				return
			}
			for _, answer := range simulate.Answers(f.state) {
				update(UpdateOrder, answer)
			}
			var p Page
			v, err := env.QueryWorkflow(QueryLog, uint64(0))
			if err == nil {
				err = v.Get(&p)
			}
			if err != nil {
				t.Error(err)
			}
			if p.Ended != nil {
				update(UpdateResume, s.Resume(p.Ended.Err()))
			}
		}, said.After)
	}
	env.ExecuteWorkflow(Workflow, Input{FirstBlocker: 1, BoulderID: "b1", Project: "/project", Request: s.Request(), Limits: s.Limits(), Checks: true})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return events
}

type jsonPorts struct{ script *simulate.Script }

func throughJSON[T any](what T) (again T) {
	data, err := json.Marshal(what)
	if err == nil {
		err = json.Unmarshal(data, &again)
	}
	if err != nil {
		panic(err)
	}
	return again
}

func answer[T any](ctx context.Context, value T, usage boulder.Usage, err error) (T, boulder.Usage, error) {
	if ctx.Err() != nil {
		return value, usage, err // as cancelled activities do
	}
	r := throughJSON(Result[T]{value, usage, fault.Of(err)})
	return r.Value, r.Usage, r.Fault.Err()
}

func (p jsonPorts) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	v, u, err := p.script.Plan(ctx, throughJSON(req))
	return answer(ctx, v, u, err)
}

func (p jsonPorts) Prepare(ctx context.Context, req boulder.PlanRequest) (boulder.Prepared, boulder.Usage, error) {
	v, u, err := p.script.Prepare(ctx, throughJSON(req))
	return answer(ctx, v, u, err)
}

func (p jsonPorts) Look(ctx context.Context, job boulder.LookJob, report func(boulder.Body) error) (boulder.Looked, boulder.Usage, error) {
	v, u, err := p.script.Look(ctx, throughJSON(job), func(b boulder.Body) error {
		return throughJSON(fault.Of(report(throughJSON(boulder.Event{Body: b}).Body))).Err()
	})
	return answer(ctx, v, u, err)
}

func (p jsonPorts) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	v, u, err := p.script.Replan(ctx, throughJSON(req))
	return answer(ctx, v, u, err)
}

func (p jsonPorts) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	v, u, err := p.script.Judge(ctx, throughJSON(req))
	return answer(ctx, v, u, err)
}

func (p jsonPorts) Check(ctx context.Context, req boulder.CheckRequest) (boulder.RequestCheck, boulder.Usage, error) {
	v, u, err := p.script.Check(ctx, throughJSON(req))
	return answer(ctx, v, u, err)
}

func (p jsonPorts) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	v, err := p.script.Run(ctx, throughJSON(job), func(b boulder.Body) error {
		return throughJSON(fault.Of(report(throughJSON(boulder.Event{Body: b}).Body))).Err()
	})
	v, _, err = answer(ctx, v, boulder.Usage{}, err)
	return v, err
}
