package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// taskFlags are shared by the commands that take a task.
type taskFlags struct {
	from               string
	constraints        []string
	direct, plan, list bool
	doneWhen           doneFlag
}

// registerTask adds the flags of every task.
func (f *taskFlags) registerTask(cmd *cobra.Command, doneWithout string) {
	cmd.Flags().StringVar(&f.from, "from", "", "read the task from `FILE`, or from stdin with -")
	cmd.Flags().StringArrayVar(&f.constraints, "constraint", nil, "`TEXT` that goes verbatim into every brief; repeatable")
	cmd.Flags().Func("done-when", "`CRITERIA` by which a sub-task that names none is done: "+
		strings.Join(boulder.DoneWords(), ", ")+doneWithout, f.doneWhen.Set)
}

// registerPlan adds those of a task that is planned.
func (f *taskFlags) registerPlan(cmd *cobra.Command) {
	f.registerTask(cmd, "; default the judge")
	cmd.Flags().BoolVar(&f.direct, "direct", false, "one sub-task, without a planning call")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "plan even if the task looks too small to split")
	cmd.Flags().BoolVar(&f.list, "from-list", false,
		"take the task's own numbered list of 2 to 5 steps as the plan, without a model")
	cmd.PreRunE = func(*cobra.Command, []string) error { // cobra's own check is no usage error
		switch {
		case f.direct && f.plan:
			return usagef("--direct and --plan contradict each other: give one of them, or neither")
		case f.list && (f.direct || f.plan):
			return usagef("--from-list takes the plan from the task, so --direct and --plan do not go with it")
		}
		return nil
	}
}

// doneFlag is --done-when: `todos,tests`; repeatable.
type doneFlag []string

// Set takes one value of the flag.
func (f *doneFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if !boulder.IsDoneWord(word) {
			return fmt.Errorf("there is no criterion %q: use %s", word, strings.Join(boulder.DoneWords(), ", "))
		}
		if !slices.Contains(*f, word) {
			*f = append(*f, word)
		}
	}
	return nil
}

// request is what the Task Ledger gets, without secrets.
func (f *taskFlags) request(a *app, task string) boulder.PlanRequest {
	req := boulder.PlanRequest{Project: a.Dir(), Mode: boulder.PlanAuto}
	clean := a.Clean("The task", append([]string{task}, f.constraints...)...)
	req.Task, req.Constraints = clean[0], clean[1:]
	switch {
	case f.direct:
		req.Mode = boulder.PlanNever
	case f.plan:
		req.Mode = boulder.PlanAlways
	}
	return req
}

// maxTask bounds a task, in bytes: beyond this it is a file that was given by mistake.
const maxTask = 1 << 20

// task is what the arguments say, or what --from names.
func (f *taskFlags) task(a *app, args []string) (string, error) {
	s := strings.Join(args, "")
	switch {
	case len(args) > 1:
		return "", usagef("there are %d arguments, %q first: put the task into quotes", len(args), text.Clip(args[0], 40))
	case s != "" && exists(a.file(s)):
		return "", usagef("%s is a file or directory, not a task; a plan file ends in .yaml, .yml or .json, and --from reads"+
			" a task from a file", s)
	case f.from != "" && len(args) > 0:
		return "", usagef("the task is given twice: as %q and by --from %s", text.Clip(s, 40), f.from)
	case f.from != "":
		source := a.Stdin
		if f.from != "-" {
			file, err := os.Open(a.file(f.from))
			if err != nil {
				return "", usagef("cannot read the task: %v", err)
			}
			defer file.Close()
			source = file
		}
		data, err := io.ReadAll(io.LimitReader(source, maxTask+1))
		switch {
		case err != nil:
			return "", usagef("cannot read the task from %s: %v", f.from, err)
		case len(data) > maxTask:
			return "", usagef("the task in %s is longer than 1 MiB: put the details into files of the project and name them",
				f.from)
		}
		s = string(data)
	}
	if s = strings.TrimSpace(s); s == "" {
		return "", usagef("no task: say what to do, as in \"Add dark mode\", or read it with --from FILE")
	}
	return strings.ToValidUTF8(s, "\uFFFD"), nil
}

type planOptions struct {
	taskFlags
	output string
}

func (a *app) newPlanCmd() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [flags] \"TASK\"",
		Short: "Split a task into sub-tasks and write the plan file",
		Long: `Asks the ledger model once to split the task, prints the plan, and writes it to a file. Nothing else in the project is
changed. A short task that is one step becomes a plan of one sub-task without asking a model.

Then edit the file as you like and run it with ` + "`manager run`" + `.`,
		Example: `  manager plan "Add dark mode: a toggle in the settings, both themes, and tests for them"
  manager plan --from issue.md --constraint "never touch vendor/" -o feature.yaml
  manager plan -o - "Add dark mode" | less`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runPlan(cmd.Context(), &o, args) },
	}
	o.registerPlan(cmd)
	a.attachFlag(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "",
		"write the plan to `FILE` (default .manager/plan.yaml); - writes YAML to stdout and nothing else")
	return cmd
}

func (a *app) runPlan(ctx context.Context, o *planOptions, args []string) error {
	task, err := o.task(a, args)
	if err != nil {
		return err
	}
	if err := a.connect(ctx); err != nil {
		return err
	}
	req, path := o.request(a, task), a.PlanPath()
	switch o.output { // before the model is asked
	case "-":
	case "":
		_, err = store.EnsureDir(a.Dir())
	default:
		path = a.file(o.output)
		err = checkWritable("plan", path)
	}
	if err == nil && len(o.doneWhen) > 0 {
		err = a.Criteria(o.doneWhen).Check(nil)
	}
	if err != nil {
		return err
	}
	done := func() {}
	if !o.list {
		done = a.planning(a.Ledger())
	}
	plan, err := o.makePlan(ctx, a, req)
	done()
	if err != nil {
		return err
	}
	if len(o.doneWhen) > 0 {
		plan.DoneWhen = o.doneWhen
		if plan.Seal != nil {
			plan.Seal.Hash = plan.Hash()
		}
	}
	if o.output == "-" {
		data, err := taskledger.Format(plan)
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(data)
		return err
	}
	if err := a.keepEdited(path); err != nil {
		return err
	}
	if err := a.WritePlan(path, plan); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(view.NewPlanJSON(plan, path))
	}
	view.Plan(a.on(a.Stdout), plan)
	run := "manager run"
	if path != a.PlanPath() {
		run += " " + path
	}
	a.note("\nWrote %s. Edit it as you like, then: %s", a.pretty(path), run)
	return nil
}

// planning shows on stderr that a plan is being made, until the function that it returns is called.
func (a *app) planning(ledger string) (done func()) {
	switch {
	case a.quiet:
	case a.console().Drawable():
		began, p := time.Now(), a.on(a.Stderr)
		screen := a.console().Screen(view.Picture{Frame: func(size page.Size, tick int) string {
			took := text.Elapsed(time.Since(began).Truncate(time.Second))
			text := "Planning with " + text.Clip(view.ModelName(ledger), size.Width-len("Planning with ")-len(took)-6)
			return p.Cyan(view.Spinner(tick)) + " " + p.Bold(text) + "  " + p.Dim(took)
		}})
		return screen.Close
	default:
		a.note("Planning with %s …", view.ModelName(ledger))
	}
	return func() {}
}

// makePlan asks the Task Ledger, or takes the list that the task is, and seals the plan with the project's commit.
func (f *taskFlags) makePlan(ctx context.Context, a *app, req boulder.PlanRequest) (plan *boulder.Plan, err error) {
	var usage boulder.Usage
	if f.list {
		plan, err = taskledger.FromList(req, time.Now())
	} else {
		plan, usage, err = a.Plan(ctx, req)
	}
	switch {
	case errors.Is(err, taskledger.ErrNoList):
		return nil, &project.UsageError{Err: err}
	case err != nil:
		return nil, err
	}
	if plan.Seal != nil {
		plan.Seal.Base = a.Base()
	}
	if plan.Origin() == boulder.OriginFallback {
		a.note("The model's answers were not usable as a plan, so the whole task is one sub-task." +
			" Edit the plan to split it.")
	}
	if usage.Calls > 0 {
		a.note("Planned with %s (%s).", view.ModelName(a.Ledger()), morning.Usage(usage))
	}
	return plan, nil
}

// keepEdited moves a plan that the user wrote or changed out of the way of a new one.
func (a *app) keepEdited(path string) error {
	old, err := taskledger.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && old.Seal != nil && !old.Edited() {
		return nil // there is none, or it is the model's own and can be made again
	}
	backup := path + ".bak"
	if err := os.Rename(path, backup); err != nil {
		return fmt.Errorf("keep the edited plan: %w", err)
	}
	a.note("%s held changes of yours: it is kept as %s.", a.pretty(path), a.pretty(backup))
	return nil
}

// pretty shows a path relative to the current directory if that is shorter.
func (a *app) pretty(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
			return rel
		}
	}
	return path
}
