package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newArchiveCmd() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "archive [flags] [BOULDER …]",
		Short: "Archive finished boulders",
		Long: `Takes boulders that are over out of ` + "`manager list`" + ` (default: the active one). Nothing is deleted: they are
listed with ` + "`manager list --archived`" + `, can be looked at as before, and come back with --undo.`,
		Example: `  manager archive 01k3 01k4
  manager archive --undo 01k3`,
		ValidArgsFunction: a.completion(many, boulders),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runArchive(cmd.Context(), undo, args) },
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "bring them back")
	return cmd
}

// archiveReport is what `manager archive --json` prints of each boulder.
type archiveReport struct {
	Type      string `json:"type"` // archive
	BoulderID string `json:"boulder_id"`
	Archived  bool   `json:"archived"`
	Changed   bool   `json:"changed"` // false: it was so before
}

func (a *app) runArchive(ctx context.Context, undo bool, args []string) error {
	order := boulder.Order{Do: boulder.OrderArchive}
	says := map[bool]string{true: "Archived %s.\n", false: "%s is archived already.\n"}
	if undo {
		order.Do = boulder.OrderUnarchive
		says = map[bool]string{true: "%s is back.\n", false: "%s is not archived.\n"}
	}
	switch {
	case len(args) == 0 && undo:
		return usagef("say which boulder is to come back: `manager list --archived` shows them")
	case len(args) == 0:
		args = []string{""}
	}
	var done []archiveReport
	err := a.atDesk(ctx, func(d *project.Desk) error {
		done = nil
		for _, arg := range args { // nothing is done if one of them cannot be meant
			found, err := project.Get(ctx, d, arg)
			if err != nil {
				return err
			}
			b := found.Boulder
			if !b.Status.Terminal() {
				return usagef("boulder %s is %s, and only what is over can be archived: bring it to its end with"+
					" `manager resume %[1]s`, or end it with `manager cancel -b %[1]s`", b.ID, b.Status)
			}
			done = append(done, archiveReport{"archive", b.ID, !undo, b.ArchivedAt.IsZero() != undo})
		}
		for _, r := range done {
			if !r.Changed {
				continue
			}
			if err := d.Orders.Order(ctx, r.BoulderID, order); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case a.json:
		return writeLines(a.Stdout, done)
	}
	for _, r := range done {
		fmt.Fprintf(a.Stdout, says[r.Changed], r.BoulderID)
	}
	return nil
}
