package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// look reads a boulder with read, and shows the report that of makes from it.
func (a *app) look(
	ctx context.Context, ref string, read func(context.Context, *project.Access, boulder.Snapshot) (*project.Reading, error),
	of func(r *project.Reading) (view.Report, error),
) error {
	r, err := project.Look(ctx, a.project, ref, read)
	if r == nil {
		return err
	}
	report, ofErr := of(r)
	if err = cmp.Or(err, ofErr); report == nil {
		return err
	}
	return cmp.Or(a.show(report), err)
}

func (a *app) show(report view.Report) error {
	if a.json {
		return a.printJSON(report)
	}
	report.Print(a.on(a.Stdout))
	return nil
}

// on wraps a stream for views.
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
		TermType: a.Getenv("TERM"), Limits: a.project.Config().Limits,
	}
}

func (a *app) printJSON(v any) error { return view.WriteJSON(a.Stdout, v) }

func (a *app) newStatusCmd() *cobra.Command {
	var follow, stale bool
	cmd := &cobra.Command{
		Use:        "status [flags] [BOULDER]",
		Short:      "Show how far a boulder is",
		Aliases:    []string{"ps"},
		SuggestFor: []string{"st", "progress"},
		Long: `Shows how far a boulder is (default: the active one): each sub-task with its state, what it waits for,
what its agent does, and what it cost. It also works while another process runs it.

With --follow it shows the boulder as ` + "`manager run`" + ` does, until it is over or you press Ctrl-C, which does not
disturb it: what needs you on top, then what is at work and what waits.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := cmp.Or(args...)
			if stale {
				return a.look(cmd.Context(), ref, a.project.Recent, func(r *project.Reading) (view.Report, error) {
					stale, err := a.project.Stale(cmd.Context(), &r.Snapshot)
					return view.NewStale(&r.Snapshot, stale), err
				})
			}
			if follow {
				followed, err := a.followStatus(cmd.Context(), ref, false)
				if followed || err != nil {
					return err
				}
			}
			err := a.runStatus(cmd.Context(), ref)
			if follow && err == nil {
				a.note("Nothing here runs it, so there is nothing to follow.")
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the boulder while a process runs it")
	cmd.Flags().BoolVar(&stale, "stale", false, "only what is completed and out of date, and why; see 'manager redo --help'")
	cmd.MarkFlagsMutuallyExclusive("follow", "stale")
	return cmd
}

// followStatus shows a boulder that another process runs, until it is over, or paused if toPause is set. Without such a
// process it returns false.
func (a *app) followStatus(ctx context.Context, ref string, toPause bool) (followed bool, err error) {
	there, err := a.project.Read(ctx)
	if err != nil {
		return false, err
	}
	defer there.Close()
	d, err := project.Get(ctx, there, ref)
	id, holder := d.Boulder.ID, there.Holder
	if err != nil || !holder.Runs(d.Boulder) || toPause && d.Boulder.Status == boulder.Paused && !holder.Beginning() {
		return false, err
	}
	r, err := a.project.Recent(ctx, there, d)
	if err != nil {
		return false, err
	}
	p, err := view.ProgressOf(there.Get, d, r.Events)
	if err != nil {
		return false, err
	}
	c := a.console()
	c.Limits = r.Limits
	v := view.NewRun(c, p, text.If(len(holder.Running) > 1, " -b "+boulder.ShortID(id)))
	defer v.Close()
	for e, err := range there.Follow(ctx, id, d.Boulder.Seq) {
		switch {
		case ctx.Err() != nil:
			return true, errInterrupted // Ctrl-C is how to leave it
		case errors.Is(err, project.ErrNotServed): // the holder has ended
			v.Close()
			return true, a.runStatus(ctx, id)
		case err != nil:
			return true, err
		}
		v.Event(e)
		if s := statusAfter(e); s.Terminal() || toPause && s == boulder.Paused {
			break
		}
	}
	return true, nil
}

// statusAfter returns the new status of the boulder if the event changes it, or "".
func statusAfter(e boulder.Event) boulder.Status {
	switch b := e.Body.(type) {
	case boulder.TaskComplete:
		return b.Status
	case boulder.StatusChanged:
		return b.Status
	}
	return ""
}

func (a *app) runStatus(ctx context.Context, ref string) error {
	err := a.look(ctx, ref, a.project.Recent, func(r *project.Reading) (view.Report, error) { return view.NewStatus(r), nil })
	archived := errors.Is(err, project.ErrAllArchived)
	if archived || ref == "" && errors.Is(err, boulder.ErrNotFound) {
		a.noteNothing(archived)
		return nil
	}
	return err
}

func (a *app) noteNothing(archived bool) {
	switch {
	case archived:
		a.note("Everything that was run here is archived; see: manager list --archived")
	case exists(a.project.PlanPath()):
		a.note("Nothing has been run here yet. There is a plan; run it with: manager run")
	default:
		a.note("Nothing has been run here yet. Start with: manager plan \"TASK\"")
	}
}

func (a *app) newShowCmd() *cobra.Command {
	why, receipt := "", false
	cmd := &cobra.Command{
		Use:        "show [flags] [BOULDER]",
		Short:      "Show plan, attempts, sessions and verdicts of a boulder",
		SuggestFor: []string{"why", "describe"},
		Long: `Shows everything that is known about a boulder (default: the active one): the plan, and of each sub-task the
attempts with their sessions, each turn's verdict with the evidence, and the gates.

With --why SUBTASK it shows what was sent to that one's sessions, what was seen, how it was judged, and what was decided,
in order of time; with --why and the id of an OpenCode session, or its end as ` + "`manager watch`" + ` prints it, every
decision of the watch about that one.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case view.IsSession(why):
				return a.runWhySession(cmd.Context(), why)
			case cmd.Flags().Changed("why"):
				err := a.look(cmd.Context(), cmp.Or(args...), a.project.Whole, func(r *project.Reading) (view.Report, error) {
					t, err := findSubTask(r.Snapshot, why)
					if err != nil {
						return nil, err
					}
					return view.NewWhy(r, t), nil
				})
				if exitCode(err) != exitUsage {
					return err
				}
				if id := a.watchedSession(cmd.Context(), why); id != "" {
					return a.runWhySession(cmd.Context(), id)
				}
				return err
			case receipt:
				return a.look(cmd.Context(), cmp.Or(args...), a.project.Recent, func(r *project.Reading) (view.Report, error) {
					return view.NewReceipt(r), nil
				})
			}
			return a.look(cmd.Context(), cmp.Or(args...), a.project.Whole, func(r *project.Reading) (view.Report, error) {
				if r.Holder.Has(r.Boulder.ID) {
					r.Boulder.LeftSessions = nil // the holder is stopping them
				}
				return view.NewShow(r.Snapshot, boulder.Turns(r.Events, "")), nil
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "only the chain of decisions about `SUBTASK`, or about a watched session")
	cmd.Flags().BoolVar(&receipt, "receipt", false, "only where tokens, money and time went")
	cmd.MarkFlagsMutuallyExclusive("why", "receipt")
	return cmd
}

func (a *app) newListCmd() *cobra.Command {
	var archived bool
	var statuses []string
	most := 0
	cmd := &cobra.Command{
		Use:        "list [flags]",
		Aliases:    []string{"ls"},
		Short:      "List the boulders of the project",
		SuggestFor: []string{"boulders"},
		Long: `Lists the project's boulders, newest first, without the archived ones. The active one, marked with *, was started or
resumed last: commands that are given no boulder use it.`,
		Example: `  manager list --status paused,interrupted
  manager list -n 10 --archived`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), archived, statuses, most) },
	}
	cmd.Flags().BoolVar(&archived, "archived", false, "only archived boulders")
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only boulders with one of these `STATUSES`, as the list shows them")
	cmd.Flags().IntVarP(&most, "lines", "n", 0, "the `N` newest")
	return cmd
}

func (a *app) runList(ctx context.Context, archived bool, statuses []string, most int) error {
	if i := slices.IndexFunc(statuses, func(s string) bool { return !slices.Contains(view.ListStatuses, s) }); i >= 0 {
		return usagef("--status does not know %q: use %s", statuses[i], strings.Join(view.ListStatuses, ", "))
	}
	there, err := a.project.Read(ctx)
	if err != nil {
		return err
	}
	all, err := there.Listing(ctx)
	there.Close() // before printing: a pager must not keep a run from starting
	var shown []view.ListItem
	for i := range all {
		item := view.NewListItem(&all[i], there.Holder, time.Now())
		if all[i].ArchivedAt.IsZero() != archived && (len(statuses) == 0 || slices.Contains(statuses, item.Shown())) {
			shown = append(shown, item)
		}
	}
	if most > 0 {
		shown = shown[:min(most, len(shown))]
	}
	switch {
	case a.json:
		return errors.Join(writeLines(a.Stdout, shown), err)
	case len(shown) > 0:
		view.List(a.on(a.Stdout), shown, time.Now())
		if h := there.Holder; h != nil && h.Trouble != "" {
			a.note("This may be out of date: %s", text.OneLine(h.Trouble))
		}
	case err != nil:
	case len(statuses) > 0:
		a.note("There is none with the status %s.", strings.Join(statuses, " or "))
	case archived:
		a.note("Nothing is archived here.")
	default:
		a.noteNothing(len(all) > 0)
	}
	return err
}

func (a *app) newAttachCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "attach [flags] [BOULDER]",
		Short: "Follow a boulder that runs in the background, with the exit code of its run",
		Long: `Shows a boulder (default: the active one) as ` + "`manager run`" + ` does, while another process runs it. When it is over or paused
it ends, with the exit code of ` + "`manager run`" + `: 4 at a pause, or if no process runs it. Ctrl-C leaves it, and does not disturb the run.`,
		Example: `  manager run --detach && manager attach`,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runAttach(cmd.Context(), cmp.Or(args...)) },
	}
}

func (a *app) runAttach(ctx context.Context, ref string) error {
	w := &view.Wait{For: waitDone}
	for ctx.Err() == nil {
		arrived, err := a.attachOnce(ctx, w, ref)
		switch {
		case errors.Is(err, project.ErrNotServed): // the holder has just ended
		case arrived || err != nil: // else the boulder was resumed: follow it again
			return err
		}
	}
	return context.Cause(ctx)
}

func (a *app) attachOnce(ctx context.Context, w *view.Wait, ref string) (arrived bool, err error) {
	d, err := a.project.Snapshot(ctx, cmp.Or(w.BoulderID, ref))
	if err != nil {
		return false, err
	}
	w.BoulderID = d.Boulder.ID
	followed, err := a.followStatus(ctx, w.BoulderID, true)
	if ctx.Err() != nil {
		a.note("The run continues. Show it again with: manager attach %s", boulder.ShortID(w.BoulderID))
	}
	if err == nil && !followed {
		if d.Boulder.Status != boulder.Paused { // the status says so itself
			a.note("Nothing here runs it.")
		}
		err = a.runStatus(ctx, w.BoulderID)
	}
	if err != nil {
		return false, err
	}
	arrived, err = a.lookOnce(ctx, w, "")
	if w.Status == boulder.Paused {
		if d, readErr := a.project.Snapshot(ctx, w.BoulderID); readErr == nil {
			a.receipt(d)
		}
	}
	return arrived, err
}
