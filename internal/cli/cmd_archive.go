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
		Long: `Takes boulders that are over out of ` + "`manager list`" + ` (default: the active one). Nothing is
deleted: they are listed with ` + "`manager list --archived`" + `, can be looked at as before, and come back with
--undo.`,
		Example: `  manager archive
  manager archive 01k3 01k4
  manager archive --undo 01k3`,
		ValidArgsFunction: a.completion(boulders),
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
	if len(args) == 0 {
		if undo {
			return usagef("say which boulder is to come back: `manager list --archived` shows them")
		}
		args = []string{""}
	}
	p, err := a.openAnyway()
	if err != nil {
		return err
	}
	d, err := p.Desk(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	var all []boulder.Boulder
	for _, arg := range args { // nothing is done if one of them cannot be meant
		found, err := project.Get(ctx, d, arg)
		if err != nil {
			return err
		}
		if b := found.Boulder; !b.Status.Terminal() {
			return usagef("boulder %s is %s, and only what is over can be archived: bring it to its end with"+
				" `manager resume %s`, or end it with `manager cancel -b %s`", b.ID, b.Status, b.ID, b.ID)
		}
		all = append(all, found.Boulder)
	}
	order := boulder.Order{Do: boulder.OrderArchive}
	if undo {
		order.Do = boulder.OrderUnarchive
	}
	for _, b := range all {
		changes := b.ArchivedAt.IsZero() != undo
		if changes {
			if err := d.Orders.Order(ctx, b.ID, order); err != nil {
				return refusal(err)
			}
		}
		if err := a.printArchived(archiveReport{"archive", b.ID, !undo, changes}); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printArchived(r archiveReport) error {
	if a.json {
		return a.printJSON(r)
	}
	text := "Archived " + r.BoulderID + "."
	switch {
	case r.Archived && !r.Changed:
		text = r.BoulderID + " is archived already."
	case !r.Archived && r.Changed:
		text = r.BoulderID + " is back."
	case !r.Archived:
		text = r.BoulderID + " is not archived."
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}
