package worker

import (
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/limiter"
)

// TestPermits: boulders share the cap of a model, which their judge uses as well. A waiting one can be cancelled.
func TestPermits(t *testing.T) {
	r := newRig(t, 5*time.Second, "a")
	r.here()
	if _, err := limiter.SetCap(t.Context(), r.client, "default", 1); err != nil {
		t.Fatal(err)
	}
	r.until("at work a#1", 1)
	second := func(id, subTask string) client.WorkflowRun {
		plan := boulder.Plan{Version: 1, Task: "the task", SubTasks: []boulder.Spec{
			{ID: subTask, Subject: "Do it", Description: "Do it", SuccessCriteria: []string{"done"}},
		}}
		run, err := r.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, flow.Workflow, flow.Input{
			BoulderID: id, Project: project, Limits: orchestrator.DefaultLimits(), Heartbeat: 5 * time.Second,
			Request: orchestrator.Request{Plan: &plan},
		})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	waiting := func(ids ...string) {
		t.Helper()
		var all []limiter.Status
		for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(20 * time.Millisecond) {
			var err error
			if all, err = limiter.List(t.Context(), r.client); err != nil {
				t.Fatal(err)
			}
			var now []string
			for _, p := range all[0].Waiting {
				now = append(now, p.Boulder+" "+p.ID)
			}
			if slices.Equal(now, ids) {
				return
			}
		}
		t.Fatalf("want %q; %+v", ids, all)
	}
	cancelled := second("b2", "cancelled")
	waiting("b2 cancelled/1#1")
	b := second("b3", "b")
	waiting("b2 cancelled/1#1", "b3 b/1#1")
	if err := r.client.CancelWorkflow(t.Context(), "b2", ""); err != nil {
		t.Fatal(err)
	}
	var status boulder.Status
	if err := cancelled.Get(t.Context(), &status); err != nil || status != boulder.Cancelled {
		t.Fatalf("%s: %v", status, err)
	}
	waiting("b3 b/1#1")
	r.finish("a")
	waiting("b1 judge#2")
	r.until("at work b#1", 1)
	r.finish("b")
	r.completed()
	if err := b.Get(t.Context(), &status); err != nil || status != boulder.Completed {
		t.Fatalf("%s: %v", status, err)
	}
	all, err := limiter.List(t.Context(), r.client)
	if err != nil || len(all) != 1 || len(all[0].Held) > 0 || slices.Contains(r.notes(), "at work cancelled#1") {
		t.Errorf("%+v, %v, %q", all, err, r.notes())
	}
}
