package view

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/charmbracelet/colorprofile"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
)

// Report is what a command has found out: encoding/json writes it for programs, and it prints itself for people.
type Report interface{ Print(o page.Out) }

// Console is where a run is shown, and how.
type Console struct {
	Stdout, Stderr       page.Out
	JSON, Quiet, Verbose bool
	TermType             string          // of the terminal behind Stderr
	Limits               schedule.Limits // that explain why something waits
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

// NewServeRun shows one of several runs that go on at the same time: its lines begin with the end of its id.
func NewServeRun(c Console, p *Progress, id string) *Run {
	return &Run{Console: c, progress: p, prefix: id[max(0, len(id)-6):] + " "}
}

// Drawable reports whether a picture can be drawn. With Verbose the diagnostics would tear it.
func (c Console) Drawable() bool {
	return c.Stderr.File != nil && c.TermType != "dumb" && c.TermType != "" && !c.Verbose
}

// Screen takes the terminal.
func (c Console) Screen(p Picture) *Screen {
	profile := colorprofile.ASCII
	if c.Stderr.On {
		profile = colorprofile.ANSI
	}
	return OpenScreen(c.Stderr.File.(io.Writer), c.TermType, profile, p)
}

// WriteJSON writes one object on a line.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// StoppingText answers the first Ctrl-C.
const StoppingText = "Finishing the running turns; Ctrl-C again aborts them."

// printSummary tells on stdout how a run ended. took is how long it ran, 0 if that is not known.
func printSummary(o page.Out, id string, end boulder.TaskComplete, took time.Duration) {
	line := o.As(statusSign(end.Status), string(end.Status)) + " · " + report.Usage(end.Usage)
	if took > 0 {
		line += " · " + text.Elapsed(took)
	}
	fmt.Fprintf(o, "%s\n\n%s · %s\n", text.Safe(end.Summary), o.Bold(id), line)
	if !end.AllCompleted {
		fmt.Fprintf(o, "To see why: manager show %s\n", id)
	}
}
