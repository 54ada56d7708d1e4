package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newImportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "import [flags] FILE|-",
		Short: "Import a boulder",
		Long: `Stores what ` + "`manager export`" + ` wrote, from a file or with - from stdin, in this project. A boulder that is not
over becomes paused: ` + "`manager resume`" + ` continues it in fresh sessions, and runs its gates, which are shell
commands. Import only what you would run. What contradicts itself, or is here already, is refused as a whole.`,
		Example: `  manager import boulder.json
  ssh host manager -C work export | manager import -`,
		Args: takes(1, 1, "one FILE, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runImport(cmd.Context(), args[0]) },
	}
}

// importReport is what `manager import --json` prints.
type importReport struct {
	Type      string         `json:"type"` // import
	BoulderID string         `json:"boulder_id"`
	Status    boulder.Status `json:"status"`
	Completed int            `json:"completed"` // sub-tasks
	Total     int            `json:"total"`
	Project   string         `json:"project"`         // that it belongs to now
	From      string         `json:"from"`            // the root that it comes from
	Gates     []string       `json:"gates,omitempty"` // commands that a resume will run
}

func (a *app) runImport(ctx context.Context, name string) error {
	p, err := a.openAnyway()
	if err != nil {
		return err
	}
	source := a.Stdin
	if name != "-" {
		f, err := os.Open(a.file(name))
		if err != nil {
			return &project.UsageError{Err: err}
		}
		defer f.Close()
		source = f
	}
	var s *boulder.State
	var from string
	x, err := store.ReadExport(source)
	if err == nil {
		s, from, err = p.Import(ctx, x)
	}
	switch {
	case errors.Is(err, store.ErrBadExport), errors.Is(err, store.ErrExists):
		return usagef("%s: %w", name, err)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	b := &s.Boulder
	r := importReport{"import", b.ID, b.Status, b.Tally.Completed, b.Tally.Planned, b.Project, from, gatesToRun(s)}
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.Stdout, "Imported %s: %s, %d of %s done.\n", b.ID, b.Status, r.Completed, text.Plural(r.Total, "sub-task"))
	if from != b.Project {
		a.note("It comes from %s and belongs to %s now.", text.OneLine(from), b.Project)
	}
	for _, gate := range r.Gates {
		a.note("A resume will run this gate: %s", text.OneLine(gate))
	}
	if !b.Status.Terminal() {
		a.note("Continue with: manager resume %s", b.ID)
	}
	return nil
}

// gatesToRun are the commands that a resume will run.
func gatesToRun(s *boulder.State) (gates []string) {
	b := &s.Boulder
	switch {
	case b.Status.Terminal():
	case len(s.SubTasks) == 0: // those that its plan will give to all of them
		gates = slices.Concat(b.Gates, b.NoWorse, b.Checks.Tests, b.Checks.Lint)
	default:
		for _, t := range s.SubTasks {
			if !t.Status.Terminal() {
				gates = slices.Concat(gates, t.Gates, t.NoWorse, t.Lint)
			}
		}
	}
	slices.Sort(gates)
	return slices.Compact(gates)
}
