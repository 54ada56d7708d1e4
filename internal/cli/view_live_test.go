package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// golden frames of the live view, in the middle of a run.
func TestLiveFrames(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	var out strings.Builder
	for _, size := range []size{{130, 30}, {100, 30}, {60, 30}, {44, 30}, {100, 6}} {
		v := liveSample(t, s)
		frame := v.frame(size, 3)
		fmt.Fprintf(&out, "== %d × %d\n%s\n%s\n", size.width, size.height, strings.Join(v.printed, "\n"), frame)
		lines := strings.Split(frame, "\n")
		if len(lines) > size.room() {
			t.Errorf("a frame for %d lines has %d", size.height, len(lines))
		}
		for _, line := range lines {
			if w := ansi.StringWidthWc(line); w >= size.width {
				t.Errorf("a line for %d columns has %d: %q", size.width, w, line)
			}
		}
	}
	golden(t, "live.txt", out.String())
}

func liveSample(t *testing.T, s *sample) *liveView {
	t.Helper()
	a, _, _ := testApp()
	p := &progress{spent: map[string]time.Duration{}, doing: map[string]doing{}}
	limits := schedule.DefaultLimits()
	limits.Global = 1
	v := &liveView{app: a, limits: limits, now: func() time.Time { return s.now }, progress: p}
	for _, e := range s.events {
		v.take(e)
	}
	return v
}

func TestLiveFrameWhileStopping(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	v := liveSample(t, s)
	v.Stopping()
	frame := v.frame(size{100, 30}, 0)
	if !strings.Contains(frame, stoppingText) || strings.Contains(frame, "Write it down") {
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
	frame := liveSample(t, s).frame(size{100, 30}, 0)
	if n := strings.Count(frame, "\n") + 1; n != 20 {
		t.Errorf("the frame has %d lines, want two thirds of 30:\n%s", n, frame)
	}
	if !strings.Contains(frame, "and 22 more at work") {
		t.Errorf("the frame does not say that there are more:\n%s", frame)
	}
}

// A program on the terminal that nobody types into must not ask the terminal anything: the answers would be typed on
// the next command line.
func TestScreenAsksNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	questions := []string{
		"$p", "\x1b[?u", "\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b]1", "\x1bP", "\x1b[?2004h", "\x1b[>4",
	}
	for _, termType := range []string{
		"xterm-256color", "xterm-kitty", "xterm-ghostty", "alacritty", "tmux-256color", "linux",
	} {
		s := newSample(t)
		s.play()
		var out bytes.Buffer
		v := liveSample(t, s)
		v.printed = []string{"a line that stays"}
		v.screen = openScreen(&out, termType, 0, &picture{view: v, size: size{80, 24}})
		v.Close()
		for _, question := range questions {
			if strings.Contains(out.String(), question) {
				t.Errorf("on %s the program writes %q: %q", termType, question, out.String())
			}
		}
		if !strings.Contains(out.String(), "a line that stays") {
			t.Errorf("on %s the last line was not printed: %q", termType, out.String())
		}
		if strings.Count(out.String(), ansi.HideCursor) > strings.Count(out.String(), ansi.ShowCursor) {
			t.Errorf("on %s the cursor stays hidden: %q", termType, out.String())
		}
	}
}

// bubbletea garbles a picture that becomes smaller, so it must keep its height when there is less to show.
func TestPictureKeepsItsHeight(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.play()
	v := liveSample(t, s)
	p := &picture{view: v}
	p.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	before := strings.Count(p.content, "\n")
	v.Stopping() // what waits is not shown any more
	p.Update(tickMsg{})
	if strings.Contains(p.content, "Translate it") {
		t.Fatalf("there is not less to show:\n%s", p.content)
	}
	if after := strings.Count(p.content, "\n"); after < before {
		t.Errorf("the picture shrank from %d to %d lines:\n%s", before+1, after+1, p.content)
	}
}
