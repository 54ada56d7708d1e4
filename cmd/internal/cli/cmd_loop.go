package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newLoopCmd() *cobra.Command {
	var o taskFlags
	cmd := &cobra.Command{
		Use:   "loop [flags] \"TASK\"",
		Short: "Keep one session working until its task is done",
		Long: `Gives the task to one OpenCode session, without planning, and continues it until everything holds that --done-when
names: no open item on its todo list, no errors in the files that it changed, the project's tests (they pass, or are no
worse than before), its own promise that all is done, and the judge's agreement. Tests that are neither named nor found
do not count.

It stops at the limit of turns, and ends without success when 5 continuations in a row brought nothing new. A loop is a
run of one sub-task: status, show, logs, pause, resume, note and cancel work as with any other.

Exit codes: those of ` + "`manager run`" + `; 3 if it ended without success, 4 if it had all its turns or needs you.`,
		Example: `  manager loop "Move the parser into a package of its own, with tests for it"
  manager loop --from task.md --done-when tests,promise --max-iterations 30
  manager loop "Port the CLI to cobra" --budget cost=5,time=8h --detach`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("max-iterations") && a.iterations < 1 {
				return usagef("--max-iterations is %d: it must be at least 1", a.iterations)
			}
			return a.runLoop(cmd.Context(), &o, args)
		},
	}
	o.registerTask(cmd, "", "; default all of them")
	cmd.Flags().IntVar(&a.iterations, "max-iterations", 0, "at most `N` turns (default 100)")
	a.shared(cmd, "agent", "attach", "budget", "blockers", "lock-timeout", "detach")
	return cmd
}

func (a *app) runLoop(ctx context.Context, o *taskFlags, args []string) error {
	if err := a.connectToRun(ctx); err != nil {
		return err
	}
	o.mode = boulder.PlanNever // makes a plan of one sub-task
	task, err := o.task(a, args)
	if err != nil {
		return err
	}
	plan, err := o.makePlan(ctx, a, o.request(a, task))
	if err != nil {
		return err
	}
	if err := a.budget.name([]string{plan.SubTasks[0].ID}, "a loop has no sub-task"); err != nil {
		return err
	}
	done, err := a.loopDone(o.doneWhen)
	if err != nil {
		return err
	}
	loop := a.project.Config().Loop
	loop.Iterations = cmp.Or(a.iterations, loop.Iterations)
	req := project.Request{
		Plan: plan, SubTaskBudgets: a.budget.subTasks, Settings: boulder.Settings{
			Base: a.project.Base(), Effort: a.opts.Effort, Agent: a.opts.Agent, Loop: &loop, DoneWhen: done.Words, Diverted: a.blockers, Budget: a.budget.run,
		},
	}
	return a.run(ctx, &req, func(*project.State) (err error) { // no plan to approve
		if req.Model, err = a.project.CheckModels(ctx, plan); err != nil {
			return err
		}
		if !done.Checks.Default {
			err = a.project.CheckCriteria(ctx, done, nil)
		} else if why, noErr := a.project.NoDiagnostics(ctx, done); why != "" {
			a.note("Note: diagnostics do not decide here: %s.", why)
			req.DoneWhen = leaveOut(req.DoneWhen, boulder.DoneDiagnostics)
		} else {
			err = noErr
		}
		if err == nil && !a.json {
			a.note("%s", loopText(&req, done.Checks))
		}
		return err
	})
}

// loopDone returns the criteria that the user named, else all, but tests only if there is a command for them.
func (a *app) loopDone(flag doneFlag) (project.Criteria, error) {
	done := a.project.Criteria(flag)
	if done.Checks.Default {
		done.Words = boulder.DoneWords()
		if len(done.Checks.Tests) == 0 {
			a.note("Note: tests do not decide here: %s.", done.NoTests)
			done.Words = leaveOut(done.Words, boulder.DoneTests)
		}
	}
	return done, done.Check(nil)
}

func leaveOut(words []string, word string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return w == word })
}

func loopText(req *project.Request, checks boulder.Checks) string {
	tests, lint := text.OneLine(strings.Join(checks.Tests, "; ")), text.OneLine(strings.Join(checks.Lint, "; "))
	return fmt.Sprintf("Continues until these hold: %s; at most %s.",
		strings.Join(req.DoneWhen, ", "), text.Plural(req.Loop.Iterations, "turn")) +
		text.If(slices.Contains(req.DoneWhen, boulder.DoneTests), "\n   tests:        $ "+tests) +
		text.If(slices.Contains(req.DoneWhen, boulder.DoneDiagnostics) && lint != "",
			"\n   diagnostics:  $ "+lint+", where no language server runs")
}

// budgetFlag is --budget: `cost=5,time=8h` for the run, `SUBTASK:tokens=200k` for one sub-task; repeatable.
type budgetFlag struct {
	run      *boulder.Budget
	subTasks map[string]boulder.Budget
}

// Set parses one value of the flag. Limits of the same budget are merged.
func (f *budgetFlag) Set(text string) error {
	id, limits, ofSubTask := strings.Cut(text, ":")
	switch {
	case !ofSubTask:
		if f.run == nil {
			f.run = &boulder.Budget{}
		}
		return parseBudget(text, f.run)
	case id == "":
		return fmt.Errorf("%q names no sub-task before the colon", text)
	case f.subTasks == nil:
		f.subTasks = map[string]boulder.Budget{}
	}
	b := f.subTasks[id]
	err := parseBudget(limits, &b)
	f.subTasks[id] = b
	return err
}

// name replaces sub-task numbers, as in 2:tokens=200k, by the ids at these positions. It refuses unknown sub-tasks
// with an error that begins with none. An empty id is a sub-task that cannot have a budget.
func (f *budgetFlag) name(ids []string, none string) error {
	for _, ref := range slices.Sorted(maps.Keys(f.subTasks)) {
		if slices.Contains(ids, ref) {
			continue
		}
		n, isNumber := subTaskPlace(ref)
		if !isNumber || n > len(ids) || ids[n-1] == "" {
			has := strings.Join(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" }), ", ")
			return usagef("%s %q to give a budget to; there is %s", none, ref, text.Clip(cmp.Or(has, "none"), 400))
		}
		if _, given := f.subTasks[ids[n-1]]; !given {
			f.subTasks[ids[n-1]] = f.subTasks[ref]
		}
		delete(f.subTasks, ref)
	}
	return nil
}

// parseBudget parses "tokens=2M,cost=5", the keys of budget: in a plan file, on one line.
func parseBudget(s string, b *boulder.Budget) error {
	for item := range strings.SplitSeq(s, ",") {
		name, limit, _ := strings.Cut(strings.TrimSpace(item), "=")
		if name == "" || limit == "" {
			return fmt.Errorf("%q is not NAME=LIMIT, as in cost=5", item)
		}
		file, err := yamlfile.Decode("", fmt.Appendf(nil, "%q: %q", name, limit), b)
		if err == nil {
			err = file.Err()
		}
		if wrong, ok := errors.AsType[*yamlfile.Error](err); ok {
			return errors.New(strings.TrimSuffix(wrong.Problems[0].What+": "+wrong.Problems[0].Do, ": "))
		}
	}
	return nil
}
