package cli

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
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
)

// testApp is an app that writes into buffers.
func testApp(environ ...string) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{Env: Env{Stdout: stdout, Stderr: stderr, Environ: environ}}, stdout, stderr
}

func TestPlanView(t *testing.T) {
	t.Parallel()
	a, stdout, _ := testApp()
	plan := samplePlan()
	view.Plan(a.on(stdout), &plan)
	golden(t, "plan.txt", stdout.String())
}

// Who says yes to a plan says yes to what decides about its results.
func TestPlanViewShowsWhatDecides(t *testing.T) {
	t.Parallel()
	a, stdout, _ := testApp()
	view.Plan(a.on(stdout), &boulder.Plan{Task: "x", SubTasks: []boulder.Spec{{
		ID: "x", Subject: "x", Description: "x", NoWorse: []string{"make unit"}, ExpectsChanges: true, EmptyOK: true,
		Outputs: []string{"port", "host"}, DoneWhen: []string{"judge", "todos"}, Budget: &boulder.Budget{
			Tokens: 5e5, Cost: 2.5, Time: boulder.Duration(45 * time.Minute), Attempts: 2, Calls: 1,
		},
	}}})
	want := `
1. x (x)
   no worse:   $ make unit
   expects:    a change to files
   empty ok:   to have found nothing is a good result
   outputs:    port, host
   decided by: judge, todos
   budget:     500k tokens, $2.50, 45m00s, 2 attempts, 1 model call
`
	if !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("got:\n%s\nwant:\n%s", stdout, want)
	}
}

func TestPlanViewOfManySubTasks(t *testing.T) {
	t.Parallel()
	a, stdout, _ := testApp()
	plan := boulder.Plan{Task: "many"}
	for i := range 21 {
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{ID: fmt.Sprint("s", i), Subject: "x", Description: "x"})
	}
	plan.SubTasks[20].DependsOn = []string{"s0"}
	view.Plan(a.on(stdout), &plan)
	if want := "order: 21 sub-tasks in 2 steps, at most 20 side by side\n"; !strings.HasSuffix(stdout.String(), want) {
		t.Errorf("the plan does not end with %q:\n%s", want, stdout)
	}
}

func TestPlanJSON(t *testing.T) {
	t.Parallel()
	a, stdout, _ := testApp()
	plan := samplePlan()
	plan.Seal = &boulder.Seal{Base: "0123", Hash: plan.Hash(), Origin: boulder.OriginModel, CreatedAt: sampleStart}
	plan.SubTasks[0].Subject = "Edited"
	if err := a.printJSON(view.NewPlanJSON(&plan, ".manager/plan.yaml")); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", stdout.String())
}

func TestLinesView(t *testing.T) {
	t.Parallel()
	a, stdout, stderr := testApp()
	s := newSample(t)
	s.play()
	s.finish()
	v := view.NewRun(a.console(), view.NewProgress(nil), "")
	for i, e := range s.events {
		v.Event(e)
		if i == 20 {
			v.Stopping()
		}
	}
	v.Close()
	golden(t, "run.txt", stderr.String()+"-- stdout --\n"+stdout.String())
}

func TestQuietView(t *testing.T) {
	t.Parallel()
	a, stdout, stderr := testApp()
	a.quiet = true
	s := newSample(t)
	s.play()
	s.finish()
	s.playTo(a).Close()
	if stderr.Len() > 0 || !strings.HasPrefix(stdout.String(), "4 of 6 sub-tasks completed.") {
		t.Errorf("stdout is %q, stderr is %q", stdout, stderr)
	}
}

// With --json there are the documented events and nothing else, on stdout and on stderr.
func TestJSONView(t *testing.T) {
	t.Parallel()
	a, stdout, stderr := testApp()
	a.json = true
	s := newSample(t)
	s.play()
	s.finish()
	v := view.NewRun(a.console(), view.NewProgress(nil), "")
	var want, got []string
	for _, e := range s.events {
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
		if err := json.Unmarshal([]byte(line), &head); err != nil || head.Time.IsZero() || head.BoulderID != sampleID {
			t.Errorf("line %q has no type, time and boulder_id (%v)", line, err)
		}
		got = append(got, head.Type)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if stderr.String() != view.StoppingText+"\n" { // and nothing but that, because it was asked to stop
		t.Errorf("stderr is %q", stderr)
	}
}

// The view applies the events that the run applied, so it must come to the same state, also if it did not see the
// beginning.
func TestProgressFollowsTheState(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	s.finish()
	for begin := range s.events {
		p := view.NewProgress(storedAt{s.events, begin})
		for _, e := range s.events[begin:] {
			if err := p.Take(e); err != nil {
				t.Fatalf("from event %d on: event %d: %v", begin+1, e.Seq, err)
			}
		}
		if diff := cmp.Diff(s.state.Boulder, p.State.Boulder); diff != "" {
			t.Fatalf("from event %d on the boulder differs (-want +got):\n%s", begin+1, diff)
		}
		if diff := cmp.Diff(s.state.SubTasks, p.State.SubTasks); diff != "" {
			t.Fatalf("from event %d on the sub-tasks differ (-want +got):\n%s", begin+1, diff)
		}
		if len(p.Doing) != 0 {
			t.Errorf("from event %d on somebody is still at work: %v", begin+1, p.Doing)
		}
	}
}

func TestStatusView(t *testing.T) {
	t.Parallel()
	holder := &control.Holder{PID: 42, Command: "manager run", Since: sampleStart, BoulderID: sampleID}
	other := &control.Holder{PID: 43, Command: "manager run", Since: sampleStart, BoulderID: "another"}
	running := newSample(t)
	running.play()
	paused := newSample(t)
	paused.play()
	paused.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "stopped"})
	over := newSample(t)
	over.play()
	over.finish()
	for name, test := range map[string]struct {
		sample *sample
		holder *control.Holder
	}{
		"status_planning": {newSample(t), holder}, "status_running": {running, holder},
		"status_interrupted": {running, other}, "status_paused": {paused, nil}, "status_over": {over, holder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.sample
			limits := schedule.DefaultLimits()
			limits.Global = 1
			report := view.NewStatus(s.detail(), s.events, test.holder, limits, nil, s.now.Add(time.Minute))
			a, stdout, _ := testApp()
			report.Print(a.on(a.Stdout))
			golden(t, name+".txt", stdout.String())
			stdout.Reset()
			if err := a.printJSON(report); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", pretty(t, stdout.Bytes()))
		})
	}
}

// detail is the sample as a store would give it, from its state and its events.
func (s *sample) detail() store.Detail {
	d := store.Detail{Boulder: s.state.Boulder, Revision: s.state.Revision}
	attempts := map[boulder.AttemptRef]boulder.Attempt{}
	for _, a := range s.state.Attempts {
		attempts[a.AttemptRef] = *a
	}
	for _, t := range s.state.SubTasks {
		d.SubTasks = append(d.SubTasks, *t)
		for n := 1; n <= t.Attempts; n++ {
			d.Attempts = append(d.Attempts, attempts[boulder.AttemptRef{SubTaskID: t.ID, Attempt: n}])
		}
	}
	return d
}

func pretty(t *testing.T, data []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A status must be shown of what cannot be restored: that is when people look.
func TestStatusOfContradictoryRecords(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	d := s.detail()
	d.SubTasks[3].Status = boulder.SubTaskCompleted // its dependencies are not
	if _, err := view.Restore(d); err == nil {
		t.Fatal("the records do not contradict each other")
	}
	report := view.NewStatus(d, nil, nil, schedule.DefaultLimits(), nil, s.now)
	if len(report.SubTasks) != 6 {
		t.Errorf("the report has %d sub-tasks", len(report.SubTasks))
	}
}

// storedAt is a store as it is when the event at begin is shown: that event and the next one are in it, as a run
// stores some events at once before it shows them.
type storedAt struct {
	events []boulder.Event
	begin  int
}

func (l storedAt) Load(context.Context, string) (*boulder.State, error) {
	s := boulder.NewState()
	for _, e := range l.events[:min(l.begin+2, len(l.events))] {
		if err := s.Replay(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}
