package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// Formats of a report.
const (
	formatText     = "text"
	formatMarkdown = "markdown"
	formatJSON     = "json"
)

type reportOptions struct {
	format string
	output string
}

func (a *app) newReportCmd() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report [flags] [BOULDER]",
		Short: "Show what was done, how it was verified, and what needs you",
		Long: `Reports on a boulder (default: the active one) for whoever comes back to it: what to do next, as commands
that can be typed as they are; the questions that wait for an answer, and the choices that agents made where they could
not ask; what was not done, and why; what was done, with the gates and the judge's evidence for each criterion; and what
it took. It says nothing that is not on record, and works while another process runs the boulder. BOULDER is an id, or
a beginning or end of one.

Every run writes its report when it ends, however it does: .manager/runs/BOULDER/report.md.`,
		Example: `  manager report
  manager report -o report.md
  manager report 01k3 --format markdown | less`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.check(a, cmd.Flags().Changed("format")) },
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runReport(cmd.Context(), &o, args) },
	}
	cmd.Flags().StringVarP(&o.format, "format", "f", "",
		"`FORMAT`: text, markdown or json (default: by the ending of the file of -o, else text)")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE` instead of stdout; - is stdout")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions( // fails only for a flag that is not there
		[]cobra.Completion{formatText, formatMarkdown, formatJSON}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check refuses what contradicts itself, before anything is read, and fills in the format.
func (o *reportOptions) check(a *app, given bool) error {
	if o.output == "-" {
		o.output = ""
	}
	if !given {
		byEnding := map[string]string{".md": formatMarkdown, ".markdown": formatMarkdown, ".json": formatJSON}
		o.format = cmp.Or(byEnding[strings.ToLower(filepath.Ext(o.output))], formatText)
	}
	if a.json && o.output == "" {
		if given && o.format != formatJSON {
			return usagef("--json and --format %s contradict each other: give one of them, or write to a file with -o", o.format)
		}
		o.format = formatJSON
	}
	if formats := []string{formatText, formatMarkdown, formatJSON}; !slices.Contains(formats, o.format) {
		return usagef("there is no format %q: it is text, markdown or json", o.format)
	}
	return nil
}

func (a *app) runReport(ctx context.Context, o *reportOptions, args []string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	id, err := project.Resolve(ctx, r, newestOr(args))
	if err != nil {
		closeReader()
		return err
	}
	made, err := a.readReport(ctx, r, id, time.Now())
	closeReader() // before anything is printed: a pager must not keep a run from starting
	if made == nil {
		return err
	}
	return errors.Join(a.writeOut(made, o), err)
}

// writeOut writes a report to the file that is asked for, anew if it is there, or to stdout. With --json, stdout gets the
// object in any case.
func (a *app) writeOut(made *morning.Report, o *reportOptions) error {
	if o.output == "" && o.format == formatJSON {
		return a.printJSON(made)
	}
	if o.output == "" {
		return a.drawReport(a.Stdout, made, o.format)
	}
	var text bytes.Buffer
	if err := a.drawReport(&text, made, o.format); err != nil {
		return err
	}
	path := a.file(o.output)
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	a.note("Wrote %s.", a.pretty(path))
	if a.json {
		return a.printJSON(made)
	}
	return nil
}

func (a *app) drawReport(w io.Writer, made *morning.Report, format string) error {
	switch format {
	case formatMarkdown:
		return made.Markdown(w)
	case formatJSON:
		return (&app{Env: Env{Stdout: w}}).printJSON(made)
	}
	p := a.on(w)
	style := morning.Style{
		Strong: p.Bold, Faint: p.Dim, Code: p.Cyan, Good: p.Green, Bad: p.Red, Waits: p.Yellow,
		Width: p.Lines(),
	}
	return made.Text(w, style)
}

// readReport makes the report of a boulder, without secrets. With an error there is one as well if at least the
// boulder's head could be read.
func (a *app) readReport(ctx context.Context, r reader, id string, now time.Time) (*morning.Report, error) {
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	in := morning.Input{
		Boulder: d.Boulder, SubTasks: d.SubTasks, Attempts: d.Attempts, Turns: map[string]boulder.Turn{},
		Running: project.Runs(project.HolderOf(ctx, r), d.Boulder), Now: now.Round(0),
	}
	all, turnsErr := r.Turns(ctx, id, "")
	turns := bySubTask(all)
	err = cmp.Or(err, turnsErr)
	for _, t := range d.SubTasks {
		if t.Status == boulder.SubTaskSuperseded {
			continue
		}
		if turn, ok := morning.Newest(turns[t.ID]); ok {
			in.Turns[t.ID] = turn
		}
	}
	root, rootErr := a.project()
	if rootErr != nil {
		return nil, rootErr
	}
	var blockersErr error
	if in.Blockers, blockersErr = a.recordsOfBlockers(ctx, root, id); blockersErr != nil {
		err = errors.Join(err, fmt.Errorf("the report has blockers as the boulder knows them, without what is in %s: %w",
			blockers.FileName, blockersErr))
	}
	made := secret.Each(*morning.New(in), a.secrets.Text, a.secrets.JSON)
	return &made, err
}

// recordsOfBlockers are the full records of a boulder's blockers, oldest first. Nothing is made where none were recorded.
func (a *app) recordsOfBlockers(ctx context.Context, root, id string) ([]boulder.Blocker, error) {
	if !exists(filepath.Join(root, store.DirName, blockers.FileName)) {
		return nil, nil
	}
	desk, err := a.blockers()
	if err != nil {
		return nil, err
	}
	return desk.List(ctx, blockers.Filter{BoulderID: id})
}

// reportName is the report of a boulder, relative to [runsDir].
func reportName(id string) string { return filepath.Join(id, "report.md") }

// writeReport writes the report of a boulder into its directory and returns the file's path, relative to the project.
func (d *deps) writeReport(made *morning.Report) (string, error) {
	var text bytes.Buffer
	if err := made.Markdown(&text); err != nil {
		return "", err
	}
	runs, err := statedir.Open(d.Dir(), strings.Split(runsDir, "/")...)
	if err != nil {
		return "", err
	}
	defer runs.Close()
	if err := runs.Write(reportName(made.BoulderID), text.Bytes()); err != nil {
		return "", err
	}
	return filepath.Join(filepath.FromSlash(runsDir), reportName(made.BoulderID)), nil
}
