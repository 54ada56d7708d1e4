package schedule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// TestIsolate: with auto, slots are for plans with two sub-tasks that can run at once. No attempt starts before that is
// known, nor while the gates are tried.
func TestIsolate(t *testing.T) {
	t.Parallel()
	one := DefaultLimits()
	one.Models = []ModelLimit{{Pattern: "p/one", Limit: 1}}
	for name, c := range map[string]struct {
		isolation boulder.Isolation
		plan      []boulder.Spec
		slots     bool
	}{
		"two": {boulder.IsolationAuto, []boulder.Spec{{ID: "a"}, {ID: "b"}}, true},
		"a chain, written backwards": {
			boulder.IsolationAuto, []boulder.Spec{{ID: "c", DependsOn: []string{"b"}}, {ID: "b", DependsOn: []string{"a"}}, {ID: "a"}}, false,
		},
		"a chain, always": {boulder.IsolationAlways, []boulder.Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}, true},
		"two in the middle": {boulder.IsolationAuto, []boulder.Spec{
			{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"a"}}, {ID: "d", DependsOn: []string{"b", "c"}},
		}, true},
		"both write the same": {boulder.IsolationAuto, []boulder.Spec{{ID: "a", Writes: []string{"x/**"}}, {ID: "b", Writes: []string{"x/y"}}}, false},
		"one of a model":      {boulder.IsolationAuto, []boulder.Spec{{ID: "a", Model: "p/one"}, {ID: "b", Model: "p/one"}}, false},
		"one of each model":   {boulder.IsolationAuto, []boulder.Spec{{ID: "a", Model: "p/one"}, {ID: "b", Model: "p/two"}}, true},
	} {
		s := begun(t, c.plan...)
		s.Boulder.Isolation, s.Boulder.Trunk = c.isolation, boulder.Trunk{Base: "c0", Tip: "c0", Trial: true}
		got := Compute(s, one, epoch)
		if c.slots {
			if d := cmp.Diff([]Action{Try{}}, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			continue
		}
		applyAll(t, s, epoch, got)
		if l := s.Boulder.Trunk; s.Boulder.Isolated() || l.InPlace != "no two sub-tasks can be at work at once" {
			t.Errorf("%s: %+v", name, l)
		}
		if kindsOf(Compute(s, one, epoch)) == "" {
			t.Errorf("%s: then nothing starts", name)
		}
	}
}

// TestAfterConflict: a sub-task that is complete by itself and does not fit the others goes to its session twice, then to
// a fresh one, then to the user: also if its own gate stays red on the combined files. It never stalls or fails for that.
func TestAfterConflict(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.Stalls, l.Attempts, l.Replans = 1, 1, 0
	head := boulder.Boulder{ID: "b1", Trunk: boulder.Trunk{Base: "c0", Tip: "c0"}}
	s := begunWith(t, head, boulder.Spec{ID: "a", Gates: []string{"test"}})
	red := boulder.Gate{Command: "test", ExitCode: 1}
	incomplete := func(at boulder.AttemptRef, turn int) {
		e := boulder.Evidence{Gates: []boulder.Gate{red}, Diff: boulder.Diff{Commit: "w"}}
		feed(t, s, epoch, judgedTurn(at, turn, e, boulder.Verdict{Completed: true})...)
	}
	next := func(want string) []Action {
		t.Helper()
		actions := Compute(s, l, epoch)
		if got := kindsOf(actions); got != want {
			t.Fatalf("after %d: %s, want %s", s.SubTask("a").Unresolved, got, want)
		}
		return actions
	}
	at := ref("a", 1)
	feed(t, s, epoch, boulder.Starting{AttemptRef: at, Slot: 1}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s"})
	green := boulder.Evidence{Gates: []boulder.Gate{{Command: "test"}}, Diff: boulder.Diff{Commit: "w"}}
	feed(t, s, epoch, judgedTurn(at, 1, green, boulder.Verdict{Completed: true})...)
	feed(t, s, epoch, boulder.Integrating{AttemptRef: at, Tip: "c0", Result: "w"},
		boulder.Conflict{AttemptRef: at, With: []string{"x"}, Red: []boulder.Gate{red}, Tip: "c0"})
	for turn := 2; turn <= 3; turn++ {
		c := bodyOf(next("continue")[0]).(boulder.Continuation)
		if !strings.HasPrefix(c.Reason, "complete by itself, but it could not be integrated with x: red on the combined files: `test`") {
			t.Errorf("turn %d: %s", turn, c.Reason)
		}
		feed(t, s, epoch, boulder.Continuation{AttemptRef: at, Turn: turn})
		incomplete(at, turn)
	}
	again := bodyOf(next("retry uncounted failed")[0]).(boulder.Retry)
	if !again.Uncounted || !strings.HasPrefix(again.Digest, "It was complete by itself, but could not be integrated with x") {
		t.Errorf("%+v", again)
	}
	feed(t, s, epoch, again)
	at = ref("a", 2)
	feed(t, s, epoch, boulder.Starting{AttemptRef: at, Slot: 1}, boulder.SubTaskStart{AttemptRef: at, SessionID: "s2"})
	incomplete(at, 1)
	asked := bodyOf(next("raise")[0]).(boulder.BlockerRaised).Blocker
	if asked.Category != boulder.BlockerMerge || !strings.HasPrefix(asked.Context, "It is complete by itself, but ") {
		t.Errorf("%+v", asked)
	}
	feed(t, s, epoch, boulder.BlockerRaised{AttemptRef: at, Blocker: boulder.Blocker{
		ID: "B1", BlockerScope: asked.BlockerScope, Category: asked.Category, Question: asked.Question, Hard: true, Status: boulder.BlockerPending,
	}})
	applyAll(t, s, epoch, next("park"))
	feed(t, s, epoch, boulder.BlockerSettled{SubTaskID: "a", BlockerID: "B1", Status: boulder.BlockerAnswered, Answer: "like this"})
	if x := s.SubTask("a"); x.Unresolved != 0 || x.Tries != 0 || x.Status != boulder.SubTaskPending {
		t.Errorf("after the answer: %+v", x)
	}
}
