package orchestrator_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestFork: sub-tasks that do not depend on the named one are taken over with their outputs, not redone. The original
// stays unchanged. A refused fork creates no boulder.
func TestFork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.completes(r.run(diamond()))
	before := len(r.store.log("b1"))
	clear(r.server.briefs)
	r.cfg.NewID = func() string { return "b2" }
	fork := func(id string, from ...string) ([]boulder.Event, error) {
		return r.request(orchestrator.Request{Fork: &boulder.Fork{BoulderID: id, SubTasks: from}, Note: "with care"})
	}

	if _, err := fork("b1", "x"); !errors.Is(err, orchestrator.ErrNoFork) || !strings.Contains(err.Error(), "a, b, c, d") {
		t.Errorf("from a sub-task that is not there: %v", err)
	}
	if _, err := fork("b9", "a"); !errors.Is(err, boulder.ErrNotFound) {
		t.Errorf("of a boulder that is not there: %v", err)
	}
	if len(r.store.log("b2")) != 0 {
		t.Error("a fork that cannot be made made a boulder")
	}
	r.completes(fork("b1", "b"))
	b, d := r.server.prompted(at("b", 1)), r.server.prompted(at("d", 1))
	if len(r.server.briefs) != 2 || !strings.Contains(b[0], "output of a") || !strings.Contains(d[0], "output of c") {
		t.Errorf("the briefs of the fork, which should be those of b and d: %v", r.server.briefs)
	}
	if !strings.Contains(b[0], "with care") || strings.Contains(d[0], "with care") {
		t.Errorf("the note is for b alone:\n%s\n%s", b[0], d[0])
	}
	records, err := r.store.Load(t.Context(), "b2")
	if err != nil {
		t.Fatal(err)
	}
	if f := records.Boulder.ForkOf; f == nil || f.BoulderID != "b1" || records.Boulder.Task != "the task" {
		t.Errorf("the fork is %+v", records.Boulder)
	}
	if len(r.store.log("b1")) != before {
		t.Error("the original was changed")
	}

	clear(r.server.briefs)
	r.cfg.NewID = func() string { return "b3" }
	r.completes(fork("b2", "b", "c"))
	if len(r.server.briefs) != 3 || len(r.server.prompted(at("c", 1))) != 1 {
		t.Errorf("the briefs of the second fork, which should be those of b, c and d: %v", r.server.briefs)
	}
}

// TestForkWithoutAGate: a row of the request that a gate shows loses that with the gate, which was not approved.
func TestForkWithoutAGate(t *testing.T) {
	t.Parallel()
	r, plan := newRig(t), gated()
	plan.Request = []boulder.Obligation{{ID: "r1", Text: "It works", Owner: "a", ShownBy: "make test"}}
	r.completes(r.request(orchestrator.Request{Plan: plan, GatesAsHints: true}))
	r.cfg.NewID = func() string { return "b2" }
	r.completes(r.request(orchestrator.Request{Fork: &boulder.Fork{BoulderID: "b1", SubTasks: []string{"a"}}}))
	records, err := r.store.Load(t.Context(), "b2")
	if err != nil {
		t.Fatal(err)
	}
	if p := records.Revision.Plan; len(p.SubTasks[0].Gates) > 0 || len(p.Request) != 1 || p.Request[0].ShownBy != "" {
		t.Errorf("%+v, %+v", p.SubTasks[0], p.Request)
	}
}
