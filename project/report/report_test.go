package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/testkit/golden"
)

var night = time.Date(2026, 3, 4, 22, 0, 0, 0, time.UTC)

// inputOf returns a boulder with one of everything that a report shows. say makes the texts of users and agents.
func inputOf(say func(string) string) report.Input {
	green := boulder.Gate{Command: say("go test ./..."), Duration: 2 * time.Second}
	red := boulder.Gate{
		Command: say("npm test"), ExitCode: 1, Duration: 40 * time.Second, Output: say("FAIL one\n```\nFAIL two"),
	}
	sameRed := boulder.Gate{Command: say("make lint"), ExitCode: 2, NoWorse: say("3 findings, as before")}
	hung := boulder.Gate{Command: say("make e2e"), ExitCode: -1, TimedOut: true, Duration: 10 * time.Minute}
	turn := func(v *boulder.Verdict, files []boulder.FileChange) boulder.Turn {
		return boulder.Turn{Verdict: v, Evidence: &boulder.Evidence{Diff: boulder.Diff{Files: files}}}
	}
	met := func(ok bool) []boulder.Criterion {
		return []boulder.Criterion{{Criterion: say("it is saved"), Met: ok, Evidence: say("store.go:12")}}
	}
	files := []boulder.FileChange{
		{Path: say("store.go"), Added: 30, Removed: 2, Own: true}, {Path: say("logo.png"), Added: -1, Removed: -1},
		{Path: "theirs.go", Added: 1, Removed: 0},
	}
	used := boulder.Usage{Input: 10_000, Output: 2_000, Calls: 4, Cost: 0.5}
	subTask := func(id string, status boulder.SubTaskStatus, t *boulder.SubTask) *boulder.SubTask {
		t.ID, t.Subject, t.Status = id, say("Do "+id), status
		if t.Attempts > 0 {
			t.Usage, t.Worked = used, 5*time.Minute
		}
		return t
	}
	return report.Input{
		Now: night.Add(9 * time.Hour).In(time.FixedZone("CET", 3600)), // times are shown in the reader's zone
		Boulder: boulder.Boulder{
			ID: "01k3night", Task: say("Add dark mode"), Goal: say("A dark mode"), Project: "/home/me/app",
			Status: boulder.Paused, Reason: "waiting for the user: " + say("a sub-task is blocked"),
			Settings: boulder.Settings{Base: "0123456789abcdef", Budget: &boulder.Budget{Tokens: 60_000, Cost: 5}},
			Tally:    boulder.Tally{Planned: 8, Completed: 3, Failed: 1, Blocked: 3}, Usage: boulder.Usage{Input: 61_000, Output: 9_000, Cost: 2.5},
			Worked: 3*time.Hour + 5*time.Minute, Attempts: 9, Replans: 1, CreatedAt: night, UpdatedAt: night.Add(7 * time.Hour),
		},
		SubTasks: []*boulder.SubTask{
			subTask("saved", boulder.SubTaskCompleted, &boulder.SubTask{
				Summary: say("the setting is saved"), Attempts: 1, Files: []string{say("store.go")},
				GateHints: []string{say("rm -rf build")}, GateRuns: []boulder.Gate{green, sameRed}, NoWorse: []string{sameRed.Command},
			}),
			subTask("alone", boulder.SubTaskCompleted, &boulder.SubTask{
				Summary: say("done"), Attempts: 1, GateRuns: []boulder.Gate{green},
			}),
			subTask("guess", boulder.SubTaskCompleted, &boulder.SubTask{Summary: say("done"), Attempts: 1}),
			subTask("old", boulder.SubTaskSuperseded, &boulder.SubTask{Attempts: 1, Files: []string{"theirs.go"}}),
			subTask("lost", boulder.SubTaskFailed, &boulder.SubTask{
				Reason: say("not complete after 3 tries"), Attempts: 3, Replaces: "old",
				GateRuns: []boulder.Gate{red, hung},
				Failures: []string{say("the first try went in circles"), say("so did the second")},
			}),
			subTask("after", boulder.SubTaskBlocked, &boulder.SubTask{
				Reason: `depends on "lost", which failed`, DependsOn: []string{"lost"},
			}),
			subTask("asks", boulder.SubTaskBlocked, &boulder.SubTask{
				Reason: say("waits for an answer"), Attempts: 2, Parked: true, Blockers: []boulder.RaisedBlocker{
					{ID: "B2", Attempt: 1, Hard: true, Question: say("an old question"), Status: boulder.BlockerPending},
					{ID: "B3", Attempt: 2, Hard: true, Question: say("Which licence?"), Status: boulder.BlockerPending},
					{ID: "B4", Attempt: 2, Hard: true, Question: say("Which port?"), Status: boulder.BlockerPending},
				},
			}),
			subTask("poor", boulder.SubTaskBlocked, &boulder.SubTask{
				Reason: "its budget is used up", Attempts: 1, Parked: true, Budget: &boulder.Budget{Tokens: 500},
			}),
			subTask("last", boulder.SubTaskPending, &boulder.SubTask{}),
		},
		Attempts: []*boulder.Attempt{{
			AttemptRef: boulder.AttemptRef{SubTaskID: "asks", Attempt: 2}, Seen: boulder.Usage{Input: 100, Cost: 0.01},
		}},
		Turns: map[string]boulder.Turn{
			"saved": turn(&boulder.Verdict{Completed: true, Criteria: met(true)}, files),
			"alone": turn(&boulder.Verdict{Completed: true, JudgeUnavailable: true}, nil),
			"guess": turn(&boulder.Verdict{Completed: true, Criteria: met(true)}, nil),
			"lost": turn(&boulder.Verdict{Criteria: met(false), Remaining: []string{say("all of it")}},
				files[:1]),
		},
		Blockers: []boulder.Blocker{
			{
				ID: "B1", BlockerScope: boulder.BlockerScope{BoulderID: "01k3night", SubTaskID: "saved", Attempt: 1},
				Category: boulder.BlockerArchitecture,
				Question: say("Which store?"), Context: say("There are two."), Options: []string{say("file"), say("database")},
				ChosenOption: say("file"), ChosenReasoning: say("it is there"), Status: boulder.BlockerPending,
			},
			{
				ID: "B3", BlockerScope: boulder.BlockerScope{BoulderID: "01k3night", SubTaskID: "asks", Attempt: 2},
				Category: boulder.BlockerQuestion, Hard: true,
				Question: say("Which licence?"), Context: say("None is named."), Status: boulder.BlockerPending,
			},
			{
				ID: "B4", BlockerScope: boulder.BlockerScope{BoulderID: "01k3night", SubTaskID: "asks", Attempt: 2},
				Category: boulder.BlockerQuestion, Hard: true,
				Question: say("Which port?"), Status: boulder.BlockerAnswered, Answer: say("8080"),
			},
			{
				ID: "B5", BlockerScope: boulder.BlockerScope{BoulderID: "01k3night", SubTaskID: "saved", Attempt: 1},
				Category: boulder.BlockerPermission,
				Question: say("bash: git push"), Status: boulder.BlockerSkipped, Ask: &boulder.Ask{
					Kind: boulder.AskPermission, Permission: "bash", Patterns: []string{say("git push *")}, Tool: "bash",
					Arguments: say(`{"command": "git push --force"}`), Reply: boulder.ReplyDiverted,
				},
			},
		},
	}
}

func asItIs(s string) string { return s }

func TestRenderings(t *testing.T) {
	t.Parallel()
	made := report.New(inputOf(asItIs))
	var text, markdown, object bytes.Buffer
	made.Print(page.Out{Writer: &text, Columns: 73})
	made.Print(page.Out{Writer: &markdown, Markdown: true})
	enc := json.NewEncoder(&object)
	enc.SetIndent("", "  ")
	if err := enc.Encode(made); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "report.txt", text.String())
	golden.Compare(t, "report.md", markdown.String())
	golden.Compare(t, "report.json", object.String())
	for line := range strings.Lines(text.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 72 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

// The next step depends on the state of the boulder. Commands can be pasted as they are.
func TestNext(t *testing.T) {
	t.Parallel()
	one := func(status boulder.SubTaskStatus) []*boulder.SubTask {
		return []*boulder.SubTask{{ID: "a", Status: boulder.SubTaskCompleted}, {ID: "b", Status: status, Files: []string{"x"}}}
	}
	for name, test := range map[string]struct {
		in   report.Input
		want string
	}{
		"completed": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Completed, Settings: boulder.Settings{Base: "0123456789abcdef"}}, SubTasks: one("completed")},
			"manager diff -b id",
		},
		"completed outside git": {report.Input{Boulder: boulder.Boulder{Status: boulder.Completed}}, ""},
		"failed": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Partial}, SubTasks: one("failed")},
			"manager run --fork id --from b | manager show id --why b",
		},
		"failed, elsewhere": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Partial, Settings: boulder.Settings{Engine: "temporal"}}, SubTasks: one("failed")},
			"manager show id --why b",
		},
		"failed, not over": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Paused}, SubTasks: one("failed")},
			"manager retry b -b id | manager resume id | manager show id --why b",
		},
		"killed": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Running}, SubTasks: one("in_progress")}, "manager resume id",
		},
		"at work": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Running}, SubTasks: one("in_progress"), Running: true},
			"manager status id",
		},
		"not approved": {report.Input{Boulder: boulder.Boulder{Status: boulder.AwaitingApproval}}, "manager resume id"},
		"every budget": {
			report.Input{Boulder: boulder.Boulder{
				Status: boulder.Paused, Attempts: 3, Worked: time.Hour, Usage: boulder.Usage{Input: 10, Calls: 5, Cost: 1.25},
				Settings: boulder.Settings{Budget: &boulder.Budget{
					Tokens: 10, Calls: 5, Cost: 1.25, Attempts: 3, Time: boulder.Duration(time.Hour),
				}},
			}},
			"manager resume id --budget tokens=20 --budget cost=2.5 --budget time=2h0m0s --budget attempts=6 --budget calls=10",
		},
		"a budget that is used up twice": {
			report.Input{Boulder: boulder.Boulder{
				Status: boulder.Paused, Usage: boulder.Usage{Input: 20, Cost: 7},
				Settings: boulder.Settings{Budget: &boulder.Budget{Cost: 3, Tokens: 10}},
			}},
			"manager resume id --budget tokens=40 --budget cost=12",
		},
		"a loop at its limit": {
			report.Input{
				Boulder:  boulder.Boulder{Status: boulder.Paused, Settings: boulder.Settings{Loop: &boulder.Loop{Iterations: 2}}},
				SubTasks: []*boulder.SubTask{{ID: "1", Status: boulder.SubTaskBlocked, Parked: true, AtLimit: true}},
			},
			"manager resume id --max-iterations 4",
		},
		"unknown price": {
			report.Input{Boulder: boulder.Boulder{
				Status: boulder.Paused, Usage: boulder.Usage{Unpriced: 2},
				Settings: boulder.Settings{Budget: &boulder.Budget{Cost: 3, Tokens: 100}},
			}},
			"manager resume id --budget cost=3",
		},
	} {
		test.in.Boulder.ID = "id"
		var got []string
		for _, s := range report.New(test.in).Next {
			got = append(got, s.Command)
		}
		if got := strings.Join(got, " | "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Boulder and register may lag behind each other: what either has settled is settled, and nothing is lost.
func TestBlockersOfBothSides(t *testing.T) {
	t.Parallel()
	in := inputOf(asItIs)
	got := map[string]report.Blocker{}
	var order []string
	for _, b := range report.New(in).Blockers {
		got[b.ID], order = b, append(order, b.ID)
	}
	if want := "B3 B1 B2 B4 B5"; strings.Join(order, " ") != want {
		t.Errorf("order %v, want %s", order, want)
	}
	if b := got["B3"]; !b.Awaited || b.Context == "" {
		t.Errorf("what is waited for: %+v", b)
	}
	if b := got["B2"]; b.Awaited || b.Question != "an old question" { // of an earlier attempt, only the boulder has it
		t.Errorf("what is not waited for any more: %+v", b)
	}
	if b := got["B4"]; b.Awaited || !b.Undelivered || b.Answer != "8080" {
		t.Errorf("an answer that has not arrived: %+v", b)
	}
	in.SubTasks[6].Blockers[1].Status, in.SubTasks[6].Blockers[1].Answer = boulder.BlockerAnswered, "MIT"
	if b := report.New(in).Blockers[0]; b.ID == "B3" {
		t.Errorf("it is answered in the boulder: %+v", b)
	}
	in.SubTasks[6].Status = boulder.SubTaskCancelled
	if n := len(report.New(in).Awaited()); n != 0 {
		t.Errorf("a cancelled sub-task waits for %d answers", n)
	}
}

func TestUsageText(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]boulder.Usage{
		"0 tokens, $0.00":                                  {},
		"12.3k tokens, $0.042":                             {Input: 12000, Output: 345, Cost: 0.042},
		"10 tokens, $1.50":                                 {Input: 10, Cost: 1.5},
		"10 tokens, $0.0004":                               {Input: 10, Cost: 0.0004},
		"10 tokens, <$0.0001":                              {Input: 10, Cost: 0.00001},
		"10 tokens, cost unknown":                          {Input: 10, Unpriced: 1},
		"10 tokens, $1.50 and 1 call of unknown price":     {Input: 10, Cost: 1.5, Unpriced: 1},
		"1.0k tokens, $0.10 and 12 calls of unknown price": {Input: 1000, Cost: 0.1, Unpriced: 12},
	} {
		if got := report.Usage(u); got != want {
			t.Errorf("usageText(%+v) = %q, want %q", u, got, want)
		}
	}
}

// The report names the tree of the results, and only gates that were green on that tree.
func TestResults(t *testing.T) {
	t.Parallel()
	in := report.Input{SubTasks: []*boulder.SubTask{
		{ID: "a", Status: boulder.SubTaskCompleted, Gates: []string{"a", "b"}},
		{ID: "f", Status: boulder.SubTaskFailed, Gates: []string{"f"}},
	}}
	in.Boulder.ID, in.Boulder.Status, in.Boulder.IntegrationGates = "01k3", boulder.Failed, []string{"all"}
	l := &in.Boulder.Line
	if r := report.New(in); r.Results != nil {
		t.Errorf("in place: %+v", r.Results)
	}
	l.Base, l.Tip = "c0", "c0"
	if r := report.New(in); r.Results != nil {
		t.Errorf("nothing is integrated: %+v", r.Results)
	}
	l.Tip, l.Tree = "c1", "t1"
	l.Green = []boulder.TreeGate{{Command: "b", Tree: "t1"}, {Command: "a", Tree: "t0"}}
	for _, c := range []struct {
		landed *boulder.Landed
		want   string
	}{
		{nil, "t1 c1 b"},
		{&boulder.Landed{How: boulder.LandedFiles, Tree: "t1", Commit: "c1"}, "t1 c1 b"},
		{&boulder.Landed{How: boulder.LandedBranch, Tree: "t2", Commit: "c2"}, "t2 c2 a,all,b"},
	} {
		l.Landed = c.landed
		r := report.New(in)
		if got := r.Results.Tree + " " + r.Results.Commit + " " + strings.Join(r.Results.Gates, ","); got != c.want {
			t.Errorf("landed %+v: %s, want %s", c.landed, got, c.want)
		}
		if diffed := strings.HasPrefix(r.Next[0].Command, "manager diff"); diffed != (c.landed == nil) {
			t.Errorf("landed %+v: next is %+v", c.landed, r.Next)
		}
	}
}
