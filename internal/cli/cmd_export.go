package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newExportCmd() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "export [flags] [BOULDER]",
		Short: "Export a boulder as one JSON document",
		Long: `Writes everything that is stored about a boulder (default: the active one) as one JSON document, for
` + "`manager import`" + `. Transcripts and the files of briefs in .manager/runs are not part of it.`,
		Example: `  manager export > boulder.json
  manager export 01k3 -o boulder.json`,
		Args:              takes(0, 1, "one BOULDER"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runExport(cmd.Context(), output, args) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a new `FILE` instead of stdout")
	return cmd
}

// exportReport is what `manager export --json -o FILE` prints.
type exportReport struct {
	Type      string `json:"type"` // export
	BoulderID string `json:"boulder_id"`
	File      string `json:"file"`
	SubTasks  int    `json:"sub_tasks"`
	Events    int    `json:"events"`
}

func (a *app) runExport(ctx context.Context, output string, args []string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	id, err := project.Resolve(ctx, r, newestOr(args))
	var x store.Export
	if err == nil {
		x, err = r.Export(ctx, id)
	}
	closeReader()
	switch {
	case err != nil:
		return err
	case output == "" && a.json:
		return a.printJSON(&x)
	case output == "":
		return x.Write(a.Stdout)
	}
	s, err := x.State()
	if err != nil {
		return err
	}
	file := a.file(output)
	if err := writeNew(file, false, x.Write); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(exportReport{"export", id, file, len(s.SubTasks), len(x.Events)})
	}
	a.note("Exported %s with %s and %s to %s. Transcripts are not part of it.", id,
		text.Plural(len(s.SubTasks), "sub-task"), text.Plural(len(x.Events), "event"), file)
	return nil
}

// writeNew writes an export to a file that is not there yet, or with force in its place: what is there may be the only copy
// of something.
func writeNew(file string, force bool, write func(io.Writer) error) error {
	unless := os.O_EXCL
	if force {
		unless = os.O_TRUNC
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|unless, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s is there already, and is not overwritten: choose another name, or remove it first", file)
	}
	if err == nil {
		if err = errors.Join(write(f), f.Sync(), f.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}
