package cli

import (
	"io"

	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
)

// on is a stream as views print on it.
func (a *app) on(stream io.Writer) view.Out {
	o := view.Out{Paint: view.Paint{On: a.color(stream)}, Writer: stream}
	if f, ok := fileOf(stream); ok && terminal(f) {
		o.File = f
	}
	return o
}

// console is where runs are shown.
func (a *app) console() view.Console {
	return view.Console{
		Stdout: a.on(a.Stdout), Stderr: a.on(a.Stderr), JSON: a.json, Quiet: a.quiet, Verbose: a.verbose,
		TermType: a.Getenv("TERM"), Limits: a.shownLimits,
	}
}

// shownLimits are the limits that explain why something waits. A configuration that cannot be read was refused before.
func (a *app) shownLimits() schedule.Limits {
	if p, err := a.open(); err == nil {
		return p.Config().Limits()
	}
	return schedule.DefaultLimits()
}

// printJSON writes one object on a line of stdout.
func (a *app) printJSON(v any) error { return view.WriteJSON(a.Stdout, v) }
