package boulder

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asked is a pending blocker as a runner reports it.
func asked(ref AttemptRef, id string, hard bool) BlockerRaised {
	return BlockerRaised{AttemptRef: ref, Blocker: Blocker{
		ID: id, Category: BlockerArchitecture, Question: "Which " + id + "?", Context: "context", Hard: hard,
		Status: BlockerPending,
	}}
}

func answer(subTask, id, text string) BlockerSettled {
	return BlockerSettled{SubTaskID: subTask, BlockerID: id, Status: BlockerAnswered, Answer: text}
}

// executing takes an attempt from the queue to its first prompt.
func executing(ref AttemptRef) []Body { return toVerdict(ref)[:3] }

// A boulder that is paused for a sub-task no longer waits for an answer once the user has skipped that.
func TestSkipOfWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b"}}})
	ref := AttemptRef{"a", 1}
	feed(t, s, executing(ref)...)
	feed(t, s, asked(ref, "B1", true), TurnEnded{AttemptRef: ref, Turn: 1}, Parked{AttemptRef: ref, Reason: "an answer"},
		StatusChanged{Status: Paused, Reason: "an answer", SubTaskID: "a"}, byHand("b", SubTaskSkipped))
	if s.Boulder.Reason != "an answer" {
		t.Errorf("b was skipped, and it is paused for %q", s.Boulder.Reason)
	}
	feed(t, s, byHand("a", SubTaskSkipped))
	if want := `sub-task "a" is skipped`; s.Boulder.Reason != want {
		t.Errorf("it is said to be paused for %q, want %q", s.Boulder.Reason, want)
	}
}

// TestBlockerParks: only the last awaited answer queues a parked sub-task again.
func TestBlockerParks(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}})
	ref := AttemptRef{"a", 1}
	feed(t, s, executing(ref)...)
	feed(t, s, asked(ref, "B1", true), asked(ref, "B2", false), asked(ref, "B3", true))
	feed(t, s, TurnEnded{AttemptRef: ref, Turn: 1}, Parked{AttemptRef: ref, Reason: "an answer"})
	refused(t, s, Unparked{SubTaskID: "a"})
	feed(t, s, answer("a", "B2", "later")) // not hard, so not awaited
	feed(t, s, answer("a", "B1", "this way"))
	if a := s.SubTask("a"); !a.Parked || s.Open("a") != nil || s.SubTask("b").Status != SubTaskPending {
		t.Fatalf("with one of two answers: %+v", *a)
	}
	feed(t, s, StatusChanged{Status: Paused, Reason: "an answer", SubTaskID: "a"},
		BlockerSettled{SubTaskID: "a", BlockerID: "B3", Status: BlockerSkipped})
	if want := `B3 is skipped: sub-task "a" can continue`; s.Boulder.Reason != want {
		t.Errorf("the boulder is said to be paused for %q, want %q", s.Boulder.Reason, want)
	}
	a, o := s.SubTask("a"), s.Open("a")
	if a.Parked || s.Parked() != 0 || a.Status != SubTaskPending || o == nil || o.Attempt.Attempt != 2 || a.Tries != 0 {
		t.Fatalf("with both: %+v", *a)
	}
	var told []string
	for _, b := range a.SettledSince(0) {
		told = append(told, b.ID+" "+string(b.Status)+" "+b.Answer)
	}
	want := []string{"B1 answered this way", "B2 answered later", "B3 skipped "}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	if news := a.SettledSince(a.Blockers[0].Seq); len(news) != 1 || news[0].ID != "B3" {
		t.Errorf("after the answer to B1 there is news of %+v", news)
	}
}

// TestBlockerRefusals: a blocker needs a question and a running turn, and is settled once.
func TestBlockerRefusals(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b"}}})
	ref := AttemptRef{"a", 1}
	refused(t, s, asked(ref, "B1", true)) // queued
	feed(t, s, Starting{AttemptRef: ref})
	refused(t, s, asked(ref, "B1", true)) // without a session
	feed(t, s, SubTaskStart{AttemptRef: ref, SessionID: "s"}, TurnSent{AttemptRef: ref, Turn: 1, MessageID: "m"})
	feed(t, s, asked(ref, "B1", true))
	for _, b := range []Body{
		asked(ref, "B1", false), asked(AttemptRef{"a", 2}, "B2", true), asked(AttemptRef{"b", 1}, "B2", true),
		asked(AttemptRef{"x", 1}, "B2", true), BlockerRaised{AttemptRef: ref, Blocker: Blocker{ID: "B2"}},
		BlockerRaised{AttemptRef: ref, Blocker: Blocker{Question: "?"}},
		answer("x", "B1", "yes"), answer("b", "B1", "yes"), answer("a", "B2", "yes"), answer("a", "B1", ""),
		answer("a", "B1", strings.Repeat("x", maxNote+1)),
		BlockerSettled{SubTaskID: "a", BlockerID: "B1", Status: BlockerPending},
		BlockerSettled{SubTaskID: "a", BlockerID: "B1", Status: "maybe"},
	} {
		refused(t, s, b)
	}
	feed(t, s, BlockerSettled{SubTaskID: "a", BlockerID: "B1", Status: BlockerAnswered, Allowed: true})
	refused(t, s, answer("a", "B1", "no, after all"))
	feed(t, s, TurnEnded{AttemptRef: ref, Turn: 1})
	refused(t, s, asked(ref, "B2", true)) // the turn has ended
	feed(t, s, byHand("a", SubTaskSkipped))
	refused(t, s, answer("a", "B1", "too late"))
}

// TestAwaitingIsNotContinued: while an answer is awaited, only the user can move the attempt.
func TestAwaitingIsNotContinued(t *testing.T) {
	t.Parallel()
	ref := AttemptRef{"a", 1}
	cutOff := func() *State {
		s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
		feed(t, s, executing(ref)...)
		feed(t, s, asked(ref, "B1", true))
		return s
	}
	s := cutOff()
	resume := TurnSent{AttemptRef: ref, Turn: 1, MessageID: "r", Resume: true}
	refused(t, s, resume)
	refused(t, s, Retry{AttemptRef: ref, Status: AttemptLost, Uncounted: true, Next: 2})
	feed(t, s, answer("a", "B1", "yes"), resume)

	s = cutOff()
	feed(t, s, TurnEnded{AttemptRef: ref, Turn: 1}, Judged{AttemptRef: ref, Turn: 1, Verdict: Verdict{Completed: true}})
	next := Continuation{AttemptRef: ref, Turn: 2}
	refused(t, s, completed(ref))
	refused(t, s, next)
	refused(t, s, Retry{AttemptRef: ref, Status: AttemptFailed, Next: 2})
	feed(t, s, answer("a", "B1", "yes"), next)
	feed(t, s, asked(ref, "B2", true)) // late, from a sub-agent, before the prompt was sent
	refused(t, s, TurnSent{AttemptRef: ref, Turn: 2, MessageID: "m2"})

	// The user may retry without an answer. A late answer then does not end a wait for something else.
	feed(t, s, Retry{AttemptRef: ref, Status: AttemptCancelled, Uncounted: true, Next: 2})
	feed(t, s, executing(AttemptRef{"a", 2})...)
	feed(t, s, Parked{AttemptRef: AttemptRef{"a", 2}, Reason: "money"}, answer("a", "B2", "yes"))
	if a := s.SubTask("a"); !a.Parked {
		t.Error("an answer that nobody waits for ends a wait for money")
	}
	feed(t, s, Unparked{SubTaskID: "a"})
}

// TestLeftAside: a turn that is not judged may be followed by one that leaves all open questions aside, and only those.
func TestLeftAside(t *testing.T) {
	t.Parallel()
	ref := AttemptRef{"a", 1}
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	feed(t, s, executing(ref)...)
	feed(t, s, asked(ref, "B1", true), asked(ref, "B2", true), asked(ref, "B3", false), TurnEnded{AttemptRef: ref, Turn: 1})
	for _, aside := range [][]string{nil, {"B1"}, {"B1", "B2", "B3"}, {"B1", "B2", "B4"}} {
		refused(t, s, Continuation{AttemptRef: ref, Turn: 2, Aside: aside})
	}
	feed(t, s, Continuation{AttemptRef: ref, Turn: 2, Aside: []string{"B1", "B2"}})
	job := Job{SubTask: *s.SubTask("a"), Attempt: *s.Open("a").Attempt, Turn: *s.Open("a").Turn}
	if job.Awaits() {
		t.Error("the turn waits for what it leaves aside")
	}
	feed(t, s, TurnSent{AttemptRef: ref, Turn: 2, MessageID: "m2"}, asked(ref, "B4", true))
	refused(t, s, TurnSent{AttemptRef: ref, Turn: 2, MessageID: "r", Resume: true})
	if job.SubTask = *s.SubTask("a"); !job.Awaits() {
		t.Error("the turn does not wait for a new question")
	}
	feed(t, s, answer("a", "B1", "yes"), TurnEnded{AttemptRef: ref, Turn: 2})
	refused(t, s, completed(ref))
	feed(t, s, Continuation{AttemptRef: ref, Turn: 3, Aside: []string{"B2", "B4"}}, Parked{AttemptRef: ref, Reason: "an answer"})
}

func TestContradictoryBlockers(t *testing.T) {
	t.Parallel()
	ref := AttemptRef{"a", 1}
	for name, test := range map[string]struct {
		spoil func(*SubTask)
		want  string
	}{
		"twice":          {func(a *SubTask) { a.Blockers = append(a.Blockers, a.Blockers[0]) }, "is there twice"},
		"no question":    {func(a *SubTask) { a.Blockers[0].Question = "" }, "asks nothing"},
		"later attempt":  {func(a *SubTask) { a.Blockers[0].Attempt = 2 }, "came up in attempt 2 of 1"},
		"no event":       {func(a *SubTask) { a.Blockers[0].Status = BlockerAnswered }, "is answered by event 0"},
		"future event":   {func(a *SubTask) { a.Blockers[0].Status, a.Blockers[0].Seq = BlockerSkipped, 99 }, "by event 99"},
		"goes on itself": {func(a *SubTask) { a.Parked, a.Status = false, SubTaskBlocked }, "waits for an answer to B1"},
	} {
		s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
		feed(t, s, executing(ref)...)
		feed(t, s, asked(ref, "B1", true), Parked{AttemptRef: ref, Reason: "an answer"})
		test.spoil(s.SubTask("a"))
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	feed(t, s, executing(ref)...)
	feed(t, s, asked(ref, "B1", true))
	s.Open("a").Attempt.Status = AttemptStarting
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "came up in attempt 1, which is starting") {
		t.Errorf("before there is a session: %v", err)
	}
}

// TestWaitEnded: a session that waits for an answer has it, or the wait is over; a wait that never was does not end.
func TestWaitEnded(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	ref := AttemptRef{"a", 1}
	feed(t, s, executing(ref)...)
	waiting := asked(ref, "B1", false)
	at := epoch
	waiting.Blocker.Until = at.Add(time.Hour)
	feed(t, s, waiting, asked(ref, "B2", false))
	if b := s.SubTask("a").Blockers[0]; !b.Waiting(at) || b.Waiting(b.Until) {
		t.Errorf("it waits until its time is over: %+v", b)
	}
	refused(t, s, WaitEnded{AttemptRef: ref, BlockerID: "B2"})
	refused(t, s, WaitEnded{AttemptRef: ref, BlockerID: "B3"})
	refused(t, s, WaitEnded{AttemptRef: ref, BlockerID: "B1", Replied: true}) // with what?
	feed(t, s, answer("a", "B1", "this way"), WaitEnded{AttemptRef: ref, BlockerID: "B1", Replied: true})
	feed(t, s, WaitEnded{AttemptRef: ref, BlockerID: "B1"}) // said again
	if b := s.SubTask("a").Blockers[0]; !b.Replied || b.Waiting(at) {
		t.Errorf("it was replied to: %+v", b)
	}
}
