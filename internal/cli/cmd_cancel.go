package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
)

type cancelOptions struct {
	boulder string
	yes     bool
}

func (a *app) newCancelCmd() *cobra.Command {
	var o cancelOptions
	cmd := &cobra.Command{
		Use:        "cancel [flags] [SUBTASK]",
		Short:      "Cancel a boulder or one of its sub-tasks",
		SuggestFor: []string{"kill", "stop", "abort"},
		Long: `Ends a boulder for good: what is at work is stopped, nothing else starts, and the process that runs
it ends with exit code 130. What was changed in the project stays. On a terminal it asks first.

With SUBTASK only that one ends; what depends on it is blocked, the rest goes on. As long as the boulder is
not over, ` + "`manager retry`" + ` takes that back.`,
		Example: `  manager cancel
  manager cancel docs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneSubTask(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: a.completeSubTask(&o.boulder),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runCancel(cmd.Context(), &o, newestOr(args))
		},
	}
	a.boulderFlag(cmd, &o.boulder)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) runCancel(ctx context.Context, o *cancelOptions, subTask string) (err error) {
	ref, order := o.boulder, boulder.Order{Do: boulder.OrderCancel, SubTaskID: subTask}
	if subTask == "" && !o.yes && !a.json && terminal(a.Stdin) && terminal(a.Stderr) {
		if ref, err = a.confirm(ctx, ref, order); err != nil {
			return err
		}
	}
	return a.steer(ctx, ref, order)
}

// confirm asks whether the boulder is to be ended, and returns its id. Nothing is held while a person thinks.
func (a *app) confirm(ctx context.Context, ref string, o boulder.Order) (string, error) {
	p, err := a.openAnyway()
	if err != nil {
		return "", err
	}
	there, err := p.Desk(ctx)
	if err != nil {
		return "", err
	}
	d, err := a.toSteer(ctx, there, ref, o)
	there.Close()
	if err != nil {
		return "", err
	}
	completed, planned := view.Done(d)
	fmt.Fprintf(a.Stderr, "%s  %s\n%s\n%d of %s done.\n", d.Boulder.ID, d.Boulder.Status, text.Clip(d.Boulder.Task, 200),
		completed, text.Plural(planned, "sub-task"))
	answer, err := a.choose(ctx, "End it for good?", "yes", "no")
	if err == nil && answer == "no" {
		err = errors.New("nothing was cancelled")
	}
	return d.Boulder.ID, err
}
