package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
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
			case isSession(o.why):
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
	_ = cmd.RegisterFlagCompletionFunc("why", a.completeSubTask) // fails only for a flag that is not there
	return cmd
}

// runWhy shows the chain of decisions of one sub-task.
func (a *app) runWhy(ctx context.Context, args []string, subTask string) error {
	return look(ctx, a, func(r reader) (*whyReport, error) {
		return readWhy(ctx, r, newestOr(args), subTask)
	}, a.printWhy)
}

func (a *app) runShow(ctx context.Context, args []string) error {
	return look(ctx, a, func(r reader) (*showReport, error) {
		return readShow(ctx, r, newestOr(args))
	}, a.printShow)
}

// showReport is what `manager show --json` prints: one object with the stored records. Fields are added in later
// versions, never changed.
type showReport struct {
	Type     string                `json:"type"` // show
	Boulder  boulder.Boulder       `json:"boulder"`
	Revision *boulder.PlanRevision `json:"revision"`  // the plan that it runs; null while planning
	SubTasks []subTaskShow         `json:"sub_tasks"` // in plan order
}

// subTaskShow is a sub-task with its history.
type subTaskShow struct {
	boulder.SubTask
	History []attemptShow `json:"history"` // its attempts, from the first
}

// attemptShow is an attempt with its turns.
type attemptShow struct {
	boulder.Attempt
	History []boulder.Turn `json:"history"` // its turns, from the first: prompt, evidence, verdict
}

// readShow reads everything. With an error there is a report as well if at least the head could be read.
func readShow(ctx context.Context, r reader, ref string) (*showReport, error) {
	id, err := project.Resolve(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	s := &showReport{Type: "show", Boulder: d.Boulder, Revision: d.Revision, SubTasks: []subTaskShow{}}
	attempts := map[string][]attemptShow{}
	for _, a := range d.Attempts {
		attempts[a.SubTaskID] = append(attempts[a.SubTaskID], attemptShow{Attempt: a, History: []boulder.Turn{}})
	}
	all, turnsErr := r.Turns(ctx, id, "")
	turns := bySubTask(all)
	for _, t := range d.SubTasks {
		show := subTaskShow{SubTask: t, History: append([]attemptShow{}, attempts[t.ID]...)}
		show.takeTurns(turns[t.ID])
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

// takeTurns gives each turn to its attempt.
func (s *subTaskShow) takeTurns(turns []boulder.Turn) {
	for _, turn := range turns {
		for i := range s.History {
			if s.History[i].Attempt.Attempt == turn.Attempt {
				s.History[i].History = append(s.History[i].History, turn)
			}
		}
	}
}
