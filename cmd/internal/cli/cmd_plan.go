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
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// taskFlags are shared by the commands that take a task.
type taskFlags struct {
	from, tag   string
	constraints []string
	mode        boulder.PlanMode
	look        boulder.LookMode
	list        bool
	doneWhen    doneFlag
}

func (f *taskFlags) registerTask(cmd *cobra.Command, lists, doneWithout string) {
	cmd.Flags().StringVar(&f.from, "from", "", "read the task from `FILE`, or from stdin with -"+lists)
	cmd.Flags().StringArrayVar(&f.constraints, "constraint", nil, "`TEXT` that goes verbatim into every brief; repeatable")
	cmd.Flags().Func("done-when", "`CRITERIA` of sub-tasks that name none: "+
		strings.Join(boulder.DoneWords(), ", ")+doneWithout, f.doneWhen.Set)
}

func (f *taskFlags) registerPlan(cmd *cobra.Command) {
	f.registerTask(cmd, "; or the list of tasks of another tool", "; default todos, judge, and tests and diagnostics where the project has commands for them")
	constFlag(cmd, &f.mode, boulder.PlanNever, "direct", "one sub-task, without a planning call")
	constFlag(cmd, &f.mode, boulder.PlanAlways, "plan", "split the task even if the ledger model would leave it whole")
	cmd.Flags().StringVar(&f.tag, "tag", "", "of a Task Master file: take the tasks of `TAG` (default: the current one)")
	cmd.Flags().BoolVar(&f.list, "from-list", false,
		"take the task's own numbered list of 2 to 5 steps, or its boxes, as the plan, without a model")
	constFlag(cmd, &f.look, boulder.LookAlways, "look", "have an agent that only reads look at the project before the task is split")
	constFlag(cmd, &f.look, boulder.LookNever, "no-look", "split the task without such a look (default: by plan.look)")
	cmd.MarkFlagsMutuallyExclusive("direct", "plan", "from-list")
	cmd.MarkFlagsMutuallyExclusive("direct", "from-list", "look", "no-look")
}

type doneFlag []string

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

func (f *taskFlags) request(a *app, task string) boulder.PlanRequest {
	clean := a.project.Clean("The task", append([]string{task}, f.constraints...)...)
	return boulder.PlanRequest{Project: a.project.Dir(), Task: clean[0], Constraints: clean[1:], Mode: f.mode, Look: f.look}
}

const (
	maxTask = 1 << 20
	maxList = 64 << 20 // of a file with a list of tasks: most of it may be done
)

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
		data, err := a.readFrom(f.from, maxTask)
		if err != nil {
			return "", a.unreadable("task", f.from, err)
		}
		if _, err := a.project.ReadList(f.from, data, "", false); secretive(err) {
			return "", notSent(f.from, err)
		}
		s = string(data)
	}
	return checkTask(s, f.from)
}

func checkTask(s, from string) (string, error) {
	if len(s) > maxTask {
		return "", usagef("the task in %s is longer than 1 MiB: put the details into files of the project and name them", from)
	}
	if s = strings.TrimSpace(s); s == "" {
		return "", usagef("no task: say what to do, as in \"Add dark mode\", or read it with --from FILE")
	}
	return strings.ToValidUTF8(s, "\uFFFD"), nil
}

// readFrom reads a file or stdin, and one byte more than most of what is longer.
func (a *app) readFrom(name string, most int64) ([]byte, error) {
	source, err := a.source(name)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	return io.ReadAll(io.LimitReader(source, most+1))
}

// input returns the task that the arguments or --from give, or the list of tasks that the file of --from is. What is said of
// how to plan makes any file a task; --from-list makes any text with boxes a list.
func (f *taskFlags) input(a *app, args []string) (task string, list *project.TaskList, err error) {
	if f.from == "" || len(args) > 0 || f.mode != "" || f.look != "" {
		task, err = f.task(a, args)
		return task, nil, err
	}
	list, data, err := f.readList(a, f.from)
	unknown, ok := errors.AsType[*project.UnknownList](err)
	switch {
	case !ok:
		return "", list, err
	case unknown.Secret:
		return "", nil, notSent(f.from, err)
	case unknown.Plan:
		return "", nil, usagef("%s %s: run it with `manager run %[1]s`", f.from, unknown.Looks)
	case unknown.Text:
		if unknown.Boxes > 0 && !f.list {
			a.note("%s %s, and is planned as a task. To take the boxes as they are: --from-list", f.from, unknown.Looks)
		}
		task, err = checkTask(string(data), f.from)
		return task, nil, err
	}
	return "", nil, usagef("%s %s. That is no list of tasks that manager knows (%s); --plan has the model plan it as a task",
		f.from, unknown.Looks, project.ListKinds)
}

// secretive reports whether the error says that a file may hold secrets.
func secretive(err error) bool {
	unknown, ok := errors.AsType[*project.UnknownList](err)
	return ok && unknown.Secret
}

// notSent refuses a file that may hold secrets.
func notSent(name string, looks error) error {
	return usagef("%s %s: nothing of it is sent to a model, since it may hold secrets; say in words what to do, as in"+
		" `manager plan \"TASK\"`", name, strings.TrimPrefix(looks.Error(), "it "))
}

// unreadable refuses a file of what that cannot be read.
func (a *app) unreadable(what, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return a.noFile("file", name)
	}
	return usagef("cannot read the %s: %w", what, err)
}

// noFile says that there is no such file, and which one was probably meant.
func (a *app) noFile(what, name string) error {
	ext := filepath.Ext(name)
	entries, _ := os.ReadDir(filepath.Dir(a.file(name)))
	var alike []string
	for _, entry := range entries {
		if stem, same := strings.CutSuffix(entry.Name(), ext); same {
			alike = append(alike, stem)
		}
	}
	if near := text.Nearest(strings.TrimSuffix(filepath.Base(name), ext), alike); near != "" {
		return usagef("there is no %s %s: did you mean %s?", what, name, filepath.Join(filepath.Dir(name), near+ext))
	}
	return usagef("there is no %s %s", what, name)
}

// readAny reads a plan, or a list of tasks of another tool as one; then kind says which. path leads to the file called name.
func (a *app) readAny(name, path string) (plan *boulder.Plan, warnings []yamlfile.Problem, kind string, err error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, nil, "", err
	}
	if ext := extension(path); ext != ".yaml" && ext != ".yml" {
		list, err := a.project.ReadList(path, data, "", false)
		unknown, other := errors.AsType[*project.UnknownList](err)
		switch {
		case err == nil:
			return list.Plan, nil, list.Kind, nil
		case !other:
			return nil, nil, "", err
		case !unknown.Plan:
			return nil, nil, "", usagef("%s %s, and is neither a plan nor a list of tasks that manager knows (%s)", name, unknown.Looks,
				project.ListKinds)
		}
	}
	plan, warnings, err = a.project.CheckPlan(path, data)
	return plan, warnings, "", err
}

// readList reads a list of tasks of another tool, and says what of it is in the plan.
func (f *taskFlags) readList(a *app, name string) (*project.TaskList, []byte, error) {
	data, err := a.readFrom(name, maxList)
	switch {
	case err != nil:
		return nil, nil, a.unreadable("task", name, err)
	case len(data) > maxList:
		return nil, nil, usagef("%s is longer than %d MiB: keep what is open in a file of its own", name, maxList>>20)
	}
	if _, bad := taskledger.FromList(boulder.PlanRequest{Task: string(data)}, time.Time{}); f.list && bad == nil {
		return nil, data, &project.UnknownList{Text: true} // numbered, which is another list
	}
	path := a.file(name)
	if name == "-" {
		path = "stdin"
	}
	list, err := a.project.ReadList(path, data, f.tag, f.list)
	if err != nil {
		return nil, data, err
	}
	list.Plan.Constraints = append(list.Plan.Constraints, a.project.Clean("The task", f.constraints...)...)
	list.Plan.Reseal()
	if !a.quiet {
		view.TaskList(a.on(a.Stderr), path, list)
	}
	return list, data, nil
}

func (a *app) newPlanCmd() *cobra.Command {
	var o taskFlags
	output, of, revise := "", "", ""
	cmd := &cobra.Command{
		Use:   "plan [flags] \"TASK\"|--revise \"COMMENT\" [PLAN]",
		Short: "Split a task into sub-tasks and write the plan file",
		Long: `Asks the ledger model what the task demands, and then to split it, prints the plan, and writes it to a file. Nothing
else in the project is changed. If the model finds that one agent does the task as well, the plan has one sub-task; --plan
has it split all the same, and --direct asks no model.

Then edit the file as you like and run it with ` + "`manager run`" + `; or say with --revise what should be different in it. What you
wrote yourself stays, unless the comment asks for a change of it.

--from FILE also takes a list of tasks that you have: Ralph's prd.json, Task Master's tasks.json, beads' issues.jsonl, Markdown
with headings "### Task N" or boxes. No model is asked, and what is done, put off or not understood is named. --plan and --direct
take any file as a task.

--of writes the present plan of a boulder that has begun: edit what has not begun, and continue with ` + "`manager resume`" + `.`,
		Example: `  manager plan "Add dark mode: a toggle in the settings, both themes, and tests for them"
  manager plan --from issue.md --constraint "never touch vendor/" -o feature.yaml
  manager plan --from .taskmaster/tasks/tasks.json
  bd export | manager plan --from -
  manager plan --revise "no page for it; check the whole at the end"
  manager plan -o - "Add dark mode" | less
  manager plan --of 01k3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("of"):
				return a.runPlanOf(cmd.Context(), of, output, args)
			case cmd.Flags().Changed("revise"):
				return a.runRevise(cmd.Context(), revise, output, args)
			}
			return a.runPlan(cmd.Context(), &o, output, args)
		},
	}
	o.registerPlan(cmd)
	a.shared(cmd, "attach", "yes")
	cmd.Flags().StringVar(&of, "of", "", "write the plan of `BOULDER`, and ask no model")
	cmd.Flags().StringVar(&revise, "revise", "", "have the ledger change a plan file (default .manager/plan.yaml) as the `COMMENT` says")
	for _, name := range []string{"from", "constraint", "done-when", "direct", "plan", "from-list"} {
		cmd.MarkFlagsMutuallyExclusive("of", "revise", name)
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"write the plan to `FILE` (default .manager/plan.yaml); - writes YAML to stdout and nothing else")
	return cmd
}

// runPlanOf writes the present plan of a boulder, for the user to edit.
func (a *app) runPlanOf(ctx context.Context, ref, output string, args []string) error {
	if len(args) > 0 {
		return usagef("--of writes the plan of boulder %s: it takes no task", ref)
	}
	d, err := a.project.Snapshot(ctx, ref)
	if err != nil {
		return err
	}
	plan, remarks, err := project.PresentPlan(&d)
	if err != nil {
		return err
	}
	path := a.project.PlanPath()
	switch output {
	case "-":
		data, err := taskledger.FormatRemarked(plan, remarks)
		if err == nil {
			_, err = asIs(a.Stdout).Write(data)
		}
		return err
	case "":
	default:
		path = a.file(output)
	}
	if err := a.keepEdited(path); err != nil {
		return err
	}
	if err := a.project.WritePlan(path, plan, remarks); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(view.NewPlanJSON(plan, path))
	}
	resume := "manager resume " + boulder.ShortID(d.Boulder.ID)
	if path != a.project.PlanPath() {
		resume += " --plan-file " + a.pretty(path)
	}
	a.note("Wrote %s. Edit what has not begun, then: %s", a.pretty(path), resume)
	return nil
}

func (a *app) runPlan(ctx context.Context, o *taskFlags, output string, args []string) error {
	task, list, err := o.input(a, args)
	if err != nil {
		return err
	}
	if err := a.connect(ctx); err != nil {
		return err
	}
	if model, _ := a.project.Model(); model == "" && output != "-" {
		a.project.Warm() // boots while the model plans: the preview asks it where the project goes
	}
	req, path := o.request(a, task), a.project.PlanPath()
	switch output { // before the model is asked
	case "-":
	case "":
		_, err = store.EnsureDir(a.project.Dir())
	default:
		path = a.file(output)
		if _, _, bad := statedir.Replaceable(path, 0); bad != nil {
			err = usagef("cannot write the plan: %w", bad)
		}
	}
	if err == nil && len(o.doneWhen) > 0 {
		err = a.project.CheckCriteria(ctx, a.project.Criteria(o.doneWhen), nil)
	}
	if err != nil {
		return err
	}
	var plan *boulder.Plan
	var remarks map[string]string
	if list != nil {
		plan, remarks = list.Plan, list.Remarks
	} else if plan, err = o.makePlan(ctx, a, req); err != nil {
		return err
	}
	if len(o.doneWhen) > 0 {
		plan.DoneWhen = boulder.DoneWhen(o.doneWhen)
		if plan.Seal != nil {
			plan.Reseal()
		}
	}
	if output == "-" {
		data, err := taskledger.FormatRemarked(plan, remarks)
		if err != nil {
			return err
		}
		_, err = asIs(a.Stdout).Write(data)
		return err
	}
	if err := a.keepEdited(path); err != nil {
		return err
	}
	if err := a.project.WritePlan(path, plan, remarks); err != nil {
		return err
	}
	if a.json {
		shown := view.NewPlanJSON(plan, path)
		shown.From = list
		return a.printJSON(shown)
	}
	a.preview(ctx, a.on(a.Stdout), plan, true, a.project.Criteria(nil), a.project.Budget(nil), boulder.Settings{}, true)
	run := "manager run"
	if path != a.project.PlanPath() {
		run += " " + path
	}
	a.note("\nWrote %s. Edit it as you like, then: %s", a.pretty(path), run)
	return nil
}

// runRevise has the ledger change a plan file, and shows the difference.
func (a *app) runRevise(ctx context.Context, comment, output string, args []string) error {
	path := a.project.PlanPath()
	if len(args) > 0 {
		path = a.file(args[0])
	}
	switch {
	case strings.TrimSpace(comment) == "":
		return usagef("--revise needs a comment: say what should be different")
	case len(args) > 1, len(args) == 1 && !looksLikePlan(args[0]):
		return usagef("--revise takes one plan file besides its comment, not %q: a task is in the plan already", args[0])
	case !exists(path):
		return usagef("there is no plan file %s: make one first with `manager plan \"TASK\"`", path)
	}
	plan, err := a.project.ReadPlan(path)
	if err == nil {
		err = a.connect(ctx)
	}
	if err != nil {
		return err
	}
	revised, err := a.revise(ctx, plan, comment)
	if err != nil {
		return err
	}
	if output == "-" {
		data, err := taskledger.Format(revised)
		if err != nil {
			return err
		}
		_, err = asIs(a.Stdout).Write(data)
		return err
	}
	if output != "" {
		path = a.file(output)
	}
	if err := a.replacePlan(path, revised); err != nil {
		return err
	}
	changes := boulder.ComparePlans(plan, revised)
	if a.json {
		shown := view.NewPlanJSON(revised, path)
		shown.Changes = &changes
		return a.printJSON(shown)
	}
	view.PlanChanges(a.on(a.Stdout), plan, revised)
	return nil
}

// preview shows a plan, and what a run does and costs: all of it, or what has to be known before it is agreed to. uses are the
// settings of the run; gates says whether the plan's gates run.
func (a *app) preview(
	ctx context.Context, o page.Out, plan *boulder.Plan, all bool, done project.Criteria, budget *boulder.Budget, uses boulder.Settings,
	gates bool,
) {
	known := taskledger.KnownCommands(a.project.Dir())
	if all {
		view.Plan(o, plan, known)
	} else {
		view.Summary(o, plan, uses, known)
	}
	if where, err := a.project.Where(ctx, plan, uses.Isolation, gates); err == nil { // else the run says what is wrong
		view.Where(o, where)
	}
	if a.project.GoesToHosted(ctx, plan, uses) {
		o.Field(0, "model", project.Hosted+": choose another with --model, or log in with `opencode auth login`")
	}
	if all {
		view.Decided(o, plan, done.Words, done.Checks)
	} else {
		view.Ungated(o, plan, done.Words, done.Checks)
	}
	review, _ := a.project.Config().Reviews()
	view.Expected(o, plan, a.project.Config().Limits, budget, review, a.project.Earlier(ctx))
}

// planning shows progress on stderr until done is called. told adds why it waits, and what a look does.
func (a *app) planning(ledger string) (told func(boulder.Body), done func()) {
	line := func(b boulder.Body) string {
		if f, waits := b.(boulder.PlanTrouble); waits {
			return text.Safe(fmt.Sprintf("No plan yet: %s. Asked again at %s.", f.Reason, view.Clock(f.NotBefore)))
		}
		said := text.OneLine(view.Describe(boulder.Event{Body: b}).Line)
		return strings.ToUpper(said[:1]) + said[1:] + "."
	}
	if !a.quiet && a.console().Drawable() {
		began, p, lines := time.Now(), a.on(a.Stderr), make(chan string, 100)
		screen := a.console().Screen(func(size page.Size, tick int) string {
			took := text.Elapsed(time.Since(began).Truncate(time.Second))
			text := "Planning with " + text.Clip(view.ModelName(ledger), size.Width-len("Planning with ")-len(took)-6)
			return p.Cyan(view.Spinner(tick)) + " " + p.Bold(text) + "  " + p.Dim(took)
		}, func() (printed []string) {
			for len(lines) > 0 {
				printed = append(printed, <-lines)
			}
			return printed
		})
		a.above.Store(new(func(line string) bool { lines <- line; return true }))
		return func(b boulder.Body) { lines <- line(b) }, func() { a.above.Store(nil); screen.Close() }
	}
	a.note("Planning with %s …", view.ModelName(ledger))
	return func(b boulder.Body) { a.note("%s", line(b)) }, func() {}
}

// makePlan asks the Task Ledger for a plan, or takes the task's own list, and seals it with the project's commit.
func (f *taskFlags) makePlan(ctx context.Context, a *app, req boulder.PlanRequest) (plan *boulder.Plan, err error) {
	var usage boulder.Usage
	switch {
	case f.list:
		plan, err = taskledger.FromList(req, time.Now())
	case f.mode == boulder.PlanNever:
		plan, _, err = a.project.Plan(ctx, req, nil, nil) // without a model, so that it never waits
	default:
		told, planned := a.planning(a.project.Ledger())
		var ask orchestrator.Ask
		if a.interactive() {
			ask = func(ctx context.Context, questions []boulder.Question) ([]string, error) {
				planned()
				defer func() { told, planned = a.planning(a.project.Ledger()) }()
				return a.ask(ctx, questions)
			}
		}
		plan, usage, err = a.project.Plan(ctx, req, ask, func(b boulder.Body) { told(b) })
		planned()
	}
	if err != nil {
		return nil, err
	}
	if plan.Seal != nil {
		plan.Seal.Base = a.project.Base()
	}
	if plan.Origin() == boulder.OriginFallback {
		a.note("The model's answers were not usable as a plan, so the whole task is one sub-task." +
			" Edit the plan to split it.")
	}
	if usage.Calls > 0 {
		ledger := a.project.Ledger()
		if plan.Seal != nil {
			ledger = plan.Seal.Model
		}
		a.note("Planned with %s (%s).", view.ModelName(ledger), view.Usage(usage))
	}
	return plan, nil
}

// keepEdited renames a plan file that the user wrote or changed, so that a new one does not overwrite it.
func (a *app) keepEdited(path string) error {
	old, err := taskledger.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && old.Seal != nil && !old.Edited() {
		return nil // no file, or an unchanged plan of the model, which can be made again
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
