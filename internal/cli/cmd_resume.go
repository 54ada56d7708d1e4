package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		Long: `Goes on with a boulder (default: the newest unfinished one) where it was. Finished sub-tasks are not done again;
sessions that were at work are found and followed, and a prompt that was sent is not sent twice. If another process runs
it and it is paused there, that process goes on.

A budget that was used up needs a larger one, and a loop that had all its turns --max-iterations: what was spent stays
spent.`,
		Example: `  manager resume
  manager resume --budget cost=10 --budget toggle:tokens=500k`,
		Args:              takes(0, 1, "one BOULDER"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runResume(cmd.Context(), &o, args) },
	}
	o.register(a, cmd)
	o.registerAsking(cmd)
	cmd.Flags().IntVar(&o.iterations, "max-iterations", 0, "of a loop: at most `N` turns in all, those it had included")
	return cmd
}

func (a *app) runResume(ctx context.Context, o *resumeOptions, args []string) error {
	if sent, err := a.resumeThere(ctx, o, newestOr(args)); sent || err != nil {
		return err
	}
	if err := a.connectToRun(ctx, &o.runFlags); err != nil {
		return err
	}
	if !a.Exists() { // to hold the state would make it
		return usagef("nothing to resume: no boulder was ever run here; start with `manager plan`")
	}
	var req project.Request
	return a.run(ctx, &o.runFlags, &req, func(st *project.State) error {
		id, err := project.Unfinished(ctx, st.DB, newestOr(args))
		if err != nil {
			return err
		}
		detail, err := st.DB.Get(ctx, id)
		if err != nil {
			return err
		}
		ask := &approver{app: a, ask: !o.yes && a.interactive()}
		req, err = o.request(detail)
		ask.into(&req, o.approveReplans || detail.Boulder.AskReplans)
		return err
	})
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
	var detail store.Detail
	id, err := there.Find(ctx, ref)
	if err == nil {
		detail, err = there.Get(ctx, id)
	}
	atWork := slices.Contains(there.Holder.AtWork(), id)
	switch {
	case err != nil || !there.Holder.Serves && (!atWork || detail.Boulder.Status != boulder.Paused):
		return false, nil
	case !atWork:
		return true, a.resumeServed(ctx, o, there, detail)
	}
	if a.attach != "" || o.approveReplans || o.budget.run != nil || len(o.budget.subTasks) > 0 ||
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

// resumeLook is how long to look whether a boulder that was handed over goes on: one that cannot stops at once.
const resumeLook = time.Second

// resumeServed hands a boulder to the server of the project.
func (a *app) resumeServed(ctx context.Context, o *resumeOptions, there *project.Desk, detail store.Detail) error {
	a.warnOfSwitch(o.blockers)
	id := detail.Boulder.ID
	if a.attach != "" || o.approveReplans {
		return usagef("process %d serves this project, with an OpenCode server of its own choice and nobody at its"+
			" terminal: leave --attach and --approve-replans out, or stop it with `manager serve --stop`", there.Holder.PID)
	}
	if detail.Revision != nil && len(detail.SubTasks) == 0 && !o.yes {
		return usagef("the plan of boulder %s waits for approval, and the server cannot ask: stop it with"+
			" `manager serve --stop` and resume here, or run the plan without asking with --yes", id)
	}
	req, err := o.request(detail)
	if err != nil {
		return err
	}
	if _, err := there.Submit(ctx, req); err != nil {
		return err
	}
	for last := range project.Tries(ctx, serverLook, resumeLook) {
		switch detail, err = there.Get(ctx, id); {
		case err != nil:
			return err
		case detail.Boulder.Status == boulder.Paused:
			return fmt.Errorf("%w: boulder %s: %s", orchestrator.ErrWaiting, id, detail.Boulder.Reason)
		case last:
			return a.detached(id, there.Holder.PID)
		}
	}
	return context.Cause(ctx)
}

// request lays what the command line says over the stored budgets, and refuses budgets for sub-tasks that cannot use them, and
// a bound of turns for what is no loop.
func (o *resumeOptions) request(detail store.Detail) (req project.Request, err error) {
	b := detail.Boulder
	if o.iterations < 0 || o.iterations > 0 && b.Loop == nil {
		return req, usagef("--max-iterations is for a loop, and at least 1: boulder %s cannot use %d", b.ID, o.iterations)
	}
	if b.Budget != nil && o.budget.run != nil {
		*o.budget.run = project.Overlay(*b.Budget, *o.budget.run)
	}
	if len(detail.SubTasks) > 0 {
		var open []string // in the places of all
		for _, t := range detail.SubTasks {
			if t.Status.Terminal() {
				t.ID = ""
			}
			open = append(open, t.ID)
		}
		if err := o.budget.name(open, "boulder "+b.ID+" has no unfinished sub-task"); err != nil {
			return req, err
		}
		for _, t := range detail.SubTasks {
			if given, ok := o.budget.subTasks[t.ID]; ok && t.Budget != nil {
				o.budget.subTasks[t.ID] = project.Overlay(*t.Budget, given)
			}
		}
	}
	return project.Request{
		Resume: b.ID, Budget: o.budget.run, SubTaskBudgets: o.budget.subTasks, Diverted: o.blockers, Iterations: o.iterations,
	}, nil
}
