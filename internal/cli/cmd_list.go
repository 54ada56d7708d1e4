package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
)

func (a *app) newListCmd() *cobra.Command {
	var archived bool
	cmd := &cobra.Command{
		Use:        "list [flags]",
		Short:      "List the boulders of the project",
		SuggestFor: []string{"ls", "boulders"},
		Long: `Lists the boulders of the project, the newest first, without those that are archived. The active one, marked with *,
was begun or taken up last: it is the one that is meant where a command is given none.`,
		Args:              takes(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), archived) },
	}
	cmd.Flags().BoolVar(&archived, "archived", false, "those that are archived, and no others")
	return cmd
}

func (a *app) runList(ctx context.Context, archived bool) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	all, err := r.Listing(ctx)
	holder := control.HolderOf(ctx, r)
	closeReader() // before anything is printed: a pager must not keep a run from starting
	var shown []view.ListItem
	for i := range all {
		if all[i].ArchivedAt.IsZero() != archived {
			shown = append(shown, view.NewListItem(&all[i], holder))
		}
	}
	switch {
	case a.json:
		for i := range shown {
			if err := a.printJSON(shown[i]); err != nil {
				return err
			}
		}
	case len(shown) > 0:
		view.List(a.on(a.Stdout), shown, time.Now())
	case err != nil:
	case archived:
		a.note("Nothing is archived here.")
	default:
		a.noteNothing(len(all) > 0)
	}
	return err
}
