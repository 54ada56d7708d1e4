package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
)

type blockersExportOptions struct {
	blockerFilter
	output string
	force  bool
}

func (a *app) newBlockersExportCmd() *cobra.Command {
	var o blockersExportOptions
	cmd := &cobra.Command{
		Use:   "export [flags]",
		Short: "Write the blockers as a Markdown document, or with --json as data",
		Long: `Writes the blockers with everything that is known about them, those that are settled as well, as a Markdown
document; with --json as one object per line. They go to stdout, or with -o to a new file, whose
ending then decides: .md is the document; .json, .jsonl and .ndjson are data.`,
		Example: `  manager blockers export > night.md
  manager blockers export --status pending -o open.md
  manager blockers export --json | jq -r .question
  manager blockers export -o night.jsonl`,
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, _ []string) error { return a.runBlockersExport(ctx, d, &o) }),
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to a new `FILE` instead of stdout")
	cmd.Flags().BoolVar(&o.force, "force", false, "write the file anew if it is there")
	o.register(a, cmd)
	return cmd
}

// blockersExport is what `manager blockers export --json -o FILE` prints.
type blockersExport struct {
	Type     string `json:"type"` // blockers-export
	File     string `json:"file"`
	Blockers int    `json:"blockers"`
}

func (a *app) runBlockersExport(ctx context.Context, d *blockers.Desk, o *blockersExportOptions) error {
	if o.force && o.output == "" {
		return usagef("--force is for the file of -o, and none is given")
	}
	f, err := o.filter(ctx, a, "")
	if err != nil {
		return err
	}
	records, listErr := d.List(ctx, f)
	found := secret.Each(a.placed(ctx, records), a.secrets.Text, a.secrets.JSON)
	var content bytes.Buffer
	if a.isData(o.output) {
		for i := range found {
			if err := view.WriteJSON(&content, found[i]); err != nil {
				return err
			}
		}
	} else {
		content.WriteString(view.BlockersMarkdown(found, time.Now()))
	}
	if o.output == "" || o.output == "-" {
		_, err := a.Stdout.Write(content.Bytes())
		return errors.Join(err, listErr)
	}
	file := a.file(o.output)
	if err := writeExport(file, content.Bytes(), o.force); err != nil {
		return err
	}
	if a.json {
		return errors.Join(a.printJSON(blockersExport{"blockers-export", file, len(found)}), listErr)
	}
	a.note("Exported %s to %s.", text.Plural(len(found), "blocker"), a.pretty(file))
	return listErr
}

// isData reports by the ending of a file, and where that does not say, by --json, whether it gets objects or a document.
func (a *app) isData(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonl", ".ndjson":
		return true
	case ".md", ".markdown":
		return false
	}
	return a.json
}

// writeExport writes a file as a whole or not at all: one that is not there yet, or with force in place of what is there.
func writeExport(file string, content []byte, force bool) error {
	switch info, err := os.Stat(file); {
	case err == nil && info.IsDir():
		return usagef("%s is a directory: name a file", file)
	case err == nil && !force:
		return usagef("%s is there already, and is not overwritten: choose another name, or say --force", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".blockers-*")
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), file)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("write the blockers: %w", err)
	}
	return nil
}
