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
	"github.com/spf13/pflag"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

type runOptions struct {
	taskFlags
	edit, allowStale, onClean bool
	isolation                 boulder.Isolation
	engine                    string
	at                        string // when a detached run begins
	taken                     string // the kind of list that the plan was read from
}

func (a *app) newRunCmd() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:        "run [flags] [PLAN.yaml | LIST | \"TASK\"]",
		Short:      "Execute a plan file, or plan and execute a task",
		SuggestFor: []string{"start", "exec", "execute"},
		Long: `Executes a plan file (default .manager/plan.yaml), or plans the task and executes that. Each sub-task runs as a fresh
OpenCode session, after those that it depends on. On a terminal the plan is shown first, and you are asked.

Of a plan file that was completed, and has not changed since, you are asked first whether it runs again.

LIST is a list of tasks of another tool, as for ` + "`manager plan --from`" + `. Its gates run once you have approved them on a terminal.

Ctrl-C lets the running turns end and stops there; a second Ctrl-C aborts them. Either way nothing is lost: continue with
` + "`manager resume`" + `.

Exit codes: 0 all done · 1 error · 2 usage, bad plan file or configuration · 3 finished, but some sub-tasks failed, or
a gate is red · 4 stopped, waiting for the user: a question, a budget, a new plan, or repeated infrastructure errors ·
5 another process holds the state · 130 interrupted, or cancelled from another terminal.`,
		Example: `  manager run
  manager run "Add dark mode" --model anthropic/claude-sonnet-4-5
  manager run feature.yaml --yes --budget cost=5,time=8h
  manager run feature.yaml --detach`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runRun(cmd.Context(), &o, args) },
	}
	o.registerPlan(cmd)
	a.shared(cmd, "agent", "attach", "budget", "blockers", "lock-timeout", "yes", "approve-replans", "detach")
	cmd.Flags().BoolVar(&o.edit, "edit", false, "open the plan in $EDITOR first")
	constFlag(cmd, &o.isolation, boulder.IsolationAlways, "isolate",
		"have each sub-task work in a slot, a copy of its own; results are tested together, and land with 'manager land'")
	constFlag(cmd, &o.isolation, boulder.IsolationOff, "in-place",
		"have the sub-tasks work in the project, whatever plan and configuration say")
	cmd.Flags().BoolVar(&o.onClean, "clean-base", false, "begin slots at HEAD, without what is not committed")
	cmd.MarkFlagsMutuallyExclusive("isolate", "in-place")
	cmd.MarkFlagsMutuallyExclusive("clean-base", "in-place")
	cmd.Flags().BoolVar(&o.allowStale, "allow-stale", false, "run a plan that was made for another commit")
	oneOf(cmd, &o.engine, "engine", "",
		"`ENGINE` that runs it instead of this process, on a server that the project's gateway reaches; see docs/temporal.md", "temporal")
	cmd.Flags().StringVar(&o.at, "at", "", "with --detach: begin at `TIME`: 01:00, 90m (from now), or reset (that a provider last named)")
	return cmd
}

func (a *app) runRun(ctx context.Context, o *runOptions, args []string) error {
	if err := a.connectToRun(ctx); err != nil {
		return err
	}
	req := project.Request{SubTaskBudgets: a.budget.subTasks, Settings: boulder.Settings{
		Base: a.project.Base(), Model: a.opts.Model, Effort: a.opts.Effort, Agent: a.opts.Agent, Budget: a.budget.run, DoneWhen: o.doneWhen, Diverted: a.blockers,
		Isolation: o.isolation, CleanBase: o.onClean, Engine: o.engine,
	}}
	path, err := o.read(ctx, a, args, &req)
	if err != nil {
		return err
	}
	if err := a.askAgain(ctx, &req); err != nil {
		return err
	}
	if o.at != "" {
		if req.StartAt, err = a.startAt(ctx, o.at, &req); err != nil {
			return err
		}
	}
	done := a.project.Criteria(o.doneWhen)
	ask := &approver{app: a, edit: o.edit, done: done, most: a.project.Budget(a.budget.run), uses: boulder.Settings{Isolation: o.isolation}}
	ask.setApproval(&req, a.approveReplans)
	return a.run(ctx, &req, func(st *project.State) error {
		a.warnOfMissing(ctx, req.Plan)
		err := a.project.CheckCriteria(ctx, done, req.Plan)
		switch {
		case err != nil:
			return err
		case req.Plan != nil:
			return o.agree(ctx, ask, &req, path)
		case st != nil: // else the process that makes the boulder checks it
			return a.project.CheckTask(ctx, req.Settings)
		}
		return nil
	})
}

// read sets the plan or the task in the request, and returns the file for edits of the plan.
func (o *runOptions) read(ctx context.Context, a *app, args []string, req *project.Request) (path string, err error) {
	none := len(args) == 0 && o.from == ""
	if none || len(args) == 1 && o.from == "" && (looksLikePlan(args[0]) || a.isFile(args[0])) {
		path = a.project.PlanPath()
		if !none {
			path = a.file(args[0])
		}
		switch {
		case none && !exists(path):
			return "", usagef("no plan and no task: there is no %s; say what to do, as in `manager run \"Add dark mode\"`,"+
				" or make a plan first with `manager plan`", a.pretty(path))
		case !exists(path):
			return "", a.noFile("plan file", args[0])
		case o.list:
			return "", usagef("--from-list needs a task, not a plan file")
		}
		req.Constraints, req.LookMode = a.project.Clean("The task", o.constraints...), o.look // before a replan
		if !none {
			if list, err := o.listFile(a, args[0]); list != nil || err != nil {
				return o.take(a, req, list), err
			}
		}
		req.Plan, err = a.project.ReadPlan(path)
		if err == nil {
			req.PlanFile, err = filepath.Abs(path)
		}
		return path, err
	}
	task, list, err := o.input(a, args)
	if list != nil || err != nil {
		return o.take(a, req, list), err
	}
	made := o.request(a, task)
	req.Task, req.Constraints, req.PlanMode, req.LookMode = made.Task, made.Constraints, made.Mode, made.Look
	switch {
	case o.list, !a.runsElsewhere(req) && a.interactive() && a.server(ctx) != nil: // which cannot ask about it
		req.Plan, err = o.makePlan(ctx, a, made)
	case o.edit && a.runsElsewhere(req):
		err = usagef("--edit is for a plan, and what is handed over is planned later:" +
			" make the plan first, with `manager plan`")
	}
	return a.project.PlanPath(), err
}

// askAgain asks the user whether a plan file runs once more that was completed and has not changed since. Where it cannot
// ask, it says so.
func (a *app) askAgain(ctx context.Context, req *project.Request) error {
	b, err := a.project.CompletedRun(ctx, req.PlanFile, req.Plan)
	if err != nil || b == nil {
		return nil //nolint:nilerr // what cannot be read cannot be run either, and that is told there
	}
	did := (&project.RanError{File: a.pretty(req.PlanFile), Boulder: b}).Error()
	if a.yes || !a.interactive() {
		a.note("Note: %s; it runs again.", did)
		return nil
	}
	fmt.Fprintf(a.Stderr, "%s.\n", text.Safe(did))
	_, err = a.choose(ctx, "Run it again?", "yes", "no")
	return err
}

func looksLikePlan(arg string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, extension(arg)) && !strings.Contains(arg, "\n")
}

func extension(name string) string { return strings.ToLower(filepath.Ext(name)) }

func (a *app) isFile(name string) bool {
	info, err := os.Stat(a.file(name))
	return err == nil && info.Mode().IsRegular()
}

// listFile reads a file as a list of tasks of another tool, or returns nil for a plan.
func (o *runOptions) listFile(a *app, name string) (*project.TaskList, error) {
	if looksLikePlan(name) && extension(name) != ".json" {
		return nil, nil
	}
	list, _, err := o.readList(a, name)
	unknown, ok := errors.AsType[*project.UnknownList](err)
	switch {
	case !ok:
		return list, err
	case unknown.Plan:
		return nil, nil
	case unknown.Secret:
		return nil, notSent(name, err)
	}
	return nil, usagef("%s %s, and is neither a plan nor a list of tasks that manager knows (%s). To have it planned as a task:"+
		" manager run %s--from %[1]s%[5]s", name, unknown.Looks, project.ListKinds, text.If(!unknown.Text, "--plan "),
		text.If(unknown.Boxes > 0, "; to take its boxes: manager run --from-list --from "+name))
}

// take sets the plan of a list of tasks in the request, and returns the file for edits.
func (o *runOptions) take(a *app, req *project.Request, list *project.TaskList) (path string) {
	if list != nil {
		req.Plan, o.taken = list.Plan, list.Kind
	}
	return a.project.PlanPath()
}

// agree checks a plan and has it approved. The user has written or seen a plan file, so its gates may run; those of a list of
// tasks may be another model's.
func (o *runOptions) agree(ctx context.Context, ask *approver, req *project.Request, path string) error {
	if err := ask.project.CheckSeal(ctx, req.Plan, req.PlanFile, o.allowStale); err != nil {
		return err
	}
	var ids []string
	for i := range req.Plan.SubTasks {
		ids = append(ids, req.Plan.SubTasks[i].ID)
	}
	if err := ask.budget.name(ids, "the plan has no sub-task"); err != nil {
		return err
	}
	ask.file, ask.list = true, o.taken
	defer func() { ask.file, ask.list = false, "" }()
	a, err := ask.approve(ctx, req.Plan, path, o.taken == "" || ask.project.Config().AllowModelGates)
	req.Plan, req.GatesAsHints, req.Model = a.Plan, !a.Gates, a.Model
	return err
}

// warnOfMissing warns of commands that cannot run in the project as it is now. The run may change that.
func (a *app) warnOfMissing(ctx context.Context, plan *boulder.Plan) {
	a.project.WarnOfConfig()
	warned := map[string]bool{}
	look := func(line, whose string) {
		if missing := a.project.Missing(ctx, line); missing != "" && !warned[missing] {
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
	commands := a.project.Config().Commands()
	for _, key := range slices.Sorted(maps.Keys(commands)) {
		for i, line := range commands[key] {
			look(line, "("+a.project.Config().Place(key, i)+")")
		}
	}
}

// shared adds some of the flags that several commands have.
func (a *app) shared(cmd *cobra.Command, names ...string) {
	var all pflag.FlagSet
	all.BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	all.BoolVar(&a.approveReplans, "approve-replans", false, "ask before a new plan for the rest is run")
	all.BoolVarP(&a.detach, "detach", "d", false,
		"run it in the background server, started if need be; a task is planned and run without asking")
	all.BoolVar(&a.blockers, "blockers", false, "run unattended: record questions instead of waiting (see 'manager blockers')")
	all.Func("budget", "`LIMITS` of the run as tokens=2M,cost=5,time=8h,attempts=20,calls=500 (cost in US"+
		" dollars), or of one sub-task as SUBTASK:tokens=200k; repeatable", a.budget.Set)
	all.StringVar(&a.opts.Agent, "agent", "", "`NAME` of OpenCode's agent for sub-tasks that name none")
	all.StringVar(&a.opts.Attach, "attach", "", "use the OpenCode server at `URL` instead of starting one")
	all.DurationVar(&a.opts.LockTimeout, "lock-timeout", 0,
		"wait up to `TIME`, as 30m, while another process holds the state, instead of a second")
	for _, name := range names {
		cmd.Flags().AddFlag(all.Lookup(name))
	}
}

func (a *app) connectToRun(ctx context.Context) error {
	a.warnOfSwitch()
	return a.connect(ctx)
}

// runsElsewhere reports whether another process executes the request.
func (a *app) runsElsewhere(req *project.Request) bool { return a.detach || req.Engine != "" }

// run executes a request in this process, or hands it to the project's server. complete fills in the rest of the
// request and may ask the user; its st is nil in a handover.
func (a *app) run(ctx context.Context, req *project.Request, complete func(st *project.State) error) error {
	if a.runsElsewhere(req) {
		if a.approveReplans {
			return usagef("--approve-replans needs a user at the terminal, and a detached boulder has none")
		}
		if err := complete(nil); err != nil {
			return err
		}
		if a.detach {
			a.warnOfNight(ctx, req.Plan)
		}
		id, pid, err := a.project.HandOver(ctx, *req, a.startServer)
		switch {
		case err != nil:
			return err
		case a.detach:
			return a.detached(id, pid, req.StartAt)
		}
		a.note("Boulder %s runs on %s.", boulder.ShortID(id), req.Engine)
		return a.landAtEnd(ctx, id, a.runAttach(ctx, id))
	}
	if a.server(ctx) != nil {
		return a.runServed(ctx, req, complete)
	}
	st, err := a.project.Hold(ctx, false)
	if err != nil {
		return err
	}
	id := ""
	err = func() error {
		defer st.Release()
		err := complete(st)
		if err == nil {
			id, err = a.execute(ctx, st, *req)
		}
		return err
	}()
	if a.interactive() { // only now: the question may take long, and must not delay report and notifications
		err = a.landAtEnd(ctx, id, err)
	}
	return err
}

// server returns the server of the project, which takes what would run here; nil if there is none, or if the user waits for
// its end.
func (a *app) server(ctx context.Context) *project.Holder {
	if a.opts.LockTimeout > 0 {
		return nil
	}
	there, err := a.project.Dial(ctx)
	if err != nil {
		return nil // Hold reports what is wrong with it
	}
	defer there.Close()
	if !there.Holder.Serves {
		return nil
	}
	return there.Holder
}

// runServed hands a request to the server of the project and shows it as if it ran here.
func (a *app) runServed(ctx context.Context, req *project.Request, complete func(*project.State) error) error {
	if a.approveReplans {
		return usagef("the server of this project runs it, and asks on no terminal: leave --approve-replans out, or end it with `manager serve --stop`")
	}
	if err := complete(nil); err != nil {
		return err
	}
	id, pid, err := a.project.HandOver(ctx, *req, a.startServer)
	if err != nil {
		return err
	}
	return a.attachServed(ctx, id, pid)
}

// attachServed shows a boulder that the server of the project runs.
func (a *app) attachServed(ctx context.Context, id string, pid int) error {
	a.note("Boulder %s runs in process %d, which serves this project. Ctrl-C leaves it at work; end it with: manager cancel -b %[1]s", boulder.ShortID(id), pid)
	return a.landAtEnd(ctx, id, a.runAttach(ctx, id))
}

// execute runs or resumes a boulder, shows it and returns its id. The first signal lets running turns end; the second
// one aborts them. If the user cannot be asked later, isolated results land before report and notifications.
func (a *app) execute(ctx context.Context, st *project.State, req project.Request) (id string, err error) {
	a.project.Warm() // boots while the model plans
	if reason := a.project.NoDiffs(); reason != "" {
		a.note("Note: %s: there are no diffs here, so the work is judged without them.", reason)
	}
	notifier, err := a.project.Notifier()
	if err != nil {
		return "", err
	}
	end := &ending{app: a, db: st.DB, notifier: notifier, limited: map[string]time.Time{}}
	shown := view.NewRun(a.console(), view.NewProgress(st.DB.Get), "")
	a.view = shown
	a.above.Store(new(shown.Above))
	defer a.interrupts.onFirst(func() {
		shown.Stopping()
		st.Stop()
	})()
	err = end.follow(ctx, st.RunChecked(ctx, req), shown)
	if errors.Is(err, orchestrator.ErrWaiting) {
		if detail, readErr := st.DB.Get(context.WithoutCancel(ctx), end.id); readErr == nil {
			a.receipt(detail)
		}
	}
	if !a.interactive() {
		err = a.landAtEnd(ctx, end.id, err)
	}
	return end.id, end.withReportPath(end.conclude(ctx, err), err)
}

// receipt shows at a pause where tokens, money and time went.
func (a *app) receipt(d boulder.Snapshot) {
	if !a.quiet && !a.json { // else: manager show --receipt
		view.NewReceipt(&project.Reading{Snapshot: d, Limits: a.project.Config().Limits, Now: time.Now()}).Print(a.on(a.Stderr))
	}
}

// follow shows the events of a run until it ends, and collects what to report afterwards.
func (e *ending) follow(ctx context.Context, events iter.Seq2[boulder.Event, error], shown *view.Run) error {
	defer shown.Close()
	for event, err := range events {
		if err != nil {
			return e.howToContinue(err)
		}
		event.Body = secret.Each(event.Body, e.secrets) // for quotes in errors; most is redacted at its source
		e.take(ctx, event)
		shown.Event(event)
	}
	if e.complete != nil && !e.complete.AllCompleted {
		detail, _ := e.db.Get(context.Background(), e.id)
		return notCompleted(detail)
	}
	return nil
}

// howToContinue adds how to continue to the error that ended a run, unless the boulder is over.
func (e *ending) howToContinue(err error) error {
	over := errors.Is(err, orchestrator.ErrDeclined) || errors.Is(err, boulder.ErrFinished) ||
		errors.Is(err, orchestrator.ErrCancelled)
	if e.id == "" || over {
		return err
	}
	detail, _ := e.db.Get(context.Background(), e.id)
	if detail.Boulder.ID == "" { // unreadable
		detail.Boulder.ID = e.id
	}
	return nothingLost(err, detail)
}

func reportOf(d boulder.Snapshot) *report.Report {
	return report.New(report.Input{Boulder: d.Boulder, SubTasks: d.SubTasks, Attempts: d.Attempts, Now: time.Now()})
}

// notCompleted returns the error for a boulder that is over but not completed.
func notCompleted(d boulder.Snapshot) error {
	return fmt.Errorf("%w: %s", errPartial, reportOf(d).Counts())
}

// nothingLost adds the command that continues a boulder to the error that stopped it.
func nothingLost(err error, d boulder.Snapshot) error {
	made, how := reportOf(d), "Continue with: "
	if view.WaitingOf(made.Blockers).Hard > 0 {
		how = "Answer with: " + view.ClarifyHint + "; then continue with: "
	}
	return fmt.Errorf("%w\nNothing is lost. %s%s", err, how, made.Typed(made.Resumed()))
}
