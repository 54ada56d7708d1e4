package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type archiveOptions struct{ undo bool }

func (a *app) newArchiveCmd() *cobra.Command {
	var o archiveOptions
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
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runArchive(cmd.Context(), &o, args) },
	}
	cmd.Flags().BoolVar(&o.undo, "undo", false, "bring them back")
	return cmd
}

// archiveReport is what `manager archive --json` prints of each boulder.
type archiveReport struct {
	Type      string `json:"type"` // archive
	BoulderID string `json:"boulder_id"`
	Archived  bool   `json:"archived"`
	Changed   bool   `json:"changed"` // false: it was so before
}

func (a *app) runArchive(ctx context.Context, o *archiveOptions, args []string) error {
	if o.undo && len(args) == 0 {
		return usagef("say which boulder is to come back: `manager list --archived` shows them")
	}
	p, err := a.openAnyway()
	if err != nil {
		return err
	}
	d, err := p.Desk(ctx)
	if err != nil {
		return err
	}
	reports, err := archive(ctx, d, o, args)
	d.Close()
	for _, r := range reports {
		if err := a.printArchived(r); err != nil {
			return err
		}
	}
	return refusal(err)
}

// archive puts away what the arguments name, or brings it back. Nothing is done if one of them cannot be meant.
func archive(ctx context.Context, d *project.Desk, o *archiveOptions, args []string) ([]archiveReport, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	var reports []archiveReport
	for _, arg := range args {
		id, err := project.Resolve(ctx, d, arg)
		if err != nil {
			return nil, err
		}
		found, err := d.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if status := found.Boulder.Status; !status.Terminal() {
			return nil, usagef("boulder %s is %s, and only what is over can be archived: bring it to its end with"+
				" `manager resume %s`, or end it with `manager cancel -b %s`", id, status, id, id)
		}
		changes := found.Boulder.ArchivedAt.IsZero() != o.undo
		reports = append(reports, archiveReport{Type: "archive", BoulderID: id, Archived: !o.undo, Changed: changes})
	}
	order := boulder.Order{Do: boulder.OrderArchive}
	if o.undo {
		order.Do = boulder.OrderUnarchive
	}
	for i, r := range reports {
		if !r.Changed {
			continue
		}
		if err := d.Orders.Order(ctx, r.BoulderID, order); err != nil {
			return reports[:i], err
		}
	}
	return reports, nil
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

// openToWrite opens the database for a change that is made at once. If another process holds it, the error says who.
func (a *app) openToWrite(dir string) (*store.DB, error) {
	db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{
		Timeout: project.LockWait, Redact: a.secrets.JSON, Logger: a.logger(),
	})
	if errors.Is(err, store.ErrHeld) {
		return nil, fmt.Errorf("%w%s: do this when it has ended", err, project.HolderText(dir))
	}
	return db, err
}
