package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newDiffCmd() *cobra.Command {
	var ref string
	var stat, names bool
	cmd := &cobra.Command{
		Use:   "diff [flags] [SUBTASK]",
		Short: "Show whose change is whose",
		Long: `Prints as a patch what a sub-task changed; without SUBTASK what each did, below a line that names it.

Of an isolated run that is its commit on the tip, or with SUBTASK what it has in its slot so far. Without SUBTASK what is
not on the tip is left out. In place it is what changed from its start to the end of its newest turn. If others were at
work meanwhile, only the files that it was seen to write are shown, with what others wrote into the same files.`,
		Example: `  manager diff --stat
  manager diff toggle | git apply -R`,
		Args:              takes(0, 1, "one SUBTASK of `manager status`"),
		ValidArgsFunction: a.completion(1, subTasksOf(&ref)),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := cmp.Or(text.If(stat, "--stat"), text.If(names, "--name-only"), "-p")
			return a.runDiff(cmd.Context(), ref, cmp.Or(args...), how)
		},
	}
	a.boulderFlag(cmd, &ref)
	cmd.Flags().Lookup("boulder").Usage = "the `BOULDER` that is meant (default: the active one)"
	cmd.Flags().BoolVar(&stat, "stat", false, "how many lines of which files")
	cmd.Flags().BoolVar(&names, "name-only", false, "the files alone")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only")
	return cmd
}

// diffReport is what `manager diff --json` prints for each sub-task.
type diffReport struct {
	Type      string `json:"type"` // diff
	BoulderID string `json:"boulder_id"`
	SubTaskID string `json:"sub_task_id"`
	From      string `json:"from"`
	To        string `json:"to"`
	OnTip     bool   `json:"on_tip"`
	Diff      string `json:"diff"`
}

func (a *app) runDiff(ctx context.Context, ref, subTask, how string) error {
	if err := a.OpenWorkspace(ctx); err != nil {
		return err
	}
	var b boulder.Snapshot
	changes, err := read(ctx, a, ref, func(there *project.Desk, d boulder.Snapshot) (*[]project.Change, error) {
		id := ""
		if b = d; subTask != "" {
			t, err := findSubTask(d, subTask)
			if err != nil {
				return nil, err
			}
			id = t.ID
		}
		events, err := there.Events(ctx, d.Boulder.ID, 0, 0)
		if err != nil {
			return nil, err
		}
		all, err := project.Changes(&d, events, id)
		return &all, err
	})
	if err != nil {
		return err
	}
	var reports []diffReport
	for _, c := range *changes {
		out, err := a.Patch(ctx, c, how)
		if err != nil {
			return fmt.Errorf("sub-task %q of boulder %s: %w", c.SubTask.ID, b.Boulder.ID, err)
		}
		if c.Files != nil {
			a.note("Others were at work beside %s: only the files that it was seen to write are shown.", c.SubTask.ID)
		}
		reports = append(reports, diffReport{"diff", b.Boulder.ID, c.SubTask.ID, c.From, c.To, c.OnTip, out})
	}
	switch {
	case a.json:
		return writeLines(a.Stdout, reports)
	case len(reports) == 0:
		a.note("Nothing has been changed yet.")
	}
	for i, r := range reports {
		if subTask == "" {
			fmt.Fprintf(a.Stdout, "%s# %d. %s (%s)\n", text.If(i > 0, "\n"), (*changes)[i].SubTask.Position,
				text.OneLine((*changes)[i].SubTask.Subject), r.SubTaskID)
		}
		if terminal(a.Stdout) {
			r.Diff = text.Safe(r.Diff)
		}
		if _, err := io.WriteString(a.Stdout, r.Diff); err != nil {
			return err
		}
	}
	return nil
}
