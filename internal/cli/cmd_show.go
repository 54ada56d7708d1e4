package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newShowCmd() *cobra.Command {
	why, receipt := "", false
	cmd := &cobra.Command{
		Use:        "show [flags] [BOULDER]",
		Short:      "Show plan, attempts, sessions and verdicts of a boulder",
		SuggestFor: []string{"why", "describe"},
		Long: `Shows everything that is known about a boulder (default: the active one): the plan, and of each sub-task the
attempts with their sessions, each turn's verdict with the evidence, and the gates. BOULDER is an id, or a beginning or
end of one.

With --why SUBTASK it shows what was sent to that one's sessions, what was seen, how it was judged, and what was decided,
in order of time; with --why and the id of an OpenCode session, or its end as ` + "`manager watch`" + ` prints it, every
decision of the watch about that one.`,
		Args:              takes(0, 1, "one BOULDER"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("why") && receipt:
				return usagef("--why and --receipt cannot be used together: --why is about one sub-task," +
					" --receipt about the whole boulder")
			case view.IsSession(why):
				return a.runWhySession(cmd.Context(), why)
			case cmd.Flags().Changed("why"):
				err := a.runWhy(cmd.Context(), args, why)
				if _, usage := errors.AsType[*project.UsageError](err); !usage && !errors.Is(err, boulder.ErrNotFound) {
					return err
				}
				if id := a.watchedSession(cmd.Context(), why); id != "" {
					return a.runWhySession(cmd.Context(), id)
				}
				return err
			case receipt:
				return a.runReceipt(cmd.Context(), args)
			}
			return a.runShow(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "only the chain of decisions about `SUBTASK`, or about a watched session")
	cmd.Flags().BoolVar(&receipt, "receipt", false, "only where tokens, money and time went")
	_ = cmd.RegisterFlagCompletionFunc("why", a.completion(many, subTasksOf(nil))) // fails only for a flag that is not there
	return cmd
}

// runWhy shows the chain of decisions of one sub-task.
func (a *app) runWhy(ctx context.Context, args []string, subTask string) error {
	report, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*view.Why, error) {
		t, err := findSubTask(d, subTask)
		if err != nil {
			return nil, err
		}
		turns, turnsErr := r.Turns(ctx, d.Boulder.ID, t.ID)
		events, eventsErr := eventsOf(ctx, r, d.Boulder.ID)
		holder := control.HolderOf(ctx, r)
		why := view.NewWhy(d, *t, turns, events, a.limitsOf(holder), holder.Runs(d.Boulder), time.Now())
		return why, errors.Join(turnsErr, eventsErr)
	})
	return show(a, report, err)
}

func (a *app) runShow(ctx context.Context, args []string) error {
	report, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*view.Show, error) {
		turns, err := r.Turns(ctx, d.Boulder.ID, "")
		return view.NewShow(d, turns), err
	})
	return show(a, report, err)
}

// runReceipt prints the receipt of a boulder.
func (a *app) runReceipt(ctx context.Context, args []string) error {
	report, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*view.Receipt, error) {
		receipt := view.NewReceipt(d, time.Now())
		receipt.Running = control.HolderOf(ctx, r).Runs(d.Boulder)
		return receipt, nil
	})
	return show(a, report, err)
}
