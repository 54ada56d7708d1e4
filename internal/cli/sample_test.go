package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	goldenfile "github.com/bouldermgr/manager/internal/golden"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/store"
)

// sampleStart is when the sample boulder was created. Each of its events comes a second after the one before.
var sampleStart = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// sample is a boulder in which everything is to be seen: finished, running, in line, pending, failed and blocked
// sub-tasks, a second turn, a retry, gates, trouble.
type sample struct {
	t      *testing.T
	id     string
	state  *boulder.State
	now    time.Time
	events []boulder.Event
}

const sampleID = "01k3sample"

func newSample(t *testing.T) *sample {
	t.Helper()
	return newSampleOf(t, sampleID)
}

func newSampleOf(t *testing.T, id string) *sample {
	t.Helper()
	s := &sample{t: t, id: id, state: boulder.NewState(), now: sampleStart}
	s.apply(boulder.Created{Boulder: boulder.Boulder{
		ID: id, Task: "Add dark mode\nwith a toggle in the settings", Project: "/project", Base: "0123456789abcdef",
		Model: "test/small", LedgerModel: "test/judge",
	}})
	planning := boulder.Usage{Input: 900, Output: 100, Calls: 1, Cost: 0.01}
	s.apply(boulder.UsageReport{Source: "plan", Model: "test/judge", Usage: planning})
	return s
}

func (s *sample) apply(body boulder.Body) {
	s.t.Helper()
	e, err := s.state.Apply(boulder.Event{Time: s.now, BoulderID: s.id, Body: body})
	if err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
	s.events = append(s.events, e)
}

func samplePlan() boulder.Plan {
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

func (s *sample) plan() {
	plan := samplePlan()
	rev := boulder.PlanRevision{
		Number: 1, Plan: plan, Hash: "abcdef0123456789", Origin: boulder.OriginModel, AdoptedAt: s.now,
	}
	s.apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: rev})
	planned := boulder.Decomposed{
		Revision: 1, Origin: boulder.OriginModel, Goal: plan.Goal, Plan: rev, GatesApproved: true,
	}
	for _, t := range plan.SubTasks {
		planned.SubTasks = append(planned.SubTasks, boulder.PlannedIn{ID: t.ID, Subject: t.Subject, DependsOn: t.DependsOn})
	}
	s.apply(planned)
}

func (s *sample) start(ref boulder.AttemptRef) {
	s.apply(boulder.Starting{AttemptRef: ref, Tag: "tag", Prompt: "the brief"})
	model := s.state.SubTask(ref.SubTaskID).Model
	s.apply(boulder.SubTaskStart{AttemptRef: ref, Description: "x", Model: model, SessionID: "ses_" + ref.SubTaskID})
	s.apply(boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_" + ref.SubTaskID})
}

// end ends a turn with a verdict.
func (s *sample) end(ref boulder.AttemptRef, turn int, gate *boulder.Gate, v boulder.Verdict) {
	e := boulder.Evidence{
		Ended: boulder.Ended{Finish: "stop"}, FinalMessage: "done", ToolCount: 3,
		Transcript: filepath.ToSlash(filepath.Join(runsDir, sampleID, ref.SubTaskID, "1.jsonl")),
		Diff:       boulder.Diff{Files: []boulder.FileChange{{Path: "a.go", Added: 3, Own: true}}},
	}
	if gate != nil {
		e.Gates = []boulder.Gate{*gate}
	}
	s.apply(boulder.TurnEnded{AttemptRef: ref, Turn: turn, Ended: e.Ended, Evidence: e})
	s.apply(boulder.UsageReport{
		SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: "attempt", Model: "test/small",
		Usage: boulder.Usage{Input: 12_000, Output: 345, Calls: 4, Cost: 0.04},
	})
	if gate != nil {
		s.apply(boulder.GateRun{AttemptRef: ref, Command: gate.Command, Passed: gate.Green(), ExitCode: gate.ExitCode,
			Output: gate.Output, Millis: gate.Duration.Milliseconds()})
	}
	s.apply(schedule.Judged(s.state, s.state.Open(ref.SubTaskID), turn, v, s.now))
}

// play brings the sample to its middle.
func (s *sample) play() {
	toggle := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	icons := boulder.AttemptRef{SubTaskID: "icons", Attempt: 1}
	s.plan()
	s.start(theme)
	s.start(toggle)
	s.start(icons)
	s.apply(boulder.SubTaskProgress{AttemptRef: toggle, Activity: "edit settings.go",
		Checkpoint: &boulder.Checkpoint{File: "settings.go", Line: 12, Context: "func toggle() {", At: s.now}})
	red := boulder.Gate{
		Command: "go test ./settings", ExitCode: 1, Output: "--- FAIL: TestToggle\nFAIL", Duration: 2 * time.Second,
	}
	s.end(toggle, 1, &red, boulder.Verdict{Summary: "the tests are red", Overruled: []string{"gate is red"},
		Criteria: []boulder.Criterion{
			{Criterion: "The toggle is saved", Met: true, Evidence: "settings.go"}, {Criterion: "It is restored"},
		}})
	s.apply(boulder.Continuation{
		AttemptRef: toggle, Turn: 2, Reason: "the tests are red", Remaining: []string{"make them pass"}, Prompt: "go on",
	})
	s.apply(boulder.TurnSent{AttemptRef: toggle, Turn: 2, Kind: boulder.TurnContinuation, MessageID: "msg_2"})
	green := red
	green.ExitCode, green.Output = 0, "ok"
	s.end(toggle, 2, &green, boulder.Verdict{Completed: true, Summary: "the toggle is there",
		Criteria: []boulder.Criterion{
			{Criterion: "The toggle is saved", Met: true, Evidence: "settings.go"},
			{Criterion: "It is restored", Met: true, Evidence: "the test"},
		}})
	s.apply(boulder.SubTaskDone{AttemptRef: toggle, Completed: true, Summary: "the toggle is there",
		Output: "call Toggle()", Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	s.apply(boulder.Trouble{AttemptRef: icons, Reason: "connection refused", NotBefore: s.now.Add(time.Second)})
	s.apply(boulder.Retry{
		AttemptRef: icons, Reason: "stuck: the same call 4 times", Status: boulder.AttemptFailed, Next: 2,
	})
	icons.Attempt = 2
	s.start(icons)
	s.end(icons, 1, nil, boulder.Verdict{Summary: "there are no icons"})
	s.apply(boulder.SubTaskDone{AttemptRef: icons, Summary: "not complete after 5 turns: there are no icons",
		Status: boulder.SubTaskFailed, AttemptStatus: boulder.AttemptFailed})
	s.apply(boulder.SubTaskProgress{AttemptRef: theme, Activity: "read \x1b[2Jtheme.css", TodosDone: 2, TodosTotal: 5})
}

// finish brings the sample to its end.
func (s *sample) finish() {
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.end(theme, 1, nil, boulder.Verdict{Completed: true, Summary: "it is dark"})
	s.apply(boulder.SubTaskDone{AttemptRef: theme, Completed: true, Summary: "it is dark",
		Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	for _, id := range []string{"docs", "lang"} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		s.start(ref)
		s.end(ref, 1, nil, boulder.Verdict{Completed: true, Summary: "it is written"})
		s.apply(boulder.SubTaskDone{AttemptRef: ref, Completed: true, Summary: "it is written",
			Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted})
	}
	s.apply(boulder.StatusChanged{Status: boulder.Synthesizing})
	s.apply(boulder.TaskComplete{
		Status: boulder.Partial, Summary: "4 of 6 sub-tasks completed.\n\n✗ icons: there are none",
		Usage: s.state.Boulder.Usage,
	})
}

// store writes the sample into a new project, and returns the project's directory.
func (s *sample) store() string {
	s.t.Helper()
	project := s.t.TempDir()
	s.storeIn(project)
	return project
}

func (s *sample) storeIn(project string) {
	s.t.Helper()
	dir, err := store.EnsureDir(project)
	if err != nil {
		s.t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	s.commit(db)
}

func (s *sample) commit(db *store.DB) {
	s.t.Helper()
	events := s.state.TakeEvents()
	for i := range events { // where the test wants it to be
		if b, ok := events[i].Body.(boulder.Created); ok {
			b.Boulder.Project = s.state.Boulder.Project
			events[i].Body = b
		}
	}
	if len(events) > 0 {
		if err := db.Commit(s.t.Context(), s.state, events); err != nil {
			s.t.Fatal(err)
		}
	}
}

// command runs a command line in a project.
func command(project string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = Main(Env{Args: append(args, "-C", project), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: []string{"HOME=" + filepath.Join(project, "home"), "PATH=" + os.Getenv("PATH")}})
	return out.String(), errs.String(), code
}

// What differs from run to run and from place to place.
var varying = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "DATE TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(` +[0-9a-z]+ ago`), " AGE ago"},
}

// golden compares a text with a file of testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, v := range varying {
		got = v.what.ReplaceAllString(got, v.with)
	}
	goldenfile.Compare(t, filepath.Join("golden", name), got)
}
