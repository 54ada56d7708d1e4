package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

type graphOptions struct {
	format string
	output string
	all    bool
}

// graphFormats are the formats of --format, each with the endings of -o that mean it.
var graphFormats = []struct {
	name    string
	endings []string
}{
	{"text", []string{".txt"}},
	{"mermaid", []string{".mmd", ".mermaid"}},
	{"dot", []string{".dot", ".gv"}},
	{"svg", []string{".svg"}},
}

func (a *app) newGraphCmd() *cobra.Command {
	var o graphOptions
	cmd := &cobra.Command{
		Use:   "graph [flags] [BOULDER | PLAN.yaml]",
		Short: "Show the dependency graph",
		Long: `Draws what comes after what in a boulder (default: the active one, or the plan in .manager/plan.yaml
if nothing was run), with how far each sub-task is. It also works while another process runs the boulder. BOULDER is
an id, or a beginning or end of one; an argument that ends in .yaml, .yml or .json is a plan file.

As text, boxes are drawn if they fit on the terminal, else a list that says of each sub-task after which others it
comes.`,
		Example: `  manager graph
  manager graph feature.yaml
  manager graph -o plan.svg
  manager graph --format mermaid 01k3 >> NOTES.md`,
		Args:              atMostOne("BOULDER or plan file"),
		ValidArgsFunction: a.completeBoulder(false),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.check(a, cmd.Flags().Changed("format")) },
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runGraph(cmd.Context(), &o, args) },
	}
	cmd.Flags().StringVarP(&o.format, "format", "f", "",
		"`FORMAT`: text, mermaid, dot or svg (default: by the ending of the file of -o, else text)")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "write to `FILE` instead of stdout; - is stdout")
	cmd.Flags().BoolVar(&o.all, "all", false, "with the sub-tasks that a later plan replaced")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions( // fails only for a flag that is not there
		[]cobra.Completion{"text", "mermaid", "dot", "svg"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check refuses what contradicts itself or cannot be written, before anything is read, and fills in the format.
func (o *graphOptions) check(a *app, formatGiven bool) error {
	if o.output == "-" {
		o.output = ""
	}
	if formatGiven && a.json && o.output == "" {
		return usagef("--json and --format contradict each other: give one of them, or write the picture to a file with -o")
	}
	if err := o.checkOutput(a); err != nil {
		return err
	}
	var names []string
	for _, f := range graphFormats {
		names = append(names, f.name)
		if !formatGiven && slices.Contains(f.endings, strings.ToLower(filepath.Ext(o.output))) {
			o.format = f.name
		}
	}
	if !formatGiven {
		o.format = cmp.Or(o.format, "text")
	}
	if !slices.Contains(names, o.format) {
		return usagef("there is no format %q: it is text, mermaid, dot or svg", o.format)
	}
	return nil
}

func (o *graphOptions) checkOutput(a *app) error {
	if o.output == "" {
		return nil
	}
	if looksLikePlan(o.output) { // an easy mistake, and the plan would be gone
		return usagef("-o %s: that is the name of a plan file, and a picture is none; it ends in .svg, .dot, .mmd or .txt",
			o.output)
	}
	switch ending := strings.ToLower(filepath.Ext(o.output)); ending {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ps", ".eps":
		return usagef("-o %s: %s files are not written: write an .svg, or convert a .dot with `dot -T%s`", o.output, ending,
			ending[1:])
	}
	path := a.file(o.output)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef("cannot write the picture to %s: it is a directory", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usagef("cannot write the picture to %s: there is no directory %s", path, filepath.Dir(path))
	}
	return nil
}

func (a *app) runGraph(ctx context.Context, o *graphOptions, args []string) error {
	report, err := a.readGraph(ctx, o, args)
	if report == nil {
		return err
	}
	return errors.Join(a.writeGraph(report, o), err)
}

// readGraph reads what is to be drawn. With an error there is a report as well if at least the head could be read.
func (a *app) readGraph(ctx context.Context, o *graphOptions, args []string) (*view.Graph, error) {
	if len(args) == 1 && looksLikePlan(args[0]) {
		path := a.file(args[0])
		if !exists(path) {
			return nil, usagef("there is no plan file %s", path)
		}
		return a.readPlanGraph(path)
	}
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil, err
	}
	report, err := a.readBoulderGraph(ctx, r, newestOr(args), o.all)
	closeReader() // before anything is printed: a pager must not keep a run from starting
	if len(args) == 0 && errors.Is(err, boulder.ErrNotFound) {
		if root, rootErr := a.project(); rootErr == nil && exists(planPath(root)) {
			return a.readPlanGraph(planPath(root))
		}
	}
	return report, err
}

func (a *app) readPlanGraph(path string) (*view.Graph, error) {
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	plan, err := p.ReadPlan(path)
	if err != nil {
		return nil, err
	}
	return view.GraphOfPlan(plan, path), nil
}

func (a *app) readBoulderGraph(ctx context.Context, r reader, ref string, all bool) (*view.Graph, error) {
	id, err := project.Resolve(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	limits := a.shownLimits()
	if holder := project.HolderOf(ctx, r); holder != nil && holder.Limits != nil {
		limits = *holder.Limits
	}
	return view.GraphOf(d, limits, all), err
}

// writeGraph writes the picture to its file, which is written anew if it is there, or to stdout. With --json, stdout
// gets the object in any case.
func (a *app) writeGraph(report *view.Graph, o *graphOptions) error {
	if len(report.SubTasks) == 0 {
		a.note("There are no sub-tasks yet.")
	}
	if o.output != "" {
		path := a.file(o.output)
		picture := report.Draw(o.format, view.Out{})
		if err := os.WriteFile(path, []byte(picture), 0o644); err != nil {
			return fmt.Errorf("write the picture: %w", err)
		}
		a.note("Wrote %s.", a.pretty(path))
	}
	switch {
	case a.json:
		return a.printJSON(report)
	case o.output == "":
		_, err := io.WriteString(a.Stdout, report.Draw(o.format, a.on(a.Stdout)))
		return err
	}
	return nil
}
