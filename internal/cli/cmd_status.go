package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
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
		Args:              takes(0, 1, "one BOULDER"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := newestOr(args)
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
	return cmd
}

// followStatus shows a boulder that another process runs as that process would show it, unless none does.
func (a *app) followStatus(ctx context.Context, ref string) (followed bool, err error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return false, err
	}
	defer closeReader()
	client, held := r.(*control.Client)
	if !held {
		return false, nil
	}
	d, err := project.Get(ctx, r, ref)
	id, holder := d.Boulder.ID, control.HolderOf(ctx, r)
	if err != nil || !holder.Runs(d.Boulder) {
		return false, err
	}
	recent, err := recentOf(ctx, r, d)
	if err != nil {
		return false, err
	}
	raised, _ := a.recordsOfBlockers(ctx, id) // without them no time left is shown
	load := func(ctx context.Context, id string) (*boulder.State, error) {
		d, err := r.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		return view.Restore(d)
	}
	p, err := view.ProgressOf(load, d, recent, raised)
	if err != nil {
		return false, err
	}
	c := a.console()
	c.Limits = a.limitsOf(holder)
	v := view.NewRun(c, p, text.If(len(holder.Running) > 1, " -b "+id))
	defer v.Close()
	for e, err := range client.Follow(ctx, id, d.Boulder.Seq) {
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
	report, err := read(ctx, a, ref, func(r reader, d store.Detail) (*view.Status, error) { return a.readStatus(ctx, r, d) })
	archived := errors.Is(err, store.ErrAllArchived)
	if report == nil && (archived || ref == "" && errors.Is(err, boulder.ErrNotFound)) {
		a.noteNothing(archived)
		return nil
	}
	return show(a, report, err)
}

// noteNothing says that there is nothing to show, and how to begin.
func (a *app) noteNothing(archived bool) {
	switch {
	case archived:
		a.note("Everything that was run here is archived; see: manager list --archived")
	case a.ownPlan() != "":
		a.note("Nothing has been run here yet. There is a plan; run it with: manager run")
	default:
		a.note("Nothing has been run here yet. Start with: manager plan \"TASK\"")
	}
}

// ownPlan is the project's own plan file, if it is there.
func (a *app) ownPlan() string {
	if p, err := a.openAnyway(); err == nil && exists(p.PlanPath()) {
		return p.PlanPath()
	}
	return ""
}

// recentOf are the events that tell what the agents do right now.
func recentOf(ctx context.Context, r reader, d store.Detail) ([]boulder.Event, error) {
	return r.Events(ctx, d.Boulder.ID, d.Boulder.Seq-min(d.Boulder.Seq, 200), 0)
}

// readStatus reads what status shows besides the boulder.
func (a *app) readStatus(ctx context.Context, r reader, d store.Detail) (_ *view.Status, err error) {
	b := &d.Boulder
	var recent []boulder.Event
	if !b.Status.Terminal() {
		recent, err = recentOf(ctx, r, d)
	}
	var beside []store.Detail
	holder, now := control.HolderOf(ctx, r), time.Now()
	if holder != nil && slices.Contains(holder.Running, b.ID) {
		for _, id := range holder.Running {
			if other, err := r.Get(ctx, id); err == nil && id != b.ID { // one that cannot be read has a status of its own
				beside = append(beside, other)
			}
		}
	}
	s := view.NewStatus(d, recent, holder, a.limitsOf(holder), beside, now)
	if s.Waiting != (view.WaitingBlockers{}) {
		records, _ := a.recordsOfBlockers(ctx, b.ID) // without them it is told as the boulder knows it
		s.Waiting = view.WaitingIn(d, records, now)
	}
	return s, err
}
