package schedule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/prompts"
)

type loopRun struct {
	t       rapid.TB
	s       *boulder.State
	now     time.Time
	prompts int
}

func newLoopRun(t rapid.TB, l boulder.Loop, doneWhen ...string) *loopRun {
	head := boulder.Boulder{Settings: boulder.Settings{Loop: &l}}
	return &loopRun{t: t, now: epoch, s: begunWith(t, head, boulder.Spec{ID: "1", DoneWhen: doneWhen})}
}

func (r *loopRun) apply(b boulder.Body) { feed(r.t, r.s, r.now, b) }

// start starts the due session, if any.
func (r *loopRun) start() {
	if a, ok := bodyOf(r.decide()).(boulder.Starting); ok {
		r.apply(a)
		r.apply(boulder.SubTaskStart{AttemptRef: a.AttemptRef, SessionID: fmt.Sprint("ses_", a.Attempt)})
	}
}

// turn ends the next turn of the session, after any wait, and carries out what follows.
func (r *loopRun) turn(e boulder.Evidence, v boulder.Verdict) Action {
	r.start()
	o := r.s.Open("1")
	ref := o.Attempt.AttemptRef
	if wake, waits := r.decide().(Wake); waits {
		r.now = wake.At
	}
	if got := r.decide(); kindOf(got) != "run" {
		r.t.Fatalf("%s, want the next turn", kindOf(got))
	}
	r.prompts++
	r.apply(boulder.TurnSent{AttemptRef: ref, Turn: o.Turn.Number, MessageID: fmt.Sprint("msg_", r.prompts)})
	r.now = r.now.Add(time.Second)
	r.apply(boulder.TurnEnded{AttemptRef: ref, Turn: o.Turn.Number, Evidence: e, Ended: e.Ended})
	r.apply(boulder.Judged{AttemptRef: ref, Turn: o.Turn.Number, Verdict: v})
	next := r.decide()
	if wake, waits := next.(Wake); waits { // before a new session
		r.now = wake.At
		next = r.decide()
	}
	if body := bodyOf(next); body != nil {
		r.apply(body)
	}
	return next
}

func (r *loopRun) decide() Action {
	actions := Compute(r.s, DefaultLimits(), r.now)
	if len(actions) == 0 {
		return nil
	}
	return actions[0]
}

// acted is evidence of a turn with one tool call and this diff.
func acted(diff string) boulder.Evidence {
	return boulder.Evidence{
		Ended: boulder.Ended{Finish: "stop"}, ToolCount: 1, Diff: boulder.Diff{Hash: diff}, FinalMessage: "Changed to " + diff,
	}
}

var unfinished = boulder.Verdict{Summary: "Something is missing.", IsProgress: true}

// TestLoopWithBlockedItems: blocked items are no work for the agent, but the list is not done either.
func TestLoopWithBlockedItems(t *testing.T) {
	t.Parallel()
	e := acted("x")
	e.Todos = []boulder.Todo{{Content: "get the key", Status: "blocked"}, {Content: "write", Status: "completed"}}
	for criterion, want := range map[string]string{boulder.DoneTodos: "park", boulder.DoneJudge: "complete"} {
		r := newLoopRun(t, boulder.Loop{Iterations: 100, Failures: 5}, criterion)
		next := r.turn(e, boulder.Verdict{Completed: true, Summary: "All is done."})
		if got := kindOf(next); got != want {
			t.Errorf("%s: %s, want %s", criterion, got, want)
		}
		if p, ok := bodyOf(next).(boulder.Parked); ok && p.Reason != "all that can be done is done: get the key" {
			t.Errorf("the reason is %q", p.Reason)
		}
	}
}

func TestLoop(t *testing.T) {
	t.Parallel()
	five := boulder.Loop{Iterations: 100, Failures: 5, Cooldown: 30 * time.Second}
	chat := func(n int) boulder.Evidence {
		return boulder.Evidence{Ended: boulder.Ended{Finish: "stop"}, FinalMessage: "Thought " + strings.Repeat("x", n)}
	}
	todos := func(statuses ...string) []boulder.Todo {
		var list []boulder.Todo
		for i, s := range statuses {
			list = append(list, boulder.Todo{Content: fmt.Sprint("item ", i), Status: s})
		}
		return list
	}
	for name, test := range map[string]struct {
		loop   boulder.Loop
		turn   func(n int, e *boulder.Evidence) // changes the evidence of turn n, from 1
		want   string                           // the last action
		turns  int
		reason string
		waits  []time.Duration // before the second turn, the third …

		verdict func(n int) boulder.Verdict // nil: unfinished
	}{
		"stuck twice, although files change": {
			loop: five, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n)) }, want: "fail failed", turns: 3,
			reason: "the judge said of 2 turns in a row that it is stuck: The form refuses it; The name is there.",
			verdict: func(n int) boulder.Verdict {
				return boulder.Verdict{
					Summary: "The name is there.", IsProgress: true, IsStuck: n > 1, StuckReason: "The form refuses it",
				}
			},
		},
		"stuck in every second turn": {
			loop: boulder.Loop{Iterations: 7, Failures: 1}, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n)) },
			want: "park", turns: 7, verdict: func(n int) boulder.Verdict { return boulder.Verdict{IsProgress: true, IsStuck: n%2 == 0} },
		},
		"it needs another plan, which there is none of": {
			loop: five, turn: func(int, *boulder.Evidence) {}, want: "fail failed", turns: 2,
			reason: "the judge said of 2 turns in a row that it is stuck: There is no such page",
			verdict: func(int) boulder.Verdict {
				return boulder.Verdict{NeedReplan: true, ReplanReason: "There is no such page"}
			},
		},
		"files change, and the judge sees no progress": {
			loop: five, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n)) }, want: "fail failed", turns: 6,
			reason: "5 continuations in a row brought no progress", verdict: func(int) boulder.Verdict { return boulder.Verdict{} },
		},
		"files change, and the judge sees a loop": {
			loop: five, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n)) }, want: "fail failed", turns: 6,
			verdict: func(int) boulder.Verdict { return boulder.Verdict{IsProgress: true, IsInLoop: true} },
		},
		"gates turn green, and the judge sees no progress": {
			loop: boulder.Loop{Iterations: 7, Failures: 1}, want: "park", turns: 7,
			turn:    func(n int, e *boulder.Evidence) { e.Gates = []boulder.Gate{{Command: fmt.Sprint("make ", n)}} },
			verdict: func(int) boulder.Verdict { return boulder.Verdict{} },
		},
		"no judge was to be had": {
			loop: boulder.Loop{Iterations: 7, Failures: 1}, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n)) },
			want: "park", turns: 7, verdict: func(int) boulder.Verdict { return boulder.Verdict{JudgeUnavailable: true} },
		},
		"progress in every turn, up to the limit": {
			loop: boulder.Loop{Iterations: 7, Failures: 1}, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n)) },
			want: "park", turns: 7, reason: "it had 7 turns, which is the limit; Something is missing.",
		},
		"one turn only": {
			loop: boulder.Loop{Iterations: 1, Failures: 5}, turn: func(int, *boulder.Evidence) {},
			want: "park", turns: 1,
		},
		"chat, and the pauses grow": {
			loop: five, turn: func(n int, e *boulder.Evidence) { *e = chat(n) }, want: "fail failed", turns: 6,
			reason: "5 continuations in a row brought no progress; Something is missing.",
			// Counted from the continuation; a turn takes a second here.
			waits: []time.Duration{0, 59 * time.Second, 119 * time.Second, 239 * time.Second, 479 * time.Second},
		},
		"the same words": {
			loop: five, turn: func(_ int, e *boulder.Evidence) { *e = chat(1) }, want: "fail failed", turns: 5,
			reason: "it said the same 5 times and called no tool",
		},
		"the same diff to and fro": {
			loop: five, turn: func(n int, e *boulder.Evidence) { *e = acted(fmt.Sprint(n % 3)) }, want: "fail failed", turns: 8,
		},
		"a gate that turns green is progress, once": {
			loop: five, want: "fail failed", turns: 9,
			turn: func(n int, e *boulder.Evidence) { e.Gates = []boulder.Gate{{Command: "make", ExitCode: max(0, 4-n)}} },
		},
		"statuses that flip": {
			loop: five, want: "fail failed", turns: 6,
			turn: func(n int, e *boulder.Evidence) {
				*e = acted("")
				e.Todos = todos([]string{"pending", "completed", "in_progress"}[n%3], "pending")
			},
		},
		"all that is left is blocked": {
			loop: five, want: "park", turns: 1, reason: "nothing is left that the agent can do: 2 items are blocked: item 1; item 2",
			turn: func(_ int, e *boulder.Evidence) { e.Todos = todos("completed", "blocked", "blocked") },
		},
		"blocked items beside a red gate": {
			loop: five, want: "fail failed", turns: 6,
			turn: func(_ int, e *boulder.Evidence) {
				e.Todos, e.Gates = todos("blocked"), []boulder.Gate{{Command: "make", ExitCode: 1}}
			},
		},
		"the user stops it in OpenCode": {
			loop: five, want: "park", turns: 1, reason: "stopped: the user aborted the turn",
			turn: func(_ int, e *boulder.Evidence) { e.Ended.Error = boulder.ErrorAborted },
		},
		"an error that comes again and again": {
			loop: five, want: "fail failed", turns: 6, reason: "the turn ended with APIError: no",
			turn: func(n int, e *boulder.Evidence) {
				*e = chat(n)
				e.Ended = boulder.Ended{Error: "APIError", Message: "no"}
			},
		},
		"stopped by a rule, again and again": {
			loop: five, want: "fail failed", turns: 6,
			turn: func(_ int, e *boulder.Evidence) { e.Ended = stopped(boulder.RuleRepeat) },
		},
		"its budget": {
			loop: five, want: "park", turns: 1,
			turn: func(_ int, e *boulder.Evidence) { e.Ended = stopped(boulder.RuleBudget) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLoopRun(t, test.loop)
			var last Action
			for n := 1; ; n++ {
				e := acted("x")
				test.turn(n, &e)
				v := unfinished
				if test.verdict != nil {
					v = test.verdict(n)
				}
				last = r.turn(e, v)
				if kindOf(last) != "continue" {
					break
				}
				wait := max(0, bodyOf(last).(boulder.Continuation).NotBefore.Sub(r.now))
				if i := n - 1; test.waits != nil && i < len(test.waits) && wait != test.waits[i] {
					t.Errorf("%s before turn %d, want %s", wait, n+1, test.waits[i])
				}
			}
			reason := ""
			switch a := bodyOf(last).(type) {
			case boulder.SubTaskDone:
				reason = a.Summary
			case boulder.Parked:
				reason = a.Reason
			}
			if kindOf(last) != test.want || r.prompts != test.turns || !strings.Contains(reason, test.reason) {
				t.Errorf("%s after %d turns (%s), want %s after %d (%s)",
					kindOf(last), r.prompts, reason, test.want, test.turns, test.reason)
			}
		})
	}
}

// TestLoopInAFreshSession: a new session starts only if the old one is useless, and turns keep counting.
func TestLoopInAFreshSession(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]boulder.Evidence{
		"the context is used up": {Ended: boulder.Ended{Error: boulder.ErrorOverflow}, ToolCount: 1},
		"it forgets in a turn":   {Ended: stopped(boulder.RuleCompaction), ToolCount: 1},
		"compacted twice":        {Ended: boulder.Ended{Finish: "stop"}, Compactions: 2, ToolCount: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLoopRun(t, boulder.Loop{Iterations: 4, Failures: 9})
			var kinds []string
			for range 4 {
				kinds = append(kinds, kindOf(r.turn(e, unfinished)))
			}
			const want = "retry failed, retry failed, retry failed, park"
			if got := strings.Join(kinds, ", "); got != want || r.s.SubTask("1").Attempts != 4 {
				t.Errorf("%s in %d sessions, want %s", got, r.s.SubTask("1").Attempts, want)
			}
		})
	}
}

// Items that a compaction removed from the agent's list are in each prompt until the list has them again.
func TestLoopRemembersItems(t *testing.T) {
	t.Parallel()
	r := newLoopRun(t, boulder.Loop{Iterations: 9, Failures: 9})
	open := []boulder.Todo{{Content: "write", Status: "pending"}, {Content: "read", Status: "completed"}}
	for n, turn := range []struct {
		todos       []boulder.Todo
		compactions int
		want        []string
	}{
		{todos: open}, {compactions: 1, want: []string{"write"}}, {want: []string{"write"}}, {todos: open},
	} {
		e := acted("x")
		e.Todos, e.Compactions = turn.todos, turn.compactions
		a, ok := bodyOf(r.turn(e, unfinished)).(boulder.Continuation)
		if !ok || a.Prompt != prompts.Forgotten(turn.want) {
			t.Errorf("turn %d: %v, want %v", n+1, a.Prompt, turn.want)
		}
	}
}

// TestLoopTakenUpByAPerson: a resume by the user resets the counts.
func TestLoopTakenUpByAPerson(t *testing.T) {
	t.Parallel()
	r := newLoopRun(t, boulder.Loop{Iterations: 2, Failures: 9})
	r.turn(acted("1"), unfinished)
	stopped := acted("2")
	stopped.Ended.Error = boulder.ErrorAborted
	if got := kindOf(r.turn(stopped, unfinished)); got != "park" {
		t.Fatal(got)
	}
	r.apply(boulder.Unparked{SubTaskID: "1", Reason: "resumed"})
	if got := kindOf(r.turn(acted("3"), unfinished)); got != "continue" {
		t.Error(got)
	}
}

// TestLoopGetsMoreTurns: a loop at its limit needs a larger one, and earlier turns count.
func TestLoopGetsMoreTurns(t *testing.T) {
	t.Parallel()
	r := newLoopRun(t, boulder.Loop{Iterations: 2, Failures: 9})
	r.turn(acted("1"), unfinished)
	if p, ok := bodyOf(r.turn(acted("2"), unfinished)).(boulder.Parked); !ok || !p.AtLimit {
		t.Fatalf("at the limit: %+v", p)
	}
	if _, can := Unpark(r.s, r.s.SubTask("1")); can {
		t.Error("it goes on without more turns")
	}
	r.apply(boulder.Resumed{Iterations: 4})
	unparked, can := Unpark(r.s, r.s.SubTask("1"))
	if !can {
		t.Fatal("it does not go on with more turns")
	}
	r.apply(unparked)
	if got := kindOf(r.turn(acted("3"), unfinished)); got != "continue" {
		t.Errorf("after turn 3 of 4: %s", got)
	}
	if got := kindOf(r.turn(acted("4"), unfinished)); got != "park" {
		t.Errorf("after turn 4 of 4: %s", got)
	}
}

func TestLoopThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newLoopRun(t, boulder.Loop{Iterations: 9, Failures: 9})
	r.turn(acted("1"), unfinished)
	r.s.SubTask("1").Track = json.RawMessage(`{"iteration": "many"}`)
	if got := kindOf(r.turn(acted("2"), unfinished)); got != "fail failed" {
		t.Error(got)
	}
}

// TestLoopEnds: any loop ends within its bounds: after Failures continuations without anything new, but not for that
// while there is something new.
func TestLoopEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := boulder.Loop{
			Iterations: rapid.IntRange(1, 30).Draw(t, "iterations"), Failures: rapid.IntRange(1, 6).Draw(t, "failures"),
			Cooldown: rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "cooldown"),
		}
		r := newLoopRun(t, l)
		known := map[string]bool{}
		failures := 0
		for {
			e, reached := drawTurn(t)
			isNew, v := false, unfinished
			v.IsProgress = rapid.Bool().Draw(t, "progress by the judge")
			for _, x := range reached {
				isNew = isNew || !known[x] && (v.IsProgress || !strings.HasPrefix(x, "diff "))
				known[x] = true
			}
			if isNew && e.ToolCount > 0 {
				failures = 0
			} else if r.prompts > 0 {
				failures++
			}
			got := r.turn(e, v)
			kind := kindOf(got)
			goesOn := kind == "continue" || strings.HasPrefix(kind, "retry")
			switch {
			case r.prompts > l.Iterations || failures > l.Failures:
				t.Fatalf("%d of %d prompts, %d of %d failures", r.prompts, l.Iterations, failures, l.Failures)
			case goesOn && (r.prompts == l.Iterations || failures == l.Failures):
				t.Fatalf("%s after %d of %d prompts and %d of %d failures", kind, r.prompts, l.Iterations, failures, l.Failures)
			case kind == "fail failed" && r.prompts < l.Iterations && failures < l.Failures && !repeats(r, l):
				t.Fatalf("%s after %d of %d prompts and %d of %d failures", kind, r.prompts, l.Iterations, failures, l.Failures)
			}
			if c, ok := bodyOf(got).(boulder.Continuation); ok && !c.NotBefore.IsZero() && !c.NotBefore.After(r.now) {
				t.Fatalf("a wait until %s at %s", c.NotBefore, r.now)
			}
			if !goesOn {
				return
			}
		}
	})
}

// TestRulesFirst: no judge is called while the evidence shows progress and no verdict named an obstacle.
func TestRulesFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before []boulder.Verdict // on turns in which a file changed
		e      boulder.Evidence
		want   bool
	}{
		"the first turn":        {nil, acted(""), true},
		"an item was completed": {[]boulder.Verdict{unfinished}, boulder.Evidence{Todos: []boulder.Todo{{Content: "a", Status: "completed"}}}, true},
		"a gate turned green":   {[]boulder.Verdict{unfinished}, boulder.Evidence{Gates: []boulder.Gate{{Command: "make"}}}, true},
		"a file changed":        {[]boulder.Verdict{unfinished}, acted("y"), false},
		"a file is as it was":   {[]boulder.Verdict{unfinished}, acted("x"), false},
		"nothing changed":       {[]boulder.Verdict{unfinished}, boulder.Evidence{}, false},
		"an error":              {[]boulder.Verdict{unfinished}, boulder.Evidence{Ended: boulder.Ended{Error: "APIError"}}, true},
		"a gate turned green, but it was stuck": {
			[]boulder.Verdict{{IsStuck: true}}, boulder.Evidence{Gates: []boulder.Gate{{Command: "make"}}}, false,
		},
	} {
		r := newLoopRun(t, boulder.Loop{Iterations: 9, Failures: 9})
		r.start()
		for _, v := range test.before {
			r.turn(acted("x"), v)
		}
		o := r.s.Open("1")
		r.apply(boulder.TurnEnded{AttemptRef: o.Attempt.AttemptRef, Turn: o.Turn.Number, Evidence: test.e})
		if got := RulesFirst(r.s, r.s.Open("1")); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	s := begun(t, boulder.Spec{ID: "a"})
	feed(t, s, epoch, running("a")...)
	if RulesFirst(s, s.Open("a")) {
		t.Error("in a run the judge is asked about every turn")
	}
}

// repeats reports whether the agent repeated itself too often. That has two bounds of its own.
func repeats(r *loopRun, l boulder.Loop) bool {
	var track enforcer.Track
	if err := json.Unmarshal(r.s.SubTask("1").Track, &track); err != nil {
		return false
	}
	return track.Same+1 >= l.Failures || len(track.Answers)+1 >= 5
}

// drawTurn draws a turn from a small world, and names what it reached.
func drawTurn(t *rapid.T) (e boulder.Evidence, reached []string) {
	e = boulder.Evidence{
		Ended: boulder.Ended{Finish: "stop"}, ToolCount: rapid.IntRange(0, 1).Draw(t, "tools"),
		FinalMessage: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "answer"),
		Diff:         boulder.Diff{Hash: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "diff")},
		Compactions:  max(0, rapid.IntRange(-4, 2).Draw(t, "compactions")),
		Promised:     rapid.Bool().Draw(t, "promised"),
	}
	e.Ended.Error = rapid.SampledFrom([]string{"", "", "", "", "APIError", boulder.ErrorOverflow}).Draw(t, "error")
	if e.Diff.Hash != "" {
		reached = append(reached, "diff "+e.Diff.Hash)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "todos") {
		status := rapid.SampledFrom([]string{"pending", "in_progress", "completed", "cancelled"}).Draw(t, "status")
		e.Todos = append(e.Todos, boulder.Todo{Content: fmt.Sprint("item ", i), Status: status})
		if status == "completed" {
			reached = append(reached, fmt.Sprint("item ", i))
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "gates") {
		g := boulder.Gate{Command: fmt.Sprint("make ", i), ExitCode: rapid.IntRange(0, 1).Draw(t, "code")}
		e.Gates = append(e.Gates, g)
		if g.Green() {
			reached = append(reached, "gate "+g.Command)
		}
	}
	return e, reached
}
