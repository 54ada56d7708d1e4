package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

type redoOptions struct {
	ref, files                     string
	redo                           project.Redo
	stale, checkGates, dryRun, yes bool
}

func (a *app) newRedoCmd() *cobra.Command {
	var o redoOptions
	cmd := &cobra.Command{
		Use:   "redo [flags] SUBTASK …",
		Short: "Redo completed sub-tasks, and what follows from them",
		Long: `Has completed sub-tasks done again in fresh sessions, with what the plan file says of them now, and runs the boulder,
which may be over. Their earlier attempts, verdicts and costs stay visible. What depends on them is done again only if they
come out differently: another result for it, or another change. On a terminal it shows that first, and asks.

What a sub-task changed is taken back before it begins where that merges with what came later, and else stays (--files says
which it has to be). In an isolated run the results begin anew before it; those of others are applied and tested again.

With --stale it redoes all that is out of date, as ` + "`manager status --stale`" + ` shows it; with --check-gates also what has
a gate that is red now. Nothing is ever redone by itself; ` + "`manager keep`" + ` takes a result as up to date.`,
		Example: `  manager redo colours --dry-run
  manager redo colours --note "Use the colours of the style guide"
  manager redo --stale --check-gates`,
		ValidArgsFunction: a.completion(many, subTasksOf(&o.ref)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch o.redo.Files = boulder.Files(o.files); {
			case o.stale == (len(args) > 0):
				return usagef("%s takes SUBTASK …, or --stale for all that is out of date", cmd.CommandPath())
			case o.checkGates && !o.stale:
				return usagef("--check-gates goes with --stale")
			case o.files != "" && o.redo.Files != boulder.FilesKeep && o.redo.Files != boulder.FilesRevert:
				return usagef("--files takes keep or revert, not %q", o.files)
			}
			return a.runRedo(cmd.Context(), o, args)
		},
		Args: cobra.ArbitraryArgs,
	}
	a.boulderFlag(cmd, &o.ref)
	cmd.Flags().Lookup("boulder").Usage = "the `BOULDER` that is meant (default: the active one)"
	cmd.Flags().StringVar(&o.redo.Note, "note", "", "tell their agents and the judge this `TEXT`")
	cmd.Flags().BoolVar(&o.redo.NoDependents, "no-dependents", false, "keep the results of what depends on them, whatever they come to")
	cmd.Flags().StringVar(&o.files, "files", "", "`keep` what they changed, or `revert` it")
	cmd.Flags().BoolVar(&o.stale, "stale", false, "all that is out of date")
	cmd.Flags().BoolVar(&o.checkGates, "check-gates", false, "run the gates, to find those that are red now")
	cmd.Flags().BoolVarP(&o.dryRun, "dry-run", "n", false, "only show what would be redone")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	a.attachFlag(cmd)
	a.lockFlag(cmd)
	return cmd
}

func (a *app) newKeepCmd() *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "keep [flags] SUBTASK",
		Short: "Take the result of a sub-task as up to date",
		Long: `Takes the result of a completed sub-task as up to date, with the plan file, the results that it builds on and the commit
as they are now; one that waits to see whether what it depends on comes out the same is kept in any case.`,
		Args: takes(1, 1, "one SUBTASK of `manager status`"), ValidArgsFunction: a.completion(1, subTasksOf(&ref)),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runKeep(cmd.Context(), ref, args[0]) },
	}
	a.boulderFlag(cmd, &ref)
	cmd.Flags().Lookup("boulder").Usage = "the `BOULDER` that is meant (default: the active one)"
	return cmd
}

func (a *app) runStale(ctx context.Context, ref string) error {
	if err := a.OpenWorkspace(ctx); err != nil {
		return err
	}
	report, err := read(ctx, a, ref, func(_ *project.Desk, b boulder.Snapshot) (*view.Stale, error) {
		stale, err := a.Stale(ctx, &b, false)
		return view.NewStale(&b, stale), err
	})
	return show(a, report, err)
}

func (a *app) runKeep(ctx context.Context, ref, id string) error {
	if err := a.OpenWorkspace(ctx); err != nil {
		return err
	}
	done, err := a.Order(ctx, func(d *project.Desk) (b boulder.Snapshot, order boulder.Order, err error) {
		if b, err = project.Get(ctx, d, ref); err != nil {
			return b, order, err
		}
		t, err := findSubTask(b, id)
		if err == nil {
			order, err = a.KeepOrder(ctx, &b, t.ID)
		}
		return b, order, err
	})
	if err != nil {
		return err
	}
	return show(a, view.NewOrder(done), nil)
}

// prepareRedo reads a boulder, and what a redo comes to there; nothing is stale: nil.
func (a *app) prepareRedo(ctx context.Context, o *redoOptions, args []string) (*boulder.Snapshot, *project.Redoing, error) {
	there, err := a.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := project.Get(ctx, there, o.ref)
	var events []boulder.Event
	if err == nil {
		events, err = there.Events(ctx, b.Boulder.ID, 0, 0)
	}
	works := there.Holder.Runs(b.Boulder)
	there.Close() // before gates are run
	if err != nil {
		return nil, nil, err
	}
	o.redo.SubTasks = map[string][]boulder.Reason{}
	for _, arg := range args {
		t, err := findSubTask(b, arg)
		if err != nil {
			return nil, nil, err
		}
		o.redo.SubTasks[t.ID] = []boulder.Reason{boulder.ReasonAsked}
	}
	if o.stale {
		if o.checkGates && works && b.Boulder.Isolated() {
			return nil, nil, usagef("boulder %s is at work, and its own gates run where these would: pause it, or leave --check-gates out",
				b.Boulder.ID)
		}
		if o.redo.SubTasks, err = a.Stale(ctx, &b, o.checkGates); err != nil || len(o.redo.SubTasks) == 0 {
			return &b, nil, err
		}
	}
	r, err := a.PrepareRedo(ctx, &b, events, o.redo)
	return &b, &r, err
}

func (a *app) runRedo(ctx context.Context, o redoOptions, args []string) error {
	if err := a.OpenWorkspace(ctx); err != nil {
		return err
	}
	b, r, err := a.prepareRedo(ctx, &o, args)
	if err != nil {
		return err
	}
	if r == nil {
		return show(a, view.NewStale(b, nil), nil)
	}
	if report := view.NewRedo(b, *r, o.dryRun); o.dryRun || a.json {
		err = show(a, report, nil)
	} else if !a.quiet {
		report.Print(a.on(a.Stderr))
	}
	if err != nil || o.dryRun {
		return err
	}
	if !o.yes && a.interactive() {
		if _, err := a.choose(ctx, "Redo this?", "yes", "no"); errors.Is(err, orchestrator.ErrDeclined) {
			return errors.New("nothing is redone")
		} else if err != nil {
			return err
		}
	}
	id, atWork := b.Boulder.ID, 0
	err = a.Steer(ctx, func(there *project.Desk) error {
		if there.Holder.Runs(b.Boulder) {
			atWork = there.Holder.PID
		}
		return a.OrderRedo(ctx, there, b, r.Order)
	})
	switch {
	case err != nil:
		return err
	case atWork > 0:
		a.note("Process %d, which runs boulder %s, redoes it.", atWork, id)
		return nil
	}
	return a.runResume(ctx, &resumeOptions{runFlags: runFlags{yes: true}}, []string{id})
}
