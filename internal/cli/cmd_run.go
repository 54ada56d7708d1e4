package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	runcmd "github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/detect"
	"github.com/bouldermgr/manager/project"
)

type runOptions struct {
	taskFlags
	runFlags
	edit, allowStale bool
	fork             string
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
	o.taskFlags.register(cmd)
	o.runFlags.register(cmd)
	cmd.Flags().Lookup("from").Usage += "; with --fork, the sub-task from which on it is done anew"
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.edit, "edit", false, "open the plan in $EDITOR first")
	cmd.Flags().BoolVar(&o.approveReplans, "approve-replans", false, "ask before a new plan for the rest is run")
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false,
		"hand it to a server in the background, started if need be, and leave; a task is planned and run without asking")
	cmd.Flags().StringVar(&o.fork, "fork", "",
		"run the plan of `BOULDER` again, as a new one: from the sub-task of --from on; "+
			"what does not follow from that is taken over with its outputs")
	_ = cmd.RegisterFlagCompletionFunc("fork", a.completeBoulder(false)) // fails only for a flag that is not there
	cmd.Flags().BoolVar(&o.allowStale, "allow-stale", false, "run a plan that was made for another commit")
	return cmd
}

func (a *app) runRun(ctx context.Context, o *runOptions, args []string) error {
	d, err := a.connectToRun(ctx, &o.runFlags)
	if err != nil {
		return err
	}
	defer d.Close()
	req, path, err := o.request(ctx, d, args)
	if err != nil {
		return err
	}
	done := d.Criteria(o.doneWhen)
	ask := o.approver(d)
	ask.edit, ask.check = o.edit, done.Check
	ask.into(req, o.approveReplans)
	return d.run(ctx, &o.runFlags, req, func() error {
		d.warnOfMissing(ctx, req.Plan)
		if req.Fork != nil {
			return nil
		}
		if err := done.Check(req.Plan); err != nil || req.Plan == nil {
			return err
		}
		return o.agree(ctx, ask, req, path)
	})
}

// request is what to run, and the file in which its plan can be edited.
func (o *runOptions) request(ctx context.Context, d *deps, args []string) (_ *project.Request, path string, err error) {
	req := &project.Request{
		Mode: o.mode(), Base: d.Base(), Model: d.app.model, Budget: o.budget.run, SubTaskBudgets: o.budget.subTasks,
		DoneWhen: o.doneWhen, Diverted: o.blockers,
	}
	if o.fork != "" {
		req.Fork, err = o.forked(ctx, d, args)
		return req, "", err
	}
	path, task, err := o.what(d, args)
	if err != nil {
		return nil, "", err
	}
	req.Task, req.Constraints = d.CleanRequest(task, o.constraints)
	switch {
	case path != "" && o.list:
		err = usagef("--from-list needs a task, not a plan file")
	case path != "":
		req.Plan, err = d.ReadPlan(path)
	case o.list:
		path = d.PlanPath() // where it can be edited
		req.Plan, err = o.fromList(boulder.PlanRequest{Task: req.Task, Constraints: req.Constraints, Project: d.Dir()})
		if err == nil {
			req.Plan.Seal.Base = d.Base()
		}
	case o.edit && o.detach:
		err = usagef("--edit is for a plan, and with --detach a task is planned later:" +
			" make the plan first, with `manager plan`")
	}
	return req, path, err
}

// what decides whether the arguments name a plan file or say a task.
func (o *runOptions) what(d *deps, args []string) (path, task string, err error) {
	if len(args) == 0 && o.from == "" {
		path = d.PlanPath()
		if !exists(path) {
			return "", "", usagef("no plan and no task: there is no %s; say what to do, as in `manager run \"Add dark mode\"`,"+
				" or make a plan first with `manager plan`", d.app.pretty(path))
		}
		return path, "", nil
	}
	if len(args) == 1 && o.from == "" && looksLikePlan(args[0]) {
		path = d.app.file(args[0])
		if !exists(path) {
			return "", "", usagef("there is no plan file %s", path)
		}
		return path, "", nil
	}
	task, err = o.task(d.app, args)
	return "", task, err
}

func looksLikePlan(arg string) bool {
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".yaml", ".yml", ".json":
		return !strings.ContainsAny(arg, "\n")
	}
	return false
}

// agree checks a given plan, and has it approved. It was written or seen by a person: its gates may run.
func (o *runOptions) agree(ctx context.Context, ask *approver, req *project.Request, path string) error {
	if err := ask.CheckSeal(req.Plan, o.allowStale); err != nil {
		return err
	}
	var ids []string
	for i := range req.Plan.SubTasks {
		ids = append(ids, req.Plan.SubTasks[i].ID)
	}
	o.budget.name(ids)
	for id := range o.budget.subTasks {
		if !slices.Contains(ids, id) {
			return usagef("the plan has no sub-task %q to give a budget to", id)
		}
	}
	a, err := ask.approve(ctx, req.Plan, path, true)
	req.Plan, req.GatesApproved, req.Model = a.Plan, a.Gates, a.Model
	return err
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

// forked finds the boulder and the sub-task that --fork and --from name, and refuses what does not go with them.
func (o *runOptions) forked(ctx context.Context, d *deps, args []string) (*boulder.Fork, error) {
	switch {
	case len(args) > 0:
		return nil, usagef("--fork runs the plan of a boulder, so it takes no task and no plan file")
	case o.from == "":
		return nil, usagef("--fork needs the sub-task from which on the work is done anew: --from SUBTASK")
	case len(o.doneWhen) > 0:
		return nil, usagef("a fork is done when the original was, so --done-when does not go with it")
	case o.list || o.direct || o.plan || o.edit || len(o.constraints) > 0:
		return nil, usagef("a fork runs the plan of the original as it is: --from-list, --direct, --plan, --edit and" +
			" --constraint do not go with it")
	}
	r, closeReader, err := d.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer closeReader()
	detail, err := project.Get(ctx, r, o.fork)
	if err != nil {
		return nil, err
	}
	detail.SubTasks = slices.DeleteFunc(detail.SubTasks, func(t boulder.SubTask) bool {
		return t.Status == boulder.SubTaskSuperseded
	})
	t, err := findSubTask(detail, o.from)
	if err != nil {
		return nil, err
	}
	return &boulder.Fork{BoulderID: detail.Boulder.ID, SubTaskID: t.ID}, nil
}
