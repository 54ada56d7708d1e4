package devtest_test

import (
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/bouldermgr/manager/temporal/devtest"
)

// A killed server still has its workflows after a restart.
func TestKillAndRestart(t *testing.T) {
	server := devtest.Start(t, filepath.Join(t.TempDir(), "temporal.db"))
	c := server.Dial(t)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "w", TaskQueue: "nobody"}, "none")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	got, err := server.Dial(t).DescribeWorkflowExecution(t.Context(), "w", "")
	if err != nil || got.WorkflowExecutionInfo.Execution.RunId != run.GetRunID() {
		t.Errorf("after a restart: %v, %v; want run %s", got, err, run.GetRunID())
	}
}
