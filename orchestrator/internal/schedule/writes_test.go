package schedule

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
)

// Whatever the verdict, an escape goes to the user. The slot stays taken until the answer; then the sub-task continues.
func TestEscape(t *testing.T) {
	t.Parallel()
	s := begunWith(t, boulder.Boulder{Trunk: boulder.Trunk{Base: "c0", Tip: "c0"}}, boulder.Spec{ID: "a"}, boulder.Spec{ID: "b"})
	l := DefaultLimits()
	feed(t, s, epoch, boulder.Starting{AttemptRef: ref("a", 1), Slot: 1}, boulder.SubTaskStart{AttemptRef: ref("a", 1), SessionID: "s"},
		boulder.TurnSent{AttemptRef: ref("a", 1), Turn: 1, MessageID: "m"},
		boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1, Evidence: boulder.Evidence{Escaped: []string{"style.css"}}},
		boulder.Judged{AttemptRef: ref("a", 1), Turn: 1, Verdict: boulder.Verdict{Completed: true}})
	raise, ok := bodyOf(Compute(s, l, epoch)[0]).(boulder.BlockerRaised)
	if b := raise.Blocker; !ok || b.Category != boulder.BlockerEscape || !b.Hard || !strings.Contains(b.Context, "style.css") ||
		!strings.Contains(b.Context, ".manager/slots/b1/1") {
		t.Fatalf("%s: %+v", kindsOf(Compute(s, l, epoch)), raise.Blocker)
	}
	raise.Blocker.ID = "B1"
	feed(t, s, epoch, boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: raise.Blocker})
	feed(t, s, epoch, bodyOf(Compute(s, l, epoch)[0]).(boulder.Parked))
	b, ok := bodyOf(Compute(s, l, epoch)[0]).(boulder.Starting)
	if !ok || b.SubTaskID != "b" || b.Slot != 2 {
		t.Fatalf("while it waits: %+v", Compute(s, l, epoch))
	}
	feed(t, s, epoch, b, answers("a", "B1"))
	i := slices.IndexFunc(Compute(s, l, epoch), func(a Action) bool { b, ok := bodyOf(a).(boulder.Starting); return ok && b.Slot == 1 })
	if i < 0 {
		t.Errorf("answered: %+v", Compute(s, l, epoch))
	}
}

// TestWrites: a sub-task that may write the same files waits, names the other one, and lets those behind it go first.
// It starts when the other's slot is free. Files that an attempt wrote count as files that it may write.
func TestWrites(t *testing.T) {
	t.Parallel()
	s := begun(t,
		boulder.Spec{ID: "a", Writes: []string{"src/**"}}, boulder.Spec{ID: "b", Writes: []string{"docs/", "src/b.go"}},
		boulder.Spec{ID: "c", Writes: []string{"docs/c.md"}}, boulder.Spec{ID: "d"})
	l := DefaultLimits()
	if got := started(Compute(s, l, epoch)); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Fatalf("started %v", got)
	}
	feed(t, s, epoch, running("a")...)
	feed(t, s, epoch, running("c")...)
	waits := Waiting(s, l, epoch, nil)
	if want := `"a" is at work on src/**, and this one may write src/b.go`; len(waits) != 1 || waits[0].Reason != want {
		t.Errorf("waiting: %+v", waits)
	}
	feed(t, s, epoch, boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1, Evidence: boulder.Evidence{
		Diff: boulder.Diff{Files: []boulder.FileChange{{Path: "lib/x.go", Own: true}}},
	}})
	e := boulder.SubTask{ID: "e", Writes: []string{"lib/**"}}
	if claimed(&e, s.Live()) == "" {
		t.Error("what a has written outside of its scope may be written by another")
	}
	feed(t, s, epoch, boulder.Judged{AttemptRef: ref("a", 1), Turn: 1, Verdict: boulder.Verdict{Completed: true}})
	feed(t, s, epoch, complete(s.Open("a")))
	if got := started(Compute(s, l, epoch)); !slices.Equal(got, []string{"d"}) {
		t.Errorf("c is at work on docs, and %v start", got)
	}
}

func started(actions []Action) (ids []string) {
	for _, a := range actions {
		if b, ok := bodyOf(a).(boulder.Starting); ok {
			ids = append(ids, b.SubTaskID)
		}
	}
	return ids
}

// For any plans, no two sub-tasks that may write the same file run at once, and one always runs.
func TestWritesNeverOverlap(t *testing.T) {
	t.Parallel()
	patterns := []string{"src/**", "src/a.go", "**/b.go", "docs/", "docs/a*", "*.md", "x/?.go", "**"}
	rapid.Check(t, func(rt *rapid.T) {
		var specs []boulder.Spec
		for i := range rapid.IntRange(1, 8).Draw(rt, "sub-tasks") {
			specs = append(specs, boulder.Spec{
				ID: string(rune('a' + i)), Writes: rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 3).Draw(rt, "writes"),
				Model: rapid.SampledFrom([]boulder.Models{"p/m", "p/n"}).Draw(rt, "model"),
			})
		}
		s, l := begun(t, specs...), DefaultLimits()
		l.Global = rapid.IntRange(1, 4).Draw(rt, "global")
		for left := len(specs); left > 0; left-- {
			for _, id := range started(Compute(s, l, epoch)) {
				feed(t, s, epoch, running(id)...)
			}
			live := s.Live()
			for i, o := range live {
				for _, other := range live[:i] {
					if a, b := scope.Overlap(o.SubTask.Writes, other.SubTask.Writes); a != "" {
						rt.Fatalf("%s and %s are at work, on %s and %s", o.SubTask.ID, other.SubTask.ID, a, b)
					}
				}
			}
			if len(live) == 0 {
				rt.Fatalf("%d sub-tasks wait for ever", left)
			}
			done := live[rapid.IntRange(0, len(live)-1).Draw(rt, "done")]
			feed(t, s, epoch, boulder.TurnEnded{AttemptRef: done.Attempt.AttemptRef, Turn: 1},
				boulder.Judged{AttemptRef: done.Attempt.AttemptRef, Turn: 1, Verdict: boulder.Verdict{Completed: true}})
			feed(t, s, epoch, complete(done))
		}
	})
}
