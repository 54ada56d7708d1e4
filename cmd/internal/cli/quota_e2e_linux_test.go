package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// A usage limit with a reset time makes a sub-task wait until then, even after a crash. Meanwhile the model is not
// asked, and status and report show the time. A retry ends the wait within the same attempt.
func TestUsageLimit(t *testing.T) {
	t.Parallel()
	var limited atomic.Bool
	limited.Store(true)
	w := directWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if req.Kind() == scriptmodel.KindStructured || !limited.Load() {
			return instant(ctx, req)
		}
		body, err := json.Marshal(map[string]any{"error": map[string]any{
			"type": "usage_limit", "message": "5 hour usage limit reached. It will reset in 3 hours 5 minutes.",
		}})
		if err != nil {
			t.Error(err)
		}
		return scriptmodel.Reply{Status: 429, Body: string(body)}
	}, map[string]string{
		"plan.yaml":            "{task: Do it, model: scripted/agent, sub_tasks: [{id: one, description: Do one}, {id: two, description: Do two}]}",
		".manager/config.yaml": "limits: {per_model: 1}\n",
	})
	p := startManager(t, w.dir, w.env, "run", "plan.yaml", "--json", w.attached())
	p.until("cooldown")
	asks := requestsOf(w.model, scriptmodel.KindAgent)
	status := ""
	report, _ := w.run(exitOK, "report")
	checkTexts(t, "the report", []string{"ask scripted/agent again now: it is limited until ", "manager retry one -b"}, nil, report)
	p.signal(syscall.SIGKILL)
	p.wait(-1)

	p = startManager(t, w.dir, w.env, "resume", "--json", w.attached())
	for n := 0; ; n++ { // without a running process the first one is only "left in turn 1"
		if status, _ = w.run(exitOK, "status"); strings.Count(status, "limited until ") == 2 {
			break
		}
		if n == 100 {
			t.Fatalf("after the crash:\n%s", status)
		}
	}
	if n := requestsOf(w.model, scriptmodel.KindAgent); n != asks {
		t.Errorf("the model was asked %d times before the limit, and %d after it", asks, n)
	}
	limited.Store(false)
	if said, _ := w.run(exitOK, "retry", "one"); !strings.Contains(said, "continues now: its model is asked again") {
		t.Errorf("retry says %s", said)
	}
	for _, id := range []string{"one", "two"} {
		if done := p.until("subtask-done"); done["sub_task_id"] != id || done["attempt"] != 1.0 || done["completed"] != true {
			t.Errorf("%v, want attempt 1 of %s", done, id)
		}
	}
	p.wait(exitOK)
}

// A server that exceeds opencode_memory is replaced before the next turn, which continues the session. Variables
// outside of the allow-list reach neither the agent's tools nor the gates; those that match a pattern do.
func TestOutgrownServerAndAllowList(t *testing.T) {
	t.Parallel()
	const look = `echo "open=$APP_OPEN hidden=$HIDDEN_VALUE"`
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured && !strings.Contains(req.Text(), "pid2.txt"):
			return scriptmodel.Reply{JSON: map[string]any{
				"criteria":  []any{map[string]any{"id": "C1", "evidence": "no pid2.txt", "met": false}},
				"completed": false, "is_progress": true, "remaining": []any{"Write pid2.txt"}, "summary": "Half of it.",
				"continuation_prompt": "Write pid2.txt",
			}}
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case req.TurnsSinceUser() == 0:
			turn := 1 + req.AssistantTurns()/2
			return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{
				Name: "bash", Args: map[string]any{
					"command": fmt.Sprintf("echo $PPID > pid%d.txt; %s > agent.txt", turn, look), "description": "Look",
				},
			}}}
		}
		return scriptmodel.Reply{Text: "I have written it down."}
	}, map[string]string{
		"plan.yaml": "{task: Look, sub_tasks: [{id: look, description: Write down who runs you, gates: ['" + look + " > gate.txt']}]}",
		".manager/config.yaml": "model: scripted/agent\nopencode_memory: 1M\n" +
			`environment: [PATH, HOME, TMPDIR, "XDG_*", "OPENCODE_*", "BUN_*", npm_config_offline, "APP_*"]` +
			"\nnotify: {command: '" + look + " > told.txt'}\n",
	})
	w.env = append(w.env, "APP_OPEN=yes", "HIDDEN_VALUE=no")
	stdout, _ := w.run(exitOK, "run", "plan.yaml", "--yes", "--json")
	var sessions, pids []string
	for line := range strings.Lines(stdout) {
		var e struct {
			Type      string `json:"type"`
			SessionID string `json:"session_id"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "subtask-start" {
			sessions = append(sessions, e.SessionID)
		}
	}
	for _, name := range []string{"pid1.txt", "pid2.txt"} {
		pid, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, string(pid))
	}
	if len(sessions) != 1 || len(slices.Compact(pids)) != 2 {
		t.Errorf("sessions %q, servers %q", sessions, pids)
	}
	for _, name := range []string{"agent.txt", "gate.txt", "told.txt"} {
		wantFile(t, w.dir, name, "open=yes hidden=\n")
	}
}
