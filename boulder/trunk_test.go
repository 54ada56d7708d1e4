package boulder_test

import (
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// TestSnapshotGreen: green needs every gate that counts to have passed on the tip, including those that may stay red.
func TestSnapshotGreen(t *testing.T) {
	s := boulder.Snapshot{SubTasks: []*boulder.SubTask{
		{ID: "done", Status: boulder.SubTaskCompleted, Gates: []string{"test"}, NoWorse: []string{"lint"}},
		{ID: "failed", Status: boulder.SubTaskFailed, Gates: []string{"never"}},
	}}
	s.Boulder.IntegrationGates, s.Boulder.Trunk.Tree = []string{"all"}, "tip"
	for _, command := range []string{"test", "all", "lint"} {
		if s.Green() {
			t.Errorf("green before %q has passed", command)
		}
		s.Boulder.Trunk.Green = append(s.Boulder.Trunk.Green,
			boulder.TreeGate{Command: command, Tree: "before"}, boulder.TreeGate{Command: command, Tree: "tip", Passed: true})
	}
	if !s.Green() {
		t.Error("not green, although all have passed")
	}
}
