package schedule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
)

// TestWrites: what may write the same files waits, says for whom, and lets what is behind it go first; it starts when the
// other's slot is free. What an attempt has written belongs to what it may write.
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
		if b, ok := a.(boulder.Starting); ok {
			ids = append(ids, b.SubTaskID)
		}
	}
	return ids
}

// TestWritesNeverOverlap: whatever plans say, no two that may write the same file are at work, and something always is.
func TestWritesNeverOverlap(t *testing.T) {
	t.Parallel()
	patterns := []string{"src/**", "src/a.go", "**/b.go", "docs/", "docs/a*", "*.md", "x/?.go", "**"}
	rapid.Check(t, func(rt *rapid.T) {
		var specs []boulder.Spec
		for i := range rapid.IntRange(1, 8).Draw(rt, "sub-tasks") {
			specs = append(specs, boulder.Spec{
				ID: string(rune('a' + i)), Writes: rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 3).Draw(rt, "writes"),
				Model: rapid.SampledFrom([]string{"p/m", "p/n"}).Draw(rt, "model"),
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
