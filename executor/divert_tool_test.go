package executor

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// hard and soft are calls of the blocker tool.
func hard(category boulder.BlockerCategory, question string) scriptmodel.ToolCall {
	return call(blockers.DefaultTool, map[string]any{
		"category": category, "question": question, "context": "What is known about it: " + question, "blocks_progress": true,
	})
}

func soft(category boulder.BlockerCategory, question string, options ...string) scriptmodel.ToolCall {
	return call(blockers.DefaultTool, map[string]any{
		"category": category, "question": question, "context": "What is known about it: " + question,
		"blocks_progress": false, "options": options, "chosen_option": options[0],
		"chosen_reasoning": "It is the easiest to change.",
	})
}

const (
	registered = mcptool.Registered
	moveOn     = "Move on with the next non-blocking issues."
)

// scenario is something that comes up while an agent works, and that it reports; some do another thing before.
type scenario struct {
	name   string
	report scriptmodel.ToolCall
	before []scriptmodel.ToolCall
	told   string // by that
}

// scenarios are ten, five hard and five soft (seed 003, SC-002).
func scenarios() []scenario {
	ask := call("question", map[string]any{"questions": []any{map[string]any{
		"question": "Tabs or spaces?", "header": "Indent",
		"options": []any{map[string]any{"label": "tabs", "description": "t"}},
	}}})
	incomplete := soft(boulder.BlockerQuestion, "Which log format?", "text")
	maps.DeleteFunc(incomplete.Args.(map[string]any), func(key string, _ any) bool {
		return strings.HasPrefix(key, "chosen")
	})
	type does = []scriptmodel.ToolCall
	return []scenario{
		{"a push that is refused", hard(boulder.BlockerPermission, "May I push to main?"), does{shell("git push")}, moveOn},
		{"a refused deletion", hard(boulder.BlockerDestructive, "May old/ be deleted?"), does{shell("rm -rf old")}, moveOn},
		{"an architecture", hard(boulder.BlockerArchitecture, "One service or two?"), nil, ""},
		{"a secret", hard(boulder.BlockerSecurity, "Which key signs the releases?"), nil, ""},
		{"an account", hard(boulder.BlockerOther, "Who pays for the mail service?"), nil, ""},
		{"a name", soft(boulder.BlockerQuestion, "What is the flag called?", "--dry-run", "--plan", "-n"), nil, ""},
		{"a library", soft(boulder.BlockerArchitecture, "Which YAML library?", "goccy", "v3", "none"), nil, ""},
		{"a question to a person", soft(boulder.BlockerQuestion, "Tabs, or spaces?", "tabs", "spaces", "both"), does{ask}, moveOn},
		{"a limit", soft(boulder.BlockerOther, "How many retries?", "3", "5", "none"), nil, ""},
		{
			"a call that says too little", soft(boulder.BlockerQuestion, "Which log format?", "text", "JSON", "both"),
			does{incomplete}, "chosen_option",
		},
	}
}

// Ten things come up in one session, and it goes on after each, in one turn. What is hard is known to be, what was
// chosen is, and the agent is told what was wrong with a call.
func TestTenScenarios(t *testing.T) {
	t.Parallel()
	all := scenarios()
	var play []scriptmodel.ToolCall
	for _, s := range all {
		play = append(append(play, s.before...), s.report)
	}
	var d away
	w := newAskingWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if n := req.AssistantTurns(); n < len(play) {
			return calls(play[n])
		}
		return scriptmodel.Reply{Text: wentOn}
	}, diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "go")
	e, err := a.run(t.Context(), w)
	wantWentOn(t, a, e, err)
	if len(e.ToolCalls) != len(play) || w.prompts("go") != 1 {
		t.Fatalf("%d calls, want %d; %d prompts", len(e.ToolCalls), len(play), w.prompts("go"))
	}
	records, raised, n := d.all(t), reported[boulder.BlockerRaised](a), 0
	file := w.file(blockers.DefaultFile)
	for _, s := range all {
		for i := range len(s.before) + 1 {
			told := []string{s.told, registered}[i+1-len(s.before)]
			if got := e.ToolCalls[n].Output; !strings.Contains(got, told) {
				t.Errorf("%s: told %q, want %q", s.name, got, told)
			}
			n++
		}
		args := s.report.Args.(map[string]any)
		hard := args["blocks_progress"].(bool)
		b := records[args["question"].(string)]
		if b.Hard != hard || b.Category != args["category"] || b.SessionID != a.Attempt.SessionID || b.SubTaskID != "x" {
			t.Errorf("%s: taken down %+v", s.name, b)
		}
		if !hard && (b.ChosenOption == "" || b.ChosenReasoning == "") {
			t.Errorf("%s: chosen %+v", s.name, b)
		}
		same := func(r boulder.BlockerRaised) bool { return r.Blocker.ID == b.ID && r.Blocker.Hard == hard }
		if !slices.ContainsFunc(raised, same) {
			t.Errorf("%s: %s is not reported", s.name, b.ID)
		}
		if !strings.Contains(file, b.Question) {
			t.Errorf("%s: not in the file for people", s.name)
		}
	}
	if asks := 3; len(records) != len(all)+asks || len(raised) != len(records) {
		t.Errorf("%d records, %d reported", len(records), len(raised))
	}
}

// A sub-agent has the tool too, also where it works in another directory, and what it reports belongs to the attempt.
// When the executor is done the servers' directories do not have the tool any more.
func TestSubAgentsReportBlockers(t *testing.T) {
	t.Parallel()
	rootAsked, release, childDone := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 4)
	task := call("task", map[string]any{"description": "Help", "prompt": t.Name() + ": CHILD", "subagent_type": "general"})
	play := steps(map[string][][]scriptmodel.ToolCall{
		"CHILD": {{hard(boulder.BlockerSecurity, "Which key?")}},
		// The tool is offered where a session of the tree shows up: the next step of the agent has it.
		"ELSEWHERE": {{shell("echo one")}, {hard(boulder.BlockerSecurity, "Which other key?")}},
	})
	var d away
	w := newAskingWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case !strings.Contains(req.FirstUser(), ": ROOT"):
			r := play(ctx, req)
			if r.Text == wentOn {
				childDone <- struct{}{}
			}
			return r
		case req.AssistantTurns() == 0:
			return calls(task)
		}
		rootAsked <- struct{}{}
		return scriptmodel.Reply{Text: wentOn, Wait: release}
	}, diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "ROOT")
	done := make(chan error, 1)
	go func() {
		e, err := a.run(t.Context(), w)
		if err == nil && e.FinalMessage != wentOn {
			t.Errorf("ended %+v with %q", e.Ended, e.FinalMessage)
		}
		done <- err
	}()
	await(t, rootAsked, done)
	<-childDone // the one of the task
	other := w.dir().Client().In(octest.Repo(t, map[string]string{"hello.txt": "x\n"}))
	elsewhere(t, a, other, "ELSEWHERE", childDone, done)
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	all := d.all(t)
	for _, question := range []string{"Which key?", "Which other key?"} {
		if b := all[question]; !b.Hard || b.SessionID != a.Attempt.SessionID || b.SubTaskID != "x" || b.Attempt != 1 {
			t.Errorf("%s: taken down %+v", question, b)
		}
	}
	if n := len(reported[boulder.BlockerRaised](a)); n != 3 || len(all) != 3 {
		t.Errorf("%d reported, %d records", n, len(all))
	}
	for _, dir := range []*opencode.Directory{w.dir(), other} {
		if !hasTool(t, dir) {
			t.Errorf("%s never had the tool", dir.Path())
		}
	}
	if err := w.exec.Withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []*opencode.Directory{w.dir(), other} {
		if hasTool(t, dir) {
			t.Errorf("%s has the tool for good", dir.Path())
		}
	}
	if _, err := os.Stat(filepath.Join(w.project, "opencode.json")); err == nil {
		t.Error("a configuration was written")
	}
}

func hasTool(t *testing.T, dir *opencode.Directory) bool {
	t.Helper()
	servers, err := dir.MCPServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return servers[mcptool.DefaultName].Status == opencode.MCPConnected
}
