package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// No attempt starts before the model has cooled down, and fewer after that. Other models are not affected.
func TestCooldown(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{
		{ID: "a", Model: "p/hot"}, {ID: "b", Model: "p/hot"}, {ID: "c", Model: "p/hot"}, {ID: "d", Model: "q/other"},
	}...)
	until := epoch.Add(20 * time.Second)
	feed(t, s, epoch, boulder.Cooled{Model: "p/hot", Cooldown: boulder.Cooldown{Until: until, Limit: 2, Full: 5, Reason: "429: slow down"}})
	l := DefaultLimits()

	got := Compute(s, l, epoch)
	if kindsOf(got) != "start, wake" || bodyOf(got[0]).(boulder.Starting).SubTaskID != "d" || got[1] != (Wake{until}) {
		t.Errorf("while it cools down: %v", got)
	}
	why := fmt.Sprintf("p/hot is limited until %s: 429: slow down", text.Until(until, epoch))
	want := []WaitingAttempt{
		{SubTaskID: "a", Model: "p/hot", Position: 1, Reason: why, Until: until},
		{SubTaskID: "b", Model: "p/hot", Position: 2, Reason: why, Until: until},
		{SubTaskID: "c", Model: "p/hot", Position: 3, Reason: why, Until: until},
	}
	if d := cmp.Diff(want, Waiting(s, l, epoch, nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	if kinds := kindsOf(Compute(s, l, until)); kinds != "start, start, start" { // a, b and d
		t.Errorf("after it: %s", kinds)
	}
	applyAll(t, s, until, Compute(s, l, until))
	why = "all 2 slots of p/hot (less than usual after: 429: slow down) are taken"
	want = []WaitingAttempt{{SubTaskID: "c", Model: "p/hot", Position: 1, Reason: why}}
	if d := cmp.Diff(want, Waiting(s, l, until, nil)); d != "" {
		t.Errorf("with two at work (-want +got):\n%s", d)
	}
	feed(t, s, until, boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1}) // an answer: the limit grows to 3
	if kinds := kindsOf(Compute(s, l, until)); kinds != "judge, run, run, start" {
		t.Errorf("after an answer: %s", kinds)
	}
}

// TestHeldIsSkipped: a sub-task that a replan is about to replace does not block those behind it in the queue.
func TestHeldIsSkipped(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{
		{ID: "a", Model: "q/m"}, {ID: "b", Model: "p/m", DependsOn: []string{"a"}, Priority: boulder.High},
		{ID: "c", Model: "p/m"}, {ID: "d", Model: "p/m"}, {ID: "x", Model: "p/m", DependsOn: []string{"a"}},
	}...)
	feed(t, s, epoch, judged("a", boulder.Verdict{Completed: true, NeedReplan: true})...)
	feed(t, s, epoch, complete(s.Open("a")))
	l := DefaultLimits()
	l.PerModel = 1
	if d := cmp.Diff([]string{"c"}, starts(s, l)); d != "" {
		t.Errorf("with one slot (-want +got):\n%s", d)
	}
	l.PerModel = 5
	if d := cmp.Diff([]string{"c", "d"}, starts(s, l)); d != "" {
		t.Errorf("with room for all (-want +got):\n%s", d)
	}
}
