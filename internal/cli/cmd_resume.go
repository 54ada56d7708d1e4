package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type resumeOptions struct {
	runFlags
	iterations int
}

func (a *app) newResumeCmd() *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:        "resume [flags] [BOULDER]",
		Short:      "Continue a boulder after a crash, an interrupt or a pause",
		SuggestFor: []string{"continue"},
		Long: `Goes on with a boulder (default: the newest unfinished one) where it was. Finished sub-tasks are not done
again; sessions that were at work are found and followed, and a prompt that was sent is not sent twice.

If a process runs it already and it is paused there, the pause is taken back, and that process goes on.

A run that stopped because a budget was used up goes on when it gets a larger one: what was spent stays spent. So does a
loop that had all its turns, with --max-iterations.`,
		Example: `  manager resume
  manager resume --budget cost=10 --budget toggle:tokens=500k`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runResume(cmd.Context(), &o, args) },
	}
	o.register(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().IntVar(&o.iterations, "max-iterations", 0, "of a loop: at most `N` turns from now on, those it had included")
	cmd.Flags().BoolVar(&o.approveReplans, "approve-replans", false, "ask before a new plan for the rest is run")
	return cmd
}

func (a *app) runResume(ctx context.Context, o *resumeOptions, args []string) error {
	if sent, err := a.resumeThere(ctx, o, newestOr(args)); sent || err != nil {
		return err
	}
	d, err := a.connectToRun(ctx, &o.runFlags)
	if err != nil {
		return err
	}
	defer d.Close()
	if !d.Exists() { // to hold the state would make it
		r, closeReader, err := d.Read(ctx)
		if err == nil {
			defer closeReader()
			_, err = project.Unfinished(ctx, r, args)
		}
		return err
	}
	st, err := d.Hold(ctx, false)
	if err != nil {
		return err
	}
	defer st.Release()
	id, err := project.Unfinished(ctx, st.DB, args)
	if err != nil {
		return err
	}
	stored, err := o.merge(ctx, st.DB, id)
	if err != nil {
		return err
	}
	d.Warm()
	req := o.request(id)
	o.approver(d).into(&req, o.approveReplans || stored.AskReplans)
	return d.execute(ctx, st, req)
}

func (o *resumeOptions) request(id string) project.Request {
	return project.Request{
		Resume: id, Budget: o.budget.run, SubTaskBudgets: o.budget.subTasks, Diverted: o.blockers, Iterations: o.iterations,
	}
}

// resumeThere hands a boulder to the server of the project, or takes the pause of one back that another process runs. It
// reports whether it did.
func (a *app) resumeThere(ctx context.Context, o *resumeOptions, ref string) (sent bool, err error) {
	p, err := a.openAnyway()
	if err != nil {
		return false, err
	}
	there, err := p.Dial(ctx)
	if err != nil {
		return false, nil // nobody runs anything, or Hold says what is wrong with who does
	}
	defer there.Close()
	id, err := there.Find(ctx, ref)
	if err != nil {
		return false, nil
	}
	detail, err := there.Get(ctx, id)
	atWork := slices.Contains(there.Holder.AtWork(), id)
	switch {
	case err != nil:
		return false, nil
	case there.Holder.Serves && !atWork:
		return true, a.resumeServed(ctx, o, there, detail)
	case !there.Holder.Serves && (!atWork || detail.Boulder.Status != boulder.Paused):
		return false, nil
	}
	if o.attach != "" || o.approveReplans || o.budget.run != nil || len(o.budget.subTasks) > 0 ||
		o.blockers || o.iterations != 0 {
		return false, usagef("process %d runs boulder %s: it goes on as it was begun. Resume it without flags,"+
			" or end that process and resume it here", there.Holder.PID, id)
	}
	err = a.steer(ctx, id, boulder.Order{Do: boulder.OrderResume}, nil)
	if errors.Is(err, boulder.ErrRefused) && !there.Holder.Serves {
		return false, nil // that process has ended meanwhile, or goes on already
	}
	return true, err
}

// resumeServed hands a boulder to the server of the project.
func (a *app) resumeServed(ctx context.Context, o *resumeOptions, there *project.Desk, detail store.Detail) error {
	a.warnOfSwitch(o.blockers)
	id := detail.Boulder.ID
	if o.attach != "" || o.approveReplans {
		return usagef("process %d serves this project, with an OpenCode server of its own choice and nobody at its"+
			" terminal: leave --attach and --approve-replans out, or stop it with `manager serve --stop`", there.Holder.PID)
	}
	if detail.Revision != nil && len(detail.SubTasks) == 0 && !o.yes {
		return usagef("the plan of boulder %s waits for approval, and the server cannot ask: stop it with"+
			" `manager serve --stop` and resume here, or run the plan without asking with --yes", id)
	}
	if _, err := o.merge(ctx, there, id); err != nil {
		return err
	}
	if _, err := there.Submit(ctx, o.request(id)); err != nil {
		return err
	}
	if err := stands(ctx, there, id); err != nil {
		return err
	}
	return a.detached(id, there.Holder.PID)
}

// resumeLook is how long to look whether a boulder that was handed over goes on: one that cannot stops at once.
const resumeLook = time.Second

// stands says why a boulder that was handed over stands still again.
func stands(ctx context.Context, r reader, id string) error {
	for giveUp := time.Now().Add(resumeLook); time.Now().Before(giveUp); {
		if err := project.Rest(ctx, serverLook); err != nil {
			return err
		}
		d, err := r.Get(ctx, id)
		if err != nil {
			return err
		}
		if d.Boulder.Status == boulder.Paused {
			return fmt.Errorf("%w: boulder %s: %s", orchestrator.ErrWaiting, id, d.Boulder.Reason)
		}
	}
	return nil
}

// merge lays what the command line says over the stored budgets, and refuses budgets for sub-tasks that cannot use them, and
// a bound of turns for what is no loop. It returns the boulder's head.
func (o *resumeOptions) merge(ctx context.Context, db reader, id string) (boulder.Boulder, error) {
	detail, err := db.Get(ctx, id)
	if err != nil {
		return detail.Boulder, err
	}
	if o.iterations < 0 || o.iterations > 0 && detail.Boulder.Loop == nil {
		return detail.Boulder, usagef("--max-iterations is for a loop, and at least 1: boulder %s cannot use %d", id, o.iterations)
	}
	if old := detail.Boulder.Budget; old != nil && o.budget.run != nil {
		*o.budget.run = project.Overlay(*old, *o.budget.run)
	}
	open := map[string]*boulder.Budget{}
	var ids, names []string
	for _, t := range detail.SubTasks {
		ids = append(ids, t.ID)
		if !t.Status.Terminal() {
			open[t.ID] = t.Budget
			names = append(names, t.ID)
		}
	}
	o.budget.name(ids)
	for name, b := range o.budget.subTasks {
		old, ok := open[name]
		if !ok && len(detail.SubTasks) > 0 {
			return detail.Boulder, usagef("boulder %s has no unfinished sub-task %q to give a budget to; unfinished: %s",
				id, name, cmp.Or(strings.Join(names, ", "), "none"))
		}
		if old != nil {
			o.budget.subTasks[name] = project.Overlay(*old, b)
		}
	}
	return detail.Boulder, nil
}
