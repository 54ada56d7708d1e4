package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newReportCmd() *cobra.Command {
	o := outputFlags{
		document: "report", names: []string{"text", "markdown", formatJSON},
		endings: map[string]string{".md": "markdown", ".markdown": "markdown", ".json": formatJSON},
	}
	cmd := &cobra.Command{
		Use:   "report [flags] [BOULDER]",
		Short: "Show what was done, how it was verified, and what needs you",
		Long: `Reports on a boulder (default: the active one) for whoever comes back to it: what to do next, as commands to type;
the questions that wait for an answer, and the choices that agents made; what was not done, and why; what was done, with
the gates and the judge's evidence; and what it took. It works while another process runs the boulder. BOULDER is an
id, or a beginning or end of one.

Every run writes its report when it ends, however it does: .manager/runs/BOULDER/report.md.`,
		Example: `  manager report
  manager report -o report.md
  manager report 01k3 --format markdown | less`,
		Args:              takes(0, 1, "one BOULDER"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			made, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*morning.Report, error) {
				return a.makeReport(ctx, r, d, time.Now())
			})
			if made == nil {
				return err
			}
			return errors.Join(o.write(a, made, func(to page.Out) error {
				to.Markdown = o.format == "markdown"
				made.Print(to)
				return nil
			}), err)
		},
	}
	o.register(a, cmd)
	return cmd
}

// makeReport makes the report of a boulder, without secrets. With an error it lacks something.
func (a *app) makeReport(ctx context.Context, r reader, d store.Detail, now time.Time) (*morning.Report, error) {
	in := morning.Input{
		Boulder: d.Boulder, SubTasks: d.SubTasks, Attempts: d.Attempts, Turns: map[string]boulder.Turn{},
		Running: control.HolderOf(ctx, r).Runs(d.Boulder), Now: now.Round(0),
	}
	id := d.Boulder.ID
	turns, err := r.Turns(ctx, id, "")
	for _, turn := range turns { // the newest that tells how its sub-task stands
		if turn.Evidence != nil || turn.Verdict != nil {
			in.Turns[turn.SubTaskID] = turn
		}
	}
	var blockersErr error
	if in.Blockers, blockersErr = a.recordsOfBlockers(ctx, id); blockersErr != nil {
		err = errors.Join(err, fmt.Errorf("the report has blockers as the boulder knows them, without what is in %s: %w",
			blockers.FileName, blockersErr))
	}
	made := secret.Each(*morning.New(in), a.secrets)
	return &made, err
}

// recordsOfBlockers are the full records of a boulder's blockers, oldest first. Nothing is made where none were recorded.
func (a *app) recordsOfBlockers(ctx context.Context, id string) ([]boulder.Blocker, error) {
	p, err := a.openAnyway()
	if err != nil {
		return nil, err
	}
	desk, err := p.Blockers()
	if err != nil {
		return nil, err
	}
	return desk.List(ctx, blockers.Filter{BlockerScope: boulder.BlockerScope{BoulderID: id}})
}

// writeReport writes the report of a boulder into its directory and returns the file's path, relative to the project.
func (a *app) writeReport(made *morning.Report) (string, error) {
	var text bytes.Buffer
	made.Print(page.Out{Writer: &text, Markdown: true})
	name := filepath.Join(made.BoulderID, "report.md")
	if err := statedir.Write(a.Dir(), strings.Split(runsDir, "/"), name, text.Bytes()); err != nil {
		return "", err
	}
	return filepath.Join(filepath.FromSlash(runsDir), name), nil
}
