package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// runFlags are those of run, loop and resume, as far as a command has them.
type runFlags struct {
	yes, approveReplans, detach, blockers bool
	budget                                budgetFlag
}

func (o *runFlags) register(a *app, cmd *cobra.Command) {
	a.attachFlag(cmd)
	cmd.Flags().Func("budget", "`LIMITS` of the run as tokens=2M,cost=5,time=8h,attempts=20,calls=500 (cost in US"+
		" dollars), or of one sub-task as SUBTASK:tokens=200k; repeatable", o.budget.Set)
	blockersFlag(cmd, &o.blockers)
	a.lockFlag(cmd)
}

func (o *runFlags) registerDetach(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false,
		"hand it to a server in the background, started if need be, and leave; a task is planned and run without asking")
}

func (o *runFlags) registerAsking(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.approveReplans, "approve-replans", false, "ask before a new plan for the rest is run")
}

func (a *app) attachFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.attach, "attach", "", "use the OpenCode server at `URL` instead of starting one")
}

func (a *app) lockFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&a.lockTimeout, "lock-timeout", 0,
		"wait up to `TIME`, as 30m, while another process holds the state, instead of a second")
}

func (a *app) connectToRun(ctx context.Context, o *runFlags) error {
	a.warnOfSwitch(o.blockers)
	return a.connect(ctx)
}

// run does what is asked for here, or hands it to the server of the project. complete fills in the rest of the request, and
// may ask the user; st is nil where it is handed over.
func (a *app) run(
	ctx context.Context, o *runFlags, req *project.Request, complete func(st *project.State) error,
) error {
	if o.detach {
		if o.approveReplans {
			return usagef("--approve-replans needs a person at the terminal, and --detach leaves it")
		}
		if err := complete(nil); err != nil {
			return err
		}
		return a.detach(ctx, *req)
	}
	st, err := a.Hold(ctx, false)
	if err != nil {
		return err
	}
	defer st.Release()
	if err := complete(st); err != nil {
		return err
	}
	return a.execute(ctx, st, *req)
}

// execute runs or resumes a boulder and shows it. The first signal lets running turns end; the second one aborts them.
func (a *app) execute(ctx context.Context, st *project.State, req project.Request) error {
	a.Warm() // boots while the model plans
	if reason := a.NoDiffs(); reason != "" {
		a.note("Note: %s: there are no diffs here, so the work is judged without them.", reason)
	}
	end, err := a.newEnding(st.DB)
	if err != nil {
		return err
	}
	shown := view.NewRun(a.console(), view.NewProgress(st.DB.Load), "")
	defer shown.Close()
	a.view = shown
	ctx, giveBack := a.interrupts.stopInTwo(ctx, func() {
		shown.Stopping()
		st.Stop()
	})
	defer giveBack()
	err = end.follow(ctx, st.Run(ctx, req), func(string) *view.Run { return shown })
	if errors.Is(err, orchestrator.ErrWaiting) && !a.quiet && !a.json { // else: manager show --receipt
		if detail, readErr := st.DB.Get(context.WithoutCancel(ctx), end.id); readErr == nil {
			view.NewReceipt(detail, time.Now()).Print(a.on(a.Stderr))
		}
	}
	return end.told(end.conclude(ctx, err), err)
}

// follow shows the events of a run until it ends, and takes down what there is to tell afterwards.
func (e *ending) follow(
	ctx context.Context, events iter.Seq2[boulder.Event, error], show func(id string) *view.Run,
) error {
	var shown *view.Run
	for event, err := range events {
		if err != nil {
			return e.howToContinue(err)
		}
		if shown == nil {
			shown = show(event.BoulderID)
			defer shown.Close()
		}
		event.Body = secret.Each(event.Body, e.secrets) // what an error quotes; most was cleaned where it came from
		e.take(ctx, event)
		shown.Event(event)
	}
	if e.complete != nil && !e.complete.AllCompleted {
		detail, _ := e.db.Get(context.Background(), e.id) // what cannot be read is called a run
		return notCompleted(&detail.Boulder)
	}
	return nil
}

// howToContinue adds to the error that ended a run how to go on, and the flag that it takes.
func (e *ending) howToContinue(err error) error {
	over := errors.Is(err, orchestrator.ErrDeclined) || errors.Is(err, orchestrator.ErrFinished) ||
		errors.Is(err, orchestrator.ErrCancelled)
	if e.id == "" || over {
		return err
	}
	detail, _ := e.db.Get(context.Background(), e.id) // what cannot be read is told without
	flag := ""
	if used, ok := errors.AsType[*orchestrator.BudgetError](err); ok {
		flag = " --budget tokens=… (or what it needs more of)"
		if used.SubTaskID != "" {
			flag = strings.Replace(flag, "tokens", used.SubTaskID+":tokens", 1)
		}
	} else if errors.Is(err, orchestrator.ErrLoopLimit) && detail.Boulder.Loop != nil {
		flag = fmt.Sprintf(" --max-iterations %d", 2*detail.Boulder.Loop.Iterations)
	}
	how := goOnWith(awaiting(detail))
	return fmt.Errorf("%w\nNothing is lost. %s%smanager resume %s%s", err, strings.ToUpper(how[:1]), how[1:], e.id, flag)
}
