package view

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

func TestPlanView(t *testing.T) {
	t.Parallel()
	plan := sample.Plan()
	compare(t, "plan.txt", shown(t, 0, func(o page.Out) { Plan(o, &plan, []string{"go test ./settings"}) }))
}

// Approving a plan approves what decides about its results, so the plan must show it.
func TestPlanViewShowsWhatDecides(t *testing.T) {
	t.Parallel()
	plan := &boulder.Plan{Task: "x", SubTasks: []boulder.Spec{{
		ID: "x", Subject: "x", Description: "x", NoWorse: []string{"make unit"}, ExpectsChanges: true, EmptyOK: true,
		Outputs: []string{"port", "host"}, DoneWhen: []string{"judge", "todos"}, Budget: &boulder.Budget{
			Tokens: 5e5, Cost: 2.5, Time: boulder.Duration(45 * time.Minute), Attempts: 2, Calls: 1,
		},
	}}}
	got := shown(t, 0, func(o page.Out) { Plan(o, plan, []string{"make unit"}) })
	want := `
1. x (x)
  no worse: $ make unit (the project has it)
  expects: a change to files
  empty ok: to have found nothing is a good result
  outputs: port, host
  decided by: judge, todos
  budget: 500k tokens, $2.50, 45m00s, 2 attempts, 1 model call
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestPlanViewOfManySubTasks(t *testing.T) {
	t.Parallel()
	plan := boulder.Plan{Task: "many"}
	for i := range 21 {
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{ID: fmt.Sprint("s", i), Subject: "x", Description: "x"})
	}
	plan.SubTasks[20].DependsOn = []string{"s0"}
	got := shown(t, 80, func(o page.Out) { Plan(o, &plan, nil) })
	if want := "order: 21 sub-tasks in 2 steps, at most 20 side by side\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the plan does not end with %q:\n%s", want, got)
	}
}

func TestPlanJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	plan := sample.Plan()
	plan.Seal = &boulder.Seal{Base: "0123", Hash: plan.Hash(), Origin: boulder.OriginModel, CreatedAt: sample.Began}
	plan.SubTasks[0].Subject = "Edited"
	if err := WriteJSON(&out, NewPlanJSON(&plan, ".manager/plan.yaml")); err != nil {
		t.Fatal(err)
	}
	compare(t, "plan.json", out.String())
}

func TestLinesView(t *testing.T) {
	t.Parallel()
	c, stdout, stderr := console()
	s := after(t, (*sample.Boulder).Play, (*sample.Boulder).Finish)
	v := NewRun(c, NewProgress(nil), "")
	for i, e := range s.Events {
		v.Event(e)
		if i == 20 {
			v.Stopping()
		}
	}
	v.Close()
	compare(t, "run.txt", stderr.String()+"-- stdout --\n"+stdout.String())
}

// After a resume, the last line has the time of the whole boulder, as it has the tokens.
func TestSummaryAfterResume(t *testing.T) {
	t.Parallel()
	c, stdout, _ := console()
	s := after(t, (*sample.Boulder).Play, (*sample.Boulder).Finish)
	last := len(s.Events) - 3
	v := NewRun(c, NewProgress(storedAt{s.Events, last}.Get), "")
	for _, e := range s.Events[last:] {
		v.Event(e)
	}
	says(t, stdout.String(), " · worked 53s\n")
}

func TestQuietView(t *testing.T) {
	t.Parallel()
	c, stdout, stderr := console()
	c.Quiet = true
	s := after(t, (*sample.Boulder).Play, (*sample.Boulder).Finish)
	playTo(s, NewRun(c, NewProgress(nil), ""))
	if stderr.Len() > 0 || !strings.HasPrefix(stdout.String(), "4 of 6 sub-tasks completed.") {
		t.Errorf("stdout is %q, stderr is %q", stdout, stderr)
	}
}

// With --json, stdout has the documented events and nothing else.
func TestJSONView(t *testing.T) {
	t.Parallel()
	c, stdout, stderr := console()
	c.JSON = true
	s := after(t, (*sample.Boulder).Play, (*sample.Boulder).Finish)
	v := NewRun(c, NewProgress(nil), "")
	var want, got []string
	for _, e := range s.Events {
		v.Event(e)
		if e.Public() {
			want = append(want, boulder.TypeOf(e.Body))
		}
	}
	v.Stopping()
	v.Close()
	for line := range strings.Lines(stdout.String()) {
		var head struct {
			Type      string
			Time      time.Time
			BoulderID string `json:"boulder_id"`
		}
		if err := json.Unmarshal([]byte(line), &head); err != nil || head.Time.IsZero() || head.BoulderID != sample.ID {
			t.Errorf("line %q has no type, time and boulder_id (%v)", line, err)
		}
		got = append(got, head.Type)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if stderr.String() != StoppingText+"\n" { // the reply to Stopping, and nothing else
		t.Errorf("stderr is %q", stderr)
	}
}

// The view folds the events of the run, so it must reach the same state, even if it missed the beginning.
func TestProgressFollowsTheState(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Play, (*sample.Boulder).Finish)
	for begin := range s.Events {
		p := NewProgress(storedAt{s.Events, begin}.Get)
		for _, e := range s.Events[begin:] {
			if err := p.Take(e); err != nil {
				t.Fatalf("from event %d on: event %d: %v", begin+1, e.Seq, err)
			}
		}
		if diff := cmp.Diff(s.State.Boulder, p.State.Boulder); diff != "" {
			t.Fatalf("from event %d on the boulder differs (-want +got):\n%s", begin+1, diff)
		}
		if diff := cmp.Diff(s.State.SubTasks, p.State.SubTasks); diff != "" {
			t.Fatalf("from event %d on the sub-tasks differ (-want +got):\n%s", begin+1, diff)
		}
		for _, r := range p.rows(orchestrator.DefaultLimits(), nil, s.Now, true) {
			if used := p.State.SubTask(r.ID).Usage; r.activity != "" || r.Usage != used {
				t.Errorf("from event %d on %s is still at work: %+v", begin+1, r.ID, r.doing)
			}
		}
	}
}

// A used-up budget has to be raised, so the status names the flag.
func TestStatusOfUsedUpBudget(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Play)
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "the budget is used up"})
	r := readingOf(s, nil)
	r.Boulder.Budget = &boulder.Budget{Calls: r.Boulder.Usage.Calls}
	got := shown(t, 100, NewStatus(r).Print)
	if want := fmt.Sprintf("manager resume %s --budget calls=%d", boulder.ShortID(sample.ID), 2*r.Boulder.Budget.Calls); !strings.Contains(got, want) {
		t.Errorf("%s\nlacks %s", got, want)
	}
}

func TestStatusView(t *testing.T) {
	t.Parallel()
	holder := holder()
	other := &project.Holder{PID: 43, Command: "manager run", Since: sample.Began, Running: []string{"another"}}
	running := after(t, (*sample.Boulder).Play)
	paused := after(t, (*sample.Boulder).Play)
	paused.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "stopped"})
	over := after(t, (*sample.Boulder).Play, (*sample.Boulder).Finish)
	for name, test := range map[string]struct {
		sample *sample.Boulder
		holder *project.Holder
	}{
		"status_planning": {sample.New(t, sample.ID), holder}, "status_running": {running, holder},
		"status_interrupted": {running, other}, "status_paused": {paused, nil}, "status_over": {over, holder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.sample
			limits := orchestrator.DefaultLimits()
			limits.Global = 1
			r := readingOf(s, test.holder)
			r.Limits, r.Now = limits, s.Now.Add(time.Minute)
			status := NewStatus(r)
			compare(t, name+".txt", shown(t, 100, status.Print)+"== 80 columns\n"+shown(t, 80, status.Print))
			data, err := json.MarshalIndent(status, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name+".json", string(data)+"\n")
		})
	}
}

// Users look at the status when something is broken, so it must also show records that [boulder.Restore] refuses.
func TestStatusOfContradictoryRecords(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Play)
	d := s.State.Snapshot()
	d.SubTasks[3].Status = boulder.SubTaskCompleted // although its dependencies are not
	if _, err := boulder.Restore(d); err == nil {
		t.Fatal("the records do not contradict each other")
	}
	report := NewStatus(&project.Reading{Snapshot: d, Limits: orchestrator.DefaultLimits(), Now: s.Now})
	if len(report.SubTasks) != 6 {
		t.Errorf("the report has %d sub-tasks", len(report.SubTasks))
	}
}

// storedAt is a store one event ahead of the event at begin: a run stores several events before it shows them.
type storedAt struct {
	events []boulder.Event
	begin  int
}

func (l storedAt) Get(context.Context, string) (boulder.Snapshot, error) {
	s := boulder.NewState()
	for _, e := range l.events[:min(l.begin+2, len(l.events))] {
		if err := s.Replay(e); err != nil {
			return boulder.Snapshot{}, err
		}
	}
	return s.Snapshot(), nil
}

// A boulder that a killed process was planning, running or summarizing is interrupted.
func TestListedWithoutProcess(t *testing.T) {
	t.Parallel()
	for status, want := range map[boulder.Status]string{
		boulder.Planning: interrupted, boulder.Running: interrupted, boulder.Synthesizing: interrupted,
		boulder.AwaitingApproval: "awaiting_approval", boulder.Paused: "paused", boulder.Completed: "completed",
	} {
		item := &store.Item{BoulderID: "b", Status: status}
		if got := NewListItem(item, nil, time.Now()); got.Shown() != want {
			t.Errorf("%s without a process: %s", status, got.Shown())
		}
		if got := NewListItem(item, &project.Holder{Running: []string{"b"}}, time.Now()); got.Shown() != string(status) {
			t.Errorf("%s at work: %s", status, got.Shown())
		}
	}
}

// A plan's preview says why it is split like this, what is assumed, who does what the task demands, and what nobody does or
// shows.
func TestPlanSaysWhatTheTaskDemands(t *testing.T) {
	t.Parallel()
	plan := sample.Plan()
	plan.Reason, plan.Facts.Guesses = "Two parts", []string{"There is a settings page"}
	owner := plan.SubTasks[0].ID
	plan.Request = []boulder.Obligation{
		{ID: "r1", Text: "A toggle", Owner: owner, ShownBy: "x"}, {ID: "r2", Text: "Speed", Owner: owner}, {ID: "r3", Text: "Mail"},
		{ID: "r4", Text: "No vendor\u202e", Kind: boulder.Forbids}, {ID: "r5", Text: "Clean code", Kind: boulder.Wish},
		{ID: "r6", Text: "Icons", Deferred: "later"},
	}
	says(t, shown(t, 0, func(o page.Out) { Plan(o, &plan, nil) }), "  reason: Two parts\n", "  assumed: There is a settings page\n",
		"  A toggle: "+owner+"\n", "  Speed: "+owner+", and no criterion shows it\n", "  Mail: nobody does this\n",
		"  No vendor: holds for all\n", "  Clean code: cannot be checked\n", "  Icons: put off by the task (\"later\")\n")
}

// What happened to tasks of a list is told by reasons, with the first of those that it happened to.
func TestTaskList(t *testing.T) {
	t.Parallel()
	l := project.TaskList{Kind: "a checklist", Total: 30, Taken: 1}
	l.Notes = append(l.Notes, project.TaskNote{Line: 0, Item: "", What: "order", Why: "one after the other"})
	for i := range 12 {
		l.Notes = append(l.Notes, project.TaskNote{Line: i + 1, Item: fmt.Sprint("t", i), What: "left", Why: "done"})
	}
	for i := range 17 {
		l.Notes = append(l.Notes, project.TaskNote{Line: i + 20, Item: "t", What: "changed", Why: fmt.Sprint("reason ", i)})
	}
	got := shown(t, 0, func(o page.Out) { TaskList(o, "list.md", &l) })
	for _, want := range []string{
		"Read list.md as a checklist: 1 of 30 tasks taken.\n  order: one after the other\n",
		"  left: t0 (line 1), t1 (line 2), t2 (line 3), t3 (line 4), t4 (line 5), t5 (line 6), t6 (line 7), t7 (line 8), 4 more: done\n",
		"  changed: t (line 32): reason 12\n  and: 4 reasons more: --json has all\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
