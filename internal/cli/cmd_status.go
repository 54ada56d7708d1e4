package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newStatusCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:        "status [flags] [BOULDER]",
		Short:      "Show how far a boulder is",
		SuggestFor: []string{"ps", "st", "progress"},
		Long: `Shows how far a boulder is (default: the active one): each sub-task with its state, what it waits for,
what its agent does, and what it cost. It also works while another process runs it. BOULDER is an id, or a
beginning or end of one.

With --follow it shows the boulder as ` + "`manager run`" + ` does, until it is over or you press Ctrl-C, which does not
disturb it: what needs you on top, then what is at work and what waits.`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return a.followStatus(cmd.Context(), args)
			}
			return a.runStatus(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the boulder while a process runs it")
	return cmd
}

// followStatus shows a boulder that another process runs as that process would show it.
func (a *app) followStatus(ctx context.Context, args []string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	defer closeReader()
	client, held := r.(*control.Client)
	if !held {
		closeReader() // a run must be able to start
		return a.notFollowed(ctx, args)
	}
	id, err := project.Resolve(ctx, r, newestOr(args))
	if err != nil {
		return err
	}
	d, err := r.Get(ctx, id)
	if err != nil {
		return err
	}
	holder := project.HolderOf(ctx, r)
	if !project.Runs(holder, d.Boulder) {
		return a.notFollowed(ctx, args)
	}
	recent, err := r.Events(ctx, id, d.Boulder.Seq-min(d.Boulder.Seq, recentEvents), recentEvents)
	if err != nil {
		return err
	}
	raised, _ := a.recordsOfBlockers(ctx, d.Boulder.Project, id) // without them no time left is shown
	p, err := view.ProgressOf(detailLoader{r}, d, recent, raised)
	if err != nil {
		return err
	}
	c, on := a.console(), ""
	if holder.Limits != nil {
		c.Limits = func() schedule.Limits { return *holder.Limits }
	}
	if len(holder.Running) > 1 {
		on = " -b " + id
	}
	v := view.NewRun(c, p, on)
	defer v.Close()
	for e, err := range client.Follow(ctx, id, d.Boulder.Seq) {
		switch {
		case ctx.Err() != nil:
			return errInterrupted // that is how to leave it
		case errors.Is(err, control.ErrNotServed): // the process has ended
			v.Close()
			return a.runStatus(ctx, []string{id})
		case err != nil:
			return err
		}
		v.Event(e)
		if p.Ended() {
			return nil
		}
	}
	return nil
}

// detailLoader reads a boulder for looking at it.
type detailLoader struct{ reader }

func (l detailLoader) Load(ctx context.Context, id string) (*boulder.State, error) {
	d, err := l.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return view.Restore(d)
}

// notFollowed shows what there is instead of following it.
func (a *app) notFollowed(ctx context.Context, args []string) error {
	if err := a.runStatus(ctx, args); err != nil {
		return err
	}
	a.note("No process runs it, so there is nothing to follow.")
	return nil
}

func (a *app) runStatus(ctx context.Context, args []string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	report, err := a.readStatus(ctx, r, args)
	closeReader() // before anything is printed: a pager must not keep a run from starting
	if report == nil {
		if errors.Is(err, store.ErrAllArchived) {
			a.note("Everything that was run here is archived; see: manager list --archived")
			return nil
		}
		if len(args) == 0 && (errors.Is(err, project.ErrNothing) || errors.Is(err, boulder.ErrNotFound)) {
			a.note("Nothing has been run here yet. %s", a.firstStep())
			return nil
		}
		return err
	}
	if a.json {
		return errors.Join(a.printJSON(report), err)
	}
	report.Print(a.on(a.Stdout))
	return err
}

// firstStep says how to begin in a project in which nothing was run.
func (a *app) firstStep() string {
	if root, err := a.project(); err == nil && exists(planPath(root)) {
		return "There is a plan; run it with: manager run"
	}
	return "Start with: manager plan \"TASK\""
}

// recentEvents is how many events are searched for what the agents do right now.
const recentEvents = 200

// readStatus reads everything about a boulder that status shows. With an error there is a report as well if at least
// its head could be read.
func (a *app) readStatus(ctx context.Context, r reader, args []string) (*view.Status, error) {
	id, err := project.Resolve(ctx, r, newestOr(args))
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	var recent []boulder.Event
	if !d.Boulder.Status.Terminal() {
		var eventsErr error
		recent, eventsErr = r.Events(ctx, id, d.Boulder.Seq-min(d.Boulder.Seq, recentEvents), 0)
		err = errors.Join(err, eventsErr)
	}
	holder := project.HolderOf(ctx, r)
	limits := a.shownLimits()
	if holder != nil && holder.Limits != nil {
		limits = *holder.Limits
	}
	now := time.Now()
	s := view.NewStatus(d, recent, holder, limits, neighboursOf(ctx, r, holder, d), now)
	if s.Waiting != (view.WaitingBlockers{}) {
		if root, rootErr := a.project(); rootErr == nil {
			records, _ := a.recordsOfBlockers(ctx, root, id) // without them it is told as the boulder knows it
			s.Waiting = view.WaitingIn(d, records, now)
		}
	}
	return s, err
}

// neighboursOf reads what the boulders beside one have, if anything in it waits for a slot. One that cannot be read is
// left out: its own status tells.
func neighboursOf(ctx context.Context, r reader, holder *control.Holder, d store.Detail) []view.Neighbour {
	queued := func(a boulder.Attempt) bool { return a.Status == boulder.AttemptQueued }
	if holder == nil || !slices.Contains(holder.Running, d.Boulder.ID) || !slices.ContainsFunc(d.Attempts, queued) {
		return nil
	}
	var all []view.Neighbour
	for _, id := range holder.Running {
		if id == d.Boulder.ID {
			continue
		}
		other, err := r.Get(ctx, id)
		if held := view.HeldBy(other); err == nil && len(held) > 0 {
			all = append(all, view.Neighbour{BoulderID: id, Held: held})
		}
	}
	return all
}
