package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBlockersExport(cmd.Context(), &o) },
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

func (a *app) runBlockersExport(ctx context.Context, o *blockersExportOptions) error {
	if o.force && o.output == "" {
		return usagef("--force is for the file of -o, and none is given")
	}
	d, err := a.blockers()
	if err != nil {
		return err
	}
	f, err := o.filter(ctx, a, "")
	if err != nil {
		return err
	}
	records, listErr := d.List(ctx, f)
	found := a.placed(ctx, records)
	if o.output == "" || o.output == "-" {
		return errors.Join(a.printExport(found), listErr)
	}
	content, err := a.exported(found, a.isData(o.output))
	if err != nil {
		return err
	}
	file := a.file(o.output)
	if err := writeExport(file, content, o.force); err != nil {
		return err
	}
	if a.json {
		return errors.Join(a.printJSON(blockersExport{"blockers-export", file, len(found)}), listErr)
	}
	a.note("Exported %s to %s.", text.Plural(len(found), "blocker"), a.pretty(file))
	return listErr
}

func (a *app) printExport(all []view.BlockerItem) error {
	if a.json {
		return a.printBlockers(all)
	}
	_, err := io.WriteString(a.Stdout, view.BlockersMarkdown(all, time.Now()))
	return err
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

// exported is what a file gets: without secrets, as on stdout.
func (a *app) exported(all []view.BlockerItem, data bool) ([]byte, error) {
	all = secret.Each(all, a.secrets.Text, a.secrets.JSON)
	if !data {
		return []byte(view.BlockersMarkdown(all, time.Now())), nil
	}
	var s bytes.Buffer
	enc := json.NewEncoder(&s)
	enc.SetEscapeHTML(false)
	for i := range all {
		if err := enc.Encode(all[i]); err != nil {
			return nil, err
		}
	}
	return s.Bytes(), nil
}

// writeExport writes a file that is not there yet, or with force in place of what is there: as a whole or not at all.
func writeExport(file string, content []byte, force bool) error {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return usagef("%s is a directory: name a file", file)
	}
	if !force {
		err := writeContent(file, content, os.O_EXCL)
		if errors.Is(err, fs.ErrExist) {
			return usagef("%s is there already, and is not overwritten: choose another name, or say --force", file)
		}
		return err
	}
	next := filepath.Join(filepath.Dir(file), fmt.Sprintf(".%s.%d", filepath.Base(file), os.Getpid()))
	if err := writeContent(next, content, os.O_EXCL); err != nil {
		return err
	}
	if err := os.Rename(next, file); err != nil {
		return errors.Join(fmt.Errorf("write the blockers: %w", err), os.Remove(next))
	}
	return nil
}

func writeContent(file string, content []byte, flags int) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	if err != nil {
		return fmt.Errorf("write the blockers: %w", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the blockers: %w", err), os.Remove(file))
	}
	return nil
}
