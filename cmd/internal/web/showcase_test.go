//go:build chromium

package web_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

const (
	showcaseID = "01k5darkmode"
	planID     = "01k5exportpdf"
)

// showcase stores in dir what a project looks like on an ordinary day: a boulder at work that asks something, a plan that
// waits, boulders that ended.
func showcase(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	live := begun(t, dir, showcaseID, "Add dark mode, with a toggle in the settings", now.Add(-50*time.Minute))
	playDarkMode(live)
	waits := begun(t, dir, planID, "Export a note as PDF", now.Add(-5*time.Minute))
	rev := revision(waits, []boulder.Spec{
		{ID: "layout", Subject: "Lay a note out for paper", Description: "Write print.css, and a page that uses it.",
			SuccessCriteria: []string{"Headings never end a page"}, Gates: []string{"npm test -- print"}},
		{ID: "button", Subject: "Add the button to a note's menu", Description: "The button opens the print page, and prints it.",
			DependsOn: []string{"layout"}, SuccessCriteria: []string{"It works without a mouse"}, Gates: []string{"npm test -- menu"}},
	})
	waits.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: rev})
	all := []*sample.Boulder{waits, live}
	for i, of := range []struct {
		id, task string
		red      bool
	}{
		{"01k5http2", "Move the HTTP client to version 2", false}, {"01k5search", "Make search ignore accents", false},
		{"01k5upgrade", "Upgrade all dependencies, and mend what breaks", true},
	} {
		all = append(all, ended(t, dir, of.id, of.task, of.red, now.Add(-time.Duration(3+20*i)*time.Hour)))
	}
	storeIn(t, dir, all...)
	db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	projecttest.Serve(t, dir, project.Holder{
		PID: os.Getpid(), Command: "manager serve", Since: now.Add(-50 * time.Minute), Serves: true, Running: []string{showcaseID, planID},
	}, db)
}

func begun(t *testing.T, dir, id, task string, at time.Time) *sample.Boulder {
	s := &sample.Boulder{T: t, ID: id, State: boulder.NewState(), Now: at}
	s.Apply(boulder.Created{Boulder: boulder.Boulder{ID: id, Task: task, Project: dir, Settings: boulder.Settings{
		Model: "anthropic/claude-sonnet", LedgerModel: "anthropic/claude-haiku", Budget: &boulder.Budget{Cost: 5, Time: boulder.Duration(2 * time.Hour)},
	}}})
	s.Apply(boulder.UsageReport{Source: "plan", Model: "anthropic/claude-haiku", Usage: boulder.Usage{Input: 8_400, Output: 1_300, Calls: 2, Cost: 0.04}})
	s.Now = s.Now.Add(20 * time.Second)
	return s
}

func revision(s *sample.Boulder, subTasks []boulder.Spec) boulder.PlanRevision {
	plan := boulder.Plan{Version: 1, Task: s.State.Boulder.Task, Model: "anthropic/claude-sonnet", SubTasks: subTasks}
	return boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginModel, AdoptedAt: s.Now}
}

func adopt(s *sample.Boulder, subTasks []boulder.Spec) {
	rev := revision(s, subTasks)
	s.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: rev})
	s.Now = s.Now.Add(30 * time.Second)
	all := boulder.Decomposed{Revision: 1, Origin: boulder.OriginModel, Plan: rev, GatesApproved: true}
	for _, t := range subTasks {
		all.SubTasks = append(all.SubTasks, boulder.PlannedIn{ID: t.ID, Subject: t.Subject, DependsOn: t.DependsOn})
	}
	s.Apply(all)
}

// turn is what an agent did in one turn.
type turn struct {
	said, summary, patch string
	took                 time.Duration
	gate                 boulder.Gate
	calls                []boulder.ToolCall
	files                []boulder.FileChange
	criteria             []boulder.Criterion
	complete             bool
}

func (of turn) play(s *sample.Boulder, ref boulder.AttemptRef, number int) {
	s.Now = s.Now.Add(of.took)
	e := boulder.Evidence{
		Ended: boulder.Ended{Finish: "stop"}, FinalMessage: of.said, ToolCalls: of.calls, ToolCount: 4 + 3*len(of.calls), Duration: of.took,
		Diff: boulder.Diff{Files: of.files, Patch: of.patch},
	}
	if of.gate.Command != "" {
		e.Gates = []boulder.Gate{of.gate}
	}
	s.Apply(boulder.TurnEnded{AttemptRef: ref, Turn: number, Ended: e.Ended, Evidence: e})
	s.Apply(boulder.UsageReport{SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: "attempt", Model: "anthropic/claude-sonnet", Usage: boulder.Usage{
		Input: 41_000 + int64(of.took.Seconds())*90, Output: 3_200, Calls: 9, Cost: 0.21 + of.took.Seconds()/2_000,
	}})
	if of.gate.Command != "" {
		s.Apply(boulder.GateRun{AttemptRef: ref, Command: of.gate.Command, Passed: of.gate.Green(), ExitCode: of.gate.ExitCode,
			Output: of.gate.Output, Millis: of.gate.Duration.Milliseconds()})
	}
	s.Now = s.Now.Add(8 * time.Second)
	v := boulder.Verdict{Completed: of.complete, Summary: of.summary, Criteria: of.criteria, IsProgress: true}
	if of.complete && of.gate.ExitCode != 0 {
		v.Completed, v.Overruled = false, []string{"gate `" + of.gate.Command + "` is red"}
	}
	s.Apply(boulder.Judged{AttemptRef: ref, Turn: number, Verdict: v})
	if v.Completed {
		s.Apply(boulder.SubTaskDone{AttemptRef: ref, Completed: true, Summary: of.summary, Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	}
}

func ended(t *testing.T, dir, id, task string, red bool, at time.Time) *sample.Boulder {
	s := begun(t, dir, id, task, at)
	adopt(s, []boulder.Spec{{ID: "first", Subject: "Find every place", Description: "Find them."},
		{ID: "second", Subject: "Change them", Description: "Change them.", DependsOn: []string{"first"}}})
	for i, id := range []string{"first", "second"} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		s.Start(ref)
		turn{said: "Done.", summary: "it is done", took: 6 * time.Minute, complete: i == 0 || !red}.play(s, ref, 1)
		if i == 1 && red {
			s.Apply(boulder.SubTaskDone{AttemptRef: ref, Summary: "not complete after 5 turns: two tests stay red",
				Status: boulder.SubTaskFailed, AttemptStatus: boulder.AttemptFailed})
		}
	}
	s.Apply(boulder.StatusChanged{Status: boulder.Synthesizing})
	end := boulder.TaskComplete{Status: boulder.Completed, Summary: "All of it is done.", Usage: s.State.Boulder.Usage}
	if red {
		end.Status, end.Summary = boulder.Partial, "1 of 2 sub-tasks completed."
	}
	s.Apply(end)
	return s
}

const (
	palettePatch = `diff --git a/src/theme.css b/src/theme.css
new file mode 100644
--- /dev/null
+++ b/src/theme.css
@@ -0,0 +1,11 @@
+:root {
+  --ink: #1f2328;
+  --paper: #ffffff;
+  --accent: #0759b8;
+}
+
+[data-theme="dark"] {
+  --ink: #e6edf3;
+  --paper: #0d1117;
+  --accent: #6cb6ff;
+}
diff --git a/src/app.css b/src/app.css
--- a/src/app.css
+++ b/src/app.css
@@ -1,8 +1,9 @@
+@import "theme.css";
 body {
-  color: #222;
-  background: white;
+  color: var(--ink);
+  background: var(--paper);
   font: 16px/1.5 system-ui;
 }
 
 a {
-  color: #06c;
+  color: var(--accent);
 }
`
	togglePatch = `diff --git a/src/settings.ts b/src/settings.ts
--- a/src/settings.ts
+++ b/src/settings.ts
@@ -12,6 +12,14 @@ export class Settings {
   get language(): string {
     return this.store.get("language") ?? "en";
   }
+
+  get dark(): boolean {
+    return this.store.get("dark") === "yes";
+  }
+
+  set dark(on: boolean) {
+    this.store.set("dark", on ? "yes" : "no");
+  }
 }
`
)

// playDarkMode plays a boulder up to the middle of its work: two sub-tasks are done, one of them in its second turn, one is at
// work, and one asks which icons to use.
func playDarkMode(s *sample.Boulder) {
	adopt(s, []boulder.Spec{
		{ID: "palette", Subject: "Move all colours into variables", Description: "Define the colours of the app as CSS variables in src/theme.css, for light and dark, and use them everywhere.",
			SuccessCriteria: []string{"No colour is left outside of theme.css", "Text has a contrast of at least 4.5"}, Gates: []string{"npm run lint:css"}},
		{ID: "toggle", Subject: "Add the toggle to the settings", Description: "Add a switch *Dark mode* to the settings.\n\nIts state is saved, and restored when the app starts. Follow the system until the user has chosen.",
			SuccessCriteria: []string{"The choice is saved", "It is restored at the next start"}, Gates: []string{"npm test -- settings"}, Writes: []string{"src/settings.ts", "src/settings.test.ts"}},
		{ID: "icons", Subject: "Draw the icons for both themes", Description: "Icons have to be visible in both themes.", Gates: []string{"npm run check:icons"}},
		{ID: "editor", Subject: "Theme the editor and code blocks", ActiveForm: "Theming the editor", Description: "The editor follows the theme.", DependsOn: []string{"palette"}, Gates: []string{"npm test -- editor"}},
		{ID: "docs", Subject: "Describe it in the handbook", Description: "One page.", DependsOn: []string{"toggle", "icons"}},
		{ID: "shots", Subject: "Take the screenshots again", Description: "In both themes.", DependsOn: []string{"editor", "icons"}, Gates: []string{"npm run shots"}},
	})
	at := func(id string) boulder.AttemptRef { return boulder.AttemptRef{SubTaskID: id, Attempt: 1} }
	for _, id := range []string{"palette", "toggle", "icons"} {
		s.Start(at(id))
	}
	turn{
		said: "All 41 colours of the app are variables now. I measured the contrast of each pair; the lowest is 5.1.", took: 7 * time.Minute, complete: true,
		summary: "all colours are variables, for both themes", patch: palettePatch, gate: boulder.Gate{Command: "npm run lint:css", Duration: 3 * time.Second},
		files: []boulder.FileChange{{Path: "src/theme.css", Added: 11, Own: true}, {Path: "src/app.css", Added: 4, Removed: 3, Own: true}},
		criteria: []boulder.Criterion{{Criterion: "No colour is left outside of theme.css", Met: true, Evidence: "grep finds none"},
			{Criterion: "Text has a contrast of at least 4.5", Met: true, Evidence: "the lowest is 5.1"}},
	}.play(s, at("palette"), 1)
	s.Start(at("editor"))
	files := []boulder.FileChange{{Path: "src/settings.ts", Added: 8, Own: true}}
	turn{
		said: "The switch is in the settings, and its state is saved:\n\n- `Settings.dark` reads and writes it\n" +
			"- **at the start** it is restored\n\nThe tests pass.", took: 4 * time.Minute, complete: true,
		summary: "the switch is there and its state is saved", patch: togglePatch, files: files,
		calls: []boulder.ToolCall{
			{ID: "1", Tool: "read", Title: "src/settings.ts", Status: "completed"}, {ID: "2", Tool: "edit", Title: "src/settings.ts", Status: "completed"},
			{ID: "3", Tool: "bash", Input: `{"command":"npm test -- settings"}`, Status: "completed"},
		},
		gate: boulder.Gate{Command: "npm test -- settings", ExitCode: 1, Duration: 6 * time.Second,
			Output: "✗ settings > restores the theme at the next start\n  expected \"dark\", got \"light\"\n\n1 failed, 11 passed"},
		criteria: []boulder.Criterion{{Criterion: "The choice is saved", Met: true, Evidence: "settings.ts:19"}, {Criterion: "It is restored at the next start"}},
	}.play(s, at("toggle"), 1)
	s.Apply(boulder.Continuation{AttemptRef: at("toggle"), Turn: 2, Reason: "a gate is red", Remaining: []string{"restore the theme at the next start"}, Prompt: "[manager] `npm test -- settings` is red: restore the theme at the next start."})
	s.Apply(boulder.TurnSent{AttemptRef: at("toggle"), Turn: 2, Kind: boulder.TurnContinuation, MessageID: "msg_2"})
	turn{
		said: "The store was read before it was loaded. I await it now, and the test that was red passes.", took: 3 * time.Minute, complete: true,
		summary: "the toggle is saved and restored", patch: togglePatch, files: files, gate: boulder.Gate{Command: "npm test -- settings", Duration: 6 * time.Second},
		calls: []boulder.ToolCall{{ID: "4", Tool: "edit", Title: "src/settings.ts", Status: "completed"}},
		criteria: []boulder.Criterion{{Criterion: "The choice is saved", Met: true, Evidence: "settings.ts:19"},
			{Criterion: "It is restored at the next start", Met: true, Evidence: "settings > restores the theme at the next start"}},
	}.play(s, at("toggle"), 2)
	s.Raise(at("icons"), boulder.Blocker{
		Category: boulder.BlockerArchitecture, Hard: true, Question: "Which icons should the app use in dark mode?",
		Context: "The 24 icons are PNG files with a white background, which shows in dark mode.\nRedrawing them takes longest, and looks best.",
		Options: []string{"Redraw them as SVG that takes the colour of the text", "Invert the PNG files with a filter", "Put every icon on a light tile"},
	})
	s.Apply(boulder.TurnEnded{AttemptRef: at("icons"), Turn: 1, Evidence: boulder.Evidence{FinalMessage: "I need a decision about the icons."}})
	s.Apply(boulder.Parked{AttemptRef: at("icons"), Reason: "waits for an answer to B1", Digest: "It waits."})
	s.Now = s.Now.Add(time.Minute)
	s.Apply(boulder.SubTaskProgress{AttemptRef: at("editor"), Activity: "edit src/editor/theme.ts", TodosDone: 2, TodosTotal: 5})
}
