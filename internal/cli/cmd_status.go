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
				return a.followStatus(cmd.Context(), newestOr(args))
			}
			return a.runStatus(cmd.Context(), newestOr(args))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the boulder while a process runs it")
	return cmd
}

// followStatus shows a boulder that another process runs as that process would show it.
func (a *app) followStatus(ctx context.Context, ref string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	defer closeReader()
	client, held := r.(*control.Client)
	if !held {
		closeReader() // a run must be able to start
		return a.notFollowed(ctx, ref)
	}
	d, err := project.Get(ctx, r, ref)
	if err != nil {
		return err
	}
	id, holder := d.Boulder.ID, control.HolderOf(ctx, r)
	if !holder.Runs(d.Boulder) {
		return a.notFollowed(ctx, ref)
	}
	recent, err := r.Events(ctx, id, d.Boulder.Seq-min(d.Boulder.Seq, recentEvents), recentEvents)
	if err != nil {
		return err
	}
	raised, _ := a.recordsOfBlockers(ctx, id) // without them no time left is shown
	p, err := view.ProgressOf(detailLoader{r}, d, recent, raised)
	if err != nil {
		return err
	}
	c, on := a.console(), ""
	c.Limits = func() schedule.Limits { return a.limitsOf(holder) }
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
			return a.runStatus(ctx, id)
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
func (a *app) notFollowed(ctx context.Context, ref string) error {
	if err := a.runStatus(ctx, ref); err != nil {
		return err
	}
	a.note("No process runs it, so there is nothing to follow.")
	return nil
}

func (a *app) runStatus(ctx context.Context, ref string) error {
	report, err := read(ctx, a, ref, func(r reader, d store.Detail) (*view.Status, error) { return a.readStatus(ctx, r, d) })
	switch {
	case report == nil && errors.Is(err, store.ErrAllArchived):
		a.note("Everything that was run here is archived; see: manager list --archived")
		return nil
	case report == nil && ref == "" && errors.Is(err, boulder.ErrNotFound):
		a.note("Nothing has been run here yet. %s", a.firstStep())
		return nil
	}
	return show(a, report, err)
}

// firstStep says how to begin in a project in which nothing was run.
func (a *app) firstStep() string {
	if a.ownPlan() != "" {
		return "There is a plan; run it with: manager run"
	}
	return "Start with: manager plan \"TASK\""
}

// ownPlan is the project's own plan file, if it is there.
func (a *app) ownPlan() string {
	if p, err := a.openAnyway(); err == nil && exists(p.PlanPath()) {
		return p.PlanPath()
	}
	return ""
}

// recentEvents is how many events are searched for what the agents do right now.
const recentEvents = 200

// readStatus reads what status shows besides the boulder.
func (a *app) readStatus(ctx context.Context, r reader, d store.Detail) (_ *view.Status, err error) {
	b := &d.Boulder
	var recent []boulder.Event
	if !b.Status.Terminal() {
		recent, err = r.Events(ctx, b.ID, b.Seq-min(b.Seq, recentEvents), 0)
	}
	holder, now := control.HolderOf(ctx, r), time.Now()
	s := view.NewStatus(d, recent, holder, a.limitsOf(holder), neighboursOf(ctx, r, holder, d), now)
	if s.Waiting != (view.WaitingBlockers{}) {
		records, _ := a.recordsOfBlockers(ctx, b.ID) // without them it is told as the boulder knows it
		s.Waiting = view.WaitingIn(d, records, now)
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
