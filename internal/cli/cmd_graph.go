package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
)

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
		Long: `Draws what comes after what in a boulder (default: the active one, or the plan in .manager/plan.yaml if nothing was
run), with how far each sub-task is, also while another process runs it. BOULDER is an id, or a beginning or end of
one; an argument that ends in .yaml, .yml or .json is a plan file.`,
		Example: `  manager graph
  manager graph feature.yaml
  manager graph -o plan.svg
  manager graph --format mermaid 01k3 >> NOTES.md`,
		Args:              takes(0, 1, "one BOULDER or plan file"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := a.readGraph(cmd.Context(), newestOr(args), all)
			if report == nil {
				return err
			}
			if len(report.SubTasks) == 0 {
				a.note("There are no sub-tasks yet.")
			}
			return errors.Join(o.write(a, report, func(to page.Out) error {
				_, err := io.WriteString(to, report.Draw(o.format, to))
				return err
			}), err)
		},
	}
	o.register(a, cmd)
	cmd.Flags().BoolVar(&all, "all", false, "with the sub-tasks that a later plan replaced")
	return cmd
}

// readGraph reads what is to be drawn. With an error there is a report as well if at least the head could be read.
func (a *app) readGraph(ctx context.Context, ref string, all bool) (*view.Graph, error) {
	path := a.file(ref)
	if !looksLikePlan(ref) {
		report, err := read(ctx, a, ref, func(r reader, d store.Detail) (*view.Graph, error) {
			return view.GraphOf(d, a.limitsOf(control.HolderOf(ctx, r)), all), nil
		})
		path = a.ownPlan()
		if ref != "" || path == "" || !errors.Is(err, boulder.ErrNotFound) {
			return report, err
		}
	}
	if !exists(path) {
		return nil, usagef("there is no plan file %s", path)
	}
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
