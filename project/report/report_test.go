package report_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/testkit/golden"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// The next step depends on the state of the boulder. Commands can be pasted as they are.
func TestNext(t *testing.T) {
	t.Parallel()
	one := func(status boulder.SubTaskStatus) []*boulder.SubTask {
		return []*boulder.SubTask{{ID: "a", Status: boulder.SubTaskCompleted}, {ID: "b", Status: status, Files: []string{"x"}}}
	}
	refused := map[string]boulder.Cooldown{"p/m": {Until: boulder.NoEnd(), Reason: "p/m: the key was refused"}}
	for name, test := range map[string]struct {
		in   report.Input
		want string
	}{
		"another model is at work": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Running, Cooldowns: refused}, SubTasks: one("in_progress"), Running: true},
			"manager status id | manager doctor",
		},
		"a model was refused until the end": {report.Input{Boulder: boulder.Boulder{Status: boulder.Completed, Cooldowns: refused}}, ""},
		"completed": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Completed, Settings: boulder.Settings{Base: "0123456789abcdef"}}, SubTasks: one("completed")},
			"manager diff -b id",
		},
		"completed outside git": {report.Input{Boulder: boulder.Boulder{Status: boulder.Completed}}, ""},
		"failed": {
			report.Input{Boulder: boulder.Boulder{Status: boulder.Partial}, SubTasks: one("failed")},
			"manager redo b -b id | manager show id --why b",
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
				SubTasks: []*boulder.SubTask{{ID: "1", Status: boulder.SubTaskBlocked, ParkState: boulder.ParkState{Parked: true, AtLimit: true}}},
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

// What the planner took by default is no choice of an agent, and that an earlier model is tried again is told.
func TestDefaultsAndProbes(t *testing.T) {
	t.Parallel()
	b := boulder.Boulder{ID: "id", Status: boulder.Completed, Blockers: []boulder.Blocker{
		{ID: "B1", PlanQuestion: "q1", Status: boulder.BlockerPending},
	}}
	made := report.New(report.Input{Boulder: b, Events: []boulder.Event{{Body: boulder.Switched{
		From: "q/two", To: "p/one", SubTasks: []string{"a"}, Probe: true, Reason: "perhaps",
	}}}})
	if got := made.Choices(); got != "1 question of the plan answered by default" {
		t.Errorf("choices: %q", got)
	}
	if len(made.Decided) != 1 || made.Decided[0].What != "a: p/one is tried again, instead of q/two" {
		t.Errorf("decided: %+v", made.Decided)
	}
}

// A turn at work has worked, up to now or to the last that is known of it.
func TestTurnAtWorkHasWorked(t *testing.T) {
	t.Parallel()
	at := sample.Began
	in := report.Input{
		Boulder:  boulder.Boulder{ID: "id", Status: boulder.Running, UpdatedAt: at.Add(time.Minute)},
		SubTasks: []*boulder.SubTask{{ID: "a", Status: boulder.SubTaskInProgress, Worked: time.Second}},
		Attempts: []*boulder.Attempt{{AttemptRef: boulder.AttemptRef{SubTaskID: "a", Attempt: 1}, Worked: time.Second, RunningSince: at}},
		Now:      at.Add(time.Hour),
	}
	if got := report.New(in).SubTasks[0].WorkedMS; got != 61_000 {
		t.Errorf("after a crash: %d ms", got)
	}
	in.Running = true
	if got := report.New(in).SubTasks[0].WorkedMS; got != 3_601_000 {
		t.Errorf("at work: %d ms", got)
	}
}

// Only what is still waited for is awaited, and it comes first.
func TestBlockers(t *testing.T) {
	t.Parallel()
	in := sample.Night(sample.AsItIs)
	got := map[string]report.Blocker{}
	var order []string
	for _, b := range report.New(in).Blockers {
		got[b.ID], order = b, append(order, b.ID)
	}
	if want := "B3 B1 B2 B5 B4"; strings.Join(order, " ") != want {
		t.Errorf("order %v, want %s", order, want)
	}
	if b := got["B3"]; !b.Awaited || b.Context == "" {
		t.Errorf("what is waited for: %+v", b)
	}
	if b := got["B2"]; b.Awaited || b.Question != "an old question" { // of an earlier attempt
		t.Errorf("what is not waited for any more: %+v", b)
	}
	if b := got["B4"]; b.Awaited || b.Answer != "8080" {
		t.Errorf("what is answered: %+v", b)
	}
	in.SubTasks[6].Blockers[1].Status, in.SubTasks[6].Blockers[1].Answer = boulder.BlockerAnswered, "MIT"
	if b := report.New(in).Blockers[0]; b.ID == "B3" {
		t.Errorf("it is answered: %+v", b)
	}
	in.SubTasks[6].Status = boulder.SubTaskCancelled
	if n := len(report.New(in).Awaited()); n != 0 {
		t.Errorf("a cancelled sub-task waits for %d answers", n)
	}
}

// Sessions held at an ask come first, the one with the least time first.
func TestHeldSessionsComeFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var all []report.Blocker
	for _, b := range []boulder.Blocker{
		{ID: "W1", Status: boulder.BlockerSkipped}, {ID: "W2", Status: boulder.BlockerPending},
		{ID: "W3", Status: boulder.BlockerPending, Hard: true},
		{ID: "W4", CreatedAt: now, Until: now.Add(time.Hour), Status: boulder.BlockerPending},
		{ID: "W5", CreatedAt: now, Until: now.Add(time.Minute), Status: boulder.BlockerPending},
		{ID: "W6", CreatedAt: now, Until: now.Add(-time.Minute), Status: boulder.BlockerPending},
	} {
		all = append(all, report.NewBlocker(b, nil, "", now))
	}
	report.SortBlockers(all, now)
	got := ""
	for _, b := range all {
		got += b.ID + " "
	}
	if want := "W5 W4 W3 W2 W6 W1 "; got != want {
		t.Errorf("order %s, want %s", got, want)
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
	l := &in.Boulder.Trunk
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

func TestJSON(t *testing.T) {
	t.Parallel()
	object, err := json.MarshalIndent(report.New(sample.Night(sample.AsItIs)), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "report.json", string(object)+"\n")
}

// A resume stops at once if only a larger budget, or more turns, would continue what is left.
func TestSpent(t *testing.T) {
	t.Parallel()
	limit := &boulder.Budget{Tokens: 100}
	used := boulder.Usage{Input: 100}
	parked := func(id string, b *boulder.Budget, atLimit bool) *boulder.SubTask {
		return &boulder.SubTask{ID: id, Status: boulder.SubTaskInProgress, ParkState: boulder.ParkState{Parked: true, AtLimit: atLimit}, Budget: b, Usage: used}
	}
	pending := func(on ...string) *boulder.SubTask {
		return &boulder.SubTask{ID: "next", Status: boulder.SubTaskPending, DependsOn: on}
	}
	done := &boulder.SubTask{ID: "done", Status: boulder.SubTaskCompleted}
	paused := boulder.Boulder{Status: boulder.Paused}
	over, attempts, ended := paused, paused, boulder.Boulder{Status: boulder.Partial, Usage: used}
	over.Budget, over.Usage, ended.Budget = limit, used, limit
	attempts.Budget, attempts.Attempts = &boulder.Budget{Attempts: 2}, 2
	for name, test := range map[string]struct {
		b     boulder.Boulder
		all   []*boulder.SubTask
		spent bool
	}{
		"the run's":                        {over, []*boulder.SubTask{pending()}, true},
		"the run's, before the plan":       {over, nil, true},
		"the run's, and all is done":       {over, []*boulder.SubTask{done}, false},
		"the run's, over":                  {ended, []*boulder.SubTask{pending()}, false},
		"a sub-task's":                     {paused, []*boulder.SubTask{done, parked("a", limit, false), pending("a")}, true},
		"a sub-task's, and another begins": {paused, []*boulder.SubTask{done, parked("a", limit, false), pending("done")}, false},
		"a loop's turns":                   {paused, []*boulder.SubTask{parked("a", nil, true)}, true},
		"a question":                       {paused, []*boulder.SubTask{parked("a", nil, false)}, false},
		"attempts":                         {attempts, []*boulder.SubTask{done, pending("done")}, true},
		"attempts, and one is at work":     {attempts, []*boulder.SubTask{{ID: "a", Status: boulder.SubTaskInProgress}, pending()}, false},
		"nothing":                          {paused, []*boulder.SubTask{pending()}, false},
	} {
		if got := report.New(report.Input{Boulder: test.b, SubTasks: test.all, Now: sample.Began}).Spent(); got != test.spent {
			t.Errorf("%s: %v", name, got)
		}
	}
}
