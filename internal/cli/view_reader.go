package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

// reader is what the looking commands read from: the database, or the process that holds it.
type reader = control.Source

var _ reader = nothing{}

// look reads a report, gives the state free again, and prints what there is of the report. With an error there may be
// one as well.
func look[T any](
	ctx context.Context, a *app, read func(r reader) (*T, error), show func(report *T),
) error {
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
	show(report)
	return err
}

// holderWait is how long to wait for a process that has the database but does not answer yet, or not any more.
const holderWait = 2 * time.Second

// openReader opens the project's state for reading: the database if nobody holds it, else the process that does. A
// project in which nothing was run reads as empty. Nothing is created.
//
// While the database itself is open, no run can start: the caller closes it as soon as it has read.
func (a *app) openReader(ctx context.Context) (_ reader, closeReader func(), err error) {
	project, err := a.project()
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(project, store.DirName)
	db, err := openToRead(dir, 0)
	if errors.Is(err, store.ErrHeld) {
		client, dialErr := control.Dial(ctx, filepath.Join(dir, control.SocketName))
		if dialErr == nil {
			return client, client.Close, nil
		}
		if !errors.Is(dialErr, control.ErrNotServed) {
			return nil, nil, unanswering(ctx, dir, dialErr)
		}
		db, err = openToRead(dir, holderWait) // it is about to begin, or to end
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing{}, func() {}, nil
	case err != nil:
		return nil, nil, err
	}
	return db, func() { _ = db.Close() }, nil
}

func openToRead(dir string, wait time.Duration) (*store.DB, error) {
	return store.Open(filepath.Join(dir, store.FileName), store.Options{ReadOnly: true, Timeout: wait})
}

// holderOf says which process holds the state, if one does.
func holderOf(ctx context.Context, r reader) *control.Holder {
	client, ok := r.(*control.Client)
	if !ok {
		return nil
	}
	h, err := client.Holder(ctx)
	if err != nil {
		return nil
	}
	return &h
}

// resolve finds the boulder that a person means. One that is not there, or not the only one, is their mistake.
func resolve(ctx context.Context, r reader, ref string) (string, error) {
	id, err := r.Resolve(ctx, ref)
	_, ambiguous := errors.AsType[*store.AmbiguousError](err)
	if ambiguous || errors.Is(err, boulder.ErrNotFound) {
		return "", &usageError{err}
	}
	return id, err
}

// nothing is the state of a project in which nothing was run.
type nothing struct{}

func (nothing) Listing(context.Context) ([]store.Item, error) { return nil, nil }

func (nothing) Export(context.Context, string) (store.Export, error) {
	return store.Export{}, errNothing
}

func (nothing) NewestUnfinished(context.Context) (string, error) { return "", errNothing }

func (nothing) Get(context.Context, string) (store.Detail, error) { return store.Detail{}, errNothing }

func (nothing) Turns(context.Context, string, string) ([]boulder.Turn, error) { return nil, errNothing }

func (nothing) Events(context.Context, string, uint64, int) ([]boulder.Event, error) {
	return nil, errNothing
}

func (nothing) Resolve(context.Context, string) (string, error) { return "", errNothing }

var errNothing = fmt.Errorf("%w: nothing has been run here yet; start with `manager plan`", boulder.ErrNotFound)

// completeBoulder offers the boulders of the project to the shell, and after one its sub-tasks if the command takes
// one.
func (a *app) completeBoulder(subTasks bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		r, closeReader, err := a.openReader(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer closeReader()
		switch {
		case len(args) == 0:
			return completeIDs(cmd.Context(), r), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		case len(args) == 1 && subTasks:
			return completeSubTasks(cmd.Context(), r, args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeSubTask offers the sub-tasks of the boulder that the arguments name.
func (a *app) completeSubTask(
	cmd *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	r, closeReader, err := a.openReader(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer closeReader()
	return completeSubTasks(cmd.Context(), r, newestOr(args)), cobra.ShellCompDirectiveNoFileComp
}

func completeIDs(ctx context.Context, r reader) []cobra.Completion {
	var all []cobra.Completion
	items, _ := r.Listing(ctx) // those that can be read
	for _, b := range items {
		all = append(all, cobra.CompletionWithDesc(b.BoulderID, string(b.Status)+": "+clipText(b.Task, 50)))
	}
	return all
}

func completeSubTasks(ctx context.Context, r reader, ref string) []cobra.Completion {
	id, err := resolve(ctx, r, ref)
	if err != nil {
		return nil
	}
	var all []cobra.Completion
	d, _ := r.Get(ctx, id)
	for _, t := range d.SubTasks {
		all = append(all, cobra.CompletionWithDesc(t.ID, clipText(t.Subject, 50)))
	}
	return all
}
