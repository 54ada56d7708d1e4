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
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
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
	return a.subTaskCmd(boulder.OrderRetry, &cobra.Command{
		Use:   "retry [flags] SUBTASK",
		Short: "Retry a sub-task in a fresh session",
		Long: `Runs a sub-task again in a fresh session, with all its attempts, whether it failed, was cancelled, waits for you, or is
running. What was blocked because of it can continue. What it changed in the project stays, and its new session finds it. One
that waits for a limit of its model continues at once instead, and so does all that waits for that limit.

A completed sub-task is run again by ` + "`manager redo`" + `.`,
		Example: `  manager retry toggle
  manager note --sub-task toggle "The store is in src/state.js" && manager retry toggle`,
	})
}

func (a *app) newSkipCmd() *cobra.Command {
	return a.subTaskCmd(boulder.OrderSkip, &cobra.Command{
		Use:   "skip [flags] SUBTASK",
		Short: "Skip a sub-task, as if it were done",
		Long: `Ends a sub-task as skipped, whether it has begun or not: what depends on it continues without it. Use it for what is
not needed, or what you have done yourself (say so with ` + "`manager note`" + `).`,
	})
}

// subTaskCmd completes a command that gives an order about one sub-task.
func (a *app) subTaskCmd(do boulder.OrderKind, cmd *cobra.Command) *cobra.Command {
	var ref string
	cmd.Args, cmd.ValidArgsFunction = takes(1, 1, "one SUBTASK of `manager status`"), a.completion(1, subTasksOf(&ref))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.steer(cmd.Context(), ref, boulder.Order{Do: do, SubTaskID: args[0]}, nil)
	}
	a.boulderFlag(cmd, &ref)
	return cmd
}

func (a *app) newCancelCmd() *cobra.Command {
	var ref string
	var yes bool
	cmd := &cobra.Command{
		Use:        "cancel [flags] [SUBTASK]",
		Short:      "Cancel a boulder or one of its sub-tasks",
		SuggestFor: []string{"kill", "stop", "abort"},
		Long: `Ends a boulder for good: what is at work is stopped, nothing else starts, and the process that runs it ends with exit
code 130. What was changed in the project stays. On a terminal it asks first.

With SUBTASK only that one ends; what depends on it is blocked, the rest continues. As long as the boulder is not over,
` + "`manager retry`" + ` takes that back.`,
		Args:              takes(0, 1, "one SUBTASK of `manager status`"),
		ValidArgsFunction: a.completion(1, subTasksOf(&ref)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o := boulder.Order{Do: boulder.OrderCancel, SubTaskID: cmp.Or(args...)}
			if o.SubTaskID == "" && !yes && a.interactive() {
				if ref, err = a.confirm(cmd.Context(), ref, o); err != nil {
					return err
				}
			}
			return a.steer(cmd.Context(), ref, o, nil)
		},
	}
	a.boulderFlag(cmd, &ref)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// confirm asks whether the boulder is to be ended, and returns its id. Nothing is held while the user thinks.
func (a *app) confirm(ctx context.Context, ref string, o boulder.Order) (string, error) {
	var d boulder.Snapshot
	err := a.Steer(ctx, func(there *project.Desk) (err error) {
		d, err = toSteer(ctx, there, ref, &o)
		return err
	})
	if err != nil {
		return "", err
	}
	completed, planned := d.Boulder.Tally.Completed, d.Boulder.Tally.Planned
	fmt.Fprintf(a.Stderr, "%s  %s\n%s\n%d of %s done.\n", d.Boulder.ID, d.Boulder.Status, text.Clip(d.Boulder.Task, 200),
		completed, text.Plural(planned, "sub-task"))
	if _, err = a.choose(ctx, "End it for good?", "yes", "no"); errors.Is(err, orchestrator.ErrDeclined) {
		err = errors.New("nothing was cancelled")
	}
	return d.Boulder.ID, err
}

// noteRead bounds what is read of a note, in bytes; what is too long for one is refused with how long it may be.
const noteRead = 64 << 10

func (a *app) newNoteCmd() *cobra.Command {
	var ref, subTask string
	cmd := &cobra.Command{
		Use:   "note [flags] \"TEXT\" | -",
		Short: "Tell the agents and the judge something",
		Long: `The text goes into the next prompt of every sub-task, or of one with --sub-task, and into the next judgement. A turn
that is at work is not disturbed. With - the text is read from stdin. It may have 4,000 characters.`,
		Example: `  manager note "The staging database is down; use the fixtures in testdata/"
  git diff --stat | manager note --sub-task toggle -`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			said, err := a.noteText(args)
			if err != nil {
				return err
			}
			order := boulder.Order{Do: boulder.OrderNote, SubTaskID: subTask, Text: a.Clean("The note", said)[0]}
			return a.steer(cmd.Context(), ref, order, func(d boulder.Snapshot) error {
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
	a.boulderFlag(cmd, &ref)
	cmd.Flags().StringVar(&subTask, "sub-task", "", "only for `SUBTASK`")
	_ = cmd.RegisterFlagCompletionFunc("sub-task", a.completion(many, subTasksOf(&ref)))
	return cmd
}

// noteText is what the arguments say: one text, however the shell has split it.
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
		Long: `Takes boulders that are over out of ` + "`manager list`" + ` (default: the active one). Nothing is deleted: they are
listed with ` + "`manager list --archived`" + `, can be looked at as before, and come back with --undo.`,
		Example: `  manager archive 01k3 01k4
  manager archive --undo 01k3`,
		ValidArgsFunction: a.completion(many, boulders),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runArchive(cmd.Context(), undo, args) },
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "bring them back")
	return cmd
}

// archiveReport is what `manager archive --json` prints of each boulder.
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
	err := a.Steer(ctx, func(d *project.Desk) error {
		done = nil
		for _, arg := range args { // nothing is done if one of them cannot be meant
			found, err := project.Get(ctx, d, arg)
			if err != nil {
				return err
			}
			b := found.Boulder
			if !b.Status.Terminal() {
				return usagef("boulder %s is %s, and only what is over can be archived: bring it to its end with"+
					" `manager resume %[1]s`, or end it with `manager cancel -b %[1]s`", b.ID, b.Status)
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
	switch {
	case err != nil:
		return err
	case a.json:
		return writeLines(a.Stdout, done)
	}
	for _, r := range done {
		fmt.Fprintf(a.Stdout, says[r.Changed], r.BoulderID)
	}
	return nil
}

func (a *app) boulderFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "boulder", "b", "",
		"the `BOULDER` that is meant (default: the one that is at work, or the newest unfinished one)")
	_ = cmd.RegisterFlagCompletionFunc("boulder", a.completion(many, boulders)) // fails only for a flag that is not there
}

// steer has an order carried out and tells what follows from it. check, if there is one, may refuse it.
func (a *app) steer(ctx context.Context, ref string, o boulder.Order, check func(boulder.Snapshot) error) error {
	if err := o.Validate(); err != nil {
		return &project.UsageError{Err: err}
	}
	done, err := a.Order(ctx, func(d *project.Desk) (boulder.Snapshot, boulder.Order, error) {
		before, err := toSteer(ctx, d, ref, &o)
		if err == nil && check != nil {
			err = check(before)
		}
		return before, o, err
	})
	if err != nil {
		return err
	}
	return show(a, view.NewOrder(done), nil)
}

// toSteer reads the boulder that an order is for, and puts the id of its sub-task into the order. It refuses what can only
// be a slip, and says what was probably meant.
func toSteer(ctx context.Context, r *project.Desk, ref string, o *boulder.Order) (boulder.Snapshot, error) {
	d, err := r.Find(ctx, ref)
	switch {
	case err != nil:
		return d, err
	case d.Boulder.Status.Terminal():
		return d, usagef("boulder %s is %s: there is nothing left to %s", d.Boulder.ID, d.Boulder.Status, o.Do)
	case o.SubTaskID == "":
		return d, nil
	}
	t, err := findSubTask(d, o.SubTaskID)
	if err == nil {
		o.SubTaskID = t.ID
		return d, nil
	}
	if other, resolveErr := project.Resolve(ctx, r, o.SubTaskID); resolveErr == nil && o.Do == boulder.OrderCancel {
		err = usagef("%q is a boulder, not a sub-task: end it with `manager cancel -b %s`", o.SubTaskID, other)
	}
	return d, err
}
