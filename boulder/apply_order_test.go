package boulder

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func byHand(id string, status SubTaskStatus) Body {
	return SubTaskDone{
		AttemptRef: AttemptRef{SubTaskID: id}, Status: status, AttemptStatus: AttemptCancelled, ByUser: true,
		Summary: "the user said so",
	}
}

func statuses(s *State) string {
	var all []string
	for _, t := range s.SubTasks {
		all = append(all, t.ID+"="+string(t.Status))
	}
	return strings.Join(all, " ")
}

// chainOf starts a boulder with a, b after a, c after b, and an independent d.
func chainOf(t *testing.T) *State {
	t.Helper()
	return started(t, Plan{SubTasks: []Spec{
		{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"b"}}, {ID: "d"},
	}})
}

// TestSkipByPerson: the user may skip a sub-task in any state, and its dependents run without it.
func TestSkipByPerson(t *testing.T) {
	t.Parallel()
	s := chainOf(t)
	feed(t, s, Starting{AttemptRef: AttemptRef{"a", 1}}, byHand("a", SubTaskSkipped))
	if got := statuses(s); got != "a=skipped b=pending c=pending d=pending" || s.Open("b") == nil || s.Open("a") != nil {
		t.Errorf("after skipping a: %s", got)
	}
	refused(t, s, byHand("a", SubTaskSkipped))
	refused(t, s, byHand("a", SubTaskCancelled))
	feed(t, s, byHand("c", SubTaskSkipped)) // before what it depends on
	if got := statuses(s); got != "a=skipped b=pending c=skipped d=pending" {
		t.Errorf("after skipping c: %s", got)
	}
}

// TestCancelRetrySkip: a cancelled sub-task blocks its dependents until it is retried or skipped.
func TestCancelRetrySkip(t *testing.T) {
	t.Parallel()
	s := chainOf(t)
	feed(t, s, Starting{AttemptRef: AttemptRef{"a", 1}}, byHand("a", SubTaskCancelled))
	if got := statuses(s); got != "a=cancelled b=blocked c=blocked d=pending" {
		t.Errorf("after cancelling a: %s", got)
	}
	refused(t, s, Reopened{SubTaskID: "b"})
	refused(t, s, Reopened{SubTaskID: "d"})
	feed(t, s, Reopened{SubTaskID: "a"})
	if o := s.Open("a"); o == nil || o.Attempt.Attempt != 2 || s.SubTask("a").Tries != 0 {
		t.Errorf("a was not put in line: %+v", s.SubTask("a"))
	}
	if got := statuses(s); got != "a=pending b=pending c=pending d=pending" {
		t.Errorf("after a retry of a: %s", got)
	}
	feed(t, s, byHand("b", SubTaskCancelled), Reopened{SubTaskID: "b"}) // before a was done
	if got := statuses(s); got != "a=pending b=pending c=pending d=pending" || s.Open("b") != nil {
		t.Errorf("after taking the cancel of b back: %s", got)
	}
	feed(t, s, byHand("b", SubTaskCancelled), byHand("b", SubTaskSkipped))
	if got := statuses(s); got != "a=pending b=skipped c=pending d=pending" || s.Open("c") == nil {
		t.Errorf("after skipping the cancelled b: %s", got)
	}
}

// TestInherited: a fork starts with the sub-tasks that the original completed, and queues the others.
func TestInherited(t *testing.T) {
	t.Parallel()
	plan := Plan{SubTasks: []Spec{
		{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"b"}}, {ID: "d"},
	}}
	rev := PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash()}
	adopt := func(results map[string]Inherited, ids ...string) Body {
		return Decomposed{Revision: 1, Plan: rev, Inherited: ids, Results: results}
	}
	s := NewState()
	feed(t, s, Created{Boulder: Boulder{ID: "b1"}}, Planned{Revision: 1, Plan: rev})
	refused(t, s, adopt(map[string]Inherited{"b": {}}, "b")) // b without its dependency a
	refused(t, s, adopt(map[string]Inherited{"x": {}}, "x"))
	refused(t, s, adopt(map[string]Inherited{"a": {}}, "d"))
	refused(t, s, adopt(nil, "a"))
	feed(t, s, adopt(map[string]Inherited{"a": {Summary: "done", Output: "out", Files: []string{"f"}}, "d": {}}, "a", "d"))
	a := s.SubTask("a")
	if a.Output != "out" || a.Summary != "done" || !slices.Equal(a.Files, []string{"f"}) || a.Attempts != 0 {
		t.Errorf("a inherited %+v", a)
	}
	if got := statuses(s); got != "a=completed b=pending c=pending d=completed" || s.Open("b") == nil || s.Open("a") != nil {
		t.Errorf("the fork begins with %s", got)
	}
	if s.Boulder.Tally != (Tally{Planned: 4, Completed: 2}) {
		t.Errorf("it counts %+v", s.Boulder.Tally)
	}
}

// TestNotes: a note is new to the sub-tasks that it concerns until their next prompt.
func TestNotes(t *testing.T) {
	t.Parallel()
	s := chainOf(t)
	feed(t, s, Noted{Text: "for all"}, Starting{AttemptRef: AttemptRef{"a", 1}}, Noted{SubTaskID: "a", Text: "for a"})
	refused(t, s, Noted{SubTaskID: "x", Text: "for nobody"})
	refused(t, s, Noted{Text: strings.Repeat("ä", maxNote+1)})
	begun := s.Open("a").Turn.Seq
	for _, test := range []struct {
		id    string
		after uint64
		want  []string
	}{
		{"a", 0, []string{"for all", "for a"}}, {"a", begun, []string{"for a"}}, {"d", 0, []string{"for all"}}, {"d", begun, nil},
	} {
		if got := s.Boulder.NotesFor(test.id, test.after); !slices.Equal(got, test.want) {
			t.Errorf("notes for %s after %d are %q, want %q", test.id, test.after, got, test.want)
		}
	}
	for range maxNotes {
		feed(t, s, Noted{Text: "more"})
	}
	if n := len(s.Boulder.Notes); n != maxNotes || s.Boulder.Notes[0].Text != "more" {
		t.Errorf("%d notes are kept, the oldest is %q", n, s.Boulder.Notes[0].Text)
	}
}

// TestArchive: a boulder can be archived and restored only after its end, and keeps its status.
func TestArchive(t *testing.T) {
	t.Parallel()
	s := chainOf(t)
	refused(t, s, Archived{Archived: true})
	feed(t, s, byHand("a", SubTaskCancelled), byHand("d", SubTaskCancelled), StatusChanged{Status: Synthesizing},
		TaskComplete{Status: Failed})
	refused(t, s, Archived{})
	feed(t, s, Archived{Archived: true})
	refused(t, s, Archived{Archived: true})
	if s.Boulder.ArchivedAt.IsZero() || s.Boulder.Status != Failed {
		t.Errorf("archived: %+v", s.Boulder)
	}
	feed(t, s, Archived{})
	if !s.Boulder.ArchivedAt.IsZero() {
		t.Errorf("it is still archived since %s", s.Boulder.ArchivedAt)
	}
}

// TestClockSetBack: a process that starts with the clock behind the last event waits for no time set by the old clock.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := chainOf(t)
	feed(t, s, Cooled{Model: "p/m", Cooldown: Cooldown{Until: epoch.AddDate(0, 0, 1), Limit: 1, Full: 2, Reason: "429"}})
	if _, err := s.Apply(Event{Time: epoch.AddDate(0, -1, 0), BoulderID: "b1", Body: Resumed{}}); err != nil {
		t.Fatal(err)
	}
	if until := s.Boulder.Cooldowns["p/m"].Until; until.After(epoch.AddDate(0, -1, 0)) {
		t.Errorf("the model cools down until %s", until)
	}
}

// TestOrders: a meaningless order is refused before anything acts on it.
func TestOrders(t *testing.T) {
	t.Parallel()
	for _, o := range []Order{
		{}, {Do: "dance"}, {Do: OrderRetry}, {Do: OrderSkip}, {Do: OrderPause, SubTaskID: "a"}, {Do: OrderNote},
		{Do: OrderNote, Text: " "}, {Do: OrderNote, Text: strings.Repeat("x", maxNote+1)}, {Do: OrderCancel, Text: "why"},
		{Do: OrderResume, Now: true},
		{Do: OrderSettle}, {Do: OrderSettle, SubTaskID: "a"}, {Do: OrderSettle, Text: "yes"},
		{Do: OrderSettle, SubTaskID: "a", BlockerID: "B1", Text: " \n"},
		{Do: OrderSettle, SubTaskID: "a", BlockerID: "B1", Text: strings.Repeat("x", maxNote+1)},
		{Do: OrderSettle, SubTaskID: "a", BlockerID: "B1", Text: "yes", Now: true},
		{Do: OrderSkip, SubTaskID: "a", BlockerID: "B1"}, {Do: OrderNote, Text: "x", Allowed: true},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is not refused", o)
		}
	}
	for _, o := range []Order{
		{Do: OrderPause, Now: true}, {Do: OrderResume}, {Do: OrderCancel}, {Do: OrderCancel, SubTaskID: "a"},
		{Do: OrderRetry, SubTaskID: "a"}, {Do: OrderNote, Text: "x"}, {Do: OrderNote, Text: "x", SubTaskID: "a"},
		{Do: OrderSettle, SubTaskID: "a", BlockerID: "B1"}, {Do: OrderSettle, SubTaskID: "a", BlockerID: "B1", Text: "yes"},
		{Do: OrderSettle, SubTaskID: "a", BlockerID: "B1", Allowed: true}, {Do: OrderSettle, BlockerID: "B1", Text: "yes"},
		{Do: OrderSettle, SubTaskID: "a", BlockerID: "B1", Text: strings.Repeat("ж", maxNote), Allowed: true},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestClockMoved: the night in a closed laptop is not working time, and a clock set back prolongs no wait.
func TestClockMoved(t *testing.T) {
	t.Parallel()
	s := chainOf(t)
	ref := AttemptRef{"a", 1}
	feed(t, s, Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s"},
		TurnSent{AttemptRef: ref, Turn: 1, MessageID: "m"},
		Cooled{Model: "p/m", Cooldown: Cooldown{Until: epoch.Add(time.Minute), Limit: 1, Full: 2, Reason: "429"}})
	night := 8 * time.Hour
	at := func(d time.Duration, b Body) {
		t.Helper()
		if _, err := s.Apply(Event{Time: epoch.Add(d), BoulderID: "b1", Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	at(night+time.Second, ClockMoved{By: night})
	at(night+2*time.Second, Trouble{AttemptRef: ref, Reason: "no server", NotBefore: epoch.Add(night + time.Minute)})
	if s.Boulder.Worked != 2*time.Second || s.SubTask("a").Worked != 2*time.Second {
		t.Errorf("the boulder worked %s, a %s, want 2s", s.Boulder.Worked, s.SubTask("a").Worked)
	}
	at(3*time.Second, ClockMoved{By: -night})
	if wait := s.Open("a").Attempt.NotBefore.Sub(epoch); wait != time.Minute {
		t.Errorf("a waits until %s after the clock was set back", wait)
	}
	if s.Boulder.Worked != 3*time.Second {
		t.Errorf("the boulder worked %s, want 3s", s.Boulder.Worked)
	}
}
