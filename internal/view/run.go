package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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

// Report is what a command has found out: encoding/json writes it for programs, and it prints itself for people. Of all that
// is printed with --json, fields, events and steps are added in later versions, never changed.
type Report interface{ Print(o page.Out) }

// Console is where a run is shown, and how.
type Console struct {
	Stdout, Stderr       page.Out
	JSON, Quiet, Verbose bool
	TermType             string          // of the terminal behind Stderr
	Limits               schedule.Limits // that explain why something waits
}

// Drawable reports whether a picture can be drawn. With Verbose the diagnostics would tear it.
func (c Console) Drawable() bool {
	return c.Stderr.File != nil && c.TermType != "dumb" && c.TermType != "" && !c.Verbose
}

// WriteJSON writes one object on a line.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// StoppingText answers the first Ctrl-C.
const StoppingText = "Finishing the running turns; Ctrl-C again aborts them."

// Run shows a run while it goes on. Programs get its events, quiet people how it ended. On a terminal what is over scrolls
// away as lines, below a picture of what is at work and what waits; elsewhere, as in a log file, there are lines alone.
//
// The picture stands only while the manager works by itself. While the user is asked about the plan the terminal is
// theirs.
type Run struct {
	Console
	drawn   bool   // there is a picture to draw
	several bool   // other runs are shown as well: lines begin with the end of the boulder's id
	on      string // says which boulder is meant, at the end of a command; empty where there is only one
	now     func() time.Time

	mu       sync.Mutex // the fields below are used by the run, by the program that draws, and by Stopping
	progress *Progress
	printed  []string // lines that wait for the next frame, or for the end of a pause
	scrolled bool     // there are some above the picture
	stopping bool

	term   sync.Mutex // guards the fields below; taken before mu
	screen *Screen    // nil while the terminal is not ours
	paused bool       // the user is asked something
}

// NewRun shows a run of which nothing, or what progress has taken in, was seen already. Where several boulders run,
// on names the one, as in " -b ID".
func NewRun(c Console, p *Progress, on string) *Run {
	v := &Run{Console: c, drawn: c.Drawable() && !c.JSON && !c.Quiet, now: time.Now, progress: p, on: on}
	if v.drawn && p.State != nil {
		v.open()
	}
	return v
}

// NewServeRun shows one of several runs that go on at the same time, in lines alone.
func NewServeRun(c Console, p *Progress) *Run { return &Run{Console: c, progress: p, several: true} }

// Event shows one event. It is called for each event in order, and does not block.
func (v *Run) Event(e boulder.Event) {
	end, over := e.Body.(boulder.TaskComplete)
	switch {
	case v.JSON: // the documented events, one object per line
		if e.Public() {
			_ = WriteJSON(v.Stdout, e.Shown()) // a reader that went away is no reason to stop the work
		}
		return
	case v.Quiet:
		if over {
			printSummary(v.Stdout, e.BoulderID, end, 0)
		}
		return
	}
	v.term.Lock()
	defer v.term.Unlock()
	working := v.take(e)
	switch {
	case v.paused:
	case !v.drawn || !working:
		v.close()
	case v.screen == nil:
		v.open()
	}
	if over {
		printSummary(v.Stdout, e.BoulderID, end, e.Time.Sub(v.progress.began))
	}
}

func (v *Run) open() { v.screen = v.Screen(v.frame, v.flush) }

// take follows the event and reports whether the manager is at work after it.
func (v *Run) take(e boulder.Event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.progress.Take(e); err != nil {
		v.printed = append(v.printed, v.Stderr.Red(v.lineStart(e)+"this view has lost track: "+text.OneLine(err.Error())))
		return v.screen != nil
	}
	v.printed = append(v.printed, v.lines(e)...)
	switch v.progress.State.Boulder.Status {
	case boulder.Planning, boulder.Running, boulder.Synthesizing:
		return true
	case boulder.Paused: // by an order, and turns may be at work; or for good, and the picture is closed at once
		return v.screen != nil
	}
	return false
}

func (v *Run) lineStart(e boulder.Event) string {
	return Clock(e.Time) + " " + text.If(v.several, e.BoulderID[max(0, len(e.BoulderID)-6):]+" ")
}

// lines are those that an event leaves: above the picture what that does not show, elsewhere all.
func (v *Run) lines(e boulder.Event) (lines []string) {
	told := Describe(e)
	sign, line, done := told.sign, told.Line, "" // done: the line of a sub-task that is over
	state, t, label := v.progress.State, v.table(v.Stderr.Width()), ""
	s := state.SubTask(told.SubTask)
	if s != nil {
		label = numbered(s.Position, len(state.SubTasks)) + " "
	}
	var below []string
	switch b := e.Body.(type) {
	case boulder.Created:
		sign, line = inPicture, fmt.Sprintf("boulder %s: %s", e.BoulderID, text.Clip(b.Boulder.Task, 100))
	case boulder.SubTaskStart:
		sign, line = inPicture, text.Clip(cmp.Or(s.ActiveForm, s.Subject), 100)+" · "+ModelName(b.Model)+
			text.If(b.Attempt > 1, fmt.Sprintf(" (attempt %d)", b.Attempt))
	case boulder.SubTaskDone:
		r := v.progress.rows(v.Limits, nil, e.Time, true)[s.Position-1]
		if !b.Completed {
			below = []string{line}
		} else if r.alone {
			below = []string{"by the gates alone: no usable answer came from the judge"}
		}
		done = t.lines(r)[0]
		line = text.JoinedBy(" · ", sign+" "+text.Clip(s.Subject, 100), ModelName(s.Model),
			text.Millis(r.ElapsedMS), report.Usage(s.Usage))
	case boulder.SubTaskProgress:
		if v.progress.stale {
			sign = ""
		}
		if v.Verbose && b.Activity != "" {
			sign = cmp.Or(sign, inPicture)
		}
	case boulder.Replanned:
		below = replanned(b, func(id string) string { return id + ": " + state.SubTask(id).Subject })
	}
	switch {
	case sign == "" || sign == inPicture && v.drawn:
		return nil
	case !v.drawn:
		for _, line := range append([]string{line}, below...) {
			lines = append(lines, v.lineStart(e)+label+text.Clip(line, 400))
		}
		return lines
	case done != "":
		lines = []string{done}
	case s == nil:
		lines = []string{t.Yellow(text.Clip(sign+" "+line, t.width-1))}
	default:
		lines = []string{t.Mark(sign) + " " + t.Dim(text.Clip(text.Fit(label, t.wide)+" "+line, t.width-3))}
	}
	for _, line := range below {
		lines = append(lines, t.below(line))
	}
	return lines
}

func (v *Run) table(width int) *tasks {
	n := len(v.progress.State.SubTasks)
	return &tasks{Paint: v.Stderr.Paint, width: min(width, page.Widest), total: n, wide: len(numbered(n, n)), fixed: true}
}

// Stopping says that the run was asked to stop and lets its turns end. It may be called from any goroutine.
func (v *Run) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopping = true; !v.drawn && !v.Quiet {
		fmt.Fprintln(v.Stderr, StoppingText)
	}
}

// Pause leaves the terminal to a question, until the function that it returns is called; the first event after that
// brings the picture back. It may be called from any goroutine.
func (v *Run) Pause() (resume func()) {
	v.term.Lock()
	defer v.term.Unlock()
	v.close()
	v.paused = true
	return func() {
		v.term.Lock()
		defer v.term.Unlock()
		v.paused = false
	}
}

// Close gives the terminal back. Nothing is shown after it. It may be called again.
func (v *Run) Close() {
	v.term.Lock()
	defer v.term.Unlock()
	v.close()
}

// close takes the picture away and prints the lines that are left.
func (v *Run) close() {
	if v.screen != nil {
		v.screen.Close()
		v.screen = nil
	}
	for _, line := range v.flush() {
		fmt.Fprintln(v.Stderr, line)
	}
}

func (v *Run) flush() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.printed
	v.printed, v.scrolled = nil, v.scrolled || len(lines) > 0
	return lines
}

// frame draws the picture, in at most size.Room lines: the sum, what needs the user, what is at work, what waits.
func (v *Run) frame(size page.Size, tick int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.progress.State == nil || size.Height == 0 {
		return ""
	}
	s, now := v.progress.State, v.now()
	t := v.table(size.Width)
	t.spin = Spinner(tick)
	rows := v.progress.rows(v.Limits, nil, now, true)
	lines := []string{v.head(t, now)}
	if v.scrolled {
		lines = []string{"", lines[0]} // apart from the lines that stay
	}
	say := func(style func(string) string, line string) {
		lines = append(lines, style(text.Clip(line, t.width-1)))
	}
	if v.stopping {
		say(t.Yellow, StoppingText)
	} else if s.Boulder.Status == boulder.Paused {
		say(t.Yellow, report.Stated("paused", s.Boulder.Reason)+"; continue, from any terminal, with:")
		say(t.Yellow, "manager resume "+s.Boulder.ID)
	}
	var live, waiting []row
	for _, r := range rows {
		switch {
		case r.live:
			live = append(live, r)
		case (r.Status == boulder.SubTaskPending || r.attempt != nil) && !v.stopping: // a run that stops starts nothing
			waiting = append(waiting, r)
		}
	}
	needs := needsOf(s, v.progress.raised, v.on, now)
	lines = append(lines, needLines(needs, t.width, size.Room()-len(lines)-min(2, len(live)), t.Paint)...)
	lines = append(lines, atWork(t, live, size.Room()-len(lines))...)
	slices.SortStableFunc(waiting, func(a, b row) int { return cmp.Compare(a.place, b.place) })
	room := max(0, min(size.Room()-len(lines), 10))
	soonest := waiting[:min(len(waiting), room)]
	lines = append(lines, fit(t.lines(soonest...), len(waiting)-len(soonest), room, t.below, "and %d more waiting")...)
	return strings.Join(lines[:min(len(lines), size.Room())], "\n")
}

func (v *Run) head(t *tasks, now time.Time) string {
	s := v.progress.State
	took := text.Elapsed(now.Sub(v.progress.began).Truncate(time.Second))
	if s.Boulder.Status == boulder.Planning {
		return t.Cyan(t.spin) + " " + t.Bold("Planning") + "  " + t.Dim(took)
	}
	tally := s.Boulder.Tally
	said := text.JoinedBy(" · ", t.Bold(fmt.Sprintf("%d/%d", tally.Completed, tally.Planned))+" done",
		t.Red(text.Some(tally.Failed, "failed")), t.Yellow(text.Some(tally.Blocked, "blocked")))
	usage := s.Boulder.Usage
	for _, a := range s.Attempts {
		usage = usage.Add(a.Running())
	}
	cost := " · " + costText(usage)
	for _, rest := range []string{" · " + took + " · " + text.Count(usage.Tokens()) + " tokens", " · " + took, ""} {
		if line := said + t.Dim(rest+cost); ansi.StringWidthWc(line) < t.width {
			return line
		}
	}
	return text.Truncate(said, t.width-1-len(cost)) + t.Dim(cost) // what it costs is never cut
}

// atWork draws what runs: with its activity, why it continues and what was red, as far as there is room.
func atWork(t *tasks, live []row, room int) []string {
	for depth := 4; ; depth-- {
		var lines []string
		for _, r := range live {
			all := t.lines(r)
			for i, more := range []string{r.Now, r.why, r.gate} {
				if more != "" || i == 0 {
					all = append(all, t.below(more))
				}
			}
			lines = append(lines, all[:min(depth, len(all))]...)
		}
		if len(lines) <= room || depth == 1 {
			return fit(lines, 0, room, t.below, "and %d more at work")
		}
	}
}

// fit keeps as many lines as there is room for, and counts those that are left out, with others that are.
func fit(lines []string, others, room int, style func(string) string, rest string) []string {
	left := len(lines) + others - room
	if left <= 0 || room <= 0 {
		return lines[:min(len(lines), max(room, 0))]
	}
	return append(lines[:room-1], style(fmt.Sprintf(rest, left+1)))
}

// Spinner is one column that turns.
func Spinner(tick int) string {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	return string([]rune(frames)[tick%10])
}

// printSummary tells on stdout how a run ended. took is how long it ran, 0 if that is not known.
func printSummary(o page.Out, id string, end boulder.TaskComplete, took time.Duration) {
	fmt.Fprintf(o, "%s\n\n%s\n", text.Safe(end.Summary), text.JoinedBy(" · ", o.Bold(id),
		o.As(statusSign(end.Status), string(end.Status)), report.Usage(end.Usage), text.If(took > 0, text.Elapsed(took))))
	if !end.AllCompleted {
		fmt.Fprintf(o, "To see why: manager show %s\n", id)
	}
}
