package executor

import (
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// blocker calls the blocker tool: with options a soft blocker, whose first option is chosen; without, a hard one.
func blocker(category boulder.BlockerCategory, question string, options ...string) scriptmodel.ToolCall {
	args := map[string]any{
		"category": category, "question": question, "context": "What is known about it: " + question,
		"blocks_progress": len(options) == 0,
	}
	if len(options) > 0 {
		args["options"], args["chosen_option"], args["chosen_reasoning"] = options, options[0], "It is the easiest to change."
	}
	return call(boulder.BlockerTool, args)
}

// One turn reports five hard and five soft blockers, after refused asks and a malformed call, and continues after each.
func TestTenScenarios(t *testing.T) {
	t.Parallel()
	incomplete := blocker(boulder.BlockerQuestion, "Which log format?", "text")
	delete(incomplete.Args.(map[string]any), "chosen_option")
	type does = []scriptmodel.ToolCall
	const moveOn = "Move on with the next non-blocking issues."
	scenarios := []struct {
		category boulder.BlockerCategory
		question string
		options  []string // soft blockers only
		before   does
		told     string // in answer to before
	}{
		{boulder.BlockerPermission, "May I push to main?", nil, does{shell("git push")}, moveOn},
		{boulder.BlockerDestructive, "May old/ be deleted?", nil, does{shell("rm -rf old")}, moveOn},
		{boulder.BlockerArchitecture, "One service or two?", nil, nil, ""},
		{boulder.BlockerSecurity, "Which key signs the releases?", nil, nil, ""},
		{boulder.BlockerOther, "Who pays for the mail service?", nil, nil, ""},
		{boulder.BlockerQuestion, "What is the flag called?", []string{"--dry-run", "--plan", "-n"}, nil, ""},
		{boulder.BlockerArchitecture, "Which YAML library?", []string{"goccy", "v3", "none"}, nil, ""},
		{boulder.BlockerQuestion, "Tabs, or spaces?", []string{"tabs", "spaces", "both"}, does{whichColour()}, moveOn},
		{boulder.BlockerOther, "How many retries?", []string{"3", "5", "none"}, nil, ""},
		{boulder.BlockerQuestion, "Which log format?", []string{"text", "JSON", "both"}, does{incomplete}, "chosen_option"},
	}
	var play []does
	var told []string
	var reports does
	for _, s := range scenarios {
		if s.before != nil {
			play, told = append(play, s.before), append(told, s.told)
		}
		reports = append(reports, blocker(s.category, s.question, s.options...))
	}
	told = append(told, slices.Repeat([]string{mcptool.Registered}, len(reports))...)
	play = append(play, reports)
	var d away
	w := newAskingWorld(t, steps(map[string][][]scriptmodel.ToolCall{"GO": play}), diverting(t, &d, blockers.Policy{}))
	a := w.newAttempt("x", "GO")
	e := a.wentOn(t, w, a.run)
	if len(e.ToolCalls) != len(told) || w.prompts("GO") != 1 {
		t.Fatalf("%d calls, want %d; %d prompts", len(e.ToolCalls), len(told), w.prompts("GO"))
	}
	for i, c := range e.ToolCalls {
		if !strings.Contains(c.Output, told[i]) {
			t.Errorf("%s: told %q, want %q", c.Input, c.Output, told[i])
		}
	}
	records, raised := w.records(), reported[boulder.BlockerRaised](a)
	for _, s := range scenarios {
		b, hard := records[s.question], s.options == nil
		if b.Hard != hard || b.Category != s.category || b.SessionID != a.Attempt.SessionID || b.SubTaskID != "x" ||
			!hard && (b.ChosenOption == "" || b.ChosenReasoning == "") {
			t.Errorf("%s: taken down %+v", s.question, b)
		}
	}
	if asks := 3; len(records) != len(scenarios)+asks || len(raised) != len(records) {
		t.Errorf("%d records, %d reported", len(records), len(raised))
	}
}

// Sub-agents have the tool too, also in another directory, until Withdraw. Their blockers belong to the attempt.
func TestSubAgentsReportBlockers(t *testing.T) {
	t.Parallel()
	var d away
	w, a := newFamily(t, steps(map[string][][]scriptmodel.ToolCall{
		"CHILD": {{blocker(boulder.BlockerSecurity, "Which key?")}},
		// A directory gets the tool once a session of the tree appears there: from the agent's next step on.
		"ELSEWHERE": {{shell("echo one")}, {blocker(boulder.BlockerSecurity, "Which other key?")}},
	}), diverting(t, &d, blockers.Policy{}), delegate(t, "Help", "CHILD"))
	other := w.dir().Client().In(octest.Repo(t, asks))
	a.elsewhere(t, other, "ELSEWHERE")
	a.end(t)
	all := w.records()
	for _, question := range []string{"Which key?", "Which other key?"} {
		if b := all[question]; !b.Hard || b.SessionID != a.Attempt.SessionID || b.SubTaskID != "x" || b.Attempt != 1 {
			t.Errorf("%s: taken down %+v", question, b)
		}
	}
	if n := len(reported[boulder.BlockerRaised](a.attempt)); n != 3 || len(all) != 3 {
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
	if w.file("opencode.json") != asks["opencode.json"] {
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
