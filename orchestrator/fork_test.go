package orchestrator_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// briefed is a Runner that ends every turn well, and keeps the prompts.
type briefed struct {
	mu     sync.Mutex
	briefs map[string]string // by sub-task
}

func (b *briefed) Run(_ context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	b.mu.Lock()
	b.briefs[job.SubTask.ID] = job.Turn.Prompt
	b.mu.Unlock()
	ref := job.Attempt.AttemptRef
	err := report(boulder.SubTaskStart{AttemptRef: ref, SessionID: "s"})
	return boulder.Evidence{FinalMessage: "done"}, err
}

// lastOf drains a run.
func lastOf(t *testing.T, events iter.Seq2[boulder.Event, error]) (last boulder.Body, err error) {
	t.Helper()
	for e, problem := range events {
		if err = problem; err == nil {
			last = e.Body
		}
	}
	return last, err
}

// TestFork: what does not follow from the sub-task is taken over with its outputs and not done again; the original stays
// as it was, and what cannot be forked makes no boulder.
func TestFork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	runner := &briefed{briefs: map[string]string{}}
	r.cfg.Runner = runner
	plan := diamond()
	if _, err := lastOf(t, r.orchestrator().Run(t.Context(), orchestrator.Request{Plan: &plan})); err != nil {
		t.Fatal(err)
	}
	before := len(r.store.logs["b1"])
	clear(runner.briefs)
	r.cfg.NewID = func() string { return "b2" }
	fork := func(id, from string) (boulder.Body, error) {
		f := &boulder.Fork{BoulderID: id, SubTaskID: from}
		return lastOf(t, r.orchestrator().Run(t.Context(), orchestrator.Request{Fork: f}))
	}

	if _, err := fork("b1", "x"); !errors.Is(err, orchestrator.ErrNoFork) || !strings.Contains(err.Error(), "a, b, c, d") {
		t.Errorf("from a sub-task that is not there: %v", err)
	}
	if _, err := fork("b9", "a"); !errors.Is(err, boulder.ErrNotFound) {
		t.Errorf("of a boulder that is not there: %v", err)
	}
	if len(r.store.logs["b2"]) != 0 {
		t.Error("a fork that cannot be made made a boulder")
	}
	last, err := fork("b1", "b")
	if done, ok := last.(boulder.TaskComplete); err != nil || !ok || !done.AllCompleted {
		t.Fatalf("%v, %+v", err, last)
	}
	if len(runner.briefs) != 2 || !strings.Contains(runner.briefs["b"], "output of a") ||
		!strings.Contains(runner.briefs["d"], "output of c") {
		t.Errorf("the briefs of the fork, which should be those of b and d: %q", runner.briefs)
	}
	records, err := r.store.Load(t.Context(), "b2")
	if err != nil {
		t.Fatal(err)
	}
	if f := records.Boulder.ForkOf; f == nil || f.BoulderID != "b1" || records.Boulder.Task != "the task" {
		t.Errorf("the fork is %+v", records.Boulder)
	}
	if len(r.store.logs["b1"]) != before {
		t.Error("the original was changed")
	}
}
