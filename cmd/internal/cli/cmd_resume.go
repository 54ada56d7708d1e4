package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

func (a *app) newResumeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "resume [flags] [BOULDER]",
		Short:      "Continue a boulder after a crash, an interrupt or a pause",
		SuggestFor: []string{"continue"},
		Long: `Continues a boulder (default: the newest unfinished one) where it was. Completed sub-tasks are not run again, live
sessions are found and followed, and no prompt is sent twice. If another process has it paused, that process continues.
With --detach it continues in the background server.

A used-up budget has to be raised with --budget, a loop that had all its turns with --max-iterations: what was spent
stays spent. --model and --effort are for sub-tasks that have none of their own, from their next turn.

If you have edited the plan file since, it shows what differs, and takes that over after a yes, as a revision of the plan:
what has not begun may change, come and go, also while the boulder is at work in another process. --yes takes it over without
asking, --keep-plan ignores it; without a terminal and a flag nothing continues (exit code 4).`,
		Example: `  manager resume
  manager plan --of 01k3 && $EDITOR .manager/plan.yaml && manager resume
  manager resume --budget cost=10 --budget toggle:tokens=500k`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runResume(cmd.Context(), args) },
	}
	a.shared(cmd, "attach", "budget", "blockers", "lock-timeout", "yes", "approve-replans", "detach")
	cmd.Flags().BoolVar(&a.keepPlan, "keep-plan", false, "ignore edits of the plan file")
	cmd.Flags().StringVar(&a.planFile, "plan-file", "", "take edits of the plan from `FILE` (default: .manager/plan.yaml, and the one that was run)")
	cmd.MarkFlagsMutuallyExclusive("keep-plan", "plan-file")
	cmd.Flags().IntVar(&a.iterations, "max-iterations", 0, "of a loop: at most `N` turns in all, including those it had")
	return cmd
}

func (a *app) runResume(ctx context.Context, args []string) error {
	if a.detach {
		if err := a.serveToResume(ctx, cmp.Or(args...)); err != nil {
			return err
		}
	}
	if sent, err := a.resumeThere(ctx, cmp.Or(args...)); sent || err != nil {
		return err
	}
	a.project.KeepLedger(ctx, cmp.Or(args...))
	if err := a.connectToRun(ctx); err != nil {
		return err
	}
	if !a.project.Exists() { // else Hold would create it
		return project.ErrNothing
	}
	var req project.Request
	return a.run(ctx, &req, func(st *project.State) error {
		there := st.Access()
		detail, err := there.Find(ctx, cmp.Or(args...))
		if err == nil {
			_, err = a.takeEdits(ctx, there, &detail)
		}
		if err != nil {
			return err
		}
		switch b, now := &detail.Boulder, time.Now(); {
		case b.Waits(now):
			a.note("Boulder %s %s.", boulder.ShortID(b.ID), view.Starts(b.StartAt, now))
		case b.Status == boulder.Running:
			a.note("Boulder %s was cut off at work: what was under way continues in its sessions.", boulder.ShortID(b.ID))
		}
		req, err = a.resumed(detail)
		a.approverOf(detail, req).setApproval(&req, a.approveReplans || detail.Boulder.AskReplans)
		return err
	})
}

// serveToResume starts a server that judges with the boulder's model, unless a process holds the state. It resumes by itself
// what a crash left.
func (a *app) serveToResume(ctx context.Context, ref string) error {
	there, err := a.project.Read(ctx)
	if err != nil {
		return err
	}
	d, err := there.Find(ctx, ref)
	there.Close()
	if err != nil {
		return err
	}
	switch there, err := a.project.Dial(ctx); {
	case err == nil:
		defer there.Close()
		if !there.Holder.Serves {
			return fmt.Errorf("%w: process %d, `%s`", store.ErrHeld, there.Holder.PID, there.Holder.Command)
		}
		return nil
	case !errors.Is(err, project.ErrNotServed):
		return err
	}
	if a.project.Config().LedgerModel == "" {
		a.opts.LedgerModel = cmp.Or(a.opts.LedgerModel, d.Boulder.LedgerModel)
	}
	if there, err = a.startServer(ctx); err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	there.Close()
	a.project.Close()
	a.project, a.opts.Attach = nil, "" // which the server has
	return a.open()
}

// resumeThere resumes a boulder in the project's server, or ends its pause in the process that runs it; else it
// returns false.
func (a *app) resumeThere(ctx context.Context, ref string) (sent bool, err error) {
	there, err := a.project.Dial(ctx)
	if err != nil {
		return false, nil // there is no holder, or Hold will report what is wrong with it
	}
	defer there.Close()
	detail, err := there.Find(ctx, ref)
	if exitCode(err) == exitUsage { // no such boulder, or several: waiting for the state does not help
		return false, err
	}
	id := detail.Boulder.ID
	atWork := slices.Contains(there.Holder.Running, id)
	switch {
	case err != nil || !there.Holder.Serves && !atWork:
		return false, nil
	case !atWork:
		return true, a.resumeServed(ctx, there, detail)
	}
	taken, err := a.takeEdits(ctx, there, &detail)
	switch paused := detail.Boulder.Status == boulder.Paused; {
	case err != nil:
		return true, err
	case taken && !paused:
		a.note("Process %d, which runs boulder %s, continues with that.", there.Holder.PID, boulder.ShortID(id))
		return true, nil
	case !paused && !there.Holder.Serves:
		return false, nil
	case !paused && a.leaves(detail):
		return true, a.detached(id, there.Holder.PID, detail.Boulder.StartAt)
	case !paused:
		return true, a.attachServed(ctx, id, there.Holder.PID)
	}
	if a.project.OtherServer(there.Holder) || a.approveReplans || a.budget.run != nil || len(a.budget.subTasks) > 0 ||
		a.blockers || a.iterations != 0 {
		return false, usagef("process %d runs boulder %s: it continues with the settings it was started with. Resume it without flags,"+
			" or end that process and resume it here", there.Holder.PID, boulder.ShortID(id))
	}
	err = a.steer(ctx, id, boulder.Order{Do: boulder.OrderResume}, nil)
	if errors.Is(err, boulder.ErrRefused) && !there.Holder.Serves {
		return false, nil // the process has ended, or continues already
	}
	if err == nil && there.Holder.Serves && !a.leaves(detail) {
		err = a.attachServed(ctx, id, there.Holder.PID)
	}
	return true, err
}

// leaves reports whether a boulder that another process runs is not shown here until its end.
func (a *app) leaves(d boulder.Snapshot) bool { return a.detach || d.Boulder.Waits(time.Now()) }

// resumeLook is how long to watch whether a resumed boulder keeps running: one that cannot run stops at once.
const resumeLook = time.Second

func (a *app) resumeServed(ctx context.Context, there *project.Access, detail boulder.Snapshot) error {
	a.warnOfSwitch()
	id := detail.Boulder.ID
	if a.project.OtherServer(there.Holder) || a.approveReplans {
		return usagef("process %d serves this project, with %s and without a terminal: leave --attach and --approve-replans out,"+
			" or stop it with `manager serve --stop`", there.Holder.PID, there.Holder.OpenCode())
	}
	waits := detail.Asked() != "" && detail.Boulder.Replan == nil
	if waits && !a.yes && !a.interactive() {
		return usagef("the plan of boulder %s waits for approval: resume it on a terminal, or run it without asking with --yes", boulder.ShortID(id))
	}
	_, err := a.takeEdits(ctx, there, &detail)
	if err != nil {
		return err
	}
	req, err := a.resumed(detail)
	switch {
	case err != nil:
	case waits:
		err = a.agreeHere(ctx, there, detail, &req)
	case detail.Asked() != "" && a.interactive():
		view.Replan(a.on(a.Stderr), orchestrator.Proposal(detail), taskledger.KnownCommands(a.project.Dir()))
		o := boulder.Order{Do: boulder.OrderApprove, Hash: detail.Asked()}
		answer := ""
		switch answer, err = a.choose(ctx, "Continue with this plan?", "yes", "revise", "no"); {
		case errors.Is(err, orchestrator.ErrDeclined):
			o.Do, err = boulder.OrderDecline, nil
		case answer == "revise":
			o.Do = boulder.OrderRevise
			o.Text, err = a.comment(ctx)
		}
		if err == nil {
			err = there.Orders.Order(ctx, id, o)
		}
	}
	if err != nil {
		return err
	}
	if _, _, err := a.project.HandOver(ctx, req, a.startServer); err != nil {
		return err
	}
	for last := range project.Tries(ctx, serverLook, resumeLook) {
		switch detail, err = there.Get(ctx, id); {
		case err != nil:
			return err
		case detail.Boulder.Status == boulder.Paused:
			return stoppedError(detail, there.Holder)
		case !a.leaves(detail):
			return a.attachServed(ctx, id, there.Holder.PID)
		case last:
			return a.detached(id, there.Holder.PID, detail.Boulder.StartAt)
		}
	}
	return context.Cause(ctx)
}

func (a *app) approverOf(d boulder.Snapshot, req project.Request) *approver {
	return &approver{
		app: a, most: cmp.Or(req.Budget, d.Boulder.Budget),
		done: project.Criteria{Words: d.Boulder.DoneWhen, Checks: d.Boulder.Checks},
		uses: boulder.Settings{Model: cmp.Or(a.opts.Model, d.Boulder.Model), Effort: d.Boulder.Effort, Agent: d.Boulder.Agent, Isolation: d.Boulder.Isolation},
	}
}

// agreeHere asks the user to approve the plan of a boulder that the server is going to run.
func (a *app) agreeHere(ctx context.Context, there *project.Access, d boulder.Snapshot, req *project.Request) error {
	if err := a.connect(ctx); err != nil {
		return err
	}
	agreed, err := a.approverOf(d, *req).approve(ctx, &d.Revision.Plan, a.project.PlanPath(), a.project.Config().AllowModelGates)
	if wish, revise := errors.AsType[*orchestrator.ReviseError](err); revise { // the server revises it
		return there.Orders.Order(ctx, d.Boulder.ID, boulder.Order{Do: boulder.OrderRevise, Hash: d.Asked(), Text: wish.Comment, Plan: wish.Plan})
	}
	if errors.Is(err, orchestrator.ErrDeclined) {
		err = cmp.Or(there.Orders.Order(ctx, d.Boulder.ID, boulder.Order{Do: boulder.OrderCancel}), err)
	}
	req.Plan, req.GatesApproved, req.Model = agreed.Plan, agreed.Gates, agreed.Model
	return err
}

// resumed returns the request that resumes a boulder, with the command line's budgets over the stored ones. It refuses
// what the boulder cannot use.
func (a *app) resumed(detail boulder.Snapshot) (req project.Request, err error) {
	b := detail.Boulder
	if a.iterations < 0 || a.iterations > 0 && b.Loop == nil {
		return req, usagef("--max-iterations is for a loop, and at least 1: boulder %s cannot use %d", boulder.ShortID(b.ID), a.iterations)
	}
	if len(detail.SubTasks) == 0 && a.opts.Effort != "" && a.opts.Effort != b.Effort {
		return req, usagef("the plan of boulder %s waits for your approval: choose edit there, and write `effort: %s` into it", boulder.ShortID(b.ID), a.opts.Effort)
	}
	if b.Budget != nil && a.budget.run != nil {
		*a.budget.run = project.Overlay(*b.Budget, *a.budget.run)
	}
	if len(detail.SubTasks) > 0 {
		var open []string // ids by position; "" if the sub-task is over
		for _, t := range detail.SubTasks {
			open = append(open, text.If(!t.Status.Terminal(), t.ID))
		}
		if err := a.budget.name(open, "boulder "+boulder.ShortID(b.ID)+" has no unfinished sub-task"); err != nil {
			return req, err
		}
		for _, t := range detail.SubTasks {
			if given, ok := a.budget.subTasks[t.ID]; ok && t.Budget != nil {
				a.budget.subTasks[t.ID] = project.Overlay(*t.Budget, given)
			}
		}
	}
	return project.Request{
		Resume: b.ID, SubTaskBudgets: a.budget.subTasks, Iterations: a.iterations,
		Settings: boulder.Settings{Budget: a.budget.run, Diverted: a.blockers},
	}, nil
}
