package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

type showOptions struct {
	why     string
	receipt bool
}

func (a *app) newShowCmd() *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:        "show [flags] [BOULDER]",
		Short:      "Show plan, attempts, sessions and verdicts of a boulder",
		SuggestFor: []string{"why", "describe"},
		Long: `Shows everything that is known about a boulder (default: the active one): the plan that it runs, and
of each sub-task the attempts with their sessions, each turn's verdict with the evidence, and the gates. BOULDER is
an id, or a beginning or end of one.

With --why SUBTASK it shows why that sub-task came to be where it is: what was sent to its sessions, what was seen,
how it was judged, and what was decided, in order of time. It also works while another process runs the boulder. With
the id of an OpenCode session, or its end as ` + "`manager watch`" + ` prints it, it shows every decision of the watch
about that one.`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("why") && o.receipt:
				return usagef("--why and --receipt cannot be used together: --why is about one sub-task," +
					" --receipt about the whole boulder")
			case view.IsSession(o.why):
				return a.runWhySession(cmd.Context(), o.why)
			case cmd.Flags().Changed("why"):
				err := a.runWhy(cmd.Context(), args, o.why)
				if _, usage := errors.AsType[*project.UsageError](err); !usage && !errors.Is(err, boulder.ErrNotFound) {
					return err
				}
				if id := a.watchedSession(cmd.Context(), o.why); id != "" {
					return a.runWhySession(cmd.Context(), id)
				}
				return err
			case o.receipt:
				return a.runReceipt(cmd.Context(), args)
			}
			return a.runShow(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVar(&o.why, "why", "", "only the chain of decisions about `SUBTASK`, or about a watched session")
	cmd.Flags().BoolVar(&o.receipt, "receipt", false, "only where tokens, money and time went")
	_ = cmd.RegisterFlagCompletionFunc("why", a.completion(
		func(ctx context.Context, r reader, args []string) []cobra.Completion {
			return subTasksOf(ctx, r, newestOr(args))
		})) // fails only for a flag that is not there
	return cmd
}

// runWhy shows the chain of decisions of one sub-task.
func (a *app) runWhy(ctx context.Context, args []string, subTask string) error {
	return look(ctx, a, func(r reader) (*view.Why, error) {
		return readWhy(ctx, r, newestOr(args), subTask)
	})
}

func (a *app) runShow(ctx context.Context, args []string) error {
	return look(ctx, a, func(r reader) (*view.Show, error) {
		return readShow(ctx, r, newestOr(args))
	})
}

// readShow reads everything. With an error there is a report as well if at least the head could be read.
func readShow(ctx context.Context, r reader, ref string) (*view.Show, error) {
	id, err := project.Resolve(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	s := &view.Show{Type: "show", Boulder: d.Boulder, Revision: d.Revision, SubTasks: []view.SubTaskShow{}}
	attempts := map[string][]view.AttemptShow{}
	for _, a := range d.Attempts {
		attempts[a.SubTaskID] = append(attempts[a.SubTaskID], view.AttemptShow{Attempt: a, History: []boulder.Turn{}})
	}
	all, turnsErr := r.Turns(ctx, id, "")
	turns := bySubTask(all)
	for _, t := range d.SubTasks {
		show := view.SubTaskShow{SubTask: t, History: append([]view.AttemptShow{}, attempts[t.ID]...)}
		show.TakeTurns(turns[t.ID])
		s.SubTasks = append(s.SubTasks, show)
	}
	return s, cmp.Or(err, turnsErr)
}

// bySubTask sorts turns by their sub-task.
func bySubTask(turns []boulder.Turn) map[string][]boulder.Turn {
	sorted := map[string][]boulder.Turn{}
	for _, t := range turns {
		sorted[t.SubTaskID] = append(sorted[t.SubTaskID], t)
	}
	return sorted
}

// runReceipt prints the receipt of a boulder.
func (a *app) runReceipt(ctx context.Context, args []string) error {
	return look(ctx, a, func(r reader) (*view.Receipt, error) {
		id, err := project.Resolve(ctx, r, newestOr(args))
		if err != nil {
			return nil, err
		}
		d, err := r.Get(ctx, id)
		if d.Boulder.ID == "" {
			return nil, err
		}
		report := view.NewReceipt(d, time.Now())
		report.Running = project.Runs(project.HolderOf(ctx, r), d.Boulder)
		return report, err
	})
}
