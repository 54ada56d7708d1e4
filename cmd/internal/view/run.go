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
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

// Report is the result of a command. encoding/json writes it for programs, Print for people. Later versions add fields,
// events and steps to the output of --json, but never change any.
type Report interface{ Print(o page.Out) }

// Console says where and how a run is shown.
type Console struct {
	Stdout, Stderr       page.Out
	JSON, Quiet, Verbose bool
	TermType             string              // of the terminal behind Stderr
	Limits               orchestrator.Limits // to explain why a sub-task waits
}

// Drawable reports whether a picture can be drawn. With Verbose, diagnostics on stderr would break it.
func (c Console) Drawable() bool {
	return c.Stderr.File != nil && c.TermType != "dumb" && c.TermType != "" && !c.Verbose
}

// WriteJSON writes v as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// StoppingText answers the first Ctrl-C.
const StoppingText = "Finishing the running turns; Ctrl-C again aborts them."

// Run shows a run in progress: its events with JSON, only its end with Quiet. On a terminal, lines about finished work
// scroll away above a picture of what is at work and what waits. Elsewhere, as in a log file, there are only lines.
//
// There is no picture while the user is asked about the plan, or what the planner asks.
type Run struct {
	Console
	drawn   bool   // a picture is drawn
	several bool   // other runs are shown as well: lines begin with the last six characters of the boulder's id
	on      string // suffix of commands that names the boulder, as " -b ID"; empty if there is only one
	now     func() time.Time

	mu       sync.Mutex // guards the fields below, which the run, the drawing goroutine and Stopping use
	progress *Progress
	printed  []string // lines for the next frame, or for the end of a pause
	scrolled bool     // some were printed above the picture
	stopping bool

	term   sync.Mutex // guards the fields below; taken before mu
	screen *Screen    // nil while no picture is drawn
	paused bool       // the user is asked something
}

// NewRun shows a run. p has taken the events before, if any. With several boulders, on names this one, as " -b ID".
func NewRun(c Console, p *Progress, on string) *Run {
	v := &Run{Console: c, drawn: c.Drawable() && !c.JSON && !c.Quiet, now: time.Now, progress: p, on: on}
	if v.drawn && p.State != nil {
		v.open()
	}
	return v
}

// NewServeRun shows one of several concurrent runs, without a picture.
func NewServeRun(c Console, p *Progress) *Run { return &Run{Console: c, progress: p, several: true} }

// Event shows one event. It must be called for every event in order, and does not block.
func (v *Run) Event(e boulder.Event) {
	end, over := e.Body.(boulder.TaskComplete)
	switch {
	case v.JSON:
		if e.Public() {
			_ = WriteJSON(v.Stdout, e.Shown()) // a reader that is gone does not stop the work
		}
		return
	case v.Quiet:
		if over {
			printSummary(v.Stdout, e.BoulderID, end, nil)
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
		printSummary(v.Stdout, e.BoulderID, end, v.progress.State)
	}
}

func (v *Run) open() { v.screen = v.Screen(v.frame, v.flush) }

// take applies the event and reports whether the manager is at work after it.
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
		return !v.progress.State.Boulder.Asking()
	case boulder.Paused: // turns may still be at work; at the end of the run the picture is closed at once
		return v.screen != nil
	}
	return false
}

func (v *Run) lineStart(e boulder.Event) string {
	return Clock(e.Time) + " " + text.If(v.several, boulder.ShortID(e.BoulderID)+" ")
}

// lines returns the lines to print for an event. With a picture these are only the ones that it does not show.
func (v *Run) lines(e boulder.Event) (lines []string) {
	told := Describe(e)
	line, shown, done := told.Line, told.shown, "" // done: the line of a finished sub-task
	state, t, label := v.progress.State, v.table(v.Stderr.Width()), ""
	s := state.SubTask(told.SubTask)
	if s != nil {
		label = numbered(s.Position) + " "
	}
	var below []string
	whole := false // not cut
	switch b := e.Body.(type) {
	case boulder.Isolated:
		whole = true
	case boulder.Created:
		shown, line = noPicture, fmt.Sprintf("boulder %s: %s", boulder.ShortID(e.BoulderID), text.Clip(b.Boulder.Task, 100))
	case boulder.SubTaskStart:
		shown, line = noPicture, text.Clip(cmp.Or(s.ActiveForm, s.Subject), 100)+" · "+ModelName(boulder.WithEffort(b.Model, b.Effort))+
			text.If(b.Attempt > 1, fmt.Sprintf(" (attempt %d)", b.Attempt))
	case boulder.SubTaskDone:
		r := v.progress.rows(v.Limits, nil, e.Time, true)[s.Position-1]
		if !b.Completed {
			below = []string{line}
		} else if r.gatesOnly {
			below = []string{"by the gates alone: no usable answer came from the judge"}
		}
		done = t.lines(r)[0]
		line = text.JoinedBy(" · ", told.sign.String()+" "+text.Clip(s.Subject, 100), ModelName(boulder.WithEffort(r.Model, r.Effort)),
			"worked "+text.Millis(r.WorkedMS), Usage(s.Usage))
	case boulder.SubTaskProgress:
		if v.progress.repeated {
			shown = never
		}
		if v.Verbose && b.Activity != "" {
			shown = max(shown, noPicture)
		}
	case boulder.Replanned:
		below = replanned(b, func(id string) string { return id + ": " + state.SubTask(id).Subject })
	}
	switch {
	case shown == never || shown == noPicture && v.drawn:
		return nil
	case !v.drawn:
		for _, line := range append([]string{line}, below...) {
			if !whole {
				line = text.Clip(line, 400)
			}
			lines = append(lines, v.lineStart(e)+label+line)
		}
		return lines
	case done != "":
		lines = []string{done}
	case whole:
		for line := range strings.SplitSeq(text.Wrap(told.sign.String()+" "+line, t.width-1), "\n") {
			lines = append(lines, t.Yellow(line))
		}
	case s == nil:
		lines = []string{t.Yellow(text.Clip(told.sign.String()+" "+line, t.width-1))}
	default:
		lines = []string{t.Mark(told.sign) + " " + t.Dim(text.Clip(text.Fit(label, t.labelWidth)+" "+line, t.width-3))}
	}
	for _, line := range below {
		lines = append(lines, t.below(line))
	}
	return lines
}

func (v *Run) table(width int) *tasks {
	n := len(numbered(len(v.progress.State.SubTasks)))
	return &tasks{Paint: v.Stderr.Paint, width: min(width, page.Widest), numbers: n, labelWidth: n, fixed: true}
}

// Stopping shows that the run was asked to stop and lets its turns end. It is safe for concurrent use.
func (v *Run) Stopping() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopping = true; !v.drawn && !v.Quiet {
		fmt.Fprintln(v.Stderr, StoppingText)
	}
}

// Pause frees the terminal for a question until resume is called. The first event after that restores the picture. It
// is safe for concurrent use.
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

// Above prints a line above the picture, and reports whether there is one. It is safe for concurrent use.
func (v *Run) Above(line string) bool {
	v.term.Lock()
	defer v.term.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.screen != nil {
		v.printed = append(v.printed, line)
	}
	return v.screen != nil
}

// Close frees the terminal. Nothing is shown afterwards. It is idempotent.
func (v *Run) Close() {
	v.term.Lock()
	defer v.term.Unlock()
	v.close()
}

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

// frame draws the picture in at most size.Room lines: the totals, what needs the user, what is at work, what waits.
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
		lines = []string{"", lines[0]} // set apart from the lines above
	}
	say := func(style func(string) string, line string) {
		lines = append(lines, style(text.Clip(line, t.width-1)))
	}
	if v.stopping {
		say(t.Yellow, StoppingText)
	} else if s.Boulder.Status == boulder.Paused {
		say(t.Yellow, Stated("paused", s.Boulder.Reason)+"; continue, from any terminal, with:")
		say(t.Yellow, "manager resume "+boulder.ShortID(s.Boulder.ID))
	}
	for _, u := range orchestrator.ModelUses(s, now) {
		if len(u.Instead) > 0 { // that others wait for a model is in their rows
			say(t.Yellow, ModelUseText(u, now))
		}
	}
	var live, waiting []row
	for _, r := range rows {
		switch {
		case r.live:
			live = append(live, r)
		case (r.Status == boulder.SubTaskPending || r.attempt != nil) && !v.stopping: // a stopping run starts nothing
			waiting = append(waiting, r)
		}
	}
	needs := needsOf(s, v.on, now)
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
	took := "worked " + text.Elapsed(s.Boulder.WorkedBy(now).Truncate(time.Second))
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
	return text.Truncate(said, t.width-1-len(cost)) + t.Dim(cost) // the cost is never cut
}

// atWork draws running sub-tasks: as room allows, with activity, reason of the turn and the gate that was red.
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

// fit keeps as many lines as there is room for. Its last line then counts the omitted ones, and others, with rest.
func fit(lines []string, others, room int, style func(string) string, rest string) []string {
	left := len(lines) + others - room
	if left <= 0 || room <= 0 {
		return lines[:min(len(lines), max(room, 0))]
	}
	return append(lines[:room-1], style(fmt.Sprintf(rest, left+1)))
}

// Spinner returns the frame of a spinner, one column wide.
func Spinner(tick int) string {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	return string([]rune(frames)[tick%10])
}

// Unchecked says that nobody could tell whether the request is met.
const Unchecked = "Whether the whole request is met is not checked: no usable answer came from the model."

// printSummary prints how a boulder ended. s is its state, nil if unknown.
func printSummary(o page.Out, id string, end boulder.TaskComplete, s *boulder.State) {
	worked := ""
	if s != nil {
		worked = "worked " + text.Elapsed(s.Boulder.Worked)
	}
	if answer := end.Written(); answer != "" {
		fmt.Fprintf(o, "%s\n\n", text.Safe(answer))
	}
	fmt.Fprintf(o, "%s\n\n%s\n", text.Safe(end.Summary), text.JoinedBy(" · ", o.Bold(boulder.ShortID(id)),
		o.As(statusSign(end.Status), string(end.Status)), Usage(end.Usage), worked))
	if end.RequestUnchecked {
		fmt.Fprintln(o, Unchecked)
	}
	if !end.AllCompleted {
		fmt.Fprintf(o, "To see why, and what can be done next: manager report %s\n", boulder.ShortID(id))
	}
}
