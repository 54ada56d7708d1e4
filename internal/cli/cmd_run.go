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
		Long: `Executes a plan file (default .manager/plan.yaml), or plans the task and executes that. Each sub-task runs as a fresh
OpenCode session, after those that it depends on. On a terminal the plan is shown first, and you are asked.

Ctrl-C lets the running turns end and stops there; a second Ctrl-C aborts them. Either way nothing is lost: go on with
` + "`manager resume`" + `.

Exit codes: 0 all done · 1 error · 2 usage, bad plan file or configuration · 3 finished, but some sub-tasks failed, or
a gate is red · 4 stopped, waiting for a person: a question, a budget, a new plan, or faults that do not end ·
5 another process holds the state · 130 interrupted, or cancelled from another terminal.`,
		Example: `  manager run
  manager run "Add dark mode" --model anthropic/claude-sonnet-4-5
  manager run feature.yaml --yes --budget cost=5,time=8h
  manager run feature.yaml --detach
  manager run --fork 01kakq --from docs`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runRun(cmd.Context(), &o, args) },
	}
	o.registerPlan(cmd)
	o.runFlags.register(a, cmd)
	o.registerAsking(cmd)
	o.registerDetach(cmd)
	cmd.Flags().Lookup("from").Usage += "; with --fork, the sub-task from which on it is done anew"
	cmd.Flags().BoolVar(&o.edit, "edit", false, "open the plan in $EDITOR first")
	cmd.Flags().StringVar(&o.fork, "fork", "",
		"run the plan of `BOULDER` again, as a new one: from the sub-task of --from on; "+
			"what does not follow from that is taken over with its outputs")
	_ = cmd.RegisterFlagCompletionFunc("fork", a.completion(many, boulders)) // fails only for a flag that is not there
	cmd.Flags().BoolVar(&o.allowStale, "allow-stale", false, "run a plan that was made for another commit")
	return cmd
}

func (a *app) runRun(ctx context.Context, o *runOptions, args []string) error {
	if err := a.connectToRun(ctx, &o.runFlags); err != nil {
		return err
	}
	req := project.Request{
		Base: a.Base(), Model: a.model, Budget: o.budget.run, SubTaskBudgets: o.budget.subTasks,
		DoneWhen: o.doneWhen, Diverted: o.blockers,
	}
	var path string
	var err error
	if o.fork != "" {
		req.Fork, err = o.forked(ctx, a, args)
	} else {
		path, err = o.read(ctx, a, args, &req)
	}
	if err != nil {
		return err
	}
	done := a.Criteria(o.doneWhen)
	ask := &approver{app: a, ask: !o.yes && a.interactive(), edit: o.edit, check: done.Check}
	ask.into(&req, o.approveReplans)
	return a.run(ctx, &o.runFlags, &req, func(*project.State) error {
		a.warnOfMissing(ctx, req.Plan)
		if req.Fork != nil {
			return nil
		}
		if err := done.Check(req.Plan); err != nil || req.Plan == nil {
			return err
		}
		return o.agree(ctx, ask, &req, path)
	})
}

// read puts the plan file or the task that is given into the request, and returns the file in which the plan can be edited.
func (o *runOptions) read(ctx context.Context, a *app, args []string, req *project.Request) (path string, err error) {
	none := len(args) == 0 && o.from == ""
	if none || len(args) == 1 && o.from == "" && looksLikePlan(args[0]) {
		path = a.PlanPath()
		if !none {
			path = a.file(args[0])
		}
		switch {
		case none && !exists(path):
			return "", usagef("no plan and no task: there is no %s; say what to do, as in `manager run \"Add dark mode\"`,"+
				" or make a plan first with `manager plan`", a.pretty(path))
		case !exists(path):
			return "", usagef("there is no plan file %s", path)
		case o.list:
			return "", usagef("--from-list needs a task, not a plan file")
		}
		req.Constraints = a.Clean("The task", o.constraints...)
		req.Plan, err = a.ReadPlan(path)
		return path, err
	}
	task, err := o.task(a, args)
	if err != nil {
		return "", err
	}
	made := o.request(a, task)
	req.Task, req.Constraints, req.Mode = made.Task, made.Constraints, made.Mode
	switch {
	case o.list:
		req.Plan, err = o.makePlan(ctx, a, made)
	case o.edit && o.detach:
		err = usagef("--edit is for a plan, and with --detach a task is planned later:" +
			" make the plan first, with `manager plan`")
	}
	return a.PlanPath(), err
}

func looksLikePlan(arg string) bool {
	ending := strings.ToLower(filepath.Ext(arg))
	return slices.Contains([]string{".yaml", ".yml", ".json"}, ending) && !strings.Contains(arg, "\n")
}

// agree checks a given plan, and has it approved. It was written or seen by the user: its gates may run.
func (o *runOptions) agree(ctx context.Context, ask *approver, req *project.Request, path string) error {
	if err := ask.CheckSeal(req.Plan, o.allowStale); err != nil {
		return err
	}
	var ids []string
	for i := range req.Plan.SubTasks {
		ids = append(ids, req.Plan.SubTasks[i].ID)
	}
	if err := o.budget.name(ids, "the plan has no sub-task"); err != nil {
		return err
	}
	a, err := ask.approve(ctx, req.Plan, path, true)
	req.Plan, req.GatesApproved, req.Model = a.Plan, a.Gates, a.Model
	return err
}

// warnOfMissing names commands of a plan and of the configuration that cannot run as the project is now; the work may change
// that.
func (a *app) warnOfMissing(ctx context.Context, plan *boulder.Plan) {
	warned := map[string]bool{}
	look := func(line, whose string) {
		missing := detect.Missing(os.DirFS(a.Dir()), line)
		if program := runcmd.Missing(ctx, a.Dir(), a.Environ, line); program != "" {
			missing = program + " is not found"
		}
		if missing != "" && !warned[missing] {
			warned[missing] = true
			a.warn("%s, and the gate `%s` %s needs it", missing, line, whose)
		}
	}
	if plan != nil {
		for _, s := range plan.SubTasks {
			for _, line := range slices.Concat(s.Gates, s.NoWorse) {
				look(line, fmt.Sprintf("of sub-task %q", s.ID))
			}
		}
	}
	commands := a.Config().Commands()
	for _, line := range slices.Sorted(maps.Keys(commands)) {
		look(line, "("+commands[line]+")")
	}
}

// forked finds the boulder and the sub-task that --fork and --from name, and refuses what does not go with them.
func (o *runOptions) forked(ctx context.Context, a *app, args []string) (*boulder.Fork, error) {
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
	r, closeReader, err := a.openReader(ctx)
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
