package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// read reads a boulder, and makes a report of it. With an error there is a report as well if at least the boulder's head
// could be read.
func read[T any](
	ctx context.Context, a *app, ref string, report func(there *project.Desk, d boulder.Snapshot) (*T, error),
) (*T, error) {
	there, err := a.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Close() // before anything is printed: a pager must not keep a run from starting
	d, err := project.Get(ctx, there, ref)
	if d.Boulder.ID == "" {
		return nil, err
	}
	made, reportErr := report(there, d)
	return made, cmp.Or(err, reportErr)
}

// show prints a report that was read, and returns what could not be read.
func show[T any, P interface {
	*T
	view.Report
}](a *app, report P, readErr error) (err error) {
	switch {
	case report == nil:
	case a.json:
		err = a.printJSON(report)
	default:
		report.Print(a.on(a.Stdout))
	}
	return cmp.Or(err, readErr)
}

// on is a stream as views print on it.
func (a *app) on(stream io.Writer) page.Out {
	o := page.Out{Paint: page.Paint{On: a.color(stream)}, Writer: stream}
	if f, ok := fileOf(stream); ok && terminal(f) {
		o.File = f
	}
	return o
}

func (a *app) console() view.Console {
	return view.Console{
		Stdout: a.on(a.Stdout), Stderr: a.on(a.Stderr), JSON: a.json, Quiet: a.quiet, Verbose: a.verbose,
		TermType: a.Getenv("TERM"), Limits: a.Config().Limits,
	}
}

// limitsOf are the limits that explain why something waits.
func (a *app) limitsOf(holder *control.Holder) schedule.Limits {
	if holder != nil && holder.Limits != nil {
		return *holder.Limits
	}
	return a.Config().Limits
}

func (a *app) printJSON(v any) error { return view.WriteJSON(a.Stdout, v) }

func (a *app) newStatusCmd() *cobra.Command {
	var follow, stale bool
	cmd := &cobra.Command{
		Use:        "status [flags] [BOULDER]",
		Short:      "Show how far a boulder is",
		SuggestFor: []string{"ps", "st", "progress"},
		Long: `Shows how far a boulder is (default: the active one): each sub-task with its state, what it waits for,
what its agent does, and what it cost. It also works while another process runs it. BOULDER is an id, or a
beginning or end of one.

With --follow it shows the boulder as ` + "`manager run`" + ` does, until it is over or you press Ctrl-C, which does not
disturb it: what needs you on top, then what is at work and what waits.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := cmp.Or(args...)
			if stale {
				return a.runStale(cmd.Context(), ref)
			}
			if follow {
				followed, err := a.followStatus(cmd.Context(), ref)
				if followed || err != nil {
					return err
				}
			}
			err := a.runStatus(cmd.Context(), ref)
			if follow && err == nil {
				a.note("No process runs it, so there is nothing to follow.")
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the boulder while a process runs it")
	cmd.Flags().BoolVar(&stale, "stale", false, "only what is completed and out of date, and why; see 'manager redo --help'")
	cmd.MarkFlagsMutuallyExclusive("follow", "stale")
	return cmd
}

// followStatus shows a boulder that another process runs as that process would show it, unless none does.
func (a *app) followStatus(ctx context.Context, ref string) (followed bool, err error) {
	there, err := a.Read(ctx)
	if err != nil {
		return false, err
	}
	defer there.Close()
	d, err := project.Get(ctx, there, ref)
	id, holder := d.Boulder.ID, there.Holder
	if err != nil || !holder.Runs(d.Boulder) {
		return false, err
	}
	recent, err := recentOf(ctx, there, d)
	if err != nil {
		return false, err
	}
	raised, _ := a.BlockersOf(ctx, id) // without them no time left is shown
	p, err := view.ProgressOf(there, d, recent, raised)
	if err != nil {
		return false, err
	}
	c := a.console()
	c.Limits = a.limitsOf(holder)
	v := view.NewRun(c, p, text.If(len(holder.Running) > 1, " -b "+id))
	defer v.Close()
	for e, err := range there.Follow(ctx, id, d.Boulder.Seq) {
		switch {
		case ctx.Err() != nil:
			return true, errInterrupted // that is how to leave it
		case errors.Is(err, control.ErrNotServed): // the process has ended
			v.Close()
			return true, a.runStatus(ctx, id)
		case err != nil:
			return true, err
		}
		if v.Event(e); p.State.Boulder.Status.Terminal() {
			break
		}
	}
	return true, nil
}

func (a *app) runStatus(ctx context.Context, ref string) error {
	report, err := read(ctx, a, ref, func(there *project.Desk, d boulder.Snapshot) (*view.Status, error) {
		return a.readStatus(ctx, there, d)
	})
	archived := errors.Is(err, project.ErrAllArchived)
	if report == nil && (archived || ref == "" && errors.Is(err, boulder.ErrNotFound)) {
		a.noteNothing(archived)
		return nil
	}
	return show(a, report, err)
}

func (a *app) noteNothing(archived bool) {
	switch {
	case archived:
		a.note("Everything that was run here is archived; see: manager list --archived")
	case exists(a.PlanPath()):
		a.note("Nothing has been run here yet. There is a plan; run it with: manager run")
	default:
		a.note("Nothing has been run here yet. Start with: manager plan \"TASK\"")
	}
}

// recentOf are the events that tell what the agents do right now.
func recentOf(ctx context.Context, r project.Reader, d boulder.Snapshot) ([]boulder.Event, error) {
	return r.Events(ctx, d.Boulder.ID, d.Boulder.Seq-min(d.Boulder.Seq, 200), 0)
}

// readStatus reads what status shows besides the boulder.
func (a *app) readStatus(ctx context.Context, there *project.Desk, d boulder.Snapshot) (_ *view.Status, err error) {
	b, holder, now := &d.Boulder, there.Holder, time.Now()
	var recent []boulder.Event
	if !b.Status.Terminal() {
		recent, err = recentOf(ctx, there, d)
	}
	var beside []boulder.Snapshot
	if holder != nil && slices.Contains(holder.Running, b.ID) {
		for _, id := range holder.Running {
			if other, err := there.Get(ctx, id); err == nil && id != b.ID { // one that cannot be read has a status of its own
				beside = append(beside, other)
			}
		}
	}
	s := view.NewStatus(d, recent, holder, a.limitsOf(holder), beside, now)
	if s.Waiting != (view.WaitingBlockers{}) {
		records, _ := a.BlockersOf(ctx, b.ID) // without them it is told as the boulder knows it
		s.Waiting = view.WaitingIn(d, records, now)
	}
	return s, err
}

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
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
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
				report, err := read(cmd.Context(), a, cmp.Or(args...), func(there *project.Desk, d boulder.Snapshot) (*view.Receipt, error) {
					receipt := view.NewReceipt(d, time.Now()).Bound(d, a.Config().Limits.EvaluationsTotal)
					receipt.Running = there.Holder.Runs(d.Boulder)
					return receipt, nil
				})
				return show(a, report, err)
			}
			report, err := read(cmd.Context(), a, cmp.Or(args...), func(there *project.Desk, d boulder.Snapshot) (*view.Show, error) {
				events, err := there.Events(cmd.Context(), d.Boulder.ID, 0, 0)
				if there.Holder.Has(d.Boulder.ID) {
					d.Boulder.Left = nil // it stops them now
				}
				return view.NewShow(d, boulder.Turns(events, "")), err
			})
			return show(a, report, err)
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "only the chain of decisions about `SUBTASK`, or about a watched session")
	cmd.Flags().BoolVar(&receipt, "receipt", false, "only where tokens, money and time went")
	cmd.MarkFlagsMutuallyExclusive("why", "receipt")
	_ = cmd.RegisterFlagCompletionFunc("why", a.completion(many, subTasksOf(nil))) // fails only for a flag that is not there
	return cmd
}

func (a *app) runWhy(ctx context.Context, args []string, subTask string) error {
	report, err := read(ctx, a, cmp.Or(args...), func(there *project.Desk, d boulder.Snapshot) (*view.Why, error) {
		t, err := findSubTask(d, subTask)
		if err != nil {
			return nil, err
		}
		events, err := there.Events(ctx, d.Boulder.ID, 0, 0)
		holder := there.Holder
		return view.NewWhy(d, t, boulder.Turns(events, t.ID), events, a.limitsOf(holder), holder.Runs(d.Boulder), time.Now()), err
	})
	return show(a, report, err)
}

func (a *app) newListCmd() *cobra.Command {
	var archived bool
	cmd := &cobra.Command{
		Use:        "list [flags]",
		Short:      "List the boulders of the project",
		SuggestFor: []string{"ls", "boulders"},
		Long: `Lists the boulders of the project, the newest first, without those that are archived. The active one, marked with *,
was begun or taken up last: it is the one that is meant where a command is given none.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), archived) },
	}
	cmd.Flags().BoolVar(&archived, "archived", false, "those that are archived, and no others")
	return cmd
}

func (a *app) runList(ctx context.Context, archived bool) error {
	there, err := a.Read(ctx)
	if err != nil {
		return err
	}
	all, err := there.Listing(ctx)
	there.Close() // before anything is printed: a pager must not keep a run from starting
	var shown []view.ListItem
	for i := range all {
		if all[i].ArchivedAt.IsZero() != archived {
			shown = append(shown, view.NewListItem(&all[i], there.Holder))
		}
	}
	switch {
	case a.json:
		return errors.Join(writeLines(a.Stdout, shown), err)
	case len(shown) > 0:
		view.List(a.on(a.Stdout), shown, time.Now())
	case err != nil:
	case archived:
		a.note("Nothing is archived here.")
	default:
		a.noteNothing(len(all) > 0)
	}
	return err
}
