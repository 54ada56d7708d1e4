package boulder

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// feedAt applies events at a time. All must be accepted.
func feedAt(t *testing.T, s *State, at time.Time, bodies ...Body) {
	t.Helper()
	for _, b := range bodies {
		if _, err := s.Apply(Event{Time: at, BoulderID: "b1", Body: b}); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); err != nil {
			t.Fatalf("after %s: %v", TypeOf(b), err)
		}
	}
}

// refused checks that an event is refused, and that the error has each text of why.
func refused(t *testing.T, s *State, b Body, why ...string) {
	t.Helper()
	_, err := s.Apply(Event{Time: epoch, BoulderID: "b1", Body: b})
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("%s %+v: got %v, want a refusal", TypeOf(b), b, err)
	}
	for _, w := range why {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s %+v: got %v, want a refusal that says %q", TypeOf(b), b, err, w)
		}
	}
}

// TestWorked: working time excludes pauses and the time when no process ran.
func TestWorked(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	at := epoch
	for _, step := range []struct {
		passed time.Duration
		body   Body
		worked time.Duration
	}{
		{2 * time.Second, GateRun{AttemptRef: AttemptRef{"a", 1}}, 2 * time.Second},
		{-time.Second, GateRun{AttemptRef: AttemptRef{"a", 1}}, 2 * time.Second}, // clocks go backwards
		{3 * time.Second, StatusChanged{Status: Paused}, 5 * time.Second},
		{time.Hour, StatusChanged{Status: Running}, 5 * time.Second},
		{time.Hour, Resumed{}, 5 * time.Second}, // after a crash
		{time.Second, StatusChanged{Status: Paused}, 6 * time.Second},
		{time.Hour, Resumed{}, 6 * time.Second},
	} {
		at = at.Add(step.passed)
		feedAt(t, s, at, step.body)
		if s.Boulder.Worked != step.worked {
			t.Fatalf("after %s for %s: %s, want %s", TypeOf(step.body), step.passed, s.Boulder.Worked, step.worked)
		}
	}
	if got := s.Boulder.WorkedBy(at.Add(time.Minute)); got != 6*time.Second {
		t.Errorf("while paused: %s", got)
	}
	feedAt(t, s, at, StatusChanged{Status: Running})
	if got := s.Boulder.WorkedBy(at.Add(time.Minute)); got != time.Minute+6*time.Second {
		t.Errorf("while running: %s", got)
	}
}

// TestSeenUsage: the usage reported during a turn survives faults and crashes until it is booked.
func TestSeenUsage(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	ref := AttemptRef{"a", 1}
	sees := func(n int64) Body { return SubTaskProgress{AttemptRef: ref, Usage: Usage{Input: n}} }
	feed(t, s, Starting{AttemptRef: ref}, sees(3), sees(5), Trouble{AttemptRef: ref}, sees(2), Resumed{}, sees(1))
	if got := s.Open("a").Attempt.Running().Input; got != 5+2+1 {
		t.Errorf("%d were seen, want 8", got)
	}
	feed(t, s, TurnEnded{AttemptRef: ref, Turn: 1}, UsageReport{
		SubTaskID: "a", Attempt: 1, Source: UsageAttempt, Usage: Usage{Input: 9},
	}, UsageReport{SubTaskID: "a", Attempt: 1, Source: UsageJudge, Usage: Usage{Input: 4}})
	o := s.Open("a")
	if o.Attempt.Running() != (Usage{}) || o.Attempt.Usage.Input != 13 || s.Boulder.Usage.Input != 13 {
		t.Errorf("after the turn: running %+v, attempt %+v, boulder %+v", o.Attempt.Running(), o.Attempt.Usage, s.Boulder.Usage)
	}
	if b := s.Boulder; b.Turns != 1 || b.TurnUsage.Input != 9 {
		t.Errorf("a turn is expected to use %+v / %d: a judgement is none", b.TurnUsage, b.Turns)
	}
}

// TestTakenUp: a resume clears faults and waits.
func TestTakenUp(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b"}}})
	later := epoch.Add(time.Hour)
	other, ref := AttemptRef{"a", 1}, AttemptRef{"b", 1}
	feed(t, s, Starting{AttemptRef: other}, Trouble{AttemptRef: other, Reason: "x", NotBefore: later})
	feed(t, s, toVerdict(ref)...)
	feed(t, s, ReplanStarted{AttemptRef: ref, Number: 1, Replaces: []string{"b"}}, PlanTrouble{NotBefore: later})
	if r := s.Boulder.Replan; r.Troubles != 1 || !r.NotBefore.Equal(later) {
		t.Fatalf("after a fault: %+v", r)
	}
	feed(t, s, Resumed{})
	if a := s.Open("a").Attempt; a.Troubles != 0 || a.Reason != "" || !a.NotBefore.IsZero() {
		t.Errorf("the attempt still waits: %+v", a)
	}
	if r := s.Boulder.Replan; r.Troubles != 0 || !r.NotBefore.IsZero() {
		t.Errorf("the replan still waits: %+v", r)
	}
}

// TestBudgetSet: a new budget resets its own warnings and no others.
func TestBudgetSet(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b"}}})
	feed(t, s, BudgetWarning{Dimension: "tokens"}, BudgetWarning{SubTaskID: "a", Dimension: "tokens"},
		BudgetWarning{SubTaskID: "b", Dimension: "cost"})
	refused(t, s, BudgetWarning{Dimension: "tokens"})
	refused(t, s, BudgetWarning{SubTaskID: "x", Dimension: "tokens"})
	refused(t, s, BudgetSet{SubTaskID: "x"})
	refused(t, s, BudgetSet{Budget: Budget{Time: -1}})
	feed(t, s, BudgetSet{SubTaskID: "a", Budget: Budget{Tokens: 5}})
	if !slices.Equal(s.Boulder.Warned, []string{"/tokens", "b/cost"}) || s.SubTask("a").Budget.Tokens != 5 {
		t.Errorf("warned %q", s.Boulder.Warned)
	}
	feed(t, s, BudgetSet{Budget: Budget{Calls: 7}})
	if !slices.Equal(s.Boulder.Warned, []string{"b/cost"}) || s.Boulder.Budget.Calls != 7 {
		t.Errorf("warned %q, budget %+v", s.Boulder.Warned, s.Boulder.Budget)
	}
	// A sub-task that is over spends nothing more: its warnings stay.
	feed(t, s, SubTaskDone{AttemptRef: AttemptRef{"b", 1}, Status: SubTaskSkipped, AttemptStatus: AttemptCancelled})
	refused(t, s, BudgetSet{SubTaskID: "b"})
	if !slices.Equal(s.Boulder.Warned, []string{"b/cost"}) {
		t.Errorf("a refused budget took the warnings: %q", s.Boulder.Warned)
	}
}

// TestNegativeBudgets: the store could not read such a record back, so Apply refuses it.
func TestNegativeBudgets(t *testing.T) {
	t.Parallel()
	refused(t, NewState(), Created{Boulder: Boulder{ID: "b1", Settings: Settings{Budget: &Budget{Time: -1}}}})
	s := NewState()
	rev := PlanRevision{Number: 1, Plan: Plan{SubTasks: []Spec{{ID: "a", Budget: &Budget{Tokens: -1}}}}}
	feed(t, s, Created{Boulder: Boulder{ID: "b1"}}, Planned{Plan: rev})
	refused(t, s, Decomposed{Plan: rev})
}

// TestParked: the attempt does not count as a try. Dependents wait instead of being blocked for good.
func TestParked(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}})
	ref := AttemptRef{"a", 1}
	feed(t, s, toVerdict(ref)...)
	feed(t, s, Parked{AttemptRef: ref, Reason: "no money", Digest: "stopped"})
	a, b := s.SubTask("a"), s.SubTask("b")
	if a.Status != SubTaskBlocked || !a.Parked || a.Reason != "no money" || a.Tries != 0 || b.Status != SubTaskPending {
		t.Fatalf("a %+v, b is %s", *a, b.Status)
	}
	if s.Parked() != 1 || !s.AllOver() {
		t.Errorf("%d parked, settled: %v", s.Parked(), s.AllOver())
	}
	feed(t, s, StatusChanged{Status: Synthesizing})
	refused(t, s, TaskComplete{Status: Partial})
	feed(t, s, StatusChanged{Status: Running}, Unparked{SubTaskID: "a"})
	refused(t, s, Unparked{SubTaskID: "a"})
	if o := s.Open("a"); o == nil || o.Attempt.Attempt != 2 || a.Parked || a.Reason != "" || s.Parked() != 0 {
		t.Errorf("after the user helped: %+v", *a)
	}
	if !slices.Equal(a.Failures, []string{"stopped"}) {
		t.Errorf("the next brief hears of %q", a.Failures)
	}
}

// TestSkipped: a pending sub-task can be skipped only if no dependent could still run.
func TestSkipped(t *testing.T) {
	t.Parallel()
	skip := func(id string) Body {
		return SubTaskDone{
			AttemptRef: AttemptRef{SubTaskID: id}, Status: SubTaskSkipped, AttemptStatus: AttemptCancelled,
			Summary: "not needed",
		}
	}
	s := started(t, Plan{SubTasks: []Spec{
		{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c"}, {ID: "d", DependsOn: []string{"a", "c"}},
	}})
	feed(t, s, Starting{AttemptRef: AttemptRef{"c", 1}})
	refused(t, s, skip("x"))
	refused(t, s, skip("c")) // at work
	refused(t, s, skip("a")) // b waits for it
	feed(t, s, SubTaskDone{AttemptRef: AttemptRef{"c", 1}, Status: SubTaskFailed, AttemptStatus: AttemptFailed})
	feed(t, s, skip("b"), skip("a")) // c's failure blocks d
	refused(t, s, skip("a"))
	st := s.SubTask("a")
	if st.Status != SubTaskSkipped || st.Summary != "not needed" || st.EndSeq == 0 || s.Open("a") != nil {
		t.Errorf("a is %+v", *st)
	}
}

// Parked counts the sub-tasks that wait for the user.
func (s *State) Parked() int {
	return len(filter(s.SubTasks, func(t *SubTask) bool { return t.Parked }))
}
