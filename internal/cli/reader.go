package cli

import (
	"context"
	"errors"

	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// reader is what the looking commands read from: the database, or the process that holds it.
type reader = project.Reader

// look reads a report, gives the state free again, and prints what there is of the report. With an error there may be
// one as well.
func look[T any, P interface {
	*T
	view.Report
}](ctx context.Context, a *app, read func(r reader) (P, error)) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	report, err := read(r)
	closeReader() // before anything is printed: a pager must not keep a run from starting
	if report == nil {
		return err
	}
	if a.json {
		return errors.Join(a.printJSON(report), err)
	}
	report.Print(a.on(a.Stdout))
	return err
}
