package view

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
)

// LiveView shows a run on a terminal: sub-tasks that are over scroll away as lines of their own, below them is a
// picture of what is at work and what waits.
//
// The picture stands only while the manager works by itself. While a person is asked about the plan the terminal is
// theirs.
type LiveView struct {
	Console
	Limits schedule.Limits
	Now    func() time.Time

	mu       sync.Mutex // the fields below are used by the run, by the program that draws, and by Stopping
	Progress *progress
	Printed  []string // lines that scroll away, waiting for the next frame
	scrolled bool     // there are some above the picture
	stopping bool
	lost     error  // the state could not be followed
	on       string // says which boulder is meant, at the end of a command; empty where there is only one

	term   sync.Mutex // guards the fields below; taken before mu
	screen *Screen    // nil while the terminal is not ours
	paused bool       // a person is asked something
}

// Event takes an event into the picture.
func (v *LiveView) Event(e boulder.Event) {
	v.term.Lock()
	defer v.term.Unlock()
	working := v.Take(e)
	switch {
	case working && v.screen == nil && !v.paused:
		v.screen = v.open()
	case !working:
		v.close()
	}
	if end, ok := e.Body.(boulder.TaskComplete); ok {
		printSummary(v.Stdout, e.BoulderID, end, e.Time.Sub(v.Progress.began))
	}
}

// show opens the picture of what was seen so far.
func (v *LiveView) show() {
	v.term.Lock()
	defer v.term.Unlock()
	v.screen = v.open()
}

// Take follows the event and reports whether the manager is at work after it.
func (v *LiveView) Take(e boulder.Event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost = v.Progress.Take(e); v.lost != nil {
		return v.screen != nil
	}
	v.note(e)
	switch v.Progress.State.Boulder.Status {
	case boulder.Planning, boulder.Running, boulder.Synthesizing:
		return true
	case boulder.Paused: // by an order, and turns may be at work; or for good, and the picture is closed at once
		return v.screen != nil
	}
	return false
}

// note makes the lines that stay.
func (v *LiveView) note(e boulder.Event) {
	t := v.Progress.State.SubTask(RefOf(e.Body).SubTaskID)
	switch b := e.Body.(type) {
	case boulder.SubTaskDone:
		table := v.table(v.width(), e.Time)
		v.Printed = append(v.Printed, table.line(v.Progress.row(t)))
		switch {
		case !b.Completed:
			v.Printed = append(v.Printed, table.below(b.Summary))
		case v.Progress.alone[t.ID]:
			v.Printed = append(v.Printed, table.below("by the gates alone: no usable answer came from the judge"))
		}
	case boulder.SubTaskProgress:
		if v.Progress.news {
			v.Printed = append(v.Printed, v.table(v.width(), e.Time).aside("!", t, Describe(b)))
		}
	case boulder.Retry:
		table := v.table(v.width(), e.Time)
		v.Printed = append(v.Printed, table.aside("↻", t, Describe(b)))
	case boulder.Replanned:
		table := v.table(v.width(), e.Time)
		v.Printed = append(v.Printed, table.aside("↻", t, Describe(b)))
		for _, line := range replanLines(v.Progress.State, b) {
			v.Printed = append(v.Printed, table.below(line))
		}
	case boulder.Noted, boulder.Reopened, boulder.BlockerSettled:
		v.Printed = append(v.Printed, v.said(t, b, e.Time))
	case boulder.BlockerRaised:
		v.Printed = append(v.Printed, v.table(v.width(), e.Time).aside("?", t, Describe(b)))
	case boulder.Parked:
		v.Printed = append(v.Printed, v.table(v.width(), e.Time).aside("!", t, Describe(b)))
	case boulder.Nudged, boulder.ReplanStarted, boulder.ReplanRefused, boulder.Unparked:
		v.Printed = append(v.Printed, v.table(v.width(), e.Time).aside("↻", t, Describe(b)))
	case boulder.BudgetWarning:
		if t != nil {
			v.Printed = append(v.Printed, v.table(v.width(), e.Time).aside("!", t, Describe(b)))
		} else {
			v.Printed = append(v.Printed, v.warning(b))
		}
	case boulder.Cooled, boulder.ReplanTrouble:
		v.Printed = append(v.Printed, v.warning(b))
	case boulder.GateRun:
		if !b.Passed {
			v.Printed = append(v.Printed, v.table(v.width(), e.Time).aside("✗", t, Describe(b)))
		}
	}
}

// said is a line that stays, about what a person said.
func (v *LiveView) said(t *boulder.SubTask, b boulder.Body, at time.Time) string {
	if t != nil {
		return v.table(v.width(), at).aside("✎", t, Describe(b))
	}
	return v.Stderr.Yellow(text.Clip("✎ "+Describe(b), v.width()-1))
}

// warning is a line that stays, about the whole run.
func (v *LiveView) warning(b boulder.Body) string {
	return v.Stderr.Yellow(text.Clip("! "+Describe(b), v.width()-1))
}

func (v *LiveView) width() int {
	if v.screen != nil {
		return v.screen.Size().Width
	}
	return v.Stderr.Width()
}

func (v *LiveView) table(width int, now time.Time) *table {
	s := v.Progress.State
	t := numbered(v.Stderr.Paint, width, len(s.SubTasks), func(id string) string {
		return unlessDone(s.SubTask(id))
	})
	t.now = now
	return t
}

// Stopping shows at the next frame that the run is about to end.
func (v *LiveView) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stopping = true
}

// Pause takes the picture away; the first event after the pause brings it back.
func (v *LiveView) Pause() func() {
	v.term.Lock()
	defer v.term.Unlock()
	v.paused = true
	v.close()
	return func() {
		v.term.Lock()
		defer v.term.Unlock()
		v.paused = false
	}
}

// Close takes the picture away and leaves the lines.
func (v *LiveView) Close() {
	v.term.Lock()
	defer v.term.Unlock()
	v.close()
}

// close is Close for whoever holds term.
func (v *LiveView) close() {
	if v.screen != nil {
		v.screen.Close()
		v.screen = nil
	}
	for _, line := range v.flush() { // a terminal that could not be drawn on left them
		fmt.Fprintln(v.Stderr, line)
	}
}

// Frame draws the picture, in at most size.Room lines.
func (v *LiveView) Frame(size Size, tick int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.Progress.State == nil || size.Height == 0 {
		return ""
	}
	t := v.table(size.Width, v.Now())
	t.spin = Spinner(tick)
	lines := []string{v.head(t)}
	if v.scrolled {
		lines = []string{"", v.head(t)} // apart from the lines that stay
	}
	if v.stopping {
		lines = append(lines, t.Yellow(text.Clip(StoppingText, t.width-1)))
	}
	if b := v.Progress.State.Boulder; b.Status == boulder.Paused && !v.stopping {
		s := Stated(string(b.Status), b.Reason) + "; go on, from any terminal, with: manager resume " + b.ID
		lines = append(lines, t.Yellow(text.Clip(s, t.width-1)))
	}
	if v.lost != nil {
		lines = append(lines, t.Red(text.Clip("this view has lost track: "+v.lost.Error(), t.width-1)))
	}
	working := min(2, len(v.Progress.State.Live())) // lines that are left to them whatever is in trouble
	needs := Needs(v.Progress.State, v.Progress.raised, v.on, t.now)
	lines = append(lines, NeedLines(needs, t.width, size.Room()-len(lines)-working, t.Yellow, t.Dim)...)
	lines = append(lines, v.atWork(t, size.Room()-len(lines))...)
	lines = append(lines, v.inLine(t, size.Room()-len(lines))...)
	return strings.Join(lines[:min(len(lines), size.Room())], "\n")
}

// head sums the run up.
func (v *LiveView) head(t *table) string {
	s := v.Progress.State
	took := text.Elapsed(t.now.Sub(v.Progress.began).Truncate(time.Second))
	if s.Boulder.Status == boulder.Planning {
		return t.Cyan(t.spin) + " " + t.Bold("Planning") + "  " + t.Dim(took)
	}
	done := s.Count(boulder.SubTaskCompleted)
	said := t.Bold(fmt.Sprintf("%d/%d", done, s.Planned())) + " done"
	if n := s.Count(boulder.SubTaskFailed); n > 0 {
		said += " · " + t.Red(fmt.Sprintf("%d failed", n))
	}
	if n := s.Count(boulder.SubTaskBlocked); n > 0 {
		said += " · " + t.Yellow(fmt.Sprintf("%d blocked", n))
	}
	usage := v.Progress.usage()
	cost := " · " + costText(usage)
	for _, rest := range []string{" · " + took + " · " + text.Count(usage.Tokens()) + " tokens", " · " + took, ""} {
		if line := said + t.Dim(rest+cost); ansi.StringWidthWc(line) < t.width {
			return line
		}
	}
	return ansi.TruncateWc(said, t.width-1-len(cost), "…") + t.Dim(cost) // what it costs is never cut
}

// atWork draws what runs: with its activity, why it continues and what was red, as far as there is room.
func (v *LiveView) atWork(t *table, room int) []string {
	live := v.Progress.State.Live()
	var shown [][]string
	for _, o := range live[:min(len(live), max(room, 0))] {
		r := v.Progress.row(o.SubTask)
		lines := []string{t.line(r), t.below(t.activity(r))}
		last := v.Progress.last[o.SubTask.ID]
		for _, more := range []string{last.why, last.gate} {
			if more != "" {
				lines = append(lines, t.below(more))
			}
		}
		shown = append(shown, lines)
	}
	depth := 1
	for d := 2; d <= 4; d++ {
		total := 0
		for _, s := range shown {
			total += min(d, len(s))
		}
		if total <= room && len(shown) == len(live) {
			depth = d
		}
	}
	var lines []string
	for i, s := range shown {
		if len(live) > room && i == room-1 {
			return append(lines, t.below(fmt.Sprintf("and %d more at work", len(live)-i)))
		}
		lines = append(lines, s[:min(depth, len(s))]...)
	}
	return lines
}

// inLine draws what waits, as far as there is room.
func (v *LiveView) inLine(t *table, room int) []string {
	s := v.Progress.State
	pending := s.Count(boulder.SubTaskPending) + s.Count(boulder.SubTaskInProgress) - len(s.Live())
	if pending == 0 || room <= 0 || v.stopping { // a run that stops starts nothing
		return nil
	}
	limit := min(room, waitingShown)
	if pending > limit {
		limit--
	}
	var lines []string
	for _, r := range v.Progress.waiting(v.Limits, t.now, limit) {
		lines = append(lines, t.line(r))
	}
	if more := pending - len(lines); more > 0 {
		lines = append(lines, t.below(fmt.Sprintf("and %d more waiting", more)))
	}
	return lines
}

// waitingShown is how many waiting sub-tasks are drawn at most.
const waitingShown = 10

// flush hands out the lines that scroll away.
func (v *LiveView) flush() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.Printed
	v.Printed, v.scrolled = nil, v.scrolled || len(lines) > 0
	return lines
}

// aside is a line that tells something about a sub-task.
func (t *table) aside(mark string, s *boulder.SubTask, line string) string {
	return t.Yellow(mark) + " " + t.Dim(text.Fit(t.label(s), t.labels)) + " " + t.Dim(text.Clip(line, t.width-t.labels-4))
}

// Spinner is one column that turns.
func Spinner(tick int) string {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	return string([]rune(frames)[tick%10])
}

// open takes the terminal.
func (v *LiveView) open() *Screen {
	return v.Screen(Picture{Frame: v.Frame, Flush: v.flush})
}
