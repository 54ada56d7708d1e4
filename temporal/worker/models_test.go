package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/limiter"
)

// creditAgents have no credit with the model p/one, once the file out exists.
type creditAgents struct {
	agents
	host string

	mu   *sync.Mutex
	busy map[string]int // agents at work, by model
	most map[string]int
}

func (v creditAgents) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	model, ref := job.Attempt.Model, job.Attempt.AttemptRef
	v.note(v.host+" uses "+model+" for", ref)
	v.add(model, 1)
	defer v.add(model, -1)
	if model != "p/one" {
		return v.agents.Run(ctx, job, report)
	}
	if err := v.wait(ctx, ref, "out"); err != nil {
		return boulder.Evidence{}, err
	}
	return boulder.Evidence{}, fmt.Errorf("%w: the account is empty", boulder.ErrNoCredit)
}

func (v creditAgents) add(model string, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy[model] += n
	v.most[model] = max(v.most[model], v.busy[model])
}

// TestModelOut: two workers share the limits of models. When one is out, each of their boulders switches once, for all of its
// sub-tasks and at the cost of no attempt, and the next model's limit holds for all of them.
func TestModelOut(t *testing.T) {
	r := newRig(t, 5*time.Second, "x") // its boulder has the default model, and is not in the way
	v := creditAgents{agents: r.agents, mu: &sync.Mutex{}, busy: map[string]int{}, most: map[string]int{}}
	for _, host := range []string{"one", "two"} {
		v.host = host
		w := New(r.client, queue, 10, Parts{Judge: v, Runner: v, Host: host})
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
	}
	limits := orchestrator.DefaultLimits()
	limits.Models = []orchestrator.ModelLimit{{Pattern: "p/two", Limit: 2}}
	runs := map[string]client.WorkflowRun{}
	var ids []string
	for _, name := range []string{"m1", "m2"} {
		plan := planOf(name+"a", name+"b", name+"c")
		plan.Model = "p/one,p/two"
		plan.SubTasks[2].DependsOn = []string{name + "a"}
		ids = append(ids, name+"a", name+"b", name+"c")
		var err error
		runs[name], err = r.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: name, TaskQueue: queue}, flow.Workflow, flow.Input{
			BoulderID: name, Project: project, Limits: limits, Heartbeat: 5 * time.Second,
			Request: orchestrator.Request{Plan: plan},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	used := func(model, subTask string) bool {
		return r.count("one uses "+model+" for "+subTask+"#1")+r.count("two uses "+model+" for "+subTask+"#1") > 0
	}
	until := func(so func() bool) {
		t.Helper()
		for begun := time.Now(); !so(); <-time.After(20 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%q", r.notes())
			}
		}
	}
	until(func() bool {
		return used("p/one", "m1a") && used("p/one", "m1b") && used("p/one", "m2a") && used("p/one", "m2b")
	})
	r.finish("out")
	until(func() bool {
		all, err := limiter.List(t.Context(), r.client)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(s limiter.Status) bool {
			return s.Model == "p/two" && len(s.Held) == 2 && len(s.Waiting) == 2
		})
	})
	r.finish(append(ids, "x")...)
	for name, run := range runs {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var status boulder.Status
		if err := run.Get(ctx, &status); err != nil || status != boulder.Completed {
			t.Fatalf("%s: %s, %v; %q", name, status, err, r.notes())
		}
		var page flow.Page
		value, err := r.client.QueryWorkflow(t.Context(), name, "", flow.QueryLog, 0)
		if err == nil {
			err = value.Get(&page)
		}
		if err != nil {
			t.Fatal(err)
		}
		var switched [][]string
		for _, e := range page.Events {
			switch b := e.Body.(type) {
			case boulder.Switched:
				switched = append(switched, b.SubTasks)
			case boulder.Retry:
				t.Errorf("%s: an attempt was lost: %+v", name, b)
			}
		}
		if len(switched) != 1 || strings.Join(switched[0], " ") != fmt.Sprintf("%[1]sa %[1]sb %[1]sc", name) {
			t.Errorf("%s: switched %q", name, switched)
		}
	}
	hosts := map[string]bool{}
	for _, note := range r.notes() {
		if host, _, of := strings.Cut(note, " uses "); of {
			hosts[host] = true
		}
	}
	if len(hosts) != 2 || v.most["p/two"] != 2 || used("p/one", "m1c") || used("p/one", "m2c") {
		t.Errorf("hosts %v, at once %v; %q", hosts, v.most, r.notes())
	}
}
