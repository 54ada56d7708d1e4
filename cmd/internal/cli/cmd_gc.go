package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newGCCmd() *cobra.Command {
	var dry, abandoned bool
	cmd := &cobra.Command{
		Use:   "gc [flags]",
		Short: "Remove what nothing needs any more",
		Long: `Removes the copies in which boulders that are over have worked (their results stay, whether landed or not), also those
that wait for the next run, results that were dropped 30 days ago, temporary directories of killed processes, and of archived
boulders the sessions in OpenCode, unless they were used since. Transcripts stay in .manager. ` + "`manager archive`" + ` does it
for a boulder, but only archives its sessions.

Copies of projects that are gone, or whose .manager was removed, are listed. --abandoned removes them as well, in your cache
directory or below slots.dir, if nothing in them changed in the last day: what agents had changed there and no result has is lost.
Check first, with --dry-run, that no such project was only moved: it finds its copies with the next command that needs them.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runGC(cmd.Context(), dry, abandoned) },
	}
	cmd.Flags().BoolVar(&abandoned, "abandoned", false, "also copies of projects that are gone, or that have lost their state")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed, and how much it is")
	return cmd
}

func (a *app) runGC(ctx context.Context, dry, abandoned bool) error {
	found, warn, err := a.project.Leftovers(ctx)
	if err != nil {
		return err
	}
	if warn != nil {
		a.warn("OpenCode was not asked for sessions: %v", warn)
	}
	gone, err := a.project.Abandoned(ctx, abandoned)
	if err != nil {
		return err
	}
	found = append(found, gone...)
	if !dry {
		found, err = a.removeLeft(ctx, found)
	}
	return errors.Join(a.show(view.NewGC("gc", dry, found)), err)
}

// removeLeft removes what does not stay. What could not be removed is an error, and is not among what it returns.
func (a *app) removeLeft(ctx context.Context, found []project.Left) (done []project.Left, err error) {
	for _, l := range found {
		if removeErr := a.project.Remove(ctx, l); removeErr != nil {
			err = errors.Join(err, removeErr)
			continue
		}
		done = append(done, l)
	}
	return done, err
}

func (a *app) newUninstallCmd() *cobra.Command {
	var dry, drop bool
	cmd := &cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Remove from this project what manager has put into it",
		Long: `Lists what manager has put into the project, asks, and removes it: its state with all boulders and transcripts, copies,
its boulders' refs in refs/manager, its sessions in OpenCode unless they were used since, and the command /blockers. Your files,
branches and commits stay, and so do plans and configuration that you wrote. Where a process of manager is at work, or a
boulder is not over, or its results have not landed or have with conflicts in the last 30 days, it refuses; --drop removes those
boulders as well.`,
		Example: `  manager uninstall --dry-run
  manager uninstall --yes --drop`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runUninstall(cmd.Context(), dry, drop) },
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would be removed")
	cmd.Flags().BoolVar(&drop, "drop", false, "also boulders that are not over, and results that have not landed")
	cmd.Flags().BoolVar(&a.yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) runUninstall(ctx context.Context, dry, drop bool) error {
	u, err := a.project.Uninstall(ctx)
	if err != nil {
		return err
	}
	if u.Warn != nil {
		a.warn("the sessions stay in OpenCode, which does not answer: %v", u.Warn)
	}
	a.addOutside(u)
	var lost error
	if len(u.Unfinished)+len(u.Unlanded)+len(u.Marred) > 0 && !drop {
		lost = usagef("%s. Take the results with `manager land BOULDER`, end the rest with `manager cancel BOULDER`,"+
			" or remove them too, with --drop", strings.TrimPrefix(
			text.Prefixed("; not over: ", strings.Join(u.Unfinished, ", "))+text.Prefixed("; not landed: ", strings.Join(u.Unlanded, ", "))+
				text.Prefixed("; written with conflicts, which `manager land --undo BOULDER` takes back: ", strings.Join(u.Marred, ", ")), "; "))
	}
	switch {
	case dry && lost != nil:
		a.warn("it would be refused: %v", lost)
		fallthrough
	case dry:
		return a.show(view.NewGC("uninstall", true, u.Left))
	case lost != nil:
		return fmt.Errorf("nothing was removed: %w", lost)
	}
	if !a.yes {
		if !a.interactive() {
			return usagef("nothing was removed: say --yes, or --dry-run to see what would be")
		}
		view.NewGC("uninstall", true, u.Left).Print(a.on(a.Stderr))
		if _, err := a.choose(ctx, "Remove it?", "yes", "no"); err != nil {
			if errors.Is(err, orchestrator.ErrDeclined) {
				err = errors.New("nothing was removed")
			}
			return err
		}
	}
	done, err := a.removeLeft(ctx, u.Left)
	return errors.Join(a.show(view.NewGC("uninstall", false, done)), err)
}

// addOutside adds the command /blockers, and settings of other programs that name manager: those are the user's.
func (a *app) addOutside(u *project.Uninstall) {
	dir := a.project.Dir()
	if file := filepath.Join(dir, ".opencode", "command", "blockers.md"); exists(file) {
		u.Left = append(u.Left, project.NewLeft("file", file, text.If(!ownSlashFile(file), "not of this program"), func(context.Context) error {
			_, err := changeSlashFile(dir, ".opencode", "", "")
			return err
		}))
	}
	entry := text.Regexp(`"manager"\s*,[^\]]*"mcp"|"command"\s*:\s*"manager"`)
	for _, name := range []string{"opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc", ".mcp.json"} {
		file := filepath.Join(dir, name)
		if data, err := os.ReadFile(file); err == nil && entry().Match(data) {
			u.Left = append(u.Left, project.NewLeft("setting", file, "you added `manager mcp` there: take it out", nil))
		}
	}
}

func ownSlashFile(file string) bool {
	data, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(data), slashMark)
}
