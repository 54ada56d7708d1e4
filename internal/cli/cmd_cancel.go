package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
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

func (a *app) runCancel(ctx context.Context, o *cancelOptions, subTask string) error {
	ref := o.boulder
	if subTask == "" && !o.yes && !a.json && terminal(a.Stdin) && terminal(a.Stderr) {
		id, err := a.confirmCancel(ctx, ref)
		if err != nil {
			return err
		}
		ref = id
	}
	return a.steer(ctx, ref, boulder.Order{Do: boulder.OrderCancel, SubTaskID: subTask})
}

// errKept ends a cancel that the person did not mean.
var errKept = errors.New("nothing was cancelled")

// confirmCancel asks whether the boulder is to be ended, and returns its id. Nothing is held while a person thinks.
func (a *app) confirmCancel(ctx context.Context, ref string) (string, error) {
	d, err := a.toCancel(ctx, ref)
	if err != nil {
		return "", err
	}
	completed, planned := view.Done(d)
	fmt.Fprintf(a.Stderr, "%s  %s\n%s\n%d of %s done.\n", d.Boulder.ID, d.Boulder.Status, text.Clip(d.Boulder.Task, 200),
		completed, text.Plural(planned, "sub-task"))
	for {
		fmt.Fprint(a.Stderr, "\nEnd it for good? [yes / no] ")
		answer, err := a.answer(ctx)
		if err != nil {
			return "", err
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return d.Boulder.ID, nil
		case "n", "no":
			return "", errKept
		}
	}
}

// toCancel reads the boulder that is meant.
func (a *app) toCancel(ctx context.Context, ref string) (store.Detail, error) {
	p, err := a.openAnyway()
	if err != nil {
		return store.Detail{}, err
	}
	d, err := p.Desk(ctx)
	if err != nil {
		return store.Detail{}, err
	}
	defer d.Close()
	id, err := d.Find(ctx, ref)
	if err != nil {
		return store.Detail{}, err
	}
	detail, err := d.Get(ctx, id)
	if err != nil {
		return detail, err
	}
	return detail, makesSense(ctx, d, detail, boulder.Order{Do: boulder.OrderCancel})
}
