package cli

import (
	"cmp"
	"context"
	"io"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// reader is what the looking commands read from: the database, or the process that holds it.
type reader = project.Reader

// read reads a boulder, and makes a report of it. With an error there is a report as well if at least the boulder's head
// could be read.
func read[T any](
	ctx context.Context, a *app, ref string, report func(r reader, d store.Detail) (*T, error),
) (*T, error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil, err
	}
	defer closeReader() // before anything is printed: a pager must not keep a run from starting
	d, err := project.Get(ctx, r, ref)
	if d.Boulder.ID == "" {
		return nil, err
	}
	made, reportErr := report(r, d)
	return made, cmp.Or(err, reportErr)
}

// show prints a report that was read, and returns what could not be read.
func show[T any, P interface {
	*T
	view.Report
}](a *app, report P, readErr error) (err error) {
	switch {
	case report == nil:
	case a.json:
		err = a.printJSON(report)
	default:
		report.Print(a.on(a.Stdout))
	}
	return cmp.Or(err, readErr)
}

// on is a stream as views print on it.
func (a *app) on(stream io.Writer) page.Out {
	o := page.Out{Paint: page.Paint{On: a.color(stream)}, Writer: stream}
	if f, ok := fileOf(stream); ok && terminal(f) {
		o.File = f
	}
	return o
}

// console is where runs are shown.
func (a *app) console() view.Console {
	return view.Console{
		Stdout: a.on(a.Stdout), Stderr: a.on(a.Stderr), JSON: a.json, Quiet: a.quiet, Verbose: a.verbose,
		TermType: a.Getenv("TERM"), Limits: a.limitsOf(nil),
	}
}

// limitsOf are the limits that explain why something waits. A configuration that cannot be read was refused before.
func (a *app) limitsOf(holder *control.Holder) schedule.Limits {
	if holder != nil && holder.Limits != nil {
		return *holder.Limits
	}
	if p, err := a.open(); err == nil {
		return p.Config().Limits
	}
	return schedule.DefaultLimits()
}

// printJSON writes one object on a line of stdout.
func (a *app) printJSON(v any) error { return view.WriteJSON(a.Stdout, v) }

// eventsOf are the events of a boulder, as far as they can be read. They are read in pages: each reading from the process
// that holds the state is bounded in time.
func eventsOf(ctx context.Context, r reader, id string) (all []boulder.Event, err error) {
	const page = 2000
	for after := uint64(0); ; after = all[len(all)-1].Seq {
		events, err := r.Events(ctx, id, after, page)
		all = append(all, events...)
		if err != nil || len(events) < page {
			return all, err
		}
	}
}
