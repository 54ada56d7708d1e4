package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// TestNight runs night.sh with an agent that reports point 3 both ways, and with an unknown agent and plan, for which
// no result may be printed. It tests only the script, with a stand-in for OpenCode.
func TestNight(t *testing.T) {
	t.Parallel()
	var points []scriptmodel.ToolCall
	report := func(n int, hard bool) {
		points = append(points, scriptmodel.ToolCall{Name: boulder.BlockerTool, Args: map[string]any{
			"category": "question", "question": fmt.Sprintf("[%d] What about it?", n), "context": fmt.Sprint(hard),
			"blocks_progress": hard, "options": []string{"a", "b"}, "chosen_option": "a", "chosen_reasoning": "It is short.",
		}})
	}
	for n := range 10 {
		report(n+1, n < 5)
	}
	report(3, false)
	model := octest.Model(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if n := r.AssistantTurns(); n == 0 {
			return scriptmodel.Reply{ToolCalls: points}
		}
		return scriptmodel.Reply{Text: "All of the ten points are reported."}
	})
	dir := t.TempDir()
	standIn, err := octest.StandIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	env := append(octest.Env(t, model.URL()), "MANAGER="+managerIn(t, dir), "MANAGER_OPENCODE="+standIn)
	night, err := filepath.Abs("night.sh")
	if err != nil {
		t.Fatal(err)
	}
	project := octest.Repo(t, nil)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"scripted/agent"}, 0, "\nSC-002: 9 of 10 right"},
		{[]string{"scripted/gone"}, 2, ""},
		{[]string{"scripted/agent", "plan.yaml"}, 0, "SC-001: exit code 4"},
		{[]string{"scripted/agent", "gone.yaml"}, 2, ""},
	} {
		if err := os.WriteFile(filepath.Join(project, "plan.yaml"), []byte("sub_tasks: [{description: Report it}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{night}, test.args...)...)
		cmd.Dir, cmd.Env = project, env
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.says) ||
			test.says == "" && strings.Contains(string(out), "SC-") {
			t.Errorf("%q: exit code %d: %s\n%s", test.args, code, out, stderr.String())
		}
	}
}
