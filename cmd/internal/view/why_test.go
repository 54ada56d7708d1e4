package view

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// whyOf returns the chain of a sub-task in which everything goes wrong.
func whyOf(t *testing.T) *Why {
	t.Helper()
	s := after(t, (*sample.Boulder).Misbehave)
	return NewWhy(readingOf(s, nil), s.State.SubTask("toggle"))
}

// The chain has every event of the sub-task, in order.
func TestWhyIsWholeAndInOrder(t *testing.T) {
	t.Parallel()
	w := whyOf(t)
	var steps []string
	for _, step := range w.Chain {
		steps = append(steps, strings.TrimSpace(step.Step+" "+step.Prompt+step.Decision))
	}
	want := []string{
		"attempt", "prompt brief", "nudge", "fault", "ended", "verdict", "decision retry",
		"attempt", "prompt brief", "prompt resume", "ended", "verdict", "decision continuation",
		"prompt continuation", "ended", "verdict", "decision replan", "fault", "decision superseded",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(w.Chain, func(a, b Entry) int { return a.Time.Compare(b.Time) }) {
		t.Error("the chain is not in order of time")
	}
}

func TestWhyFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{50, 80, 120} {
		shown(t, width, whyOf(t).Print)
	}
}

func TestDescribeKnowsEveryEvent(t *testing.T) {
	t.Parallel()
	s, bad := sample.New(t, sample.ID), sample.New(t, sample.ID)
	s.Play()
	s.Finish()
	bad.Misbehave()
	for _, e := range append(s.Events, bad.Events...) {
		if line := Describe(e).Line; line == boulder.TypeOf(e.Body) {
			t.Errorf("%s is told as %q", boulder.TypeOf(e.Body), line)
		}
	}
	paused := boulder.Event{Body: boulder.StatusChanged{Status: boulder.Paused, Reason: "x"}}
	if line := Describe(paused).Line; line != "paused: x" {
		t.Errorf("%q", line)
	}
}
