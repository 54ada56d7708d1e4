package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
)

// LiveView shows a run on a terminal: sub-tasks that are over scroll away as lines of their own, below them is a
// picture of what is at work and what waits.
//
// The picture stands only while the manager works by itself. While the user is asked about the plan the terminal is
// theirs.
type LiveView struct {
	Console
	limits schedule.Limits
	now    func() time.Time

	mu       sync.Mutex // the fields below are used by the run, by the program that draws, and by Stopping
	progress *Progress
	printed  []string // lines that scroll away, waiting for the next frame
	scrolled bool     // there are some above the picture
	stopping bool
	lost     error  // the state could not be followed
	on       string // says which boulder is meant, at the end of a command; empty where there is only one

	term   sync.Mutex // guards the fields below; taken before mu
	screen *Screen    // nil while the terminal is not ours
	paused bool       // the user is asked something
}

// Event takes an event into the picture.
func (v *LiveView) Event(e boulder.Event) {
	v.term.Lock()
	defer v.term.Unlock()
	working := v.take(e)
	switch {
	case working && v.screen == nil && !v.paused:
		v.open()
	case !working:
		v.close()
	}
	if end, ok := e.Body.(boulder.TaskComplete); ok {
		printSummary(v.Stdout, e.BoulderID, end, e.Time.Sub(v.progress.began))
	}
}

// open takes the terminal.
func (v *LiveView) open() { v.screen = v.Screen(Picture{Frame: v.frame, Flush: v.flush}) }

// take follows the event and reports whether the manager is at work after it.
func (v *LiveView) take(e boulder.Event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost = v.progress.Take(e); v.lost != nil {
		return v.screen != nil
	}
	v.note(e)
	switch v.progress.State.Boulder.Status {
	case boulder.Planning, boulder.Running, boulder.Synthesizing:
		return true
	case boulder.Paused: // by an order, and turns may be at work; or for good, and the picture is closed at once
		return v.screen != nil
	}
	return false
}

// note makes the lines that stay.
func (v *LiveView) note(e boulder.Event) {
	t := v.table(v.Stderr.Width())
	id, line := Describe(e.Body)
	s := v.progress.State.SubTask(id)
	if sign := noteSign(e.Body, v.progress.news); sign != "" && sign != inPicture {
		v.printed = append(v.printed, t.aside(sign, s, line))
	}
	switch b := e.Body.(type) {
	case boulder.SubTaskDone:
		r := v.progress.rows(v.limits, nil, e.Time)[s.Position-1]
		v.printed = append(v.printed, t.lines(r)...)
		switch {
		case !b.Completed:
			v.printed = append(v.printed, t.below(b.Summary))
		case r.alone:
			v.printed = append(v.printed, t.below("by the gates alone: no usable answer came from the judge"))
		}
	case boulder.Replanned:
		for _, line := range replanLines(v.progress.State, b) {
			v.printed = append(v.printed, t.below(line))
		}
	}
}

// inPicture is the sign of what the picture shows, and only plain lines tell.
const inPicture = "·"

// noteSign marks the line that an event leaves; empty: it leaves none. news: it is a notice that was not given before.
func noteSign(body boulder.Body, news bool) string {
	switch b := body.(type) {
	case boulder.SubTaskProgress:
		if news {
			return "!"
		}
	case boulder.GateRun:
		if !b.Passed {
			return "✗"
		}
		return inPicture
	case boulder.StatusChanged:
		if b.Status != boulder.Synthesizing { // what follows at once says more
			return inPicture
		}
	case boulder.Decomposed, boulder.Continuation, boulder.Trouble:
		return inPicture
	case boulder.BlockerRaised:
		return "?"
	case boulder.Parked, boulder.BudgetWarning, boulder.Cooled, boulder.ReplanTrouble:
		return "!"
	case boulder.Retry, boulder.Replanned, boulder.Nudged, boulder.ReplanStarted, boulder.ReplanRefused, boulder.Unparked:
		return "↻"
	case boulder.Noted, boulder.Reopened, boulder.BlockerSettled:
		return "✎"
	}
	return ""
}

// replanLines tells what a replan that was adopted changes, a line each.
func replanLines(s *boulder.State, b boulder.Replanned) []string {
	var lines []string
	for _, c := range b.Changed {
		lines = append(lines, fmt.Sprintf("~ %s → %s: %s", c.From, c.To.ID, c.To.Subject))
	}
	for _, t := range b.Added {
		lines = append(lines, fmt.Sprintf("+ %s: %s", t.ID, t.Subject))
	}
	for _, id := range b.Removed {
		if t := s.SubTask(id); t != nil {
			lines = append(lines, fmt.Sprintf("- %s: %s", id, t.Subject))
		}
	}
	return lines
}

func (v *LiveView) table(width int) *tasks {
	total := len(v.progress.State.SubTasks)
	return &tasks{
		Paint: v.Stderr.Paint, width: min(width, page.Widest), wide: len(numbered(total, total)), fixed: true,
		label: func(t *boulder.SubTask) string { return numbered(t.Position, total) },
	}
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

// flush hands out the lines that scroll away.
func (v *LiveView) flush() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.printed
	v.printed, v.scrolled = nil, v.scrolled || len(lines) > 0
	return lines
}

// frame draws the picture, in at most size.Room lines: the sum, what needs the user, what is at work, what waits.
func (v *LiveView) frame(size page.Size, tick int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.progress.State == nil || size.Height == 0 {
		return ""
	}
	s, now := v.progress.State, v.now()
	t := v.table(size.Width)
	t.spin = Spinner(tick)
	rows := v.progress.rows(v.limits, nil, now)
	lines := []string{v.head(t, rows, now)}
	if v.scrolled {
		lines = []string{"", lines[0]} // apart from the lines that stay
	}
	say := func(style func(string) string, line string) {
		lines = append(lines, style(text.Clip(line, t.width-1)))
	}
	if v.stopping {
		say(t.Yellow, StoppingText)
	} else if s.Boulder.Status == boulder.Paused {
		say(t.Yellow, report.Stated("paused", s.Boulder.Reason)+"; continue, from any terminal, with: manager resume "+s.Boulder.ID)
	}
	if v.lost != nil {
		say(t.Red, "this view has lost track: "+v.lost.Error())
	}
	var live, waiting []row
	for _, r := range rows {
		switch {
		case r.live():
			live = append(live, r)
		case r.task.Status == boulder.SubTaskPending, r.attempt != nil:
			waiting = append(waiting, r)
		}
	}
	needs := Needs(s, v.progress.raised, v.on, now)
	lines = append(lines, NeedLines(needs, t.width, size.Room()-len(lines)-min(2, len(live)), t.Paint)...)
	lines = append(lines, atWork(t, live, size.Room()-len(lines))...)
	if !v.stopping { // a run that stops starts nothing
		slices.SortStableFunc(waiting, func(a, b row) int { return cmp.Compare(a.place, b.place) })
		lines = append(lines, inLine(t, waiting, size.Room()-len(lines))...)
	}
	return strings.Join(lines[:min(len(lines), size.Room())], "\n")
}

// head sums the run up.
func (v *LiveView) head(t *tasks, rows []row, now time.Time) string {
	s := v.progress.State
	took := text.Elapsed(now.Sub(v.progress.began).Truncate(time.Second))
	if s.Boulder.Status == boulder.Planning {
		return t.Cyan(t.spin) + " " + t.Bold("Planning") + "  " + t.Dim(took)
	}
	said := t.Bold(fmt.Sprintf("%d/%d", s.Count(boulder.SubTaskCompleted), s.Planned())) + " done"
	if n := s.Count(boulder.SubTaskFailed); n > 0 {
		said += " · " + t.Red(fmt.Sprintf("%d failed", n))
	}
	if n := s.Count(boulder.SubTaskBlocked); n > 0 {
		said += " · " + t.Yellow(fmt.Sprintf("%d blocked", n))
	}
	usage := s.Boulder.Usage
	for _, r := range rows {
		usage = usage.Add(r.usage)
	}
	cost := " · " + costText(usage)
	for _, rest := range []string{" · " + took + " · " + text.Count(usage.Tokens()) + " tokens", " · " + took, ""} {
		if line := said + t.Dim(rest+cost); ansi.StringWidthWc(line) < t.width {
			return line
		}
	}
	return ansi.TruncateWc(said, t.width-1-len(cost), "…") + t.Dim(cost) // what it costs is never cut
}

// atWork draws what runs: with its activity, why it continues and what was red, as far as there is room.
func atWork(t *tasks, live []row, room int) []string {
	if room <= 0 {
		return nil
	}
	for depth := 4; ; depth-- {
		var lines []string
		for _, r := range live {
			all := append(t.lines(r), t.below(r.does()))
			for _, more := range []string{r.why, r.gate} {
				if more != "" {
					all = append(all, t.below(more))
				}
			}
			lines = append(lines, all[:min(depth, len(all))]...)
		}
		if len(lines) <= room {
			return lines
		}
		if depth == 1 {
			return append(lines[:room-1], t.below(fmt.Sprintf("and %d more at work", len(live)-room+1)))
		}
	}
}

// waitingShown is how many waiting sub-tasks are drawn at most.
const waitingShown = 10

// inLine draws what waits, as far as there is room.
func inLine(t *tasks, waiting []row, room int) []string {
	limit := min(room, waitingShown)
	if limit <= 0 || len(waiting) <= limit {
		return t.lines(waiting[:min(len(waiting), max(limit, 0))]...)
	}
	return append(t.lines(waiting[:limit-1]...), t.below(fmt.Sprintf("and %d more waiting", len(waiting)-limit+1)))
}

// Spinner is one column that turns.
func Spinner(tick int) string {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	return string([]rune(frames)[tick%10])
}
