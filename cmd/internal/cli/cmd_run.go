package cli

import (
	"cmp"
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
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
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
	if o.at != "" {
		if req.StartAt, err = a.startAt(ctx, o.at, &req); err != nil {
			return err
		}
	}
	done := a.project.Criteria(o.doneWhen)
	ask := &approver{app: a, edit: o.edit, done: done, most: a.project.Budget(a.budget.run), uses: boulder.Settings{Isolation: o.isolation}}
	ask.setApproval(&req, a.approveReplans)
	return a.run(ctx, &req, func(*project.State) error {
		a.warnOfMissing(ctx, req.Plan)
		if err := a.project.CheckCriteria(ctx, done, req.Plan); err != nil || req.Plan == nil {
			return err
		}
		return o.agree(ctx, ask, &req, path)
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
	case o.list:
		req.Plan, err = o.makePlan(ctx, a, made)
	case o.edit && a.runsElsewhere(req):
		err = usagef("--edit is for a plan, and what is handed over is planned later:" +
			" make the plan first, with `manager plan`")
	}
	return a.project.PlanPath(), err
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
	case !paused && a.detach:
		return true, a.detached(id, there.Holder.PID, detail.Boulder.StartAt)
	}
	if a.opts.Attach != "" || a.approveReplans || a.budget.run != nil || len(a.budget.subTasks) > 0 ||
		a.blockers || a.iterations != 0 {
		return false, usagef("process %d runs boulder %s: it continues with the settings it was started with. Resume it without flags,"+
			" or end that process and resume it here", there.Holder.PID, boulder.ShortID(id))
	}
	err = a.steer(ctx, id, boulder.Order{Do: boulder.OrderResume}, nil)
	if errors.Is(err, boulder.ErrRefused) && !there.Holder.Serves {
		return false, nil // the process has ended, or continues already
	}
	return true, err
}

// resumeLook is how long to watch whether a resumed boulder keeps running: one that cannot run stops at once.
const resumeLook = time.Second

func (a *app) resumeServed(ctx context.Context, there *project.Access, detail boulder.Snapshot) error {
	a.warnOfSwitch()
	id := detail.Boulder.ID
	if a.opts.Attach != "" || a.approveReplans {
		return usagef("process %d serves this project, with an OpenCode server of its own choice and without a"+
			" terminal: leave --attach and --approve-replans out, or stop it with `manager serve --stop`", there.Holder.PID)
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
