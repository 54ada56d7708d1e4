package view

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// Each wait and refusal is shown once, without --verbose, in plain lines and above the live view.
func TestNoticesAreShownOnce(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Plan)
	ref := ref("theme")
	s.Start(ref)
	first := "until 10:05:00 the provider makes it wait (try 1)"
	second := "until 10:06:00 the provider makes it wait (try 2)"
	refused := "refused permission bash [rm]"
	for _, text := range []string{first, first, second, refused} {
		s.Apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: text, Notice: true})
	}
	s.Apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "read theme.css"})

	for name, text := range linesOf(s) {
		for _, want := range []string{first, second, refused} {
			if n := strings.Count(text, want); n != 1 || !strings.Contains(text, "[2] "+want) {
				t.Errorf("%s: %q is there %d times, want once, and of sub-task 2:\n%s", name, want, n, text)
			}
		}
		says(t, text, "NOT read theme.css")
	}
}

func TestStatusWhileReplanning(t *testing.T) {
	t.Parallel()
	ref := ref("toggle")
	s := after(t, (*sample.Boulder).Plan)
	s.Start(ref)
	holder := holder()
	s.End(ref, 1, nil, boulder.Verdict{Summary: "no", NeedReplan: true, ReplanReason: "there is no page"})
	says(t, lineOf(t, statusText(t, s, nil), "toggle"), "left after turn 1 of attempt 1")
	s.Apply(boulder.ReplanStarted{AttemptRef: ref, Number: 1, Reason: "no page", Replaces: []string{"toggle", "docs"}})
	text := statusText(t, s, holder)
	says(t, lineOf(t, text, "toggle"), "a new plan is being made")
	says(t, lineOf(t, text, "docs"), "waits for a new plan")
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "a new plan waits for approval"})
	says(t, lineOf(t, statusText(t, s, nil), "toggle"), "waits for a new plan")
}

// Every view shows a turn that `pause --now` stopped as stopped, and a turn that runs to its end as at work.
func TestStoppedTurns(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Plan)
	theme, icons := ref("theme"), ref("icons")
	s.Start(theme)
	s.Start(icons)
	for _, ref := range []boulder.AttemptRef{theme, icons} {
		s.Apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "edit " + ref.SubTaskID})
	}
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by the user"})
	s.Apply(boulder.Trouble{AttemptRef: theme, Kind: boulder.TroublePaused, Reason: "paused by the user",
		NotBefore: s.Now, Uncounted: true})
	s.Now = s.Now.Add(time.Hour)
	const resting = "stopped, to be taken up again"
	holder := holder()

	text := statusText(t, s, holder)
	says(t, lineOf(t, text, "theme"), resting, "NOT Creating", "NOT 1h")
	says(t, lineOf(t, text, "icons"), "Drawing", "edit icons")
	for _, r := range NewStatus(readingOf(s, holder)).SubTasks {
		if want := r.ID == "theme"; r.Stopped != want || want && (r.Activity != "" || r.ElapsedMS > 60_000) {
			t.Errorf("%s: stopped %v, %q, %d ms", r.ID, r.Stopped, r.Activity, r.ElapsedMS)
		}
	}
	frame := frameOf(s, 100)
	if strings.Count(frame, resting) != 1 || strings.Contains(frame, "edit theme") || !strings.Contains(frame, "edit icons") {
		t.Errorf("the live picture shows:\n%s", frame)
	}
	receipt := NewReceipt(readingOf(s, holder))
	for _, want := range []string{"attempt 1, paused", "attempt 1, at work"} {
		if out := shown(t, 80, receipt.Print); strings.Count(out, want) != 1 {
			t.Errorf("the receipt does not say %q once:\n%s", want, out)
		}
	}
	for now, want := range map[bool][]string{true: {"theme", "icons"}, false: {"icons"}} {
		report := NewOrder(&project.Ordered{
			Order: boulder.Order{Do: boulder.OrderPause, Now: now}, Before: s.State.Snapshot(), After: s.State.Snapshot(), Holder: holder,
		})
		if diff := cmp.Diff(want, report.AtWork); diff != "" {
			t.Errorf("after a pause, now %v, at work (-want +got):\n%s", now, diff)
		}
	}
	w := NewWhy(readingOf(s, holder), s.State.SubTask("theme"))
	says(t, shown(t, 80, w.Print), "now: "+resting+": paused by the user", "stopped for now: paused by the user\n", "NOT fault")

	s.Apply(boulder.StatusChanged{Status: boulder.Running, Reason: "resumed"})
	s.Apply(boulder.SubTaskProgress{AttemptRef: theme, Activity: "edit theme.css"})
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by the user"})
	says(t, lineOf(t, statusText(t, s, holder), "theme"), "edit theme.css")
}

// A sub-task that a replan replaced is not counted, and has no cost if it never began.
func TestStatusAfterReplan(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Misbehave)
	text := statusText(t, s, nil)
	says(t, text, "0/5 done")
	got := lineOf(t, text, "docs")
	says(t, got, "NOT $", "replaced by plan revision 2")
}

// A wait begins with its end: the rest may be cut.
func TestWaitsSayTheirEndFirst(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Plan)
	ref := ref("icons")
	s.Start(ref)
	until := s.Now.Add(20 * time.Minute)
	wait := "limited until " + text.Until(until, s.Now)
	long := "rate limit: " + strings.Repeat("too many requests ", 10)
	s.Apply(boulder.Trouble{AttemptRef: ref, Reason: long, NotBefore: until})
	for _, model := range []string{"test/small", "test/large"} {
		s.Apply(boulder.Cooled{Model: model, Cooldown: boulder.Cooldown{Until: until, Limit: 1, Full: 5, Reason: long}})
	}
	holder := holder()
	shown := statusText(t, s, holder)
	for _, id := range []string{"icons", "lang"} {
		says(t, lineOf(t, shown, id), wait+": rate limit")
	}
	live := liveSample(s)
	lang := live.progress.State.SubTask("lang")
	lang.Models, lang.Model = "test/small,test/none", "test/none"
	says(t, live.frame(page.Size{Width: 120, Height: 30}, 0), "test/small is "+wait+"; in its place: test/none")
	// A retry in the queue waits for the same limit as a first attempt.
	s.Apply(boulder.Retry{AttemptRef: ref, Reason: "stuck", Status: boulder.AttemptFailed, Next: 2})
	says(t, lineOf(t, statusText(t, s, holder), "icons"), wait+": rate limit")
	frame := frameOf(s, 80)
	if !strings.Contains(frame, "Draw the icons") || strings.Count(frame, wait) < 2 {
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
		if got := Describe(boulder.Event{Body: b}).Line; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s := after(t, (*sample.Boulder).Plan)
	s.Apply(boulder.BudgetWarning{SubTaskID: "theme", Dimension: "tokens", Used: 820, Limit: 1000})
	s.Apply(boulder.BudgetWarning{Dimension: "cost", Used: 0.9, Limit: 1})
	printed := strings.Join(liveSample(s).printed, "\n")
	says(t, printed, "! [2] 82% of the tokens", "! 90% of the cost")
}

// The user must see that no judge has seen a result.
func TestVerdictOfTheGatesAlone(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Plan)
	for id, alone := range map[string]bool{"toggle": true, "theme": false} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		s.Start(ref)
		var gate *boulder.Gate
		if gates := s.State.SubTask(id).Gates; len(gates) > 0 {
			gate = &boulder.Gate{Command: gates[0]}
		}
		s.End(ref, 1, gate, boulder.Verdict{Completed: true, JudgeUnavailable: alone})
		s.Apply(boulder.SubTaskDone{AttemptRef: ref, Completed: true, Status: boulder.SubTaskCompleted,
			AttemptStatus: boulder.AttemptCompleted})
	}
	for name, text := range linesOf(s) {
		if n := strings.Count(text, "by the gates alone"); n != 1 {
			t.Errorf("%s: it is said %d times, want of one sub-task:\n%s", name, n, text)
		}
	}
}

func TestReceiptFits(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Play)
	s.Apply(boulder.BudgetSet{Budget: boulder.Budget{Tokens: 2e6, Cost: 5, Time: boulder.Duration(8 * time.Hour),
		Attempts: 20, Calls: 500}})
	for _, test := range []struct {
		running bool
		status  boulder.Status
		says    string
	}{
		{true, boulder.Running, "attempt 1, at work"},
		{false, boulder.Paused, "attempt 1, paused"},
		{false, boulder.Running, "attempt 1, interrupted"},
	} {
		for _, width := range []int{80, 120} {
			r := NewReceipt(readingOf(s, nil))
			r.running, r.Status = test.running, test.status
			says(t, shown(t, width, r.Print), test.says, "in progress", "NOT in_progress", "NOT executing", "500 model calls")
		}
	}
}

func TestOrdersInTheViews(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Plan)
	ref := ref("theme")
	s.Start(ref)
	s.Apply(boulder.Noted{Text: "Mind the gap"})
	s.Apply(boulder.Noted{SubTaskID: "theme", Text: "Dark is dark"})
	s.Apply(boulder.SubTaskDone{AttemptRef: ref, Status: boulder.SubTaskCancelled, AttemptStatus: boulder.AttemptCancelled,
		Summary: "cancelled by the user", ByUser: true})
	s.Apply(boulder.Reopened{SubTaskID: "theme", Reason: "retried by the user"})
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by the user"})

	live, texts := liveSample(s), linesOf(s)
	texts["live"] += live.frame(page.Size{Width: 120, Height: 30}, 0)
	for name, text := range texts {
		for _, want := range []string{
			"note: Mind the gap", "[2] note: Dark is dark", "cancelled by the user",
			"[2] retried: retried by the user", "paused by the user",
		} {
			if n := strings.Count(text, want); n != 1 {
				t.Errorf("%s: %q is there %d times, want once:\n%s", name, want, n, text)
			}
		}
	}
	says(t, live.frame(page.Size{Width: 44, Height: 30}, 0), "manager resume "+boulder.ShortID(sample.ID)) // never cut: users type it
	live.Stopping()
	says(t, live.frame(page.Size{Width: 120, Height: 30}, 0), "NOT manager resume")
}

// An unfinished line of sub-tasks may take all its turns, at the average cost of a judged turn so far.
func TestReceiptBound(t *testing.T) {
	t.Parallel()
	d := boulder.Snapshot{
		Boulder: boulder.Boulder{Status: boulder.Running, Usage: boulder.Usage{Cost: 1.2}},
		SubTasks: []*boulder.SubTask{
			{ID: "a", Status: boulder.SubTaskSuperseded, Judged: 4, Usage: boulder.Usage{Cost: 0.4}},
			{ID: "b", Status: boulder.SubTaskCompleted, Judged: 1, Usage: boulder.Usage{Cost: 0.6}},
			{ID: "a2", Root: "a", Status: boulder.SubTaskInProgress},
		},
	}
	if r := NewReceipt(&project.Reading{Snapshot: d, Limits: orchestrator.DefaultLimits()}); r.JudgedTurns != 5 || r.MostJudgedTurns != 16 || math.Abs(r.MostCost-3.4) > 1e-9 {
		t.Errorf("%d judged turns of at most %d, $%v", r.JudgedTurns, r.MostJudgedTurns, r.MostCost)
	}
	d.Boulder.Status, d.Boulder.Usage.Unpriced = boulder.Partial, 1
	if r := NewReceipt(&project.Reading{Snapshot: d, Limits: orchestrator.DefaultLimits()}); r.MostJudgedTurns != 5 || r.MostCost != 0 {
		t.Errorf("when it is over: at most %d, $%v", r.MostJudgedTurns, r.MostCost)
	}
}

// A boulder whose time came while no process was there has not started, and was not interrupted.
func TestStatusOfAMissedStart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := boulder.Boulder{ID: "b1", Status: boulder.Planning, CreatedAt: now.Add(-2 * time.Hour), UpdatedAt: now.Add(-2 * time.Hour)}
	b.StartAt = now.Add(-time.Hour)
	r := &project.Reading{Snapshot: boulder.Snapshot{Boulder: b}, Now: now}
	says(t, shown(t, 100, NewStatus(r).Print), "not started: no process was there at ", "manager resume b1", "NOT interrupted:")
}

// What ended because its sub-task waits is not shown as cancelled.
func TestReceiptOfWhatWaits(t *testing.T) {
	t.Parallel()
	d := boulder.Snapshot{
		Boulder:  boulder.Boulder{ID: "b1", Status: boulder.Paused},
		SubTasks: []*boulder.SubTask{{ID: "a", Position: 1, Status: boulder.SubTaskBlocked, Attempts: 2, ParkState: boulder.ParkState{Parked: true}}},
		Attempts: []*boulder.Attempt{
			{AttemptRef: boulder.AttemptRef{SubTaskID: "a", Attempt: 1}, Status: boulder.AttemptCancelled},
			{AttemptRef: boulder.AttemptRef{SubTaskID: "a", Attempt: 2}, Status: boulder.AttemptCancelled},
		},
	}
	says(t, shown(t, 100, NewReceipt(&project.Reading{Snapshot: d}).Print), "attempt 1, cancelled", "attempt 2, waits for you")
}

// The clock of a run stands still while no process works on it, whenever the receipt is made.
func TestReceiptOfACrash(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	b := boulder.Boulder{ID: "b1", Status: boulder.Running, Worked: time.Minute, ClockAt: at, UpdatedAt: at.Add(time.Second)}
	r := &project.Reading{Snapshot: boulder.Snapshot{Boulder: b}, Now: at.Add(10 * time.Hour)}
	if got := NewReceipt(r).WorkedMS; got != 61_000 {
		t.Errorf("after a crash: %d ms", got)
	}
	r.Holder = &project.Holder{Running: []string{"b1"}}
	if got := NewReceipt(r).WorkedMS; got != 36_060_000 {
		t.Errorf("at work: %d ms", got)
	}
}

// The cost of completed boulders predicts that of a plan. Unpriced and unfinished boulders do not count.
func TestExpected(t *testing.T) {
	plan := &boulder.Plan{SubTasks: make([]boulder.Spec, 3)}
	item := func(status boulder.Status, completed int, cost float64, unpriced int64) store.Item {
		return store.Item{Status: status, Tally: boulder.Tally{Completed: completed}, Usage: boulder.Usage{Cost: cost, Unpriced: unpriced}}
	}
	earlier := []store.Item{
		item(boulder.Completed, 3, 0.60, 0), item(boulder.Completed, 1, 0.20, 0),
		item(boulder.Completed, 1, 9, 1), item(boulder.Paused, 1, 9, 0), item(boulder.Completed, 2, 0, 0),
	}
	var b strings.Builder
	limits := orchestrator.DefaultLimits()
	Expected(page.Out{Writer: &b}, plan, limits, &boulder.Budget{Cost: 5, Time: boulder.Duration(8 * time.Hour)}, true, earlier)
	limits.Extensions = 0
	Expected(page.Out{Writer: &b}, plan, limits, nil, false, earlier[2:])
	Expected(page.Out{Writer: &b}, &boulder.Plan{SubTasks: plan.SubTasks[:1]}, limits, nil, false, nil)
	want := `at most: 45 judged turns, 15 for each sub-task and what replaces it, and a review and a check of the whole request; 45 turns more, and another check, if it finds something missing; the run stops at $5.00, 8h00m
about: $0.60, at the $0.20 that 4 completed sub-tasks cost here so far, with planning and judging
at most: 45 judged turns, 15 for each sub-task and what replaces it, and a check of the whole request
at most: 15 judged turns
`
	if b.String() != want {
		t.Error(b.String())
	}
}

// The words of a provider stay on one line, behind what matters.
func TestModelUseText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 22, 0, 0, 0, time.Local)
	zone := now.Format(" MST")
	for want, u := range map[string]orchestrator.ModelUse{
		"OpenCode's default model: no limit is known": {},
		"a/one: no limit is known; next: b/two":       {Model: "a/one", Fallback: []string{"b/two"}},
		"a/one is limited until Thu 5 Mar 02:00" + zone + "; in its place: b/two; its provider named 23:00" + zone +
			"; refused 1m00s ago: used up, all of it": {
			Model: "a/one", Instead: []string{"b/two"}, Cooldown: &boulder.Cooldown{
				Until: now.Add(4 * time.Hour), Reset: now.Add(time.Hour), Since: now.Add(-time.Minute), Reason: "used up,\n\x1b[2Jall of it",
			},
		},
		"a/one is limited until 22:05:00" + zone + "; in its place: b/two; next: c/three: 429": {
			Model: "a/one", Instead: []string{"b/two"}, Fallback: []string{"b/two", "c/three"}, // by lists of several sub-tasks
			Cooldown: &boulder.Cooldown{Until: now.Add(5 * time.Minute), Reason: "429"},
		},
		"a/one cannot be used; refused 1m00s ago: no credit": {Model: "a/one", Cooldown: &boulder.Cooldown{
			Until: boulder.NoEnd(), Since: now.Add(-time.Minute), Reason: "no credit",
		}},
		"a/one can be asked again since 21:00:00" + zone + "; refused 2h00m ago: 429": {Model: "a/one", Cooldown: &boulder.Cooldown{
			Until: now.Add(-time.Hour), Since: now.Add(-2 * time.Hour), Reason: "429",
		}},
		"a/one is asked again once the run is resumed; refused 1m00s ago: a key": {
			Model: "a/one", Cooldown: &boulder.Cooldown{Until: now.Add(-time.Minute), Since: now.Add(-time.Minute), Reason: "a key"},
		},
		"a/one is asked again, as the user wants that: 429": {Model: "a/one", Cooldown: &boulder.Cooldown{
			Until: now, Since: now, Lifted: now.Add(time.Hour), Reason: "429",
		}},
	} {
		if got := ModelUseText(u, now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Two providers may have a model of the same name.
func TestSameNameShowsTheProvider(t *testing.T) {
	t.Parallel()
	done := func(id, model string) row {
		return row{ID: id, Subject: "Do it", Status: boulder.SubTaskCompleted, Model: model}
	}
	model := regexp.MustCompile(`\S*(large|small)`)
	one, same, other := done("one", "a/large"), done("two", "b/large"), done("two", "b/small")
	for want, rows := range map[string][]row{"a/large b/large": {one, same}, "large small": {one, other}, "large": {one}} {
		lines := (&tasks{width: 100}).lines(rows...)
		status := &Status{SubTasks: rows}
		var named, fixed []string
		for i, line := range lines {
			named = append(named, model.FindString(line))
			fixed = append(fixed, model.FindString(status.Row(page.Paint{}, i, 100, "")))
		}
		if strings.Join(named, " ") != want || strings.Join(fixed, " ") != want {
			t.Errorf("%q and %q, want %q of each", named, fixed, want)
		}
	}
	unnamed := boulder.Instead{Model: "a/large", Reason: "a/large: overloaded"}
	if got, want := InsteadText("b/large", unnamed), "b/large instead of a/large: overloaded"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A boulder that is to begin later has not started before it begins, and will not once it is cancelled or paused.
func TestStarted(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 4, 22, 0, 0, 0, time.Local)
	at := created.Add(3 * time.Hour)
	for _, tt := range []struct {
		want         string
		status       boulder.Status
		startAt      time.Time
		updated, now time.Duration // since it was created
	}{
		{"started 1h00m ago", boulder.Running, time.Time{}, 0, time.Hour},
		{"starts at Thu 5 Mar 01:00" + at.Format(" MST") + " (in 2h00m)", boulder.Running, at, 0, time.Hour},
		{"started 1h00m ago", boulder.Running, at, 181 * time.Minute, 4 * time.Hour},
		{"to start 1h00m ago", boulder.Running, at, 0, 4 * time.Hour},
		{"created 1h00m ago", boulder.Cancelled, at, time.Minute, time.Hour},
		{"created 4h00m ago", boulder.Paused, at, time.Minute, 4 * time.Hour},
		{"started 1h00m ago", boulder.Completed, at, 190 * time.Minute, 4 * time.Hour},
	} {
		if got := started(tt.status, created, tt.startAt, created.Add(tt.updated), created.Add(tt.now)); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
