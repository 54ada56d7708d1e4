package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	runcmd "github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/detect"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

type runOptions struct {
	taskFlags
	yes, edit, allowStale bool
	approveReplans        bool
	budget                budgetFlag
	lockTimeout           time.Duration
	detach                bool
	fork                  string
	blockers              bool
}

func (a *app) newRunCmd() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:        "run [flags] [PLAN.yaml | \"TASK\"]",
		Short:      "Execute a plan file, or plan and execute a task",
		SuggestFor: []string{"start", "exec", "execute"},
		Long: `Executes a plan file (default .manager/plan.yaml), or plans the task and executes that. Each sub-task
runs as a fresh OpenCode session, after those that it depends on and beside those that it does not. On a terminal
the plan is shown first, and you are asked.

Ctrl-C lets the running turns end and stops there; a second Ctrl-C aborts them. Either way nothing is lost: go on with
` + "`manager resume`" + `.

Exit codes: 0 all done · 1 error · 2 usage, bad plan file or configuration · 3 finished, but some sub-tasks failed, or
a gate is red · 4 stopped, waiting for a person (a hard blocker has to be answered, a budget is used up, a new plan has to
be approved, or faults do not end) ·
5 another process holds the state · 130 interrupted, or cancelled from another terminal.`,
		Example: `  manager run
  manager run feature.yaml --yes
  manager run "Add dark mode" --model anthropic/claude-sonnet-4-5
  manager run feature.yaml --yes --budget cost=5,time=8h
  manager run feature.yaml --detach
  manager run --fork 01kakq --from docs`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runRun(cmd.Context(), &o, args) },
	}
	o.register(cmd)
	cmd.Flags().Lookup("from").Usage += "; with --fork, the sub-task from which on it is done anew"
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.edit, "edit", false, "open the plan in $EDITOR first")
	cmd.Flags().Var(&o.budget, "budget", budgetUsage)
	cmd.Flags().BoolVar(&o.approveReplans, "approve-replans", false, "ask before a new plan for the rest is run")
	lockFlag(cmd, &o.lockTimeout)
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false,
		"hand it to a server in the background, started if need be, and leave; a task is planned and run without asking")
	cmd.Flags().StringVar(&o.fork, "fork", "",
		"run the plan of `BOULDER` again, as a new one: from the sub-task of --from on; "+
			"what does not follow from that is taken over with its outputs")
	_ = cmd.RegisterFlagCompletionFunc("fork", a.completeBoulder(false)) // fails only for a flag that is not there
	blockersFlag(cmd, &o.blockers)
	cmd.Flags().BoolVar(&o.allowStale, "allow-stale", false, "run a plan that was made for another commit")
	return cmd
}

// what is to be run: a plan file, or a task.
type what struct {
	planPath string
	task     string
	fork     *boulder.Fork
}

// what decides whether the arguments name a plan file or say a task.
func (o *runOptions) what(a *app, root string, args []string) (what, error) {
	if len(args) == 0 && o.from == "" {
		path := planPath(root)
		if !exists(path) {
			return what{}, usagef("no plan and no task: there is no %s; say what to do, as in `manager run \"Add dark mode\"`,"+
				" or make a plan first with `manager plan`", a.pretty(path))
		}
		return what{planPath: path}, nil
	}
	if len(args) == 1 && o.from == "" && looksLikePlan(args[0]) {
		path := a.file(args[0])
		if !exists(path) {
			return what{}, usagef("there is no plan file %s", path)
		}
		return what{planPath: path}, nil
	}
	task, err := o.task(a, args)
	return what{task: task}, err
}

func looksLikePlan(arg string) bool {
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".yaml", ".yml", ".json":
		return !strings.ContainsAny(arg, "\n")
	}
	return false
}

func (a *app) runRun(ctx context.Context, o *runOptions, args []string) error {
	a.warnOfSwitch(o.blockers)
	d, err := a.connect(ctx, o.attach, o.lockTimeout)
	if err != nil {
		return err
	}
	defer d.Close()
	w, plan, err := o.read(d, args)
	if err != nil {
		return err
	}
	if o.detach {
		return d.detachRun(ctx, o, w, plan)
	}
	st, err := d.Hold(ctx, false)
	if err != nil {
		return err
	}
	defer st.Release()
	if w.fork, err = o.forked(ctx, st.DB); err != nil {
		return err
	}
	d.Warm() // boots while the model plans and the person reads
	req, err := d.request(ctx, o, w, plan)
	if err != nil {
		return err
	}
	err = d.execute(ctx, st, func(
		ctx context.Context, run *orchestrator.Orchestrator,
	) iter.Seq2[boulder.Event, error] {
		return run.Run(ctx, req)
	})
	if errors.Is(err, orchestrator.ErrNoFork) {
		return &project.UsageError{Err: err}
	}
	return err
}

// read finds out what is to be run, and reads the plan if there is one.
func (o *runOptions) read(d *deps, args []string) (w what, plan *boulder.Plan, err error) {
	if o.fork != "" {
		return w, nil, o.checkFork(args)
	}
	if w, err = o.what(d.app, d.Dir(), args); err != nil {
		return w, nil, err
	}
	w.task, o.constraints = d.CleanRequest(w.task, o.constraints)
	switch {
	case w.planPath != "" && o.list:
		return w, nil, usagef("--from-list needs a task, not a plan file")
	case w.planPath != "":
		plan, err = d.ReadPlan(w.planPath)
	case o.list:
		plan, err = o.fromList(boulder.PlanRequest{Task: w.task, Constraints: o.constraints, Project: d.Dir()})
		if err == nil {
			plan.Seal.Base, w.planPath = d.Base(), d.PlanPath() // where it can be edited
		}
	}
	return w, plan, err
}

// approver asks a person, if there is one.
func (o *runOptions) approver(d *deps) *approver {
	return &approver{deps: d, edit: o.edit, ask: !o.yes && !d.app.json && terminal(d.app.Stdin) && terminal(d.app.Stderr)}
}

// request makes what the orchestrator is asked to run.
func (d *deps) request(ctx context.Context, o *runOptions, w what, plan *boulder.Plan) (orchestrator.Request, error) {
	ask := o.approver(d)
	req := orchestrator.Request{
		Task: w.task, Constraints: o.constraints, Mode: o.mode(), Base: d.Base(), LedgerModel: d.Ledger(),
		Budget: d.Budget(o.budget.run), SubTaskBudgets: o.budget.subTasks,
		ApproveReplan: ask.replans(o.approveReplans), AskReplans: o.approveReplans,
		Diverted: o.blockers, Gates: d.Config().Gates, NoWorse: d.Config().NoWorse,
	}
	d.warnOfMissing(ctx, plan)
	done := d.Criteria(o.doneWhen)
	req.DoneWhen, req.Checks = done.Words, done.Checks
	if w.fork != nil {
		req.Fork, req.Model = w.fork, d.app.model
		return req, nil
	}
	if plan == nil {
		req.Approve = func(ctx context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
			a, err := ask.approve(ctx, p, d.PlanPath(), d.Config().AllowModelGates)
			if err == nil {
				err = done.Check(a.Plan)
			}
			return a, err
		}
		return req, done.Check(nil)
	}
	if err := done.Check(plan); err != nil {
		return req, err
	}
	approved, err := d.agreed(ctx, o, ask, plan, w.planPath)
	if err == nil {
		err = done.Check(approved.Plan) // it may have been edited
	}
	req.Plan, req.GatesApproved, req.Model = approved.Plan, approved.Gates, approved.Model
	return req, err
}

// agreed checks a given plan, and has it approved. It was written or seen by a person: its gates may run.
func (d *deps) agreed(
	ctx context.Context, o *runOptions, ask *approver, plan *boulder.Plan, path string,
) (orchestrator.Approval, error) {
	if err := d.CheckSeal(plan, o.allowStale); err != nil {
		return orchestrator.Approval{}, err
	}
	var ids []string
	for i := range plan.SubTasks {
		ids = append(ids, plan.SubTasks[i].ID)
	}
	o.budget.name(ids)
	for id := range o.budget.subTasks {
		if !slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool { return s.ID == id }) {
			return orchestrator.Approval{}, usagef("the plan has no sub-task %q to give a budget to", id)
		}
	}
	return ask.approve(ctx, plan, path, true)
}

// warnOfMissing names commands of a plan and of the configuration that cannot run as the project is now; the work may change
// that.
func (d *deps) warnOfMissing(ctx context.Context, plan *boulder.Plan) {
	warned := map[string]bool{}
	look := func(line, whose string) {
		missing := detect.Missing(os.DirFS(d.Dir()), line)
		if program := runcmd.Missing(ctx, d.Dir(), d.app.Environ, line); program != "" {
			missing = program + " is not found"
		}
		if missing != "" && !warned[missing] {
			warned[missing] = true
			d.app.warn("%s, and the gate `%s` %s needs it", missing, line, whose)
		}
	}
	var subTasks []boulder.Spec
	if plan != nil {
		subTasks = plan.SubTasks
	}
	for _, s := range subTasks {
		for _, line := range slices.Concat(s.Gates, s.NoWorse) {
			look(line, fmt.Sprintf("of sub-task %q", s.ID))
		}
	}
	commands := d.Config().Commands()
	for _, line := range slices.Sorted(maps.Keys(commands)) {
		look(line, "("+commands[line]+")")
	}
}

// execute runs or resumes a boulder and shows it. The first signal lets running turns end; the second one aborts them.
func (d *deps) execute(
	ctx context.Context, st *project.State,
	start func(context.Context, *orchestrator.Orchestrator) iter.Seq2[boulder.Event, error],
) error {
	run, err := st.Orchestrator(ctx)
	if err != nil {
		return err
	}
	if reason := d.NoDiffs(); reason != "" {
		d.app.note("Note: %s: there are no diffs here, so the work is judged without them.", reason)
	}
	end, err := d.newEnding(st.DB)
	if err != nil {
		return err
	}
	shown := view.NewRun(d.app.console(), view.NewProgress(st.DB), "")
	defer shown.Close()
	d.view = shown
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer d.app.interrupts.take(func(n int) {
		if n == 1 {
			shown.Stopping()
			run.Stop()
			return
		}
		abort(errInterrupted)
	})()
	st.SetSteerer(run)
	id, err := d.follow(end.watch(ctx, d.Delivering(ctx, st.DB, run, start(ctx, run))), shown, st)
	shown.Close()
	if errors.Is(err, orchestrator.ErrWaiting) && !d.app.quiet && !d.app.json { // else: manager show --receipt
		d.showReceipt(ctx, st, id)
	}
	return end.told(end.conclude(ctx, err), err)
}

// showReceipt tells on stderr where a run that a person has to decide about has spent what it has.
func (d *deps) showReceipt(ctx context.Context, st *project.State, id string) {
	detail, err := st.DB.Get(context.WithoutCancel(ctx), id)
	if err != nil {
		d.log.Warn("no receipt", "error", err)
		return
	}
	view.NewReceipt(detail, time.Now()).Print(d.app.on(d.app.Stderr))
}

// follow shows the events of a run until it ends.
func (d *deps) follow(
	events iter.Seq2[boulder.Event, error], shown view.Run, st *project.State,
) (id string, err error) {
	var end *boulder.TaskComplete
	for e, err := range events {
		if err != nil {
			return id, ended(st.DB, id, err)
		}
		if id == "" {
			id = e.BoulderID
			st.SetBoulder(id)
		}
		e = d.app.cleanEvent(e)
		if done, ok := e.Body.(boulder.TaskComplete); ok {
			end = &done
		}
		shown.Event(e)
		st.Notify()
	}
	if end != nil && !end.AllCompleted {
		detail, _ := st.DB.Get(context.Background(), id) // what cannot be read is called a run
		return id, notCompleted(&detail.Boulder)
	}
	return id, nil
}

// ended adds to the error that ended a run how to go on.
func ended(r reader, id string, err error) error {
	over := errors.Is(err, orchestrator.ErrDeclined) || errors.Is(err, orchestrator.ErrFinished) ||
		errors.Is(err, orchestrator.ErrCancelled)
	if id == "" || over {
		return err
	}
	how := "Continue with: "
	if detail, readErr := r.Get(context.Background(), id); readErr == nil && awaiting(detail) {
		how = "Answer with: " + view.ClarifyHint + "; then continue with: "
	}
	return fmt.Errorf("%w\nNothing is lost. %smanager resume %s%s", err, how, id, moreOf(err))
}

// moreOf is the flag that a resume needs when a budget is used up, or a loop has had its turns.
func moreOf(err error) string {
	if errors.Is(err, orchestrator.ErrLoopLimit) {
		return " --max-iterations …"
	}
	used, ok := errors.AsType[*orchestrator.BudgetError](err)
	switch {
	case !ok:
		return ""
	case used.SubTaskID != "":
		return " --budget " + used.SubTaskID + ":tokens=… (or what it needs more of)"
	}
	return " --budget tokens=… (or what it needs more of)"
}
