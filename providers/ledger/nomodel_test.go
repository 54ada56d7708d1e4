package ledger_test

import (
	"errors"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/taskledger"
)

// A ledger that a Go program made without a model says so.
func TestNoModel(t *testing.T) {
	t.Parallel()
	_, _, err := (&taskledger.Planner{}).Plan(t.Context(), boulder.PlanRequest{Task: "Do it", Project: t.TempDir()})
	if !errors.Is(err, boulder.ErrFatal) {
		t.Errorf("planned: %v", err)
	}
	turn := boulder.Turn{Evidence: &boulder.Evidence{FinalMessage: "done"}}
	_, _, err = (&progressledger.Judge{}).Judge(t.Context(), boulder.JudgeRequest{SubTask: boulder.SubTask{ID: "a", SuccessCriteria: []string{"x"}}, Turn: turn})
	if !errors.Is(err, boulder.ErrFatal) {
		t.Errorf("judged: %v", err)
	}
}
