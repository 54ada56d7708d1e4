package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// taskFlags are shared by the commands that make a plan.
type taskFlags struct {
	from        string
	constraints []string
	direct      bool
	plan        bool
	list        bool
	doneWhen    doneFlag
}

func (f *taskFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "read the task from `FILE`, or from stdin with -")
	cmd.Flags().StringArrayVar(&f.constraints, "constraint", nil, "`TEXT` that goes verbatim into every brief; repeatable")
	cmd.Flags().BoolVar(&f.direct, "direct", false, "one sub-task, without a planning call")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "plan even if the task looks too small to split")
	cmd.Flags().BoolVar(&f.list, "from-list", false,
		"take the task's own numbered list of 2 to 5 steps as the plan, without a model")
	cmd.Flags().Var(&f.doneWhen, "done-when", doneUsage+"; default the judge")
	cmd.PreRunE = func(*cobra.Command, []string) error { // cobra's own check is no usage error
		if f.direct && f.plan {
			return usagef("--direct and --plan contradict each other: give one of them, or neither")
		}
		if f.list && (f.direct || f.plan) {
			return usagef("--from-list takes the plan from the task, so --direct and --plan do not go with it")
		}
		return nil
	}
}

// fromList is the plan that the task itself is, with --from-list.
func (f *taskFlags) fromList(req boulder.PlanRequest) (*boulder.Plan, error) {
	plan, err := taskledger.FromList(req, time.Now())
	if errors.Is(err, taskledger.ErrNoList) {
		return nil, &project.UsageError{Err: err}
	}
	return plan, err
}

func (f *taskFlags) mode() boulder.PlanMode {
	switch {
	case f.direct:
		return boulder.PlanNever
	case f.plan:
		return boulder.PlanAlways
	}
	return boulder.PlanAuto
}

// maxTask bounds a task, in bytes: beyond this it is a file that was given by mistake.
const maxTask = 1 << 20

// task is the request: the arguments, or what --from names.
func (f *taskFlags) task(a *app, args []string) (string, error) {
	if len(args) > 1 {
		return "", usagef("there are %d arguments, %q first: put the task into quotes", len(args), text.Clip(args[0], 40))
	}
	s := strings.Join(args, "")
	if exists(a.file(s)) && s != "" {
		return "", usagef("%s is a file or directory, not a task; a plan file ends in .yaml, .yml or .json, and --from reads"+
			" a task from a file", s)
	}
	if f.from != "" {
		if len(args) > 0 {
			return "", usagef("the task is given twice: as %q and by --from %s", text.Clip(s, 40), f.from)
		}
		data, err := a.read(f.from)
		if err != nil {
			return "", err
		}
		s = string(data)
	}
	s = strings.TrimSpace(s)
	if s == "" {
		return "", usagef("no task: say what to do, as in \"Add dark mode\", or read it with --from FILE")
	}
	return strings.ToValidUTF8(s, "\uFFFD"), nil
}

// read reads a small file, or stdin for "-".
func (a *app) read(name string) ([]byte, error) {
	source := a.Stdin
	if name != "-" {
		f, err := os.Open(a.file(name))
		if err != nil {
			return nil, usagef("cannot read the task: %v", err)
		}
		defer f.Close()
		source = f
	}
	data, err := io.ReadAll(io.LimitReader(source, maxTask+1))
	switch {
	case err != nil:
		return nil, usagef("cannot read the task from %s: %v", name, err)
	case len(data) > maxTask:
		return nil, usagef("the task in %s is longer than 1 MiB: put the details into files of the project and name them",
			name)
	}
	return data, nil
}

type planOptions struct {
	taskFlags
	attach, output string
}

func (a *app) newPlanCmd() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [flags] \"TASK\"",
		Short: "Split a task into sub-tasks and write the plan file",
		Long: `Asks the ledger model once to split the task, prints the plan, and writes it to a file for editing.
Nothing in the root is changed. A short task that is one step becomes a plan of one sub-task without asking a
model.

Then edit the file as you like and run it with ` + "`manager run`" + `.`,
		Example: `  manager plan "Add dark mode: a toggle in the settings, both themes, and tests for them"
  manager plan --from issue.md --constraint "never touch vendor/" -o feature.yaml
  manager plan -o - "Add dark mode" | less`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runPlan(cmd.Context(), &o, args) },
	}
	o.register(cmd)
	attachFlag(cmd, &o.attach)
	cmd.Flags().StringVarP(&o.output, "output", "o", "",
		"write the plan to `FILE` (default .manager/plan.yaml); - writes YAML to stdout and nothing else")
	return cmd
}

func (a *app) runPlan(ctx context.Context, o *planOptions, args []string) error {
	task, err := o.task(a, args)
	if err != nil {
		return err
	}
	d, err := a.connect(ctx, o.attach, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	path, err := o.prepare(d)
	if err != nil {
		return err
	}
	if len(o.doneWhen) > 0 {
		if err := d.Criteria(o.doneWhen).Check(nil); err != nil {
			return err
		}
	}
	task, o.constraints = d.CleanRequest(task, o.constraints)
	req := boulder.PlanRequest{Task: task, Constraints: o.constraints, Project: d.Dir(), Mode: o.mode()}
	var plan *boulder.Plan
	if o.list {
		plan, err = o.fromList(req)
	} else {
		done := a.planning(d.Ledger())
		plan, err = d.makePlan(ctx, req)
		done()
	}
	if err != nil {
		return err
	}
	if plan.Seal != nil {
		plan.Seal.Base = d.Base()
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
	if err := d.WritePlan(path, plan); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(view.NewPlanJSON(plan, path))
	}
	view.Plan(a.on(a.Stdout), plan)
	runArgument := ""
	if path != d.PlanPath() {
		runArgument = " " + path
	}
	a.note("\nWrote %s. Edit it as you like, then: manager run%s", a.pretty(path), runArgument)
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

// prepare finds out before the model is asked whether the plan can be written.
func (o *planOptions) prepare(d *deps) (path string, err error) {
	switch o.output {
	case "-":
		return "", nil
	case "":
		_, err = store.EnsureDir(d.Dir())
		return d.PlanPath(), err
	}
	path = d.app.file(o.output)
	return path, checkWritable("plan", path)
}

// makePlan asks the Task Ledger, and seals what it says with the project's commit.
func (d *deps) makePlan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, error) {
	plan, usage, err := d.Plan(ctx, req)
	if err != nil {
		return nil, err
	}
	if plan.Origin() == boulder.OriginFallback {
		d.app.note("The model's answers were not usable as a plan, so the whole task is one sub-task." +
			" Edit the plan to split it.")
	}
	if usage.Calls > 0 {
		d.app.note("Planned with %s (%s).", view.ModelName(d.Ledger()), morning.Usage(usage))
	}
	return plan, nil
}

// keepEdited moves a plan that a person wrote or changed out of the way of a new one.
func (a *app) keepEdited(path string) error {
	old, err := taskledger.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && old.Seal != nil && !old.Edited() {
		return nil // the model's own; it can be made again
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
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}
