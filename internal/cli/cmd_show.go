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
	report, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*view.Why, error) {
		return readWhy(ctx, r, d, subTask)
	})
	return show(a, report, err)
}

func (a *app) runShow(ctx context.Context, args []string) error {
	report, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*view.Show, error) {
		s := &view.Show{Type: "show", Boulder: d.Boulder, Revision: d.Revision, SubTasks: []view.SubTaskShow{}}
		all, err := r.Turns(ctx, d.Boulder.ID, "")
		turns := bySubTask(all)
		for _, t := range d.SubTasks {
			shown := view.SubTaskShow{SubTask: t, History: []view.AttemptShow{}}
			for _, a := range d.Attempts {
				if a.SubTaskID == t.ID {
					shown.History = append(shown.History, view.AttemptShow{Attempt: a, History: []boulder.Turn{}})
				}
			}
			shown.TakeTurns(turns[t.ID])
			s.SubTasks = append(s.SubTasks, shown)
		}
		return s, err
	})
	return show(a, report, err)
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
	report, err := read(ctx, a, newestOr(args), func(r reader, d store.Detail) (*view.Receipt, error) {
		receipt := view.NewReceipt(d, time.Now())
		receipt.Running = control.HolderOf(ctx, r).Runs(d.Boulder)
		return receipt, nil
	})
	return show(a, report, err)
}

// readWhy reads the chain of one sub-task. With an error there is a report as well if its record could be read.
func readWhy(ctx context.Context, r reader, d store.Detail, subTask string) (*view.Why, error) {
	t, err := findSubTask(d, subTask)
	if err != nil {
		return nil, err
	}
	id := d.Boulder.ID
	turns, err := r.Turns(ctx, id, t.ID)
	w := view.NewWhy(d, *t, turns)
	from, to := span(d, *t)
	for e, eventErr := range eventsOf(ctx, r, id, from) {
		err = errors.Join(err, eventErr)
		if eventErr != nil || e.Seq > to && len(t.GateRuns) == 0 {
			break
		}
		if g, ok := e.Body.(boulder.GateRun); e.Seq <= to || ok && g.Final && g.SubTaskID == t.ID {
			w.Take(e)
		}
	}
	w.End(control.HolderOf(ctx, r).Runs(d.Boulder))
	return w, err
}

// span is where the events of a sub-task lie: from its first place in the queue to its end.
func span(d store.Detail, t boulder.SubTask) (after, last uint64) {
	last = d.Boulder.Seq
	if t.EndSeq > 0 {
		last = t.EndSeq
	}
	for _, a := range d.Attempts {
		if a.SubTaskID == t.ID && a.QueueSeq > 0 {
			return a.QueueSeq - 1, last
		}
	}
	return 0, last
}
