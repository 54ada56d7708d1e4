package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

func TestLiveFrames(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Play)
	var out strings.Builder
	for _, size := range []page.Size{
		{Width: 130, Height: 30}, {Width: 100, Height: 30}, {Width: 60, Height: 30}, {Width: 44, Height: 30},
		{Width: 100, Height: 6},
	} {
		v := liveSample(s)
		frame := v.frame(size, 3)
		fmt.Fprintf(&out, "== %d × %d\n%s\n%s\n", size.Width, size.Height, strings.Join(v.printed, "\n"), frame)
		lines := strings.Split(frame, "\n")
		if len(lines) > size.Room() {
			t.Errorf("a frame for %d lines has %d", size.Height, len(lines))
		}
		for _, line := range lines {
			if w := ansi.StringWidthWc(line); w >= size.Width {
				t.Errorf("a line for %d columns has %d: %q", size.Width, w, line)
			}
		}
	}
	compare(t, "live.txt", out.String())
}

// A sub-task in a further turn shows why, and the last output of its red gate, even if the command has the same words.
func TestLiveFrameSaysWhyATurnFollows(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Plan)
	ref := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	s.Start(ref)
	red := boulder.Gate{Command: "echo no toggle; false", ExitCode: 1, Output: "looking\nno toggle\n"}
	s.End(ref, 1, &red, boulder.Verdict{Remaining: []string{"save the toggle"}})
	s.Apply(boulder.Continuation{AttemptRef: ref, Turn: 2, Reason: "the judge is not content",
		Remaining: []string{"save the toggle"}, Prompt: "go on"})
	says(t, frameOf(s, 100), "because: the judge is not content: save the toggle", "✗ echo no toggle; false: no toggle")
}

func TestLiveFrameWhileStopping(t *testing.T) {
	t.Parallel()
	s := after(t, (*sample.Boulder).Play)
	v := liveSample(s)
	v.Stopping()
	frame := v.frame(page.Size{Width: 100, Height: 30}, 0)
	says(t, frame, StoppingText, "NOT Write it down")
}

// The cost of a frame must not grow with the plan: thousands of events arrive, and frames are drawn ten times a second.
func TestLiveFrameIsBounded(t *testing.T) {
	t.Parallel()
	s := sample.New(t, sample.ID)
	plan := boulder.Plan{Task: "many"}
	for i := range 5000 {
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{ID: fmt.Sprint("s", i), Subject: "x", Description: "x"})
	}
	rev := boulder.PlanRevision{Number: 1, Plan: plan}
	s.Apply(boulder.Planned{Revision: 1, Plan: rev})
	s.Apply(boulder.Decomposed{Revision: 1, Plan: rev})
	for i := range 40 {
		s.Start(boulder.AttemptRef{SubTaskID: fmt.Sprint("s", i), Attempt: 1})
	}
	frame := frameOf(s, 100)
	if n := strings.Count(frame, "\n") + 1; n != 20 {
		t.Errorf("the frame has %d lines, want two thirds of 30:\n%s", n, frame)
	}
	says(t, frame, "and 22 more at work")
}
