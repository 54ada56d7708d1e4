package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newPauseCmd() *cobra.Command {
	o := boulder.Order{Do: boulder.OrderPause}
	cmd := &cobra.Command{
		Use:        "pause [flags] [BOULDER]",
		Short:      "Pause a boulder",
		SuggestFor: []string{"stop"},
		Long: `Nothing new starts. Running turns come to their end; --now stops them, and a resume picks them up. The process that
runs the boulder stays, and waits for ` + "`manager resume`" + ` from any terminal. A pause outlives that process.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd.Context(), cmp.Or(args...), o, nil)
		},
	}
	cmd.Flags().BoolVar(&o.Now, "now", false, "stop the turns that are at work")
	return cmd
}

func (a *app) newRetryCmd() *cobra.Command {
	cmd := a.subTaskCmd(boulder.OrderRetry, &cobra.Command{
		Use:   "retry [flags] SUBTASK | BOULDER SUBTASK",
		Short: "Retry a sub-task in a fresh session",
		Long: `Runs a sub-task of an unfinished boulder again in a fresh session, with all its attempts, whether it failed, was cancelled,
waits for you, or is running. What was blocked because of it can continue. What it changed in the project stays, and its new
session finds it. One that waits for a limit of its model continues at once instead, and so does all that waits for that limit.
If you have edited what the plan file says of it, as a gate that could not run, that is taken over.

A completed sub-task is run again by ` + "`manager redo`" + `.`,
		Example: `  manager retry toggle
  manager note --sub-task toggle "The store is in src/state.js" && manager retry toggle`,
	})
	cmd.Flags().BoolVar(&a.keepPlan, "keep-plan", false, "ignore edits of the plan file")
	return cmd
}

func (a *app) newSkipCmd() *cobra.Command {
	return a.subTaskCmd(boulder.OrderSkip, &cobra.Command{
		Use:   "skip [flags] SUBTASK | BOULDER SUBTASK",
		Short: "Skip a sub-task, as if it were done",
		Long: `Ends a sub-task as skipped, whether it has begun or not: what depends on it continues without it. Use it for what is
not needed, or what you have done yourself (say so with ` + "`manager note`" + `).`,
	})
}

// subTaskCmd completes a command that orders something for one sub-task.
func (a *app) subTaskCmd(do boulder.OrderKind, cmd *cobra.Command) *cobra.Command {
	cmd.Args = argCount(1, 2, "one SUBTASK of `manager status`, and before it perhaps its BOULDER")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		args, err := a.ofBoulder(ctx, args, len(args) == 2)
		if err != nil {
			return err
		}
		return a.order(ctx, func(d *project.Access) (b boulder.Snapshot, o boulder.Order, err error) {
			o = boulder.Order{Do: do, SubTaskID: args[0]}
			if b, err = toSteer(ctx, d, a.ref, &o); err == nil && do == boulder.OrderRetry && !a.keepPlan {
				o, err = a.project.RetryOrder(ctx, d, &b, o.SubTaskID)
			}
			return b, o, err
		})
	}
	a.boulderFlag(cmd, toSteerDefault)
	return cmd
}

func (a *app) newCancelCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "cancel [flags] [SUBTASK | BOULDER [SUBTASK]]",
		Short:      "Cancel a boulder or one of its sub-tasks",
		SuggestFor: []string{"kill", "stop", "abort"},
		Long: `Ends a boulder for good: what is at work is stopped, nothing else starts, and the process that runs it ends with exit
code 130. What was changed in the project stays. On a terminal it asks first.

With SUBTASK only that one ends; what depends on it is blocked, the rest continues. As long as the boulder is not over,
` + "`manager retry`" + ` takes that back.`,
		Args: argCount(0, 2, "one SUBTASK of `manager status`, a BOULDER, or both"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if args, err = a.ofBoulder(cmd.Context(), args, len(args) == 2); err != nil {
				return err
			}
			o := boulder.Order{Do: boulder.OrderCancel, SubTaskID: cmp.Or(args...)}
			if o.SubTaskID == "" && a.interactive() {
				if a.ref, err = a.confirm(cmd.Context(), a.ref, o); err != nil {
					return err
				}
			}
			return a.steer(cmd.Context(), a.ref, o, nil)
		},
	}
	a.boulderFlag(cmd, toSteerDefault)
	a.shared(cmd, "yes")
	return cmd
}

// confirm asks whether to end the boulder, and returns its id. The database is closed while it asks.
func (a *app) confirm(ctx context.Context, ref string, o boulder.Order) (string, error) {
	var d boulder.Snapshot
	err := a.project.Steer(ctx, func(there *project.Access) (err error) {
		d, err = toSteer(ctx, there, ref, &o)
		return err
	})
	if err != nil {
		return "", err
	}
	completed, planned := d.Boulder.Tally.Completed, d.Boulder.Tally.Planned
	fmt.Fprintf(a.Stderr, "%s  %s\n%s\n%d of %s done.\n", boulder.ShortID(d.Boulder.ID), d.Boulder.Status, text.Clip(d.Boulder.Task, 200),
		completed, text.Plural(planned, "sub-task"))
	if _, err = a.choose(ctx, "End it for good?", "yes", "no"); errors.Is(err, orchestrator.ErrDeclined) {
		err = errors.New("nothing was cancelled")
	}
	return d.Boulder.ID, err
}

// noteRead bounds the bytes read for a note. It exceeds a note's own limit, whose error names that limit.
const noteRead = 64 << 10

func (a *app) newNoteCmd() *cobra.Command {
	var subTask string
	cmd := &cobra.Command{
		Use:   "note [flags] \"TEXT\" | - | BOULDER \"TEXT\"",
		Short: "Tell the agents and the judge something",
		Long: `The text goes into the next prompt of every sub-task, or of one with --sub-task, and into the next judgement. A turn
that is at work is not disturbed. With - the text is read from stdin. At most 4,000 characters.`,
		Example: `  manager note "The staging database is down; use the fixtures in testdata/"
  git diff --stat | manager note --sub-task toggle -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.ofBoulder(cmd.Context(), args, false)
			if err != nil {
				return err
			}
			said, err := a.noteText(args)
			if err != nil {
				return err
			}
			order := boulder.Order{Do: boulder.OrderNote, SubTaskID: subTask, Text: a.project.Clean("The note", said)[0]}
			return a.steer(cmd.Context(), a.ref, order, func(d boulder.Snapshot) error {
				if len(args) < 2 || subTask != "" {
					return nil
				}
				t, _ := findSubTask(d, args[0])
				if t == nil {
					return nil
				}
				return usagef("%q is a sub-task: did you mean `manager note --sub-task %s %q`? To tell all of them, put the"+
					" text into quotes: `manager note %q`", args[0], t.ID, strings.Join(args[1:], " "), said)
			})
		},
	}
	a.boulderFlag(cmd, toSteerDefault)
	cmd.Flags().StringVar(&subTask, "sub-task", "", "only for `SUBTASK`")
	return cmd
}

// noteText joins the arguments, which the shell may have split, or reads stdin for "-".
func (a *app) noteText(args []string) (string, error) {
	said := strings.Join(args, " ")
	if said == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, noteRead))
		if err != nil {
			return "", fmt.Errorf("read the note from stdin: %w", err)
		}
		said = string(data)
	}
	return strings.TrimSpace(said), nil
}

func (a *app) newArchiveCmd() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "archive [flags] [BOULDER …]",
		Short: "Archive finished boulders",
		Long: `Hides finished boulders from ` + "`manager list`" + ` (default: the active one). They are listed with
` + "`manager list --archived`" + `, can be looked at as before, and come back with --undo. Their sessions are archived in OpenCode 1
(its pages hide them then; ` + "`opencode session list`" + ` does not), and the copies in which they worked are removed; results that have
not landed stay. ` + "`manager gc`" + ` removes the sessions.`,
		Example: `  manager archive 01k3 01k4
  manager archive --undo 01k3`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runArchive(cmd.Context(), undo, args) },
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "bring them back")
	return cmd
}

type archiveReport struct {
	Type      string `json:"type"` // archive
	BoulderID string `json:"boulder_id"`
	Archived  bool   `json:"archived"`
	Changed   bool   `json:"changed"` // false: it was so before
}

func (a *app) runArchive(ctx context.Context, undo bool, args []string) error {
	order := boulder.Order{Do: boulder.OrderArchive}
	says := map[bool]string{true: "Archived %s.\n", false: "%s is archived already.\n"}
	if undo {
		order.Do = boulder.OrderUnarchive
		says = map[bool]string{true: "%s is back.\n", false: "%s is not archived.\n"}
	}
	switch {
	case len(args) == 0 && undo:
		return usagef("say which boulder is to come back: `manager list --archived` shows them")
	case len(args) == 0:
		args = []string{""}
	}
	var done []archiveReport
	err := a.project.Steer(ctx, func(d *project.Access) error {
		done = nil
		for _, arg := range args { // check all before the first order
			found, err := project.Get(ctx, d, arg)
			if err != nil {
				return err
			}
			b := found.Boulder
			if !b.Status.Terminal() {
				return usagef("boulder %s is %s, and only what is over can be archived: bring it to its end with"+
					" `manager resume %[1]s`, or end it with `manager cancel -b %[1]s`", boulder.ShortID(b.ID), b.Status)
			}
			done = append(done, archiveReport{"archive", b.ID, !undo, b.ArchivedAt.IsZero() != undo})
		}
		for _, r := range done {
			if !r.Changed {
				continue
			}
			if err := d.Orders.Order(ctx, r.BoulderID, order); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var changed []string
	for _, r := range done {
		if r.Changed {
			changed = append(changed, r.BoulderID)
		}
		if !a.json {
			fmt.Fprintf(a.Stdout, says[r.Changed], boulder.ShortID(r.BoulderID))
		}
	}
	if err := a.project.PutAway(ctx, changed, undo); err != nil {
		a.warn("%v; `manager gc` does the rest", err)
	}
	if a.json {
		return writeLines(a.Stdout, done)
	}
	return nil
}

const toSteerDefault = "the one that is at work, or the newest unfinished one"

// steer has an order carried out and shows the result. check may refuse the order, and may be nil.
func (a *app) steer(ctx context.Context, ref string, o boulder.Order, check func(boulder.Snapshot) error) error {
	if err := o.Validate(); err != nil {
		return &project.UsageError{Err: err}
	}
	return a.order(ctx, func(d *project.Access) (boulder.Snapshot, boulder.Order, error) {
		before, err := toSteer(ctx, d, ref, &o)
		if err == nil && check != nil {
			err = check(before)
		}
		return before, o, err
	})
}

func (a *app) order(ctx context.Context, find func(*project.Access) (boulder.Snapshot, boulder.Order, error)) error {
	done, err := a.project.Order(ctx, find)
	if err != nil {
		return err
	}
	return a.show(view.NewOrder(done))
}

// toSteer reads the boulder of an order, and resolves the order's sub-task. Its errors suggest what was meant.
func toSteer(ctx context.Context, r *project.Access, ref string, o *boulder.Order) (boulder.Snapshot, error) {
	d, err := r.Find(ctx, ref)
	switch {
	case err != nil:
		return d, err
	case d.Boulder.Status.Terminal() && o.Do == boulder.OrderRetry && o.SubTaskID != "":
		return d, usagef("boulder %s is over (%s): try the sub-task again in a new one with `manager redo %[3]s -b %[1]s`",
			boulder.ShortID(d.Boulder.ID), d.Boulder.Status, o.SubTaskID)
	case d.Boulder.Status.Terminal():
		return d, project.Over(&d.Boulder, o.Do)
	case o.SubTaskID == "":
		return d, nil
	}
	t, err := findSubTask(d, o.SubTaskID)
	if err == nil {
		o.SubTaskID = t.ID
	}
	return d, err
}

func (a *app) newRedoCmd() *cobra.Command {
	var redo project.Redo
	var stale, dryRun bool
	cmd := &cobra.Command{
		Use:   "redo [flags] [SUBTASK … | BOULDER SUBTASK …]",
		Short: "Redo completed sub-tasks, and what follows from them",
		Long: `Has completed sub-tasks done again in fresh sessions, with what the plan file says of them now, and runs the boulder,
which may be over. Their earlier attempts, verdicts and costs stay visible. What depends on them is done again only if they
come out differently: another result for it, or another change. On a terminal it shows that first, and asks.

If the boulder was cancelled, its results have landed, it is over without having completed them, or it took them over from
another one, a new boulder does that on the present files. It keeps the results that do not depend on them.

What a sub-task changed is taken back before it begins where that merges with what came later, and else stays (--files says
which it has to be). In an isolated run the results are rebuilt from before it; those of others are applied and tested again.

With --stale it redoes all that is out of date, as ` + "`manager status --stale`" + ` shows it; with --check-gates also what has
a gate that is red now. Nothing is ever redone by itself; ` + "`manager keep`" + ` marks a result as up to date.`,
		Example: `  manager redo colours --dry-run
  manager redo colours --note "Use the colours of the style guide"
  manager redo --stale --check-gates`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.ofBoulder(cmd.Context(), args, false)
			switch {
			case err != nil:
				return err
			case stale == (len(args) > 0):
				return usagef("%s takes SUBTASK …, or --stale for all that is out of date", cmd.CommandPath())
			case redo.Gates && !stale:
				return usagef("--check-gates goes with --stale")
			}
			return a.runRedo(cmd.Context(), redo, dryRun, args)
		},
	}
	a.boulderFlag(cmd, "the active one")
	cmd.Flags().StringVar(&redo.Note, "note", "", "tell their agents and the judge this `TEXT`")
	cmd.Flags().BoolVar(&redo.NoDependents, "no-dependents", false, "keep the results of what depends on them, whatever they come to")
	oneOf(cmd, &redo.Files, "files", "", "what becomes of what they changed, as a `WORD`", "keep", "revert")
	cmd.Flags().BoolVar(&stale, "stale", false, "all that is out of date")
	cmd.Flags().BoolVar(&redo.Gates, "check-gates", false, "run the gates, to find those that are red now")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only show what would be redone")
	a.shared(cmd, "yes", "attach", "lock-timeout")
	return cmd
}

func (a *app) newKeepCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keep [flags] SUBTASK | BOULDER SUBTASK",
		Short: "Mark the result of a sub-task as up to date",
		Long: `Marks the result of a completed sub-task as up to date, with the plan file, the results that it builds on and the commit
as they are now; one that waits to see whether what it depends on comes out the same is kept in any case.`,
		Args: argCount(1, 2, "one SUBTASK of `manager status`, and before it perhaps its BOULDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.ofBoulder(cmd.Context(), args, len(args) == 2)
			if err != nil {
				return err
			}
			return a.runKeep(cmd.Context(), args[0])
		},
	}
	a.boulderFlag(cmd, "the active one")
	return cmd
}

func (a *app) runKeep(ctx context.Context, id string) error {
	return a.order(ctx, func(d *project.Access) (b boulder.Snapshot, order boulder.Order, err error) {
		if b, err = project.Get(ctx, d, a.ref); err != nil {
			return b, order, err
		}
		t, err := findSubTask(b, id)
		if err == nil {
			order, err = a.project.KeepOrder(ctx, &b, t.ID)
		}
		return b, order, err
	})
}

func (a *app) runRedo(ctx context.Context, redo project.Redo, dryRun bool, args []string) error {
	whole, err := project.Look(ctx, a.project, a.ref, a.project.Whole)
	if err != nil {
		return err
	}
	b := &whole.Snapshot
	for _, arg := range args {
		t, err := findSubTask(*b, arg)
		if err != nil {
			return err
		}
		if redo.SubTasks == nil {
			redo.SubTasks = map[string][]boulder.Reason{}
		}
		redo.SubTasks[t.ID] = []boulder.Reason{boulder.ReasonAsked}
	}
	r, err := a.project.PrepareRedo(ctx, whole, redo)
	switch {
	case err != nil:
		return err
	case r == nil:
		return a.show(view.NewStale(b, nil))
	}
	if report := view.NewRedo(b, *r, dryRun); dryRun || a.json {
		err = a.show(report)
	} else if !a.quiet {
		report.Print(a.on(a.Stderr))
	}
	if err != nil || dryRun {
		return err
	}
	if a.interactive() {
		if _, err := a.choose(ctx, "Redo this?", "yes", "no"); errors.Is(err, orchestrator.ErrDeclined) {
			return errors.New("nothing is redone")
		} else if err != nil {
			return err
		}
	}
	if r.Anew != "" {
		return a.runFork(ctx, b, r)
	}
	by, err := a.project.OrderRedo(ctx, b, r.Order)
	if err != nil || by != "" {
		a.note("%s", by)
		return err
	}
	a.yes, a.keepPlan = true, true // the rest of the file was not asked about
	a.detach = a.server(ctx) != nil
	return a.runResume(ctx, []string{b.Boulder.ID})
}

// runFork has a new boulder redo what the boulder cannot: in the project's server if one runs, else here.
func (a *app) runFork(ctx context.Context, b *boulder.Snapshot, r *boulder.Redoing) error {
	if err := a.connectToRun(ctx); err != nil {
		return err
	}
	if there, err := a.project.Dial(ctx); err == nil {
		a.detach = there.Holder.Serves
		there.Close()
	}
	a.yes = true
	req := project.ForkRequest(b, r)
	(&approver{app: a}).setApproval(&req, req.AskReplans)
	return a.run(ctx, &req, func(*project.State) error {
		a.warnOfMissing(ctx, req.Plan)
		return nil
	})
}
