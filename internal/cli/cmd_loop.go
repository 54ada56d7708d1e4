package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// loopOptions are those of a run, as far as a loop has them.
type loopOptions struct {
	runOptions
	iterations int
}

func (a *app) newLoopCmd() *cobra.Command {
	var o loopOptions
	cmd := &cobra.Command{
		Use:   "loop [flags] \"TASK\"",
		Short: "Keep one session working until its task is done",
		Long: `Gives the task to one OpenCode session, without planning, and tells it to go on until everything holds that
--done-when names: no open item on its todo list, no errors in the files that it changed, the project's tests (they
pass, or are no worse than before), its own promise that all is done, and the judge's agreement. Tests that nobody
named, and that are not found, do not count. Where red tests have to turn green, make their command a gate.

It stops at the limit of turns, and goes on with a larger one: manager resume --max-iterations N. It ends without success
when 5 continuations in a row brought nothing new: no
item completed, no new change to files, no check turned green. After each of these it waits longer.

A loop is a run of one sub-task: status, show, logs, pause, resume, note and cancel work as with any other.

Exit codes: those of ` + "`manager run`" + `; 3 if it ended without success, 4 if it had all its turns, all that is
left is blocked, or it was stopped in OpenCode.`,
		Example: `  manager loop "Move the parser into a package of its own, with tests for it"
  manager loop --from task.md --done-when tests,promise --max-iterations 30
  manager loop "Port the CLI to cobra" --budget cost=5,time=8h --detach`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runLoop(cmd.Context(), &o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "read the task from `FILE`, or from stdin with -")
	f.StringArrayVar(&o.constraints, "constraint", nil, "`TEXT` that goes verbatim into the brief; repeatable")
	f.Var(&o.doneWhen, "done-when",
		"`CRITERIA` that all have to hold: todos, diagnostics, tests, promise, judge; default all of them")
	f.IntVar(&o.iterations, "max-iterations", 0, "at most `N` turns (default 100)")
	f.StringVar(&o.attach, "attach", "", "use the OpenCode server at `URL` instead of starting one")
	f.Var(&o.budget, "budget", budgetUsage)
	f.BoolVarP(&o.detach, "detach", "d", false, "hand it to a server in the background, started if need be, and leave")
	blockersFlag(cmd, &o.blockers)
	lockFlag(cmd, &o.lockTimeout)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("max-iterations") && o.iterations < 1 {
			return usagef("--max-iterations is %d: it must be at least 1", o.iterations)
		}
		return nil
	}
	return cmd
}

func (a *app) runLoop(ctx context.Context, o *loopOptions, args []string) error {
	a.warnOfSwitch(o.blockers)
	d, err := a.connect(ctx, o.attach, o.lockTimeout)
	if err != nil {
		return err
	}
	defer d.Close()
	req, err := d.loopRequest(ctx, o, args)
	if err != nil {
		return err
	}
	if o.detach {
		return d.detachLoop(ctx, o, req)
	}
	st, err := d.Hold(ctx, false)
	if err != nil {
		return err
	}
	defer st.Release()
	if err := d.approveLoop(ctx, &req); err != nil {
		return err
	}
	return d.execute(ctx, st, func(
		ctx context.Context, run *orchestrator.Orchestrator,
	) iter.Seq2[boulder.Event, error] {
		return run.Run(ctx, req)
	})
}

// loopRequest makes what the orchestrator is asked to run: a plan of one sub-task, and the bounds of the loop.
func (d *deps) loopRequest(ctx context.Context, o *loopOptions, args []string) (orchestrator.Request, error) {
	task, err := o.task(d.app, args)
	if err != nil {
		return orchestrator.Request{}, err
	}
	task, o.constraints = d.CleanRequest(task, o.constraints)
	plan, err := d.makePlan(ctx, boulder.PlanRequest{
		Task: task, Constraints: o.constraints, Project: d.Dir(), Mode: boulder.PlanNever,
	})
	if err != nil {
		return orchestrator.Request{}, err
	}
	plan.Seal.Base = d.Base()
	o.budget.name([]string{plan.SubTasks[0].ID})
	for id := range o.budget.subTasks {
		if id != plan.SubTasks[0].ID {
			return orchestrator.Request{}, usagef("a loop has one sub-task, %q, and none named %q to give a budget to",
				plan.SubTasks[0].ID, id)
		}
	}
	done, err := d.loopDone(o.doneWhen)
	if err != nil {
		return orchestrator.Request{}, err
	}
	loop := d.Config().Loop()
	if o.iterations > 0 {
		loop.Iterations = o.iterations
	}
	return orchestrator.Request{
		Plan: plan, GatesApproved: true, Base: d.Base(), LedgerModel: d.Ledger(), Loop: &loop, Diverted: o.blockers,
		DoneWhen: done.Words, Checks: done.Checks, Gates: d.Config().Gates, NoWorse: d.Config().NoWorse,
		Budget: d.Budget(o.budget.run), SubTaskBudgets: o.budget.subTasks,
	}, nil
}

// loopDone is every criterion, unless a person named some. One that nobody named and nothing can check is left out,
// with a word about it.
func (d *deps) loopDone(flag doneFlag) (project.Criteria, error) {
	done := d.Criteria(flag)
	if len(done.Words) > 0 {
		return done, done.Check(nil)
	}
	done.Words = boulder.DoneWords()
	if len(done.Checks.Tests) == 0 {
		d.app.note("Note: tests do not decide here: %s.", done.NoTests)
		done.Words = slices.DeleteFunc(done.Words, func(w string) bool { return w == boulder.DoneTests })
	}
	return done, nil
}

// approveLoop looks whether OpenCode has the model, and says what is about to happen. There is no plan to agree to.
func (d *deps) approveLoop(ctx context.Context, req *orchestrator.Request) error {
	d.Warm()
	model, err := d.CheckModels(ctx, req.Plan)
	if err != nil {
		return err
	}
	req.Model = model
	if !d.app.json {
		d.app.note("%s", loopText(*req))
	}
	return nil
}

// loopText says in a line or two when a loop ends.
func loopText(req orchestrator.Request) string {
	s := fmt.Sprintf("Goes on until these hold: %s; at most %s.",
		strings.Join(req.DoneWhen, ", "), text.Plural(req.Loop.Iterations, "turn"))
	if slices.Contains(req.DoneWhen, boulder.DoneTests) {
		s += "\n   tests:        $ " + text.OneLine(strings.Join(req.Checks.Tests, "; "))
	}
	if slices.Contains(req.DoneWhen, boulder.DoneDiagnostics) && len(req.Checks.Lint) > 0 {
		s += "\n   diagnostics:  $ " + text.OneLine(strings.Join(req.Checks.Lint, "; ")) + ", where no language server runs"
	}
	return s
}

// detachLoop hands a loop to the server of the project.
func (d *deps) detachLoop(ctx context.Context, o *loopOptions, req orchestrator.Request) error {
	if err := d.approveLoop(ctx, &req); err != nil {
		return err
	}
	return d.detach(ctx, &o.runOptions, control.Submission{
		Plan: req.Plan, GatesApproved: true, Base: req.Base, Model: req.Model, Budget: o.budget.run,
		SubTasks: o.budget.subTasks, DoneWhen: req.DoneWhen, Checks: req.Checks, Loop: req.Loop,
		Diverted: o.blockers,
	})
}
