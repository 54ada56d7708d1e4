package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/cmd/internal/web"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

func (a *app) newReportCmd() *cobra.Command {
	o := outputFlags{
		document: "report", names: []string{"text", "markdown", formatHTML, formatJSON},
		endings: map[string]string{
			".md": "markdown", ".markdown": "markdown", ".html": formatHTML, ".htm": formatHTML, ".json": formatJSON,
		},
	}
	answer := false
	cmd := &cobra.Command{
		Use:   "report [flags] [BOULDER]",
		Short: "Show what was done, how it was verified, and what needs you",
		Long: `Reports on a boulder (default: the active one) for whoever comes back to it: what to do next, as commands to type;
the questions that wait for an answer, and the choices that agents made; what was not done, and why; what was done, with
the gates and the judge's evidence; and what it took. It works while another process runs the boulder.

With --answer, it prints the answer to the request alone: what was asked for, where words were asked for, else what there is
now; without a model's answer, what the records say. There is none before the boulder is over.

With --html, everything that ` + "`manager ui`" + ` shows of the boulder becomes one file that loads nothing and needs no script:
the report, the graph as a picture, what the time and the money went into, and the decisions about each sub-task.

Every run writes its report when it ends, however it does: .manager/runs/BOULDER/report.md.`,
		Example: `  manager report
  manager report -o report.md
  manager report --answer
  manager report --html night.html
  manager report 01k3 --format markdown | less`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if o.format == formatHTML {
				site, err := web.NewSite(a.project, "", a.logger())
				if err != nil {
					return err
				}
				content, err := project.Look(ctx, a.project, cmp.Or(args...), site.Freeze)
				if content == "" {
					return err
				}
				return errors.Join(o.write(a, nil, func(to page.Out) { fmt.Fprint(to, content) }), err)
			}
			made, err := project.Look(ctx, a.project, cmp.Or(args...), a.project.ReadReport)
			if made == nil {
				return err
			}
			if answer {
				if made.Answer == "" {
					return errors.Join(err, fmt.Errorf("boulder %s is %s: there is no answer yet", boulder.ShortID(made.BoulderID), made.Status))
				}
				return errors.Join(o.write(a, map[string]string{"type": "answer", "boulder_id": made.BoulderID, "answer": made.Answer},
					func(to page.Out) { fmt.Fprintln(to, text.Safe(made.Answer)) }), err)
			}
			return errors.Join(o.write(a, made, func(to page.Out) {
				to.Markdown = o.format == "markdown"
				view.PrintReport(to, made)
			}), err)
		},
	}
	o.register(a, cmd)
	cmd.Flags().BoolVar(&answer, "answer", false, "print the answer to the request alone")
	cmd.Flags().Func("html", "write the pages of the boulder as one `FILE`; - is stdout: -f html -o FILE", func(file string) error {
		o.format, o.file = formatHTML, file
		return nil
	})
	cmd.MarkFlagsMutuallyExclusive("html", "format")
	cmd.MarkFlagsMutuallyExclusive("html", "output")
	cmd.MarkFlagsMutuallyExclusive("html", "answer")
	return cmd
}

// writeReport writes the report into the boulder's directory and returns its path, relative to the project.
func (a *app) writeReport(made *report.Report) (string, error) {
	var text bytes.Buffer
	view.PrintReport(page.Out{Writer: &text, Markdown: true}, made)
	name := filepath.Join(made.BoulderID, "report.md")
	if err := statedir.Write(a.project.Dir(), view.RunsDir+"/"+name, text.Bytes()); err != nil {
		return "", err
	}
	return filepath.Join(filepath.FromSlash(view.RunsDir), name), nil
}

func (a *app) newGraphCmd() *cobra.Command {
	all := false
	o := outputFlags{
		document: "picture", convert: "write an .svg, or convert a .dot with `dot -T",
		names: []string{"text", "mermaid", "dot", "svg"}, endings: map[string]string{
			".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".txt": "text",
		},
	}
	cmd := &cobra.Command{
		Use:   "graph [flags] [BOULDER | PLAN.yaml]",
		Short: "Show the dependency graph",
		Long: `Draws the dependency graph of a boulder (default: the active one, or the plan in .manager/plan.yaml if nothing was run)
with the status of each sub-task, also while another process runs it. An argument that ends in .yaml, .yml or .json is a
plan file, and any other file a list of tasks; see ` + "`manager plan --help`" + `.`,
		Example: `  manager graph
  manager graph feature.yaml
  manager graph -o plan.svg
  manager graph --format mermaid 01k3 >> NOTES.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			drawn, err := a.readGraph(cmd.Context(), cmp.Or(args...), all)
			if drawn == nil {
				return err
			}
			if len(drawn.SubTasks) == 0 {
				a.note("There are no sub-tasks yet.")
			}
			return errors.Join(o.write(a, drawn, func(to page.Out) { fmt.Fprint(to, drawn.Draw(o.format, to)) }), err)
		},
	}
	o.register(a, cmd)
	cmd.Flags().BoolVar(&all, "all", false, "with the sub-tasks that a later plan replaced")
	return cmd
}

// readGraph reads the graph. With an error it still returns one if the boulder's head could be read.
func (a *app) readGraph(ctx context.Context, ref string, all bool) (*view.Graph, error) {
	path := a.file(ref)
	if !looksLikePlan(ref) && (ref == "" || !a.isFile(ref)) {
		var drawn *view.Graph
		r, err := project.Look(ctx, a.project, ref, a.project.Recent)
		if r != nil {
			drawn = view.GraphOf(r.Snapshot, r.Limits, all)
		}
		path = a.project.PlanPath()
		if ref != "" || !exists(path) || !errors.Is(err, boulder.ErrNotFound) {
			return drawn, err
		}
	}
	if !exists(path) {
		return nil, a.noFile("plan file", ref)
	}
	if a.openErr != nil {
		return nil, a.openErr
	}
	plan, _, _, err := a.readAny(cmp.Or(ref, path), path)
	if err != nil {
		return nil, err
	}
	return view.GraphOfPlan(plan, path), nil
}

// outputFlags are --format and -o of a command that writes a document.
type outputFlags struct {
	document     string            // its name in messages
	convert      string            // advice how to make another format, up to the format's name; empty: none
	names        []string          // of formats
	endings      map[string]string // format by file name extension
	format, file string
}

const (
	formatJSON = "json"
	formatHTML = "html"
)

func (o *outputFlags) register(a *app, cmd *cobra.Command) {
	oneOf(cmd, &o.format, "format", "f", "`FORMAT` (default: by the ending of the file of -o, else text)", o.names...)
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write to `FILE` instead of stdout; - is stdout")
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check(a) }
}

// check sets the format. It refuses contradictory flags and unwritable files before anything is read.
func (o *outputFlags) check(a *app) error {
	if o.file == "-" {
		o.file = ""
	}
	ending := strings.ToLower(filepath.Ext(o.file))
	meant, known := o.endings[ending]
	switch {
	case o.format == "":
		o.format = cmp.Or(meant, "text")
	case a.json && (o.file == "" || o.format == formatHTML) && o.format != formatJSON:
		return usagef("--json and --format contradict each other: give one of them, or write to a file with -o")
	}
	switch {
	case o.file == "":
		return nil
	case !known && looksLikePlan(o.file): // an easy mistake that would overwrite the plan
		return usagef("-o %s: that is the name of a plan file, not of a %s", o.file, o.document)
	case o.convert != "" && slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ps", ".eps"}, ending):
		return usagef("-o %s: %s files are not written: %s%s`", o.file, ending, o.convert, ending[1:])
	}
	if _, _, err := statedir.Replaceable(a.file(o.file), 0); err != nil && !errors.Is(err, statedir.ErrIrregular) {
		return usagef("cannot write the %s: %w", o.document, err)
	}
	return nil
}

// write writes the document to its file, replacing an existing one, or to stdout. With --json, stdout always gets
// object.
func (o *outputFlags) write(a *app, object any, draw func(to page.Out)) error {
	if o.format == formatJSON {
		draw = func(to page.Out) { _ = view.WriteJSON(to, object) } // guarded records errors of stdout
	}
	if o.file != "" {
		var text bytes.Buffer
		draw(page.Out{Writer: &text})
		path := a.file(o.file)
		err := statedir.Replace(path, text.Bytes(), 0o644)
		if errors.Is(err, statedir.ErrIrregular) { // a pipe
			err = os.WriteFile(path, text.Bytes(), 0)
		}
		if err != nil {
			return fmt.Errorf("write the %s: %w", o.document, err)
		}
		a.note("Wrote %s.", a.pretty(path))
	}
	switch {
	case a.json:
		return a.printJSON(object)
	case o.file == "":
		draw(a.on(a.Stdout))
	}
	return nil
}
