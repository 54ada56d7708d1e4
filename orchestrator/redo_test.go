package orchestrator_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

func redo(ids ...string) boulder.Order {
	return boulder.Order{Do: boulder.OrderRedo, Text: "otherwise", Redone: &boulder.Redone{
		SubTasks: ids, Files: boulder.FilesKeep, Reasons: map[string][]boulder.Reason{ids[0]: {boulder.ReasonAsked}},
		Patches: map[string]string{ids[0]: "+++ the change"},
	}}
}

// lined is a server with results as commits that always fit the tip.
type lined struct{ *server }

func (l lined) Integrate(_ context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	at := what.Trunk.Integrating
	return report(boulder.Integrated{AttemptRef: at.AttemptRef, Tree: "tree", Commit: at.Tip + "<" + what.SubTask.ID})
}

// Whichever commit of a redo fails, before or after its write, the end state is the same, and no prompt is sent twice.
func TestRedoSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "base"} {
		for crash := range crashes(t) {
			r := newRig(t)
			r.cfg.Runner = lined{r.server}
			r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
				e := boulder.Evidence{FinalMessage: "done", Diff: boulder.Diff{Hash: "change of " + job.SubTask.ID}}
				if base != "" {
					e.Diff.Commit = "work on " + job.SubTask.ID
				}
				return e, nil
			}
			r.completes(r.request(orchestrator.Request{Plan: planOf(spec("a"), spec("b", "a"), spec("x")), SlotBase: base}))
			before := r.server.sent()
			r.obeys(crash, redo("a"))
			head, subTasks := r.store.load(t)
			if head.Status != boulder.Completed || subTasks["a"].Generation != 1 || subTasks["b"].Generation != 0 {
				t.Errorf("%v of %q: boulder is %s, a %+v", crash, base, head.Status, subTasks["a"])
			}
			if got := r.server.sent() - before; got != 1 {
				t.Errorf("%v of %q: %d prompts, want that for a", crash, base, got)
			}
			check, err := orchestrator.CheckDecisions(r.store.log("b1"))
			if err != nil || check.Difference != nil {
				t.Errorf("%v of %q: %+v, %v", crash, base, check.Difference, err)
			}
			if base != "" && !strings.HasPrefix(head.Trunk.Tip, "base<") || strings.Count(head.Trunk.Tip, "<") != 3*len(base)/4 {
				t.Errorf("%v: the tip is %s", crash, head.Trunk.Tip)
			}
		}
	}
}

// TestRedoWhileItRuns: a running boulder takes a redo. The new session knows the reason and the earlier result.
func TestRedoWhileItRuns(t *testing.T) {
	t.Parallel()
	r, release := newRig(t), make(chan struct{})
	r.server.turn = func(ctx context.Context, job boulder.Job) (boulder.Evidence, error) {
		if job.SubTask.ID == "long" {
			return until(release)(ctx, job)
		}
		return boulder.Evidence{FinalMessage: "done"}, nil
	}
	o, redone := r.orchestrator(), make(chan error, 1)
	done := 0
	for e, err := range o.Run(t.Context(), orchestrator.Request{Plan: planOf(spec("long"), spec("a"), spec("b", "a"))}) {
		if err != nil {
			t.Fatal(err)
		}
		if boulder.TypeOf(e.Body) != "subtask-done" {
			continue
		}
		switch done++; done {
		case 2: // a and b
			go func() { redone <- o.Order(t.Context(), "b1", redo("a")) }()
		case 3: // a again
			if b := e.Body.(boulder.SubTaskDone); !slices.Equal(b.Kept, []string{"b"}) {
				t.Errorf("kept: %v", b.Kept)
			}
			close(release)
		}
	}
	if err := <-redone; err != nil {
		t.Fatal(err)
	}
	briefs := r.server.prompted(boulder.AttemptRef{SubTaskID: "a", Attempt: 2})
	if len(briefs) != 1 {
		t.Fatalf("%d briefs", len(briefs))
	}
	for _, want := range []string{"done before", "wants it done again", "Its result was: did a", "+++ the change", "otherwise"} {
		if !strings.Contains(briefs[0], want) {
			t.Errorf("the brief does not say %q:\n%s", want, briefs[0])
		}
	}
}
