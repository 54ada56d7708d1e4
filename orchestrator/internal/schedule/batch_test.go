package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// TestBatch: results that wait are integrated together, after a part of the time that their gates took if others are at
// work. They complete in the order of the trunk, which is not that in which they began.
func TestBatch(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	start := func(t *testing.T) *boulder.State {
		s := begunWith(t, boulder.Boulder{Trunk: boulder.Trunk{Base: "c0", Tip: "c0"}},
			boulder.Spec{ID: "a"}, boulder.Spec{ID: "b"}, boulder.Spec{ID: "c"}, boulder.Spec{ID: "d"})
		for i, id := range []string{"d", "c", "b", "a"} {
			feed(t, s, epoch, boulder.Starting{AttemptRef: ref(id, 1), Slot: i + 1}, boulder.SubTaskStart{AttemptRef: ref(id, 1), SessionID: "s"})
		}
		return s
	}
	completes := func(s *boulder.State, id string, at time.Time) {
		e := boulder.Evidence{Gates: []boulder.Gate{{Command: "test", Duration: 10 * time.Second}}, Diff: boulder.Diff{Commit: "w" + id}}
		feed(t, s, at, judgedTurn(ref(id, 1), 1, e, boulder.Verdict{Completed: true})...)
	}
	begun := func(s *boulder.State, l Limits, now time.Time) (batch string) {
		for _, a := range Compute(s, l, now) {
			if b, is := bodyOf(a).(boulder.Integrating); is {
				batch += fmt.Sprintf("%s %v ", b.SubTaskID, b.Joins)
			}
		}
		return batch
	}
	s := start(t)
	completes(s, "b", epoch.Add(time.Second))
	completes(s, "c", epoch)
	if got := begun(s, l, epoch.Add(1999*time.Millisecond)); got != "" {
		t.Errorf("before others may come: %s", got)
	}
	const both = "c false b true "
	if got := begun(s, l, epoch.Add(2*time.Second)); got != both {
		t.Errorf("after a fifth of the gates' time: %s", got)
	}
	one := l
	for one.Batch = range 2 {
		if got := begun(s, one, epoch.Add(time.Second)); got != "c false " {
			t.Errorf("limit %d: %s", one.Batch, got)
		}
	}
	completes(s, "a", epoch.Add(time.Second))
	completes(s, "d", epoch.Add(time.Second))
	if got := begun(s, l, epoch.Add(time.Second)); got != "d false c true b true a true " {
		t.Errorf("all are complete: %s", got)
	}
	applyAll(t, s, epoch, Compute(s, l, epoch.Add(time.Second)))
	if got := kindsOf(Compute(s, l, epoch.Add(time.Second))); got != "integrate" {
		t.Errorf("then: %s", got)
	}
	for i, o := range s.Batch() {
		with := "d"
		if i == 3 {
			with = ""
		}
		feed(t, s, epoch, boulder.Integrated{AttemptRef: o.Attempt.AttemptRef, Commit: fmt.Sprint("c", i+1), TestedWith: with})
	}
	if l := s.Boulder.Trunk; l.Before != "c0" || l.Tip != "c4" || l.Integrating != nil || len(l.Joined) > 0 {
		t.Errorf("the trunk is %+v", l)
	}
	for range s.SubTasks {
		applyAll(t, s, epoch, Compute(s, l, epoch))
	}
	for i, done := range s.Completed(4) {
		if want := []string{"a", "b", "c", "d"}[i]; done.ID != want {
			t.Errorf("%s completes where %s is on the trunk", done.ID, want)
		}
	}
}
