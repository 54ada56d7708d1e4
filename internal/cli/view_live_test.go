package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
)

// golden frames of the live view, in the middle of a run.
func TestLiveFrames(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	var out strings.Builder
	for _, size := range []view.Size{
		{Width: 130, Height: 30}, {Width: 100, Height: 30}, {Width: 60, Height: 30}, {Width: 44, Height: 30},
		{Width: 100, Height: 6},
	} {
		v := liveSample(t, s)
		frame := v.Frame(size, 3)
		fmt.Fprintf(&out, "== %d × %d\n%s\n%s\n", size.Width, size.Height, strings.Join(v.Printed, "\n"), frame)
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
	golden(t, "live.txt", out.String())
}

func liveSample(t *testing.T, s *sample) *view.LiveView {
	t.Helper()
	a, _, _ := testApp()
	p := view.NewProgress(nil)
	limits := schedule.DefaultLimits()
	limits.Global = 1
	v := &view.LiveView{Console: a.console(), Limits: limits, Now: func() time.Time { return s.now }, Progress: p}
	for _, e := range s.events {
		v.Take(e)
	}
	return v
}

// A sub-task that continues shows why, and what its red gate said last, also where the command has the same words.
func TestLiveFrameSaysWhyATurnFollows(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.plan()
	ref := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	s.start(ref)
	red := boulder.Gate{Command: "echo no toggle; false", ExitCode: 1, Output: "looking\nno toggle\n"}
	s.end(ref, 1, &red, boulder.Verdict{Remaining: []string{"save the toggle"}})
	s.apply(boulder.Continuation{AttemptRef: ref, Turn: 2, Reason: "the judge is not content",
		Remaining: []string{"save the toggle"}, Prompt: "go on"})
	frame := liveSample(t, s).Frame(view.Size{Width: 100, Height: 30}, 0)
	for _, want := range []string{
		"because: the judge is not content: save the toggle", "✗ echo no toggle; false: no toggle",
	} {
		if !strings.Contains(frame, want) {
			t.Errorf("the frame does not say %q:\n%s", want, frame)
		}
	}
}

func TestLiveFrameWhileStopping(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	v := liveSample(t, s)
	v.Stopping()
	frame := v.Frame(view.Size{Width: 100, Height: 30}, 0)
	if !strings.Contains(frame, view.StoppingText) || strings.Contains(frame, "Write it down") {
		t.Errorf("the frame does not say that nothing new is started:\n%s", frame)
	}
}

// A frame must not cost more because the plan is long: events come by the thousand, frames ten times a second.
func TestLiveFrameIsBounded(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	plan := boulder.Plan{Task: "many"}
	for i := range 5000 {
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{ID: fmt.Sprint("s", i), Subject: "x", Description: "x"})
	}
	rev := boulder.PlanRevision{Number: 1, Plan: plan}
	s.apply(boulder.Planned{Revision: 1, Plan: rev})
	s.apply(boulder.Decomposed{Revision: 1, Plan: rev})
	for i := range 40 {
		s.start(boulder.AttemptRef{SubTaskID: fmt.Sprint("s", i), Attempt: 1})
	}
	frame := liveSample(t, s).Frame(view.Size{Width: 100, Height: 30}, 0)
	if n := strings.Count(frame, "\n") + 1; n != 20 {
		t.Errorf("the frame has %d lines, want two thirds of 30:\n%s", n, frame)
	}
	if !strings.Contains(frame, "and 22 more at work") {
		t.Errorf("the frame does not say that there are more:\n%s", frame)
	}
}
