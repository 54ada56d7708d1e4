package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
)

// liveView shows a run on a terminal: sub-tasks that are over scroll away as lines of their own, below them is a
// picture of what is at work and what waits.
//
// The picture stands only while the manager works by itself. While a person is asked about the plan the terminal is
// theirs.
type liveView struct {
	app    *app
	limits schedule.Limits
	now    func() time.Time

	mu       sync.Mutex // the fields below are used by the run, by the program that draws, and by Stopping
	progress *progress
	printed  []string // lines that scroll away, waiting for the next frame
	scrolled bool     // there are some above the picture
	stopping bool
	lost     error  // the state could not be followed
	on       string // says which boulder is meant, at the end of a command; empty where there is only one

	term   sync.Mutex   // guards the fields below; taken before mu
	screen *view.Screen // nil while the terminal is not ours
	paused bool         // a person is asked something
}

func newLiveView(a *app, p *progress) *liveView {
	return &liveView{app: a, limits: a.shownLimits(), now: time.Now, progress: p}
}

// shownLimits are the limits that explain why something waits. A configuration that cannot be read was refused before.
func (a *app) shownLimits() schedule.Limits {
	if p, err := a.open(); err == nil {
		return p.Config().Limits()
	}
	return schedule.DefaultLimits()
}

func (v *liveView) Event(e boulder.Event) {
	v.term.Lock()
	defer v.term.Unlock()
	working := v.take(e)
	switch {
	case working && v.screen == nil && !v.paused:
		v.screen = v.open()
	case !working:
		v.close()
	}
	if end, ok := e.Body.(boulder.TaskComplete); ok {
		v.app.printSummary(e.BoulderID, end, e.Time.Sub(v.progress.began))
	}
}

// show opens the picture of what was seen so far.
func (v *liveView) show() {
	v.term.Lock()
	defer v.term.Unlock()
	v.screen = v.open()
}

// take follows the event and reports whether the manager is at work after it.
func (v *liveView) take(e boulder.Event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost = v.progress.take(e); v.lost != nil {
		return v.screen != nil
	}
	v.note(e)
	switch v.progress.state.Boulder.Status {
	case boulder.Planning, boulder.Running, boulder.Synthesizing:
		return true
	case boulder.Paused: // by an order, and turns may be at work; or for good, and the picture is closed at once
		return v.screen != nil
	}
	return false
}

// note makes the lines that stay.
func (v *liveView) note(e boulder.Event) {
	t := v.progress.state.SubTask(refOf(e.Body).SubTaskID)
	switch b := e.Body.(type) {
	case boulder.SubTaskDone:
		table := v.table(v.width(), e.Time)
		v.printed = append(v.printed, table.line(v.progress.row(t)))
		switch {
		case !b.Completed:
			v.printed = append(v.printed, table.below(b.Summary))
		case v.progress.alone[t.ID]:
			v.printed = append(v.printed, table.below("by the gates alone: no usable answer came from the judge"))
		}
	case boulder.SubTaskProgress:
		if v.progress.news {
			v.printed = append(v.printed, v.table(v.width(), e.Time).aside("!", t, describe(b)))
		}
	case boulder.Retry:
		table := v.table(v.width(), e.Time)
		v.printed = append(v.printed, table.aside("↻", t, describe(b)))
	case boulder.Replanned:
		table := v.table(v.width(), e.Time)
		v.printed = append(v.printed, table.aside("↻", t, describe(b)))
		for _, line := range replanLines(v.progress.state, b) {
			v.printed = append(v.printed, table.below(line))
		}
	case boulder.Noted, boulder.Reopened, boulder.BlockerSettled:
		v.printed = append(v.printed, v.said(t, b, e.Time))
	case boulder.BlockerRaised:
		v.printed = append(v.printed, v.table(v.width(), e.Time).aside("?", t, describe(b)))
	case boulder.Parked:
		v.printed = append(v.printed, v.table(v.width(), e.Time).aside("!", t, describe(b)))
	case boulder.Nudged, boulder.ReplanStarted, boulder.ReplanRefused, boulder.Unparked:
		v.printed = append(v.printed, v.table(v.width(), e.Time).aside("↻", t, describe(b)))
	case boulder.BudgetWarning:
		if t != nil {
			v.printed = append(v.printed, v.table(v.width(), e.Time).aside("!", t, describe(b)))
		} else {
			v.printed = append(v.printed, v.warning(b))
		}
	case boulder.Cooled, boulder.ReplanTrouble:
		v.printed = append(v.printed, v.warning(b))
	case boulder.GateRun:
		if !b.Passed {
			v.printed = append(v.printed, v.table(v.width(), e.Time).aside("✗", t, describe(b)))
		}
	}
}

// said is a line that stays, about what a person said.
func (v *liveView) said(t *boulder.SubTask, b boulder.Body, at time.Time) string {
	if t != nil {
		return v.table(v.width(), at).aside("✎", t, describe(b))
	}
	return v.app.paint(v.app.Stderr).yellow(clipText("✎ "+describe(b), v.width()-1))
}

// warning is a line that stays, about the whole run.
func (v *liveView) warning(b boulder.Body) string {
	return v.app.paint(v.app.Stderr).yellow(clipText("! "+describe(b), v.width()-1))
}

func (v *liveView) width() int {
	if v.screen != nil {
		return v.screen.Size().Width
	}
	return terminalSize(v.app.Stderr).Width
}

func (v *liveView) table(width int, now time.Time) *table {
	s := v.progress.state
	t := numbered(v.app.paint(v.app.Stderr), width, len(s.SubTasks), func(id string) string {
		return unlessDone(s.SubTask(id))
	})
	t.now = now
	return t
}

// Stopping shows at the next frame that the run is about to end.
func (v *liveView) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stopping = true
}

// Pause takes the picture away; the first event after the pause brings it back.
func (v *liveView) Pause() func() {
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
func (v *liveView) Close() {
	v.term.Lock()
	defer v.term.Unlock()
	v.close()
}

// close is Close for whoever holds term.
func (v *liveView) close() {
	if v.screen != nil {
		v.screen.Close()
		v.screen = nil
	}
	for _, line := range v.flush() { // a terminal that could not be drawn on left them
		fmt.Fprintln(v.app.Stderr, line)
	}
}

// frame draws the picture, in at most size.Room lines.
func (v *liveView) frame(size view.Size, tick int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.progress.state == nil || size.Height == 0 {
		return ""
	}
	t := v.table(size.Width, v.now())
	t.spin = spinner(tick)
	lines := []string{v.head(t)}
	if v.scrolled {
		lines = []string{"", v.head(t)} // apart from the lines that stay
	}
	if v.stopping {
		lines = append(lines, t.yellow(clipText(stoppingText, t.width-1)))
	}
	if b := v.progress.state.Boulder; b.Status == boulder.Paused && !v.stopping {
		text := stated(string(b.Status), b.Reason) + "; go on, from any terminal, with: manager resume " + b.ID
		lines = append(lines, t.yellow(clipText(text, t.width-1)))
	}
	if v.lost != nil {
		lines = append(lines, t.red(clipText("this view has lost track: "+v.lost.Error(), t.width-1)))
	}
	working := min(2, len(v.progress.state.Live())) // lines that are left to them whatever is in trouble
	needs := view.Needs(v.progress.state, v.progress.raised, v.on, t.now)
	lines = append(lines, view.NeedLines(needs, t.width, size.Room()-len(lines)-working, t.yellow, t.dim)...)
	lines = append(lines, v.atWork(t, size.Room()-len(lines))...)
	lines = append(lines, v.inLine(t, size.Room()-len(lines))...)
	return strings.Join(lines[:min(len(lines), size.Room())], "\n")
}

// head sums the run up.
func (v *liveView) head(t *table) string {
	s := v.progress.state
	took := elapsed(t.now.Sub(v.progress.began).Truncate(time.Second))
	if s.Boulder.Status == boulder.Planning {
		return t.cyan(t.spin) + " " + t.bold("Planning") + "  " + t.dim(took)
	}
	done := s.Count(boulder.SubTaskCompleted)
	text := t.bold(fmt.Sprintf("%d/%d", done, s.Planned())) + " done"
	if n := s.Count(boulder.SubTaskFailed); n > 0 {
		text += " · " + t.red(fmt.Sprintf("%d failed", n))
	}
	if n := s.Count(boulder.SubTaskBlocked); n > 0 {
		text += " · " + t.yellow(fmt.Sprintf("%d blocked", n))
	}
	usage := v.progress.usage()
	cost := " · " + costText(usage)
	for _, rest := range []string{" · " + took + " · " + count(usage.Tokens()) + " tokens", " · " + took, ""} {
		if line := text + t.dim(rest+cost); ansi.StringWidthWc(line) < t.width {
			return line
		}
	}
	return ansi.TruncateWc(text, t.width-1-len(cost), "…") + t.dim(cost) // what it costs is never cut
}

// atWork draws what runs: with its activity, why it continues and what was red, as far as there is room.
func (v *liveView) atWork(t *table, room int) []string {
	live := v.progress.state.Live()
	var shown [][]string
	for _, o := range live[:min(len(live), max(room, 0))] {
		r := v.progress.row(o.SubTask)
		lines := []string{t.line(r), t.below(t.activity(r))}
		last := v.progress.last[o.SubTask.ID]
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
func (v *liveView) inLine(t *table, room int) []string {
	s := v.progress.state
	pending := s.Count(boulder.SubTaskPending) + s.Count(boulder.SubTaskInProgress) - len(s.Live())
	if pending == 0 || room <= 0 || v.stopping { // a run that stops starts nothing
		return nil
	}
	limit := min(room, waitingShown)
	if pending > limit {
		limit--
	}
	var lines []string
	for _, r := range v.progress.waiting(v.limits, t.now, limit) {
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
func (v *liveView) flush() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.printed
	v.printed, v.scrolled = nil, v.scrolled || len(lines) > 0
	return lines
}

// aside is a line that tells something about a sub-task.
func (t *table) aside(mark string, s *boulder.SubTask, text string) string {
	return t.yellow(mark) + " " + t.dim(fit(t.label(s), t.labels)) + " " + t.dim(clipText(text, t.width-t.labels-4))
}

// spinner is one column that turns.
func spinner(tick int) string {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	return string([]rune(frames)[tick%10])
}

// open takes the terminal.
func (v *liveView) open() *view.Screen {
	return v.app.openScreen(view.Picture{Frame: v.frame, Flush: v.flush})
}
