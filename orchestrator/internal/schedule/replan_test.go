package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

var (
	wrong   = boulder.Verdict{NeedReplan: true, ReplanReason: "there is no API"}
	done    = boulder.Verdict{Completed: true}
	newPlan = boulder.PlanRevision{Number: 2}
)

// vee has c after a and b, d after c, and an independent e.
func vee() []boulder.Spec {
	return []boulder.Spec{
		{ID: "a"}, {ID: "b"}, {ID: "c", DependsOn: []string{"a", "b"}}, {ID: "d", DependsOn: []string{"c"}}, {ID: "e"},
	}
}

// TestReplanReplaces: a replan replaces the sub-task and all its dependents, and holds up nothing else.
func TestReplanReplaces(t *testing.T) {
	t.Parallel()
	s := begun(t, vee()...)
	feed(t, s, epoch, judged("a", wrong)...)
	got := Compute(s, DefaultLimits(), epoch)
	if kinds := kindsOf(got); kinds != "replan, start, start" {
		t.Fatalf("got %s", kinds)
	}
	want := boulder.ReplanStarted{
		AttemptRef: ref("a", 1), Number: 1, Reason: "the plan is wrong: there is no API", Replaces: []string{"a", "c", "d"},
	}
	if d := cmp.Diff(want, bodyOf(got[0])); d != "" {
		t.Error(d)
	}
	applyAll(t, s, epoch, got)
	if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != "askreplan, run, run" {
		t.Errorf("while the replan is made, got %s", kinds)
	}
}

// TestOneReplanAtATime: other replans wait for the current one, even if both are wanted at once.
func TestOneReplanAtATime(t *testing.T) {
	t.Parallel()
	s := begun(t, abc()...)
	for _, id := range []string{"a", "b", "c"} {
		feed(t, s, epoch, judged(id, wrong)...)
	}
	l := DefaultLimits()
	// The second replan is the last one allowed: a sub-task that wants a third is retried.
	meanwhile := []string{"askreplan", "askreplan, retry failed"}
	for i, id := range []string{"a", "b"} {
		got := Compute(s, l, epoch)
		if len(got) != 1 || bodyOf(got[0]).(boulder.ReplanStarted).AttemptRef != ref(id, 1) {
			t.Fatalf("replan %d: got %v, want the one for %s and nothing else", i+1, got, id)
		}
		applyAll(t, s, epoch, got)
		if kinds := kindsOf(Compute(s, l, epoch)); kinds != meanwhile[i] {
			t.Fatalf("while replan %d is made, got %s", i+1, kinds)
		}
		feed(t, s, epoch, boulder.Replanned{
			AttemptRef: ref(id, 1), SubTasks: []boulder.Spec{{ID: id + "-2", DependsOn: []string{"c"}}},
			Plan: boulder.PlanRevision{Number: i + 2},
		})
	}
	if kinds := kindsOf(Compute(s, l, epoch)); kinds != "retry failed" {
		t.Fatalf("without a replan left, got %s", kinds)
	}
	s.SubTask("c").Tries = 2
	if kinds := kindsOf(Compute(s, l, epoch)); kinds != "fail failed" {
		t.Fatalf("without a replan and a try left, got %s", kinds)
	}
}

// Within one answer, the end of b must not break the replan of a, which replaces c, a dependent of both.
func TestReplanBesideAFault(t *testing.T) {
	t.Parallel()
	s := begun(t, vee()...)
	feed(t, s, epoch, running("b")...)
	feed(t, s, epoch, judged("a", wrong)...)
	for range 3 {
		feed(t, s, epoch, boulder.Trouble{AttemptRef: ref("b", 1), Reason: "no server"})
	}
	got := Compute(s, DefaultLimits(), epoch)
	if kinds := kindsOf(got); kinds != "replan, park, start" {
		t.Fatalf("got %s", kinds)
	}
	applyAll(t, s, epoch, got)
	if st := s.SubTask("c"); st.Status != boulder.SubTaskPending {
		t.Fatalf("c is %s", st.Status)
	}
	feed(t, s, epoch, boulder.Replanned{AttemptRef: ref("a", 1), SubTasks: []boulder.Spec{{ID: "x"}}, Plan: newPlan})
	if st := s.SubTask("c"); st.Status != boulder.SubTaskSuperseded {
		t.Errorf("after the replan, c is %s", st.Status)
	}
}

// The completion is committed first. Dependents are then held until the new plan is adopted; everything else continues.
func TestReplanAfterCompletion(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{
		{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"b"}},
		{ID: "d", DependsOn: []string{"e"}}, {ID: "e"},
	}...)
	feed(t, s, epoch, running("e")...)
	feed(t, s, epoch, judged("a", boulder.Verdict{Completed: true, NeedReplan: true, ReplanReason: "a was odd"})...)
	got := Compute(s, DefaultLimits(), epoch)
	if kinds := kindsOf(got); kinds != "run, complete" {
		t.Fatalf("got %s", kinds)
	}
	applyAll(t, s, epoch, got)
	got = Compute(s, DefaultLimits(), epoch)
	want := Apply{boulder.ReplanStarted{AttemptRef: ref("a", 0), Number: 1, Reason: "a was odd", Replaces: []string{"b", "c"}}}
	same := cmp.Comparer(func(a, b *boulder.Open) bool { return a == b })
	if d := cmp.Diff([]Action{want, Run{s.Open("e")}}, got, same); d != "" {
		t.Fatalf("b, which waits for a, is ready (-want +got):\n%s", d)
	}
	applyAll(t, s, epoch, got)
	if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != "askreplan, run" {
		t.Fatalf("while the replan is made, got %s", kinds)
	}
	feed(t, s, epoch, boulder.ReplanRefused{AttemptRef: ref("a", 0)})
	if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != "run, start" {
		t.Errorf("without a new plan the old one goes on: got %s", kinds)
	}
}

// TestReplanAfterCompletionExhausted: with no replan left, nothing is held.
func TestReplanAfterCompletionExhausted(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}...)
	feed(t, s, epoch, judged("a", boulder.Verdict{Completed: true, NeedReplan: true})...)
	feed(t, s, epoch, complete(s.Open("a")))
	l := DefaultLimits()
	l.Replans = 0
	if kinds := kindsOf(Compute(s, l, epoch)); kinds != "start" {
		t.Errorf("got %s", kinds)
	}
}

// TestAskReplan: faults of the planner are waited out, up to a limit; then the run is paused, and the replan is kept.
func TestAskReplan(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a"}}...)
	feed(t, s, epoch, judged("a", wrong)...)
	applyAll(t, s, epoch, Compute(s, DefaultLimits(), epoch))
	for i, want := range []string{"wake", "wake", "stop"} {
		if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != "askreplan" {
			t.Fatalf("before fault %d, got %s", i+1, kinds)
		}
		feed(t, s, epoch, boulder.PlanTrouble{NotBefore: epoch.Add(time.Second)})
		if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != want {
			t.Fatalf("after fault %d, got %s, want %s", i+1, kinds, want)
		}
		if i == 0 { // a resume resets wait and faults
			feed(t, s, epoch, boulder.Resumed{})
			feed(t, s, epoch, boulder.PlanTrouble{NotBefore: epoch})
		} else {
			r := *s.Boulder.Replan
			r.NotBefore = epoch
			s.Boulder.Replan = &r
		}
	}
	feed(t, s, epoch, boulder.Resumed{},
		boulder.Cooled{Model: ledgerModel, Cooldown: boulder.Cooldown{Until: epoch.Add(time.Second), Limit: 1, Full: 5, Reason: "429"}})
	if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != "wake" {
		t.Errorf("while the ledger's model cools down, got %s", kinds)
	}
}

// TestAskPlan: the same for the first plan. Budgets hold while it waits.
func TestAskPlan(t *testing.T) {
	t.Parallel()
	s := boulder.NewState()
	feed(t, s, epoch, boulder.Created{Boulder: boulder.Boulder{ID: "b1", Settings: boulder.Settings{
		LedgerModel: ledgerModel, Budget: &boulder.Budget{Time: boulder.Duration(time.Hour)},
	}}})
	now, limits := epoch, DefaultLimits()
	limits.Warn = 0
	is := func(what, want string) {
		t.Helper()
		if kinds := kindsOf(Compute(s, limits, now)); kinds != want {
			t.Fatalf("%s: got %s, want %s", what, kinds, want)
		}
	}
	is("at first", "askplan, wake") // when the time is used up
	for n := range limits.Troubles {
		feed(t, s, now, PlanTrouble(s, limits, now, errors.New("connection refused"))...)
		wait := s.Boulder.PlanFaults.NotBefore.Sub(now)
		if least := limits.Backoff << n; wait < least || wait > least*5/4 {
			t.Errorf("after fault %d it waits %s", n+1, wait)
		}
		if n < limits.Troubles-1 {
			is("while it waits", "wake")
			now = now.Add(wait)
			is("then", "askplan, wake")
		}
	}
	is("after three faults", "stop, wake")
	feed(t, s, now, boulder.Resumed{})
	is("resumed", "askplan, wake")
	limited := &boulder.TroubleError{Kind: boulder.TroubleRateLimit, RetryAfter: 2 * time.Hour, Err: errors.New("429")}
	feed(t, s, now, PlanTrouble(s, limits, now, limited)...)
	is("limited", "wake")
	if s.Boulder.PlanFaults.Troubles != 0 {
		t.Error("a rate limit counts as a fault")
	}
	now = epoch.Add(time.Hour)
	is("the time is used up", "stop")
}

// TestBroken: a turn that ended in an error is handled like a judged one, but cannot wait for another replan.
func TestBroken(t *testing.T) {
	t.Parallel()
	s := begun(t, abc()...)
	feed(t, s, epoch, running("a")...)
	l := DefaultLimits()
	o := s.Open("a")
	for tries, want := range []string{"retry failed", "retry failed", "replan"} {
		o.SubTask.Tries = tries
		if got := kindOf(apply(Failed(s, l, epoch, o, errors.New("broken"))[0])); got != want {
			t.Errorf("after %d tries: %s, want %s", tries, got, want)
		}
	}
	feed(t, s, epoch, judged("b", wrong)...)
	feed(t, s, epoch, boulder.ReplanStarted{AttemptRef: ref("b", 1), Number: 1, Replaces: []string{"b"}})
	if got := kindOf(apply(Failed(s, l, epoch, o, errors.New("broken"))[0])); got != "fail failed" {
		t.Errorf("while another replan is made: %s", got)
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		verdict boulder.Verdict
		spoil   func(*boulder.Open)
		want    string
	}{
		"overruled": {
			verdict: boulder.Verdict{Summary: "all done", Overruled: []string{"gate `make` is red"}}, want: "gate `make` is red",
		},
		"stalled": {
			verdict: boulder.Verdict{Summary: "nothing new"}, spoil: func(o *boulder.Open) { o.SubTask.Stalls = 2 },
			want: "no progress in 2 turns: nothing new",
		},
		"wrong plan": {
			verdict: boulder.Verdict{BlockedBy: "wrong_plan", StuckReason: "no such module"},
			want:    "the plan is wrong: no such module",
		},
		"the same result": {
			verdict: boulder.Verdict{IsStuck: true, StuckReason: "no way"},
			spoil:   func(o *boulder.Open) { o.Attempt.Result, o.SubTask.LastResult = "x", "x" },
			want:    "stuck: no way (with the same changes and the same failing gates as the attempt before)",
		},
		"idle": {
			spoil: func(o *boulder.Open) { o.Attempt.Idle = 4 }, want: "stuck: 4 messages in a row without a tool call",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t, []boulder.Spec{{ID: "a"}}...)
			feed(t, s, epoch, judged("a", test.verdict)...)
			if test.spoil != nil {
				test.spoil(s.Open("a"))
			}
			reason := ""
			switch a := bodyOf(Compute(s, DefaultLimits(), epoch)[0]).(type) {
			case boulder.Continuation:
				reason = a.Reason
			case boulder.Retry:
				reason = a.Reason
			case boulder.ReplanStarted:
				reason = a.Reason
			}
			if reason != test.want {
				t.Errorf("got %q", reason)
			}
		})
	}
}

// TestSkip: once the goal is achieved, the remaining sub-tasks are skipped, unless one of them has gates of its own.
func TestSkip(t *testing.T) {
	t.Parallel()
	achieved := boulder.Verdict{Completed: true, GoalAchieved: true}
	chain := func(last boulder.Spec) []boulder.Spec {
		last.ID, last.DependsOn = "d", []string{"c"}
		return []boulder.Spec{last, {ID: "c", DependsOn: []string{"b"}}, {ID: "b", DependsOn: []string{"a"}}, {ID: "a"}, {ID: "e"}}
	}
	tests := map[string]struct {
		plan    []boulder.Spec
		verdict boulder.Verdict
		before  []boulder.Body
		want    []string
	}{
		"all that is left, dependents first": {chain(boulder.Spec{}), achieved, nil, []string{"d", "c", "b", "e"}},
		"the goal is not achieved":           {chain(boulder.Spec{}), done, nil, nil},
		"not completed":                      {chain(boulder.Spec{}), boulder.Verdict{GoalAchieved: true}, nil, nil},
		"one has a gate":                     {chain(boulder.Spec{Gates: []string{"make"}}), achieved, nil, nil},
		"one has a gate that must not get worse": {
			chain(boulder.Spec{NoWorse: []string{"make"}}), achieved, nil, nil,
		},
		"another is at work": {chain(boulder.Spec{}), achieved, running("e"), nil},
		"another is between two tries": {
			chain(boulder.Spec{}), achieved,
			append(running("e"), boulder.Retry{AttemptRef: ref("e", 1), Status: boulder.AttemptFailed, Next: 2}), nil,
		},
		"another was tried, parked and let go on": {
			chain(boulder.Spec{}), achieved,
			append(running("e"), boulder.Retry{AttemptRef: ref("e", 1), Status: boulder.AttemptFailed, Next: 2},
				boulder.Parked{AttemptRef: ref("e", 2), Reason: "a question"}, boulder.Unparked{SubTaskID: "e"}),
			[]string{"d", "c", "b", "e"},
		},
		"what failed and what it blocks stay as they are": {
			[]boulder.Spec{{ID: "a"}, {ID: "e"}, {ID: "f"}, {ID: "g", DependsOn: []string{"e", "f"}}}, achieved,
			append(running("e"), boulder.SubTaskDone{
				AttemptRef: ref("e", 1), Status: boulder.SubTaskFailed, AttemptStatus: boulder.AttemptFailed,
			}), []string{"f"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t, test.plan...)
			feed(t, s, epoch, test.before...)
			feed(t, s, epoch, judged("a", test.verdict)...)
			actions := Compute(s, DefaultLimits(), epoch)
			var skip []string
			for _, action := range actions {
				if done, ok := bodyOf(action).(boulder.SubTaskDone); ok && done.Status == boulder.SubTaskSkipped {
					skip = append(skip, done.SubTaskID)
				}
			}
			if d := cmp.Diff(test.want, skip); d != "" {
				t.Fatalf("(-want +got):\n%s", d)
			}
			// No sub-task may start that is skipped in the same answer.
			applyAll(t, s, epoch, actions)
			if len(test.want) == 0 {
				return
			}
			if kinds := kindsOf(Compute(s, DefaultLimits(), epoch)); kinds != "finish" {
				t.Errorf("with nothing left, got %s", kinds)
			}
		})
	}
}

// TestNoSkipDuringAReplan: sub-tasks that a replan is about to replace are not skipped too.
func TestNoSkipDuringAReplan(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "e"}}...)
	feed(t, s, epoch, judged("a", boulder.Verdict{Completed: true, NeedReplan: true})...)
	feed(t, s, epoch, complete(s.Open("a")))
	feed(t, s, epoch, judged("e", boulder.Verdict{Completed: true, GoalAchieved: true})...)
	got := Compute(s, DefaultLimits(), epoch) // a replan of b is wanted, and e achieved the goal
	if kinds := kindsOf(got); kinds != "replan, complete" {
		t.Errorf("got %s: %+v", kinds, got)
	}
	applyAll(t, s, epoch, got)
}
