package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type listOptions struct{ archived bool }

func (a *app) newListCmd() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:        "list [flags]",
		Short:      "List the boulders of the project",
		SuggestFor: []string{"ls", "boulders"},
		Long: `Lists the boulders of the project, the newest first, without those that are archived. The active one,
which is marked with *, was begun or taken up last: it is the one that is meant where a command is given none.`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), &o) },
	}
	cmd.Flags().BoolVar(&o.archived, "archived", false, "those that are archived, and no others")
	return cmd
}

func (a *app) runList(ctx context.Context, o *listOptions) error {
	all, holder, err := a.readList(ctx)
	total := len(all)
	hidden := func(item store.Item) bool { return item.ArchivedAt.IsZero() == o.archived }
	shown := all
	if slices.ContainsFunc(all, hidden) {
		shown = slices.DeleteFunc(all, hidden)
	}
	if a.json {
		for i := range shown {
			if err := a.printJSON(view.NewListItem(&shown[i], holder)); err != nil {
				return err
			}
		}
		return err
	}
	if len(shown) == 0 && err == nil {
		switch {
		case o.archived:
			a.note("Nothing is archived here.")
		case total > 0:
			a.note("Everything that was run here is archived: %s. See `manager list --archived`.", text.Plural(total, "boulder"))
		default:
			a.note("Nothing has been run here yet. %s", a.firstStep())
		}
		return nil
	}
	view.List(a.on(a.Stdout), shown, holder, time.Now())
	return err
}

// readList reads what the list shows, and who holds the state. With an error there are the boulders that could be read.
func (a *app) readList(ctx context.Context) ([]store.Item, *control.Holder, error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer closeReader()
	all, err := r.Listing(ctx)
	return all, project.HolderOf(ctx, r), err
}
