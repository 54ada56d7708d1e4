package sample

import (
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project/report"
)

var night = time.Date(2026, 3, 4, 22, 0, 0, 0, time.UTC)

// Night returns the records of a boulder with one of everything that a report shows. say makes the texts of users and agents.
func Night(say func(string) string) report.Input {
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
	return report.Input{
		Now: night.Add(9 * time.Hour).In(time.FixedZone("CET", 3600)), // times are shown in the reader's zone
		Boulder: boulder.Boulder{
			ID: "01k3night", Task: say("Add dark mode"), Goal: say("A dark mode"), Project: "/home/me/app",
			Status: boulder.Paused, Reason: "waiting for the user: " + say("a sub-task is blocked"),
			Settings: boulder.Settings{Base: "0123456789abcdef", Budget: &boulder.Budget{Tokens: 60_000, Cost: 5}},
			Tally:    boulder.Tally{Planned: 8, Completed: 3, Failed: 1, Blocked: 3}, Usage: boulder.Usage{Input: 61_000, Output: 9_000, Cost: 2.5},
			Worked: 3*time.Hour + 5*time.Minute, Attempts: 9, PlanState: boulder.PlanState{Replans: 1}, CreatedAt: night, UpdatedAt: night.Add(7 * time.Hour),
		},
		SubTasks: nightSubTasks(say),
		Attempts: []*boulder.Attempt{{
			AttemptRef: boulder.AttemptRef{SubTaskID: "asks", Attempt: 2}, Seen: boulder.Usage{Input: 100, Cost: 0.01},
		}},
		Events: []boulder.Event{{Time: night.Add(time.Hour), Body: boulder.Replanned{
			Number: 1, Reason: say("the file was not there"), Revision: 2,
			Added: []boulder.PlannedIn{{ID: "saved"}}, Removed: []string{"gone"},
			Changed: []boulder.Change{{From: "first", To: boulder.PlannedIn{ID: "asks"}}},
		}}, {Time: night.Add(2 * time.Hour), Body: boulder.Switched{
			From: "a/one", To: "b/two", Reason: say("the quota is used up"), SubTasks: []string{"saved", "asks"},
		}}},
		Turns: map[string]boulder.Turn{
			"saved": turn(&boulder.Verdict{Completed: true, Criteria: met(true)}, files),
			"alone": turn(&boulder.Verdict{Completed: true, JudgeUnavailable: true}, nil),
			"guess": turn(&boulder.Verdict{Completed: true, Criteria: met(true)}, nil),
			"lost": turn(&boulder.Verdict{Criteria: met(false), Remaining: []string{say("all of it")}},
				files[:1]),
		},
	}
}

func nightSubTasks(say func(string) string) []*boulder.SubTask {
	green := boulder.Gate{Command: say("go test ./..."), Duration: 2 * time.Second}
	red := boulder.Gate{
		Command: say("npm test"), ExitCode: 1, Duration: 40 * time.Second, Output: say("FAIL one\n```\nFAIL two"),
	}
	sameRed := boulder.Gate{Command: say("make lint"), ExitCode: 2, NoWorse: say("3 findings, as before")}
	hung := boulder.Gate{Command: say("make e2e"), ExitCode: -1, TimedOut: true, Duration: 10 * time.Minute}
	used := boulder.Usage{Input: 10_000, Output: 2_000, Calls: 4, Cost: 0.5}
	subTask := func(id string, status boulder.SubTaskStatus, t *boulder.SubTask) *boulder.SubTask {
		t.ID, t.Subject, t.Status = id, say("Do "+id), status
		if t.Attempts > 0 {
			t.Usage, t.Worked = used, 5*time.Minute
		}
		return t
	}
	of := func(subTask string, attempt int) boulder.BlockerScope {
		return boulder.BlockerScope{BoulderID: "01k3night", SubTaskID: subTask, Attempt: attempt}
	}
	all := []*boulder.SubTask{
		subTask("saved", boulder.SubTaskCompleted, &boulder.SubTask{
			Summary: say("the setting is saved"), Attempts: 1, Files: []string{say("store.go")},
			GateHints: []string{say("rm -rf build")}, GateRuns: []boulder.Gate{green, sameRed}, NoWorse: []string{sameRed.Command},
			Blockers: []boulder.Blocker{
				{
					ID: "B1", BlockerScope: of("saved", 1), Category: boulder.BlockerArchitecture,
					Question: say("Which store?"), Context: say("There are two."), Options: []string{say("file"), say("database")},
					ChosenOption: say("file"), ChosenReasoning: say("it is there"), Status: boulder.BlockerPending,
				},
				{
					ID: "B5", BlockerScope: of("saved", 1), Category: boulder.BlockerPermission,
					Question: say("bash: git push"), Status: boulder.BlockerSkipped, Ask: &boulder.Ask{
						Kind: boulder.AskPermission, Permission: "bash", Patterns: []string{say("git push *")}, Tool: "bash",
						Arguments: say(`{"command": "git push --force"}`),
					},
				},
			},
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
			Reason: say("waits for an answer"), Attempts: 2, ParkState: boulder.ParkState{Parked: true}, Blockers: []boulder.Blocker{
				{ID: "B2", BlockerScope: of("asks", 1), Hard: true, Question: say("an old question"), Status: boulder.BlockerPending},
				{
					ID: "B3", BlockerScope: of("asks", 2), Category: boulder.BlockerQuestion, Hard: true,
					Question: say("Which licence?"), Context: say("None is named."), Status: boulder.BlockerPending,
				},
				{
					ID: "B4", BlockerScope: of("asks", 2), Category: boulder.BlockerQuestion, Hard: true,
					Question: say("Which port?"), Status: boulder.BlockerAnswered, Answer: say("8080"),
				},
			},
		}),
		subTask("poor", boulder.SubTaskBlocked, &boulder.SubTask{
			Reason: "its budget is used up", Attempts: 1, ParkState: boulder.ParkState{Parked: true}, Budget: &boulder.Budget{Tokens: 500},
		}),
		subTask("last", boulder.SubTaskPending, &boulder.SubTask{}),
	}
	for i, t := range all {
		t.Position = i + 1
	}
	return all
}

// AsItIs is a say that changes nothing.
func AsItIs(s string) string { return s }
