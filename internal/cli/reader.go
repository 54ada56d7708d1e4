package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/text"
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
		all = append(all, cobra.CompletionWithDesc(b.BoulderID, string(b.Status)+": "+text.Clip(b.Task, 50)))
	}
	return all
}

func completeSubTasks(ctx context.Context, r reader, ref string) []cobra.Completion {
	id, err := project.Resolve(ctx, r, ref)
	if err != nil {
		return nil
	}
	var all []cobra.Completion
	d, _ := r.Get(ctx, id)
	for _, t := range d.SubTasks {
		all = append(all, cobra.CompletionWithDesc(t.ID, text.Clip(t.Subject, 50)))
	}
	return all
}
