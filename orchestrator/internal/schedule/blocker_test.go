package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// asks raises a hard blocker in a sub-task's first attempt.
func asks(subTask, id string) boulder.Body {
	return boulder.BlockerRaised{AttemptRef: ref(subTask, 1), Blocker: boulder.Blocker{
		ID: id, Question: "Which " + id + "?", Hard: true, Status: boulder.BlockerPending,
	}}
}

func answers(subTask, id string) boulder.Body {
	return boulder.BlockerSettled{SubTaskID: subTask, BlockerID: id, Status: boulder.BlockerAnswered, Answer: "this"}
}

func ends(e boulder.Evidence) boulder.Body {
	return boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1, Ended: e.Ended, Evidence: e}
}

// Every way out of an attempt that awaits an answer leads to the user, unless its turn may still run, or the session can do
// something without the answer.
func TestAwaitingParks(t *testing.T) {
	t.Parallel()
	at := ref("a", 1)
	verdict := func(v boulder.Verdict) boulder.Body { return boulder.Judged{AttemptRef: at, Turn: 1, Verdict: v} }
	until := epoch.Add(time.Hour)
	cooled := boulder.Cooled{Model: "p/m", Cooldown: boulder.Cooldown{Until: until, Limit: 1, Full: 5, Reason: "429"}}
	aside := func(n int) []boulder.Body {
		var all []boulder.Body
		for range n {
			all = append(all, boulder.Trouble{AttemptRef: at, Reason: "no server", NotBefore: epoch.Add(time.Second)})
		}
		return all
	}
	for name, test := range map[string]struct {
		then   []boulder.Body // after the question
		limits func(*Limits)
		want   string
		reason string
	}{
		"at work":        {want: "run"},
		"its turn ended": {then: []boulder.Body{ends(boulder.Evidence{})}, want: "continue"},
		"it says that nothing is left": {
			then: []boulder.Body{ends(boulder.Evidence{Marked: true})}, want: "park", reason: `waits for an answer to B1: Which B1?`,
		},
		"its list has only blocked items": {
			then: []boulder.Body{ends(boulder.Evidence{Todos: []boulder.Todo{{Content: "a", Status: "blocked"}, {Content: "b", Status: "completed"}}})}, want: "park",
		},
		"its list has an open item": {
			then: []boulder.Body{ends(boulder.Evidence{Todos: []boulder.Todo{{Content: "a", Status: "blocked"}, {Content: "b", Status: "pending"}}})}, want: "continue",
		},
		"out of context":            {then: []boulder.Body{ends(boulder.Evidence{Ended: boulder.Ended{Error: boulder.ErrorOverflow}})}, want: "park"},
		"stopped by a rule":         {then: []boulder.Body{ends(boulder.Evidence{Ended: stopped(boulder.RuleRepeat)})}, want: "park"},
		"out of time":               {then: []boulder.Body{ends(boulder.Evidence{Ended: stopped(boulder.RuleWallClock)})}, want: "park"},
		"out of budget":             {then: []boulder.Body{ends(boulder.Evidence{Ended: stopped(boulder.RuleBudget)})}, want: "park"},
		"aborted":                   {then: []boulder.Body{ends(boulder.Evidence{Ended: boulder.Ended{Error: boulder.ErrorAborted}})}, want: "park"},
		"broken off":                {then: []boulder.Body{ends(boulder.Evidence{Ended: boulder.Ended{Error: "APIError"}})}, want: "park"},
		"cut off":                   {then: []boulder.Body{ends(boulder.Evidence{Ended: boulder.Ended{Truncated: "length"}})}, want: "continue"},
		"judged complete":           {then: []boulder.Body{ends(boulder.Evidence{}), verdict(boulder.Verdict{Completed: true})}, want: "park"},
		"judged stuck":              {then: []boulder.Body{ends(boulder.Evidence{}), verdict(boulder.Verdict{IsStuck: true})}, want: "park"},
		"judged to need a new plan": {then: []boulder.Body{ends(boulder.Evidence{}), verdict(boulder.Verdict{NeedReplan: true})}, want: "park"},
		"the judge cools down": {
			then: []boulder.Body{ends(boulder.Evidence{}), boulder.Cooled{Model: ledgerModel, Cooldown: boulder.Cooldown{Until: until, Limit: 1, Full: 1}}}, want: "continue",
		},
		"the server is gone": {then: aside(1), want: "wake"},
		"thrice": {
			then: aside(3), want: "park", reason: "waits for an answer to B1: Which B1?; 3 infrastructure errors in a row: no server",
		},
		"turned away by its model": {
			then: []boulder.Body{cooled, boulder.Trouble{AttemptRef: at, Reason: "429", NotBefore: until, Uncounted: true}}, want: "wake",
		},
		"others were": {then: []boulder.Body{cooled}, want: "run"}, // its turn may still run
		"two questions": {
			then: []boulder.Body{asks("a", "B2"), ends(boulder.Evidence{Marked: true})}, want: "park",
			reason: "waits for an answer to B1: Which B1?; and to 1 more",
		},
		"one of two answered": {
			then: []boulder.Body{asks("a", "B2"), answers("a", "B1"), ends(boulder.Evidence{Marked: true})}, want: "continue", // with the answer
		},
		"its budget is used up": {
			then:   []boulder.Body{boulder.BudgetSet{SubTaskID: "a", Budget: boulder.Budget{Tokens: 10}}, seen("a", boulder.Usage{Input: 10})},
			limits: func(l *Limits) { l.Warn = 0 }, want: "park",
			reason: "waits for an answer to B1: Which B1?; its budget of 10 tokens is used up (10 tokens)",
		},
		"the run's budget is used up": {
			then: []boulder.Body{
				boulder.BudgetSet{Budget: boulder.Budget{Tokens: 10}}, ends(boulder.Evidence{}), use("a", boulder.Usage{Input: 10}),
			},
			limits: func(l *Limits) { l.Warn = 0 }, want: "stop",
		},
	} {
		for _, loop := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				head := boulder.Boulder{}
				if loop {
					head.Loop = &boulder.Loop{Iterations: 100, Failures: 5}
				}
				s := begunWith(t, head, boulder.Spec{ID: "a", Model: "p/m"})
				feed(t, s, epoch, append(running("a"), asks("a", "B1"))...)
				feed(t, s, epoch, test.then...)
				l := DefaultLimits()
				if test.limits != nil {
					test.limits(&l)
				}
				got := Compute(s, l, epoch)
				if kindOf(got[0]) != test.want {
					t.Fatalf("loop %v: %s, want %s", loop, kindsOf(got), test.want)
				}
				if p, ok := bodyOf(got[0]).(boulder.Parked); ok && !strings.Contains(p.Reason, test.reason) {
					t.Errorf("parked because %q, want %q", p.Reason, test.reason)
				}
			})
		}
	}
}

// turn2 is the turn that leaves B1 aside, with what happens meanwhile.
func turn2(e boulder.Evidence, meanwhile ...boulder.Body) []boulder.Body {
	at := ref("a", 1)
	return slices.Concat([]boulder.Body{boulder.TurnSent{AttemptRef: at, Turn: 2, MessageID: "m2"}}, meanwhile,
		[]boulder.Body{boulder.TurnEnded{AttemptRef: at, Turn: 2, Evidence: e}})
}

// TestGoingAround: a session is told once of each question to leave it aside. Then it continues while its turns bring progress,
// as evidence and judge see it, in any number of turns of the attempt.
func TestGoingAround(t *testing.T) {
	t.Parallel()
	moved := boulder.Evidence{ToolCount: 1, Diff: boulder.Diff{Hash: "new"}}
	verdict := func(v boulder.Verdict) boulder.Body {
		return boulder.Judged{AttemptRef: ref("a", 1), Turn: 2, Verdict: v}
	}
	marked, blocked, others := moved, moved, moved
	marked.Marked = true
	blocked.Todos = []boulder.Todo{{Content: "a", Status: "blocked"}}
	others.ToolCount = 0
	for name, test := range map[string]struct {
		then []boulder.Body // after it was told
		want string
	}{
		"at work":                  {[]boulder.Body{}, "run"},
		"progress":                 {turn2(moved), "judge"},
		"nothing new":              {turn2(boulder.Evidence{ToolCount: 1}), "park"},
		"not its own doing":        {turn2(others), "park"},
		"nothing is left":          {turn2(marked), "park"},
		"only blocked items":       {turn2(blocked), "park"},
		"judged incomplete":        {append(turn2(moved), verdict(boulder.Verdict{IsProgress: true, Summary: "x"})), "continue"},
		"no judge":                 {append(turn2(moved), verdict(boulder.Verdict{JudgeUnavailable: true})), "continue"},
		"judged complete":          {append(turn2(moved), verdict(boulder.Verdict{IsProgress: true, Completed: true})), "park"},
		"judged without progress":  {append(turn2(moved), verdict(boulder.Verdict{})), "park"},
		"judged stuck":             {append(turn2(moved), verdict(boulder.Verdict{IsProgress: true, IsStuck: true})), "park"},
		"the judge needs the user": {append(turn2(moved), verdict(boulder.Verdict{IsProgress: true, BlockedBy: "missing_info"})), "park"},
		"another question":         {turn2(boulder.Evidence{}, asks("a", "B2")), "continue"},
		"one of two is answered":   {turn2(boulder.Evidence{Marked: true}, asks("a", "B2"), answers("a", "B1")), "continue"},
		"it is answered":           {turn2(boulder.Evidence{}, answers("a", "B1")), "judge"},
	} {
		for _, loop := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				head := boulder.Boulder{}
				if loop {
					head.Loop = &boulder.Loop{Iterations: 100, Failures: 5}
				}
				s := begunWith(t, head, boulder.Spec{ID: "a", Model: "p/m"})
				feed(t, s, epoch, append(running("a"), asks("a", "B1"), ends(boulder.Evidence{}))...)
				l := DefaultLimits()
				l.Evaluations = 1 // a fresh session cannot take over
				applyAll(t, s, epoch, Compute(s, l, epoch)[:1])
				if aside := s.Open("a").Turn.Aside; len(aside) != 1 || aside[0] != "B1" {
					t.Fatalf("it leaves %q aside", aside)
				}
				feed(t, s, epoch, test.then...)
				if got := Compute(s, l, epoch); kindOf(got[0]) != test.want {
					t.Fatalf("loop %v: %s, want %s", loop, kindsOf(got), test.want)
				}
			})
		}
	}
}

// TestAwaitingInAFault: a lost session or a failed turn does not answer the question.
func TestAwaitingInAFault(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"})
	feed(t, s, epoch, append(running("a"), asks("a", "B1"))...)
	o, l := s.Open("a"), DefaultLimits()
	faults := map[string]error{"retry uncounted lost": boulder.ErrSessionLost, "retry failed": errors.New("no diff")}
	for _, err := range faults {
		got := Failed(s, l, epoch, o, err)[0]
		if p, ok := got.(boulder.Parked); !ok || p.Reason != "waits for an answer to B1: Which B1?; "+err.Error() {
			t.Errorf("%v: %+v", err, got)
		}
	}
	feed(t, s, epoch, answers("a", "B1"))
	for want, err := range faults {
		if got := kindOf(apply(Failed(s, l, epoch, o, err)[0])); got != want {
			t.Errorf("with an answer, %v: %s", err, got)
		}
	}
}

// TestAwaitingBeforeTheNextPrompt: a blocker raised after the turn, by a sub-agent, holds back the next prompt.
func TestAwaitingBeforeTheNextPrompt(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"})
	feed(t, s, epoch, judged("a", boulder.Verdict{})...)
	feed(t, s, epoch, boulder.Continuation{AttemptRef: ref("a", 1), Turn: 2}, asks("a", "B1"))
	if got := kindsOf(Compute(s, DefaultLimits(), epoch)); got != "park" {
		t.Errorf("got %s", got)
	}
}

// TestAwaitAnswers: independent sub-tasks continue, dependents wait, then the run waits for the user, and continues
// with the answer. A missing answer is reported before a used-up budget: a larger budget would not help.
func TestAwaitAnswers(t *testing.T) {
	t.Parallel()
	s := begun(t,
		boulder.Spec{ID: "a", Budget: &boulder.Budget{Tokens: 10}}, boulder.Spec{ID: "b"}, boulder.Spec{ID: "c", DependsOn: []string{"a"}})
	l := DefaultLimits()
	feed(t, s, epoch, append(running("a"), asks("a", "B1"), ends(boulder.Evidence{}), use("a", boulder.Usage{Input: 10}))...)
	feed(t, s, epoch, boulder.BudgetWarning{SubTaskID: "a", Dimension: "tokens"})
	if got := kindsOf(Compute(s, l, epoch)); got != "park, start" {
		t.Fatalf("got %s, want park and the start of b", got)
	}
	feed(t, s, epoch, boulder.Parked{AttemptRef: ref("a", 1), Reason: "money"})
	feed(t, s, epoch, judged("b", boulder.Verdict{Completed: true})...)
	applyAll(t, s, epoch, Compute(s, l, epoch)[:1])
	want := Stop{`sub-task "a": waits for an answer to B1: Which B1?`, "a", false, false}
	if got := Compute(s, l, epoch); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if status := s.SubTask("c").Status; status != boulder.SubTaskPending {
		t.Errorf("c is %s", status)
	}
	feed(t, s, epoch, answers("a", "B1"))
	if got := kindsOf(Compute(s, l, epoch)); got != "start" {
		t.Fatalf("with an answer: %s", got)
	}
	feed(t, s, epoch, boulder.Starting{AttemptRef: ref("a", 2)})
	if got, ok := bodyOf(Compute(s, l, epoch)[0]).(boulder.Parked); !ok || !strings.HasPrefix(got.Reason, "its budget of 10 tokens") {
		t.Errorf("with an answer and without money: %+v", got)
	}
}

// TestAnsweredDuringTheTurn: whatever the verdict, the attempt continues while the agent has not got an answer.
func TestAnsweredDuringTheTurn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		evidence    boulder.Evidence
		verdict     boulder.Verdict
		evaluations int
		loop        *boulder.Loop
		want        string
	}{
		"complete":            {verdict: boulder.Verdict{Completed: true}, want: "continue"},
		"complete, no turns":  {verdict: boulder.Verdict{Completed: true}, evaluations: 1, want: "complete"},
		"incomplete":          {want: "continue"},
		"stuck":               {verdict: boulder.Verdict{IsStuck: true}, want: "continue"},
		"stalled":             {verdict: boulder.Verdict{IsInLoop: true, BlockedBy: "missing_info"}, want: "continue"},
		"a new plan":          {verdict: boulder.Verdict{NeedReplan: true}, want: "continue"},
		"cut off":             {evidence: boulder.Evidence{Ended: boulder.Ended{Error: "X", Truncated: "length"}}, want: "continue"},
		"the last evaluation": {evaluations: 1, want: "retry uncounted cancelled"},
		"stopped":             {evidence: boulder.Evidence{Ended: stopped(boulder.RuleRepeat)}, want: "retry uncounted cancelled"},
		"broken":              {evidence: boulder.Evidence{Ended: boulder.Ended{Error: "APIError"}}, want: "retry uncounted cancelled"},
		"out of budget":       {evidence: boulder.Evidence{Ended: stopped(boulder.RuleBudget)}, want: "park"},
		"a loop":              {loop: &boulder.Loop{Iterations: 5, Failures: 1}, want: "continue"},
		"a loop's last":       {loop: &boulder.Loop{Iterations: 1, Failures: 5}, want: "retry uncounted cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t, boulder.Spec{ID: "a"})
			s.Boulder.Loop = test.loop
			feed(t, s, epoch, append(running("a"), asks("a", "B1"), answers("a", "B1"), ends(test.evidence))...)
			feed(t, s, epoch, boulder.Judged{AttemptRef: ref("a", 1), Turn: 1, Verdict: test.verdict})
			l := DefaultLimits()
			l.Stalls = 1
			if test.evaluations > 0 {
				l.Evaluations = test.evaluations
			}
			got := Compute(s, l, epoch)[0]
			if kindOf(got) != test.want {
				t.Fatalf("got %s, want %s", kindOf(got), test.want)
			}
			switch got := bodyOf(got).(type) {
			case boulder.Continuation:
				if test.loop == nil && got.Reason != "there is an answer to B1" {
					t.Errorf("it goes on because %q", got.Reason)
				}
			case boulder.Retry:
				if got.Reason != "there is an answer to B1" {
					t.Errorf("it is tried again because %q", got.Reason)
				}
			}
		})
	}
}

// TestRepliedIsTold: an answer given as the reply to the ask needs no further turn; a later one does.
func TestRepliedIsTold(t *testing.T) {
	t.Parallel()
	for want, replied := range map[string]bool{"complete": true, "continue": false} {
		s := begun(t, boulder.Spec{ID: "a"})
		asked := asks("a", "B1").(boulder.BlockerRaised)
		asked.Blocker.Until = epoch.Add(time.Hour)
		feed(t, s, epoch, append(running("a"), asked, answers("a", "B1"),
			boulder.WaitEnded{AttemptRef: ref("a", 1), BlockerID: "B1", Replied: replied}, ends(boulder.Evidence{}),
			boulder.Judged{AttemptRef: ref("a", 1), Turn: 1, Verdict: boulder.Verdict{Completed: true}})...)
		if got := kindOf(Compute(s, DefaultLimits(), epoch)[0]); got != want {
			t.Errorf("replied %v: got %s, want %s", replied, got, want)
		}
	}
}

// TestAnswersAreHeardOnce: an answer grants one turn; the next verdict counts as usual.
func TestAnswersAreHeardOnce(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"})
	at := ref("a", 1)
	feed(t, s, epoch, append(running("a"), asks("a", "B1"), answers("a", "B1"), ends(boulder.Evidence{ToolCount: 1}))...)
	feed(t, s, epoch, boulder.Judged{AttemptRef: at, Turn: 1}, boulder.Continuation{AttemptRef: at, Turn: 2},
		boulder.TurnSent{AttemptRef: at, Turn: 2, MessageID: "m2"},
		boulder.TurnEnded{AttemptRef: at, Turn: 2, Evidence: boulder.Evidence{ToolCount: 1}},
		boulder.Judged{AttemptRef: at, Turn: 2, Verdict: boulder.Verdict{IsStuck: true}})
	l := DefaultLimits()
	l.Stalls = 9
	if got := kindsOf(Compute(s, l, epoch)); got != "retry failed" {
		t.Errorf("got %s", got)
	}
}

// TestLoopGoesOnWithAnAnswer: an answer resets a loop's counts, as a resume by the user does.
func TestLoopGoesOnWithAnAnswer(t *testing.T) {
	t.Parallel()
	r := newLoopRun(t, boulder.Loop{Iterations: 3, Failures: 9})
	r.turn(acted("1"), unfinished)
	r.turn(acted("2"), unfinished)
	at := ref("1", 1)
	r.apply(boulder.TurnSent{AttemptRef: at, Turn: 3, MessageID: "m"})
	r.apply(boulder.BlockerRaised{AttemptRef: at, Blocker: boulder.Blocker{ID: "B1", Question: "?", Hard: true, Status: boulder.BlockerPending}})
	r.apply(boulder.TurnEnded{AttemptRef: at, Turn: 3})
	p, ok := bodyOf(r.decide()).(boulder.Parked)
	if !ok {
		t.Fatalf("got %s", kindOf(r.decide()))
	}
	r.apply(p)
	if got := kindOf(r.decide()); got != "stop" {
		t.Fatalf("without an answer: %s", got)
	}
	r.apply(answers("1", "B1"))
	for n := range 2 {
		if got := kindOf(r.turn(acted(string(rune('a'+n))), unfinished)); got != "continue" {
			t.Fatalf("turn %d with the answer: %s", n+1, got)
		}
	}
	if got := kindOf(r.turn(acted("c"), unfinished)); got != "park" {
		t.Errorf("after as many turns as a loop may have: %s", got)
	}
}

// TestRunLetsGoOfEqualAnswers: a session that quickly gives the same answer again and again is replaced by a new one.
func TestRunLetsGoOfEqualAnswers(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Spec{ID: "a"})
	l := DefaultLimits()
	l.Evaluations, l.Stalls, l.IdleTurns = 20, 99, 99
	at := ref("a", 1)
	feed(t, s, epoch, boulder.Starting{AttemptRef: at}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s"})
	now := epoch
	for turn := 1; ; turn++ {
		now = now.Add(time.Second)
		e := boulder.Evidence{FinalMessage: "Still waiting at " + now.Format(time.TimeOnly), ToolCount: 1}
		feed(t, s, now, boulder.TurnSent{AttemptRef: at, Turn: turn, MessageID: "m"},
			boulder.TurnEnded{AttemptRef: at, Turn: turn, Evidence: e}, boulder.Judged{AttemptRef: at, Turn: turn})
		switch a := bodyOf(Compute(s, l, now)[0]).(type) {
		case boulder.Continuation:
			if turn > 5 {
				t.Fatalf("continuation %d after the same answer", turn)
			}
			feed(t, s, now, a)
			continue
		case boulder.Retry:
			if turn != 6 || !strings.Contains(a.Reason, "the same answer 5 times within 2m0s") {
				t.Errorf("after %d turns: %s", turn, a.Reason)
			}
			// The new session starts with a count of zero.
			at = ref("a", 2)
			feed(t, s, now, a, boulder.Starting{AttemptRef: at}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s2"},
				boulder.TurnSent{AttemptRef: at, Turn: 1, MessageID: "m"},
				boulder.TurnEnded{AttemptRef: at, Turn: 1, Evidence: e}, boulder.Judged{AttemptRef: at, Turn: 1})
			if got := kindsOf(Compute(s, l, now)); got != "continue" {
				t.Errorf("a fresh session: %s", got)
			}
			return
		default:
			t.Fatalf("after %d turns: %s", turn, kindOf(apply(a)))
		}
	}
}
