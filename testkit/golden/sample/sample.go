// Package sample builds the boulder that tests of views and commands show.
package sample

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Began is when the sample boulder was created. Its events are one second apart.
var Began = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// Boulder has finished, running, queued, pending, failed and blocked sub-tasks, a second turn, a retry, gates, trouble.
type Boulder struct {
	T      testing.TB
	ID     string
	State  *boulder.State
	Now    time.Time
	Events []boulder.Event
}

const ID = "01k3sample"

// New returns the boulder before its plan.
func New(t testing.TB, id string) *Boulder {
	t.Helper()
	s := &Boulder{T: t, ID: id, State: boulder.NewState(), Now: Began}
	s.Apply(boulder.Created{Boulder: boulder.Boulder{
		ID: id, Task: "Add dark mode\nwith a toggle in the settings", Project: "/project",
		Settings: boulder.Settings{Base: "0123456789abcdef", Model: "test/small", LedgerModel: "test/judge"},
	}})
	planning := boulder.Usage{Input: 900, Output: 100, Calls: 1, Cost: 0.01}
	s.Apply(boulder.UsageReport{Source: "plan", Model: "test/judge", Usage: planning})
	return s
}

// Apply applies an event, one second after the last.
func (s *Boulder) Apply(body boulder.Body) {
	s.T.Helper()
	e, err := s.State.Apply(boulder.Event{Time: s.Now, BoulderID: s.ID, Body: body})
	if err != nil {
		s.T.Fatal(err)
	}
	s.Now = s.Now.Add(time.Second)
	s.Events = append(s.Events, e)
}

// Plan returns the boulder's plan.
func Plan() boulder.Plan {
	return boulder.Plan{
		Version: 1, Task: "Add dark mode\nwith a toggle in the settings", Goal: "The app has a dark mode",
		Constraints: []string{"never touch vendor/"}, Model: "test/small",
		SubTasks: []boulder.Spec{
			{
				ID: "toggle", Subject: "Add the settings toggle", ActiveForm: "Adding the settings toggle",
				Description: "Add a toggle.\nKeep its state.", SuccessCriteria: []string{"The toggle is saved", "It is restored"},
				Gates: []string{"go test ./settings"},
			},
			{
				ID: "theme", Subject: "Create the theme 主题", ActiveForm: "Creating the theme 主题",
				Description: "Create the theme.", Priority: boulder.High,
			},
			{
				ID: "icons", Subject: "Draw the icons", ActiveForm: "Drawing the icons", Description: "Draw the icons.",
				Model: "test/large",
			},
			{
				ID: "docs", Subject: "Write it down", Description: "Write it down",
				DependsOn: []string{"toggle", "theme"}, Agent: "writer",
			},
			{ID: "site", Subject: "Publish \x1b[31mthe icons", Description: "Publish.", DependsOn: []string{"icons"},
				Budget: &boulder.Budget{Attempts: 2, Time: boulder.Duration(30 * time.Minute)}},
			{ID: "lang", Subject: "Translate it", Description: "Translate it into German."},
		},
	}
}

// Plan adopts the plan.
func (s *Boulder) Plan() {
	plan := Plan()
	rev := boulder.PlanRevision{
		Number: 1, Plan: plan, Hash: "abcdef0123456789", Origin: boulder.OriginModel, AdoptedAt: s.Now,
	}
	s.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: rev})
	planned := boulder.Decomposed{
		Revision: 1, Origin: boulder.OriginModel, Goal: plan.Goal, Plan: rev, GatesApproved: true,
	}
	for _, t := range plan.SubTasks {
		planned.SubTasks = append(planned.SubTasks, boulder.PlannedIn{ID: t.ID, Subject: t.Subject, DependsOn: t.DependsOn})
	}
	s.Apply(planned)
}

// Start begins an attempt and sends its brief.
func (s *Boulder) Start(ref boulder.AttemptRef) {
	s.Apply(boulder.Starting{AttemptRef: ref, Tag: "tag", Prompt: "the brief"})
	model := s.State.SubTask(ref.SubTaskID).Model
	s.Apply(boulder.SubTaskStart{AttemptRef: ref, Description: "x", Model: model, SessionID: "ses_" + ref.SubTaskID})
	s.Apply(boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_" + ref.SubTaskID})
}

// End ends a turn with a verdict.
func (s *Boulder) End(ref boulder.AttemptRef, turn int, gate *boulder.Gate, v boulder.Verdict) {
	e := boulder.Evidence{
		Ended: boulder.Ended{Finish: "stop"}, FinalMessage: "done", ToolCount: 3,
		Transcript: filepath.ToSlash(filepath.Join(".manager/runs", ID, ref.SubTaskID, "1.jsonl")),
		Diff:       boulder.Diff{Files: []boulder.FileChange{{Path: "a.go", Added: 3, Own: true}}},
	}
	if gate != nil {
		e.Gates = []boulder.Gate{*gate}
	}
	s.Apply(boulder.TurnEnded{AttemptRef: ref, Turn: turn, Ended: e.Ended, Evidence: e})
	s.Apply(boulder.UsageReport{
		SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: "attempt", Model: "test/small",
		Usage: boulder.Usage{Input: 12_000, Output: 345, Calls: 4, Cost: 0.04},
	})
	if gate != nil {
		s.Apply(boulder.GateRun{AttemptRef: ref, Command: gate.Command, Passed: gate.Green(), ExitCode: gate.ExitCode,
			Output: gate.Output, Millis: gate.Duration.Milliseconds()})
	}
	s.judge(ref, turn, v)
}

// judge records a verdict. One that is not complete, and sees no progress, is a stall.
func (s *Boulder) judge(ref boulder.AttemptRef, turn int, v boulder.Verdict) {
	judged := boulder.Judged{AttemptRef: ref, Turn: turn, Verdict: v}
	if !v.Completed {
		judged.Stalls = s.State.SubTask(ref.SubTaskID).Stalls
		if !v.JudgeUnavailable {
			judged.Stalls++
		}
	}
	s.Apply(judged)
}

// Play applies the events up to the middle of the sample.
func (s *Boulder) Play() {
	toggle := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	icons := boulder.AttemptRef{SubTaskID: "icons", Attempt: 1}
	s.Plan()
	s.Start(theme)
	s.Start(toggle)
	s.Start(icons)
	s.Apply(boulder.SubTaskProgress{AttemptRef: toggle, Activity: "edit settings.go",
		Checkpoint: &boulder.Checkpoint{File: "settings.go", Line: 12, Context: "func toggle() {", At: s.Now}})
	red := boulder.Gate{
		Command: "go test ./settings", ExitCode: 1, Output: "--- FAIL: TestToggle\nFAIL", Duration: 2 * time.Second,
	}
	s.End(toggle, 1, &red, boulder.Verdict{Summary: "the tests are red", Overruled: []string{"gate is red"},
		Criteria: []boulder.Criterion{
			{Criterion: "The toggle is saved", Met: true, Evidence: "settings.go"}, {Criterion: "It is restored"},
		}})
	s.Apply(boulder.Continuation{
		AttemptRef: toggle, Turn: 2, Reason: "the tests are red", Remaining: []string{"make them pass"}, Prompt: "go on",
	})
	s.Apply(boulder.TurnSent{AttemptRef: toggle, Turn: 2, Kind: boulder.TurnContinuation, MessageID: "msg_2"})
	green := red
	green.ExitCode, green.Output = 0, "ok"
	s.End(toggle, 2, &green, boulder.Verdict{Completed: true, Summary: "the toggle is there",
		Criteria: []boulder.Criterion{
			{Criterion: "The toggle is saved", Met: true, Evidence: "settings.go"},
			{Criterion: "It is restored", Met: true, Evidence: "the test"},
		}})
	s.Apply(boulder.SubTaskDone{AttemptRef: toggle, Completed: true, Summary: "the toggle is there",
		Output: "call Toggle()", Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	s.Apply(boulder.Trouble{AttemptRef: icons, Reason: "connection refused", NotBefore: s.Now.Add(time.Second)})
	s.Apply(boulder.Retry{
		AttemptRef: icons, Reason: "stuck: the same call 4 times", Status: boulder.AttemptFailed, Next: 2,
	})
	icons.Attempt = 2
	s.Start(icons)
	s.End(icons, 1, nil, boulder.Verdict{Summary: "there are no icons"})
	s.Apply(boulder.SubTaskDone{AttemptRef: icons, Summary: "not complete after 5 turns: there are no icons",
		Status: boulder.SubTaskFailed, AttemptStatus: boulder.AttemptFailed})
	s.Apply(boulder.SubTaskProgress{AttemptRef: theme, Activity: "read \x1b[2Jtheme.css", TodosDone: 2, TodosTotal: 5})
}

// Finish applies the events from there to the end.
func (s *Boulder) Finish() {
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.End(theme, 1, nil, boulder.Verdict{Completed: true, Summary: "it is dark"})
	s.Apply(boulder.SubTaskDone{AttemptRef: theme, Completed: true, Summary: "it is dark",
		Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	for _, id := range []string{"docs", "lang"} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		s.Start(ref)
		s.End(ref, 1, nil, boulder.Verdict{Completed: true, Summary: "it is written"})
		s.Apply(boulder.SubTaskDone{AttemptRef: ref, Completed: true, Summary: "it is written",
			Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	}
	s.Apply(boulder.StatusChanged{Status: boulder.Synthesizing})
	s.Apply(boulder.TaskComplete{
		Status: boulder.Partial, Summary: "4 of 6 sub-tasks completed.\n\n✗ icons: there are none",
		Usage: s.State.Boulder.Usage,
	})
}

// Misbehave plays a sub-task in which every rule applies: a nudge, a fault, a stop, truncation, an overruled and an
// unavailable judge, a retry, a resume after a crash, and a replan that supersedes its dependents.
func (s *Boulder) Misbehave() {
	ref := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	s.Plan()
	s.Start(ref)
	s.Apply(boulder.Nudged{AttemptRef: ref, Turn: 1, Rule: boulder.RuleErrors, MessageID: "msg_n",
		Prompt: "[manager] You called the same tool three times with the same error.\nFind another way."})
	s.Apply(boulder.Trouble{AttemptRef: ref, Kind: boulder.TroubleRateLimit, Reason: "HTTP 429",
		NotBefore: s.Now.Add(20 * time.Second)})
	s.EndWith(ref, 1, boulder.Evidence{
		Ended: boulder.Ended{Stopped: "the same call failed 4 times", Rule: boulder.RuleErrors}, FinalMessage: "I try again.",
		ToolCount: 9, Duration: 34 * time.Second,
		ToolCalls: []boulder.ToolCall{
			{ID: "c1", Tool: "edit", Title: "settings.go", Status: "completed"},
			{ID: "c2", Tool: "bash", Input: `{"command":"go \u001b[31mtest"}`, Output: "exit\n1", Status: "error"},
			{ID: "c3", Tool: "bash", Input: `{"command":"go test"}`, Status: "running"},
		},
		Diff: boulder.Diff{Files: []boulder.FileChange{
			{Path: "settings.go", Added: 12, Removed: 3, Own: true}, {Path: "logo.png", Added: -1, Removed: -1},
		}},
		Todos:       []boulder.Todo{{Content: "test it", Status: "pending"}, {Content: "write it", Status: "completed"}},
		Diagnostics: []boulder.Diagnostic{{File: "settings.go", Line: 4, Severity: "error", Message: "undefined: x"}},
		Gates: []boulder.Gate{
			{Command: "go test ./...", ExitCode: 1, Output: "FAIL TestOld", NoWorse: "red before too: TestOld"},
			{Command: "go vet", TimedOut: true, ExitCode: -1, Duration: time.Minute},
		},
	}, boulder.Verdict{Summary: "It says that it is done.", Overruled: []string{"gate `go vet` did not end"},
		Criteria: []boulder.Criterion{{Criterion: "The toggle is saved", Evidence: "there is no test"}},
		IsStuck:  true, StuckReason: "the command is not there", BlockedBy: "environment", Remaining: []string{"test it"}})
	s.Apply(boulder.Retry{AttemptRef: ref, Reason: "the turn was stopped: the same call failed 4 times",
		Status: boulder.AttemptFailed, Next: 2, Digest: "x"})
	ref.Attempt = 2
	s.Start(ref)
	s.Apply(boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_r", Resume: true})
	s.EndWith(ref, 1, boulder.Evidence{
		Ended: boulder.Ended{Finish: "length", Truncated: "the turn was cut off at the output limit"},
		Diff:  boulder.Diff{Unavailable: "not a git repository"},
	}, boulder.Verdict{Summary: "Not yet.", JudgeUnavailable: true, ContinuationPrompt: "go on"})
	s.Apply(boulder.Continuation{
		AttemptRef: ref, Turn: 2, Reason: "it was cut off", Remaining: []string{"all"}, Prompt: "go on",
	})
	s.Apply(boulder.TurnSent{AttemptRef: ref, Turn: 2, Kind: boulder.TurnContinuation, MessageID: "msg_2"})
	s.EndWith(ref, 2, boulder.Evidence{Ended: boulder.Ended{Error: "APIError", Message: "too long"}},
		boulder.Verdict{Summary: "Nothing came of it.", NeedReplan: true, ReplanReason: "there is no settings page"})
	s.Apply(boulder.ReplanStarted{
		AttemptRef: ref, Number: 1, Reason: "the plan is wrong", Replaces: []string{"toggle", "docs"},
	})
	s.Apply(boulder.PlanTrouble{Reason: "connection refused", NotBefore: s.Now.Add(time.Second)})
	spec := boulder.Spec{ID: "page", Subject: "Make a settings page", Description: "x"}
	s.Apply(boulder.Replanned{
		AttemptRef: ref, Number: 1, Reason: "the plan is wrong", Revision: 2, Plan: boulder.PlanRevision{Number: 2},
		Changed:  []boulder.Change{{From: "toggle", To: boulder.PlannedIn{ID: "page", Subject: spec.Subject}}},
		Removed:  []string{"docs"},
		SubTasks: []boulder.Spec{spec},
	})
}

// EndWith ends a turn with the evidence.
func (s *Boulder) EndWith(ref boulder.AttemptRef, turn int, e boulder.Evidence, v boulder.Verdict) {
	s.Apply(boulder.TurnEnded{AttemptRef: ref, Turn: turn, Ended: e.Ended, Evidence: e})
	for _, g := range e.Gates {
		s.Apply(boulder.GateRun{AttemptRef: ref, Command: g.Command, Passed: g.Holds(), ExitCode: g.ExitCode})
	}
	s.judge(ref, turn, v)
}

// Raise records a blocker of an attempt under the next id.
func (s *Boulder) Raise(ref boulder.AttemptRef, b boulder.Blocker) {
	b.ID, b.SessionID, b.Status = fmt.Sprint("B", s.State.Boulder.BlockersRaised+1), "ses_"+ref.SubTaskID, boulder.BlockerPending
	b.CreatedAt = s.Now
	s.Apply(boulder.BlockerRaised{AttemptRef: ref, Blocker: b})
}

// Blockers returns blockers of every kind, the most urgent first, as of an hour after Began.
func Blockers() []boulder.Blocker {
	at := func(minutes int) time.Time { return Began.Add(time.Duration(minutes) * time.Minute) }
	ask := &boulder.Ask{
		Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *", "git *"},
		Tool: "bash", Arguments: `{"command":"git push origin \u001b[2J"}`,
	}
	return []boulder.Blocker{
		{
			ID:           "B1",
			BlockerScope: boulder.BlockerScope{BoulderID: ID, SubTaskID: "theme", Attempt: 1, SessionID: "ses_theme"},
			Hard:         true,
			Category:     boulder.BlockerSecurity, Question: "Which key signs the theme 主题?\nThe old one \x1b[31mis weak.",
			Context: "theme.css comes from a CDN.\n\n# Not a heading\nWithout a signature anybody could change it.",
			Status:  boulder.BlockerPending, CreatedAt: at(0),
		},
		{
			ID: "W4", BlockerScope: boulder.BlockerScope{SessionID: "ses_4f1c2e9a7b3d5f60"},
			Hard: true, Category: boulder.BlockerDestructive,
			Question: "Drop the table users?", Context: "It is empty.", Status: boulder.BlockerPending, CreatedAt: at(30),
		},
		{
			ID:           "B2",
			BlockerScope: boulder.BlockerScope{BoulderID: ID, SubTaskID: "theme", Attempt: 1, SessionID: "ses_theme"},
			Category:     boulder.BlockerArchitecture, Question: "Variables or classes?", Context: "Both work.",
			Options: []string{"CSS variables", "classes", "two files"}, ChosenOption: "CSS variables",
			ChosenReasoning: "They need no build step.", Status: boulder.BlockerPending, CreatedAt: at(10),
		},
		{
			ID:           "B3",
			BlockerScope: boulder.BlockerScope{BoulderID: ID, SubTaskID: "lang", Attempt: 2, SessionID: "ses_lang"},
			Category:     boulder.BlockerPermission, Question: "May it run git push?", Ask: ask,
			Until: at(63), Status: boulder.BlockerPending, CreatedAt: at(59),
		},
		{
			ID:           "B5",
			BlockerScope: boulder.BlockerScope{BoulderID: ID, SubTaskID: "lang", Attempt: 1, SessionID: "ses_lang"},
			Category:     boulder.BlockerPermission, Question: "May it run git push?", Ask: ask,
			Status: boulder.BlockerAnswered, Answer: "But *not* to main.", Allowed: true, CreatedAt: at(5), SettledAt: at(50),
		},
		{
			ID: "B1000",
			BlockerScope: boulder.BlockerScope{
				BoulderID: ID, SubTaskID: "a-sub-task-with-a-very-long-name", Attempt: 1, SessionID: "ses_long",
			},
			Category: boulder.BlockerOther, Question: strings.Repeat("long ", 60), Hard: true, ChosenOption: "a",
			Status: boulder.BlockerSkipped, CreatedAt: at(1), SettledAt: at(51),
		},
	}
}

// Ran makes a boulder that completed the task of a plan file, which has not changed since.
func Ran(t testing.TB, id, dir, file, task string) *Boulder {
	s := &Boulder{T: t, ID: id, State: boulder.NewState(), Now: time.Now().Add(time.Hour)} // after the file's last change
	s.Apply(boulder.Created{Boulder: boulder.Boulder{ID: id, Task: task, Project: dir, Settings: boulder.Settings{PlanFile: file}}})
	plan := boulder.Plan{Version: 1, Task: task, SubTasks: []boulder.Spec{{ID: "one", Subject: "Do it", Description: "Do it."}}}
	rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginHand, AdoptedAt: s.Now}
	s.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginHand, Plan: rev})
	s.Apply(boulder.Decomposed{
		Revision: 1, Origin: boulder.OriginHand, Plan: rev, SubTasks: []boulder.PlannedIn{{ID: "one", Subject: "Do it"}},
	})
	one := boulder.AttemptRef{SubTaskID: "one", Attempt: 1}
	s.Start(one)
	s.End(one, 1, nil, boulder.Verdict{Completed: true, Summary: "It is done."})
	s.Apply(boulder.SubTaskDone{
		AttemptRef: one, Completed: true, Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted,
	})
	s.Apply(boulder.StatusChanged{Status: boulder.Synthesizing})
	s.Apply(boulder.TaskComplete{Status: boulder.Completed, Summary: "All of it is done."})
	return s
}
