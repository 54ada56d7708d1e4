package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type resumeOptions struct {
	attach         string
	yes            bool
	budget         budgetFlag
	approveReplans bool
	lockTimeout    time.Duration
	blockers       bool
	iterations     int
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
	cmd.Flags().StringVar(&o.attach, "attach", "", "use the OpenCode server at `URL` instead of starting one")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().Var(&o.budget, "budget", budgetUsage)
	cmd.Flags().IntVar(&o.iterations, "max-iterations", 0, "of a loop: at most `N` turns from now on, those it had included")
	blockersFlag(cmd, &o.blockers)
	lockFlag(cmd, &o.lockTimeout)
	cmd.Flags().BoolVar(&o.approveReplans, "approve-replans", false, "ask before a new plan for the rest is run")
	return cmd
}

// atMostOne refuses a second argument.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("%s takes one %s, not %d", cmd.CommandPath(), name, len(args))
		}
		return nil
	}
}

func (a *app) runResume(ctx context.Context, o *resumeOptions, args []string) error {
	a.warnOfSwitch(o.blockers)
	if sent, err := a.resumeThere(ctx, o, newestOr(args)); sent || err != nil {
		return err
	}
	d, err := a.connect(ctx, o.attach, o.lockTimeout)
	if err != nil {
		return err
	}
	defer d.Close()
	if !d.Exists() { // to hold the state would make it
		r, closeReader, err := d.Read(ctx)
		if err != nil {
			return err
		}
		defer closeReader()
		_, err = project.Unfinished(ctx, r, args)
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
	d.DeliverBefore(ctx, st.DB, id)
	d.Warm()
	ask := &approver{deps: d, ask: !o.yes && !a.json && terminal(a.Stdin) && terminal(a.Stderr)}
	approve := func(ctx context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
		return ask.approve(ctx, p, d.PlanPath(), d.Config().AllowModelGates)
	}
	return d.execute(ctx, st, func(
		ctx context.Context, run *orchestrator.Orchestrator,
	) iter.Seq2[boulder.Event, error] {
		return run.Resume(ctx, id, orchestrator.ResumeRequest{
			Approve: approve, ApproveReplan: ask.replans(o.approveReplans || stored.AskReplans), Budget: o.budget.run,
			SubTaskBudgets: o.budget.subTasks, LedgerModel: d.Ledger(), Diverted: o.blockers,
			Iterations: o.iterations,
		})
	})
}

// resumeThere takes the pause of a boulder back that another process runs. It reports whether it did.
func (a *app) resumeThere(ctx context.Context, o *resumeOptions, ref string) (sent bool, err error) {
	root, err := a.project()
	if err != nil {
		return false, err
	}
	client, err := control.Dial(ctx, filepath.Join(root, store.DirName, control.SocketName))
	if err != nil {
		return false, nil // nobody runs anything, or hold says what is wrong with who does
	}
	there, err := project.DeskOf(ctx, client)
	if err != nil {
		return false, nil
	}
	defer there.Close()
	id, err := there.Find(ctx, ref)
	if err != nil {
		return false, nil
	}
	detail, err := there.Get(ctx, id)
	paused := detail.Boulder.Status == boulder.Paused && slices.Contains(project.Running(there.Holder), id)
	if err != nil || !paused && !there.Holder.Serves {
		return false, nil
	}
	if there.Holder.Serves && !slices.Contains(project.Running(there.Holder), id) {
		return true, a.resumeServed(ctx, o, client, there, id)
	}
	if o.attach != "" || o.approveReplans || o.budget.run != nil || len(o.budget.subTasks) > 0 ||
		o.blockers || o.iterations != 0 {
		return false, usagef("process %d runs boulder %s: it goes on as it was begun. Resume it without flags,"+
			" or end that process and resume it here", there.Holder.PID, id)
	}
	err = a.steer(ctx, id, boulder.Order{Do: boulder.OrderResume})
	if errors.Is(err, boulder.ErrRefused) && !there.Holder.Serves {
		return false, nil // that process has ended meanwhile, or goes on already
	}
	return true, err
}

// resumeServed hands a boulder to the server of the project.
func (a *app) resumeServed(
	ctx context.Context, o *resumeOptions, client *control.Client, there *project.Desk, id string,
) error {
	if o.attach != "" || o.approveReplans {
		return usagef("process %d serves this project, with an OpenCode server of its own choice and nobody at its"+
			" terminal: leave --attach and --approve-replans out, or stop it with `manager serve --stop`", there.Holder.PID)
	}
	detail, err := there.Get(ctx, id)
	if err != nil {
		return err
	}
	if detail.Revision != nil && len(detail.SubTasks) == 0 && !o.yes {
		return usagef("the plan of boulder %s waits for approval, and the server cannot ask: stop it with"+
			" `manager serve --stop` and resume here, or run the plan without asking with --yes", id)
	}
	if _, err := o.merge(ctx, there, id); err != nil {
		return err
	}
	resumption := control.Submission{
		Resume: id, Budget: o.budget.run, SubTasks: o.budget.subTasks, Diverted: o.blockers,
		Iterations: o.iterations,
	}
	if _, err := submit(ctx, client, resumption); err != nil {
		return refusal(err)
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
		if err := project.Rest(ctx, project.Step); err != nil {
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
