package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
)

// misbehave plays a sub-task in which every rule has its say: a nudge, a fault, a stop, truncation, a judge that is
// overruled and one that is not there, a retry, a resume after a crash, and a replan that supersedes what depends on
// it.
func (s *sample) misbehave() {
	ref := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	s.plan()
	s.start(ref)
	s.apply(boulder.Nudged{AttemptRef: ref, Turn: 1, Rule: boulder.RuleErrors, MessageID: "msg_n",
		Prompt: "[manager] You called the same tool three times with the same error.\nFind another way."})
	s.apply(boulder.Trouble{AttemptRef: ref, Kind: boulder.TroubleRateLimit, Reason: "HTTP 429",
		NotBefore: s.now.Add(20 * time.Second)})
	s.endWith(ref, 1, boulder.Evidence{
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
	s.apply(boulder.Retry{AttemptRef: ref, Reason: "the turn was stopped: the same call failed 4 times",
		Status: boulder.AttemptFailed, Next: 2, Digest: "x"})
	ref.Attempt = 2
	s.start(ref)
	s.apply(boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_r", Resume: true})
	s.endWith(ref, 1, boulder.Evidence{
		Ended: boulder.Ended{Finish: "length", Truncated: "the turn was cut off at the output limit"},
		Diff:  boulder.Diff{Unavailable: "not a git repository"},
	}, boulder.Verdict{Summary: "Not yet.", JudgeUnavailable: true, ContinuationPrompt: "go on"})
	s.apply(boulder.Continuation{
		AttemptRef: ref, Turn: 2, Reason: "it was cut off", Remaining: []string{"all"}, Prompt: "go on",
	})
	s.apply(boulder.TurnSent{AttemptRef: ref, Turn: 2, Kind: boulder.TurnContinuation, MessageID: "msg_2"})
	s.endWith(ref, 2, boulder.Evidence{Ended: boulder.Ended{Error: "APIError", Message: "too long"}},
		boulder.Verdict{Summary: "Nothing came of it.", NeedReplan: true, ReplanReason: "there is no settings page"})
	s.apply(boulder.ReplanStarted{
		AttemptRef: ref, Number: 1, Reason: "the plan is wrong", Replaces: []string{"toggle", "docs"},
	})
	s.apply(boulder.ReplanTrouble{Reason: "connection refused", NotBefore: s.now.Add(time.Second)})
	spec := boulder.Spec{ID: "page", Subject: "Make a settings page", Description: "x"}
	s.apply(boulder.Replanned{
		AttemptRef: ref, Number: 1, Reason: "the plan is wrong", Revision: 2, Plan: boulder.PlanRevision{Number: 2},
		Changed:  []boulder.Change{{From: "toggle", To: boulder.PlannedIn{ID: "page", Subject: spec.Subject}}},
		Removed:  []string{"docs"},
		SubTasks: []boulder.Spec{spec},
	})
}

// endWith ends a turn with evidence of its own.
func (s *sample) endWith(ref boulder.AttemptRef, turn int, e boulder.Evidence, v boulder.Verdict) {
	s.apply(boulder.TurnEnded{AttemptRef: ref, Turn: turn, Ended: e.Ended, Evidence: e})
	for _, g := range e.Gates {
		s.apply(boulder.GateRun{AttemptRef: ref, Command: g.Command, Passed: g.Holds(), ExitCode: g.ExitCode})
	}
	s.apply(schedule.Judged(s.state, s.state.Open(ref.SubTaskID), turn, v, s.now))
}

func TestWhy(t *testing.T) {
	t.Parallel()
	played, misbehaved := newSample(t), newSample(t)
	played.play()
	misbehaved.misbehave()
	good, bad := played.store(), misbehaved.store()
	for name, test := range map[string]struct {
		project string
		args    []string
	}{
		"why_completed.txt": {good, []string{"show", sampleID, "--why", "toggle"}},
		"why_failed.txt":    {good, []string{"show", "--why", "icons"}}, // of the newest
		"why_running.txt":   {good, []string{"show", "--why", "theme"}},
		"why_blocked.txt":   {good, []string{"show", "--why", "site"}},
		"why_pending.txt":   {good, []string{"show", "--why", "docs"}},
		"why_bad.txt":       {bad, []string{"show", "--why", "toggle"}},
		"why_dropped.txt":   {bad, []string{"show", "--why", "docs"}},
		"why_replaces.txt":  {bad, []string{"show", "--why", "page"}},
	} {
		stdout, stderr, code := command(test.project, test.args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", name, code, stderr)
		}
		golden(t, name, stdout)
		checkHarmless(t, stdout, "\n")
	}
	stdout, _, _ := command(bad, "show", "--why", "toggle", "--json")
	golden(t, "why.json", pretty(t, []byte(stdout)))
}

func TestWhyRefuses(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	checkRefusals(t, s.store(), []refusedLine{
		{[]string{"show", "--why", "nosuch"}, `has no sub-task "nosuch": it has toggle, theme, icons`},
		{[]string{"show", "--why", ""}, `has no sub-task ""`},
		{[]string{"show", "nosuch", "--why", "toggle"}, `no such boulder: "nosuch"`},
	})
}

// whyOf is the chain of a sub-task of the sample in which everything goes wrong.
func whyOf(t *testing.T, subTask string) (report view.Why) {
	t.Helper()
	s := newSample(t)
	s.misbehave()
	stdout, stderr, _ := command(s.store(), "show", "--why", subTask, "--json")
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return report
}

// Whatever the log is read from, and in pages or not, the chain has every event of the sub-task that it is made of, in
// order.
func TestWhyIsWholeAndInOrder(t *testing.T) {
	t.Parallel()
	report := whyOf(t, "toggle")
	var steps []string
	for _, step := range report.Chain {
		steps = append(steps, strings.TrimSpace(step.Step+" "+step.Prompt+step.Decision))
	}
	want := []string{
		"attempt", "prompt brief", "nudge", "fault", "ended", "verdict", "decision retry",
		"attempt", "prompt brief", "prompt resume", "ended", "verdict", "decision continuation",
		"prompt continuation", "ended", "verdict", "decision replan", "fault", "decision superseded",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(report.Chain, func(a, b view.WhyStep) int { return a.Time.Compare(b.Time) }) {
		t.Error("the chain is not in order of time")
	}
}

// A turn whose record cannot be read is told from the events alone, its gates included.
func TestWhyWithoutEvidence(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.misbehave()
	d := store.Detail{Boulder: s.state.Boulder}
	for _, task := range s.state.SubTasks {
		d.SubTasks = append(d.SubTasks, *task)
	}
	w := view.NewWhy(d, *s.state.SubTask("toggle"), nil)
	for _, e := range s.events {
		w.Take(e)
	}
	gates := 0
	for _, step := range w.Report.Chain {
		if step.Evidence != nil {
			t.Errorf("there is evidence: %+v", step)
		}
		if step.Step == view.StepGate {
			gates++
		}
	}
	if gates != 2 {
		t.Errorf("%d gates are told, want 2", gates)
	}
	a, out, _ := testApp()
	w.Report.Print(a.on(a.Stdout))
	if !strings.Contains(out.String(), "evidence: none is stored") {
		t.Errorf("it is not said that there is no evidence:\n%s", out)
	}
}

// On a terminal no line is wider than it.
func TestWhyFitsTheTerminal(t *testing.T) {
	t.Parallel()
	report := whyOf(t, "toggle")
	for _, width := range []int{50, 79, 119} {
		var out strings.Builder
		v := view.WhyView{Out: (&app{}).on(&out), Width: width}
		v.Head(&report)
		for _, step := range report.Chain {
			v.Step(step)
		}
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidthWc(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("a line for %d columns has %d: %q", width, n, line)
			}
		}
	}
}
