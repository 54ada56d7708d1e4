package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
)

// What makes an agent wait, and what it was refused, is for who reads the log in the morning too: once each, without
// --verbose, in plain lines and beside the live picture.
func TestNoticesAreShownOnce(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.plan()
	ref := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.start(ref)
	first := "until 10:05:00 the provider makes it wait (try 1)"
	second := "until 10:06:00 the provider makes it wait (try 2)"
	refused := "refused permission bash [rm]"
	for _, text := range []string{first, first, second, refused} {
		s.apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: text, Notice: true})
	}
	s.apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "read theme.css"})

	for name, text := range linesOf(t, s) {
		for _, want := range []string{first, second, refused} {
			if n := strings.Count(text, want); n != 1 || !strings.Contains(text, "[2/6] "+want) {
				t.Errorf("%s: %q is there %d times, want once, and of sub-task 2:\n%s", name, want, n, text)
			}
		}
		if strings.Contains(text, "read theme.css") {
			t.Errorf("%s: every step is told without --verbose:\n%s", name, text)
		}
	}
}

// linesOf is what stays of a run in each of the views that people see it in.
func linesOf(t *testing.T, s *sample) map[string]string {
	t.Helper()
	a, _, stderr := testApp()
	s.playTo(a)
	return map[string]string{"lines": stderr.String(), "live": strings.Join(liveSample(t, s).Printed, "\n")}
}

// playTo shows what has happened in the view of an app.
func (s *sample) playTo(a *app) view.Run {
	v := view.NewRun(a.console(), view.NewProgress(nil), "")
	for _, e := range s.events {
		v.Event(e)
	}
	return v
}

// statusText is what status shows on a terminal of 80 columns.
func statusText(t *testing.T, s *sample, holder *control.Holder) string {
	t.Helper()
	a, stdout, _ := testApp()
	report := view.NewStatus(s.detail(), s.events, holder, schedule.DefaultLimits(), nil, s.now)
	if report.Total != s.state.Planned() {
		t.Errorf("the report counts %d sub-tasks, the plan has %d", report.Total, s.state.Planned())
	}
	v := view.StatusView{Out: a.on(stdout), Report: report, Width: 80}
	v.Head()
	v.State()
	v.SubTasks()
	for line := range strings.Lines(stdout.String()) {
		if w := ansi.StringWidthWc(strings.TrimSuffix(line, "\n")); w >= 80 {
			t.Errorf("a line for 80 columns has %d: %q", w, line)
		}
	}
	return stdout.String()
}

// lineOf is the line that begins with a mark and the sub-task's id, and the one below it.
func lineOf(t *testing.T, text, id string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == id {
			return line + "\n" + lines[i+1]
		}
	}
	t.Fatalf("there is no line of %s:\n%s", id, text)
	return ""
}

func TestStatusWhileReplanning(t *testing.T) {
	t.Parallel()
	ref := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	s := newSample(t)
	s.plan()
	s.start(ref)
	holder := &control.Holder{PID: 42, Command: "manager run", Since: sampleStart, BoulderID: sampleID}
	s.end(ref, 1, nil, boulder.Verdict{Summary: "no", NeedReplan: true, ReplanReason: "there is no page"})
	if text := lineOf(t, statusText(t, s, nil), "toggle"); !strings.Contains(text, "left after turn 1 of attempt 1") {
		t.Errorf("a turn that is over is said to be left in the middle:\n%s", text)
	}
	s.apply(boulder.ReplanStarted{AttemptRef: ref, Number: 1, Reason: "no page", Replaces: []string{"toggle", "docs"}})
	text := statusText(t, s, holder)
	if got := lineOf(t, text, "toggle"); !strings.Contains(got, "a new plan is being made") {
		t.Errorf("while a plan is made, status says:\n%s", got)
	}
	if got := lineOf(t, text, "docs"); !strings.Contains(got, "waits for a new plan") {
		t.Errorf("what is to be replaced says:\n%s", got)
	}
	s.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "a new plan waits for approval"})
	if got := lineOf(t, statusText(t, s, nil), "toggle"); !strings.Contains(got, "waits for a new plan") {
		t.Errorf("while the plan is asked about, status says:\n%s", got)
	}
}

// A turn that `pause --now` stopped is told as stopped wherever people look; what goes on to its end is not.
func TestStoppedTurns(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.plan()
	theme, icons := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}, boulder.AttemptRef{SubTaskID: "icons", Attempt: 1}
	s.start(theme)
	s.start(icons)
	for _, ref := range []boulder.AttemptRef{theme, icons} {
		s.apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "edit " + ref.SubTaskID})
	}
	s.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by a person"})
	s.apply(boulder.Trouble{AttemptRef: theme, Kind: boulder.TroublePaused, Reason: "paused by a person",
		NotBefore: s.now, Uncounted: true})
	stoppedAt := s.now
	s.now = s.now.Add(time.Hour)
	const says = "stopped, to be taken up again"
	holder := &control.Holder{PID: 42, Command: "manager run", Since: sampleStart, BoulderID: sampleID}

	text := statusText(t, s, holder)
	if got := lineOf(t, text, "theme"); !strings.Contains(got, says) || strings.Contains(got, "Creating") ||
		strings.Contains(got, "1h") {
		t.Errorf("what was stopped is said to be at work, at %s:\n%s", view.Clock(stoppedAt), got)
	}
	if got := lineOf(t, text, "icons"); !strings.Contains(got, "Drawing") || !strings.Contains(got, "edit icons") {
		t.Errorf("what goes on to the end of its turn says:\n%s", got)
	}
	for _, r := range view.NewStatus(s.detail(), s.events, holder, schedule.DefaultLimits(), nil, s.now).SubTasks {
		if want := r.ID == "theme"; r.Stopped != want || want && (r.Activity != "" || r.ElapsedMS > 60_000) {
			t.Errorf("%s: stopped %v, %q, %d ms", r.ID, r.Stopped, r.Activity, r.ElapsedMS)
		}
	}
	frame := liveSample(t, s).Frame(view.Size{Width: 100, Height: 30}, 0)
	if strings.Count(frame, says) != 1 || strings.Contains(frame, "edit theme") || !strings.Contains(frame, "edit icons") {
		t.Errorf("the live picture shows:\n%s", frame)
	}
	a, out, _ := testApp()
	receipt := view.NewReceipt(s.detail(), s.now)
	receipt.Running = true
	receipt.Print(a.on(out))
	for _, want := range []string{"attempt 1, paused", "attempt 1, at work"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("the receipt does not say %q once:\n%s", want, out)
		}
	}
	for now, want := range map[bool][]string{true: {"theme", "icons"}, false: {"icons"}} {
		report := view.NewOrder(s.detail(), s.detail(), holder, boulder.Order{Do: boulder.OrderPause, Now: now})
		if diff := cmp.Diff(want, report.AtWork); diff != "" {
			t.Errorf("after a pause, now %v, at work (-want +got):\n%s", now, diff)
		}
	}
	w := view.NewWhy(s.detail(), *s.state.SubTask("theme"), nil)
	for _, e := range s.events {
		w.Take(e)
	}
	w.Report.Running = true
	w.Report.Now = w.Now()
	out.Reset()
	w.Report.Print(a.on(a.Stdout))
	if text := out.String(); !strings.Contains(text, "now: "+says+": paused by a person") ||
		!strings.Contains(text, "stopped for now: paused by a person\n") || strings.Contains(text, "fault") {
		t.Errorf("the reasons are:\n%s", text)
	}

	s.apply(boulder.StatusChanged{Status: boulder.Running, Reason: "resumed"})
	s.apply(boulder.SubTaskProgress{AttemptRef: theme, Activity: "edit theme.css"})
	s.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by a person"})
	if got := lineOf(t, statusText(t, s, holder), "theme"); !strings.Contains(got, "edit theme.css") {
		t.Errorf("taken up again, and paused without --now, it says:\n%s", got)
	}
}

// What waits only because another boulder of the same server has the slots says so.
func TestStatusBesideOtherBoulders(t *testing.T) {
	t.Parallel()
	const first, second, third = "01kfirst", "01ksecond", "01kthird"
	project := t.TempDir()
	for _, id := range []string{first, second, third} {
		s := newSampleOf(t, id)
		s.plan()
		if id == first {
			s.start(boulder.AttemptRef{SubTaskID: "theme", Attempt: 1})
		}
		s.storeIn(project)
	}
	limits := schedule.DefaultLimits()
	limits.Models = []schedule.ModelLimit{{Pattern: "test/small", Limit: 1}}
	holdAs(t, project, control.Holder{
		PID: 42, Command: "manager serve", Since: sampleStart, Serves: true, Running: []string{first, second},
		Limits: &limits,
	})
	for id, want := range map[string]string{
		first:  "2nd in line: the one slot of test/small is taken",
		second: "3rd in line: boulder " + first + " has the slots",
		third:  "is next", // nobody runs it
	} {
		stdout, stderr, code := command(project, "status", id)
		if code != exitOK || !strings.Contains(lineOf(t, stdout, "lang"), want) {
			t.Errorf("%s: exit code %d, %s, want %q:\n%s", id, code, stderr, want, stdout)
		}
		if strings.Contains(lineOf(t, stdout, "icons"), "in line") {
			t.Errorf("%s: test/large has slots:\n%s", id, stdout)
		}
	}
}

// A replan that is over: what it replaced is not counted, and costs nothing if it never began.
func TestStatusAfterReplan(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.misbehave()
	text := statusText(t, s, nil)
	if !strings.Contains(text, "0/5 done") {
		t.Errorf("of 6 sub-tasks 2 were replaced by 1, and it says:\n%s", text)
	}
	got := lineOf(t, text, "docs")
	if strings.Contains(got, "$") || !strings.Contains(got, "replaced by plan revision 2") {
		t.Errorf("a sub-task that never began and was replaced says:\n%s", got)
	}
	stdout, stderr, code := command(s.store(), "list")
	if code != exitOK || !strings.Contains(stdout, " 0/5 ") {
		t.Errorf("list says %q, %q, exit code %d", stdout, stderr, code)
	}
}

// The end of a wait is the first thing that is said of it: the rest may be cut.
func TestWaitsSayTheirEndFirst(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.plan()
	ref := boulder.AttemptRef{SubTaskID: "icons", Attempt: 1}
	s.start(ref)
	until := s.now.Add(10 * time.Minute)
	long := "rate limit: " + strings.Repeat("too many requests ", 10)
	s.apply(boulder.Trouble{AttemptRef: ref, Reason: long, NotBefore: until})
	s.apply(boulder.Cooled{Model: "test/small", Until: until, Limit: 1, Full: 5, Reason: long})
	holder := &control.Holder{PID: 42, Command: "manager run", Since: sampleStart, BoulderID: sampleID}
	text := statusText(t, s, holder)
	for _, id := range []string{"icons", "lang"} {
		if got := lineOf(t, text, id); !strings.Contains(got, "until "+view.Clock(until)+": rate limit") {
			t.Errorf("%s does not say until when it waits:\n%s", id, got)
		}
	}
	// A retry that is in line waits no less than a first attempt.
	s.apply(boulder.Retry{AttemptRef: ref, Reason: "stuck", Status: boulder.AttemptFailed, Next: 2})
	s.apply(boulder.Cooled{Model: "test/large", Until: until, Limit: 1, Full: 5, Reason: long})
	if got := lineOf(t, statusText(t, s, holder), "icons"); !strings.Contains(got, "until "+view.Clock(until)+": rate limit") {
		t.Errorf("a retry in line does not say until when it waits:\n%s", got)
	}
	frame := liveSample(t, s).Frame(view.Size{Width: 80, Height: 30}, 0)
	if !strings.Contains(frame, "Draw the icons") || strings.Count(frame, "until "+view.Clock(until)) < 2 {
		t.Errorf("the live picture does not show the waits:\n%s", frame)
	}
}

func TestBudgetWarnings(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]boulder.BudgetWarning{
		"82% of the tokens budget is used: 820 of 1.0k": {Dimension: "tokens", Used: 820, Limit: 1000},
		"99% of the calls budget is used: 999 of 1000":  {Dimension: "calls", Used: 999, Limit: 1000},
		"the cost budget is used up: $1.50 of $1.00":    {Dimension: "cost", Used: 1.5, Limit: 1},
		"the time budget is used up: 1m00s of 1m00s":    {Dimension: "time", Used: 60, Limit: 60},
		"the attempts budget is used up: 2 of 2":        {Dimension: "attempts", Used: 2, Limit: 2},
	} {
		if got := view.Describe(b); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s := newSample(t)
	s.plan()
	s.apply(boulder.BudgetWarning{SubTaskID: "theme", Dimension: "tokens", Used: 820, Limit: 1000})
	s.apply(boulder.BudgetWarning{Dimension: "cost", Used: 0.9, Limit: 1})
	printed := strings.Join(liveSample(t, s).Printed, "\n")
	if !strings.Contains(printed, "! [2/6] 82% of the tokens") || !strings.Contains(printed, "! 90% of the cost") {
		t.Errorf("the live view says:\n%s", printed)
	}
}

// Who trusts a result has to know that no judge has seen it.
func TestVerdictOfTheGatesAlone(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.plan()
	for id, alone := range map[string]bool{"toggle": true, "theme": false} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		s.start(ref)
		var gate *boulder.Gate
		if gates := s.state.SubTask(id).Gates; len(gates) > 0 {
			gate = &boulder.Gate{Command: gates[0]}
		}
		s.end(ref, 1, gate, boulder.Verdict{Completed: true, JudgeUnavailable: alone})
		s.apply(boulder.SubTaskDone{AttemptRef: ref, Completed: true, Status: boulder.SubTaskCompleted,
			AttemptStatus: boulder.AttemptCompleted})
	}
	for name, text := range linesOf(t, s) {
		if n := strings.Count(text, "by the gates alone"); n != 1 {
			t.Errorf("%s: it is said %d times, want of one sub-task:\n%s", name, n, text)
		}
	}
}

func TestReceiptFits(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	s.apply(boulder.BudgetSet{Budget: boulder.Budget{Tokens: 2e6, Cost: 5, Time: boulder.Duration(8 * time.Hour),
		Attempts: 20, Calls: 500}})
	for name, test := range map[string]struct {
		running bool
		status  boulder.Status
		says    string
	}{
		"at work":     {true, boulder.Running, "attempt 1, at work"},
		"paused":      {false, boulder.Paused, "attempt 1, paused"},
		"interrupted": {false, boulder.Running, "attempt 1, interrupted"},
	} {
		for _, width := range []int{79, 119} {
			a, stdout, _ := testApp()
			r := view.NewReceipt(s.detail(), s.now)
			r.Running, r.Status = test.running, test.status
			view.ReceiptView{Out: a.on(stdout), Room: width}.Table(r)
			text := stdout.String()
			if !strings.Contains(text, test.says) || strings.Contains(text, "executing") {
				t.Errorf("%s: an attempt that is not over is not told as %q:\n%s", name, test.says, text)
			}
			if !strings.Contains(text, "500 model calls") {
				t.Errorf("%s: the budget is not whole:\n%s", name, text)
			}
			for line := range strings.Lines(text) {
				if w := ansi.StringWidthWc(strings.TrimSuffix(line, "\n")); w > width {
					t.Errorf("%s: a line for %d columns has %d: %q", name, width, w, line)
				}
			}
		}
	}
}
