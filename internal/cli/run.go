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
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// runFlags are those of run, loop and resume, as far as a command has them.
type runFlags struct {
	attach                                string
	yes, approveReplans, detach, blockers bool
	budget                                budgetFlag
	lockTimeout                           time.Duration
}

func (o *runFlags) register(cmd *cobra.Command) {
	attachFlag(cmd, &o.attach)
	cmd.Flags().Var(&o.budget, "budget", budgetUsage)
	blockersFlag(cmd, &o.blockers)
	lockFlag(cmd, &o.lockTimeout)
}

// attachFlag adds --attach.
func attachFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "attach", "", "use the OpenCode server at `URL` instead of starting one")
}

// lockFlag adds --lock-timeout.
func lockFlag(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().DurationVar(to, "lock-timeout", 0,
		"wait up to `TIME`, as 30m, while another process holds the state, instead of a second")
}

func (a *app) connectToRun(ctx context.Context, o *runFlags) (*deps, error) {
	a.warnOfSwitch(o.blockers)
	return a.connect(ctx, o.attach, o.lockTimeout)
}

// approver asks the user, if there is one.
func (o *runFlags) approver(d *deps) *approver {
	return &approver{deps: d, ask: !o.yes && d.app.interactive()}
}

// run does what is asked for here, or hands it to the server of the project. complete fills in the rest of the request, and
// may ask the user.
func (d *deps) run(ctx context.Context, o *runFlags, req *project.Request, complete func() error) error {
	if o.detach {
		if o.approveReplans {
			return usagef("--approve-replans needs a person at the terminal, and --detach leaves it")
		}
		if err := complete(); err != nil {
			return err
		}
		return d.detach(ctx, o.attach, *req)
	}
	st, err := d.Hold(ctx, false)
	if err != nil {
		return err
	}
	defer st.Release()
	d.Warm() // boots while the model plans and the person reads
	if err := complete(); err != nil {
		return err
	}
	return d.execute(ctx, st, *req)
}

// execute runs or resumes a boulder and shows it. The first signal lets running turns end; the second one aborts them.
func (d *deps) execute(ctx context.Context, st *project.State, req project.Request) error {
	if reason := d.NoDiffs(); reason != "" {
		d.app.note("Note: %s: there are no diffs here, so the work is judged without them.", reason)
	}
	end, err := d.newEnding(st.DB)
	if err != nil {
		return err
	}
	shown := view.NewRun(d.app.console(), view.NewProgress(st.DB.Load), "")
	defer shown.Close()
	d.view = shown
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer d.app.interrupts.take(func(n int) {
		if n == 1 {
			shown.Stopping()
			st.Stop()
			return
		}
		abort(errInterrupted)
	})()
	err = end.follow(ctx, st.Run(ctx, req), func(string) *view.Run { return shown })
	if errors.Is(err, orchestrator.ErrWaiting) && !d.app.quiet && !d.app.json { // else: manager show --receipt
		d.showReceipt(ctx, st, end.id)
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

// follow shows the events of a run until it ends, and takes down what there is to tell afterwards.
func (e *ending) follow(
	ctx context.Context, events iter.Seq2[boulder.Event, error], show func(id string) *view.Run,
) error {
	var shown *view.Run
	for event, err := range events {
		if err != nil {
			return e.ended(err)
		}
		if shown == nil {
			shown = show(event.BoulderID)
			defer shown.Close()
		}
		event = e.deps.app.cleanEvent(event)
		e.take(ctx, event)
		shown.Event(event)
	}
	if e.end != nil && !e.end.AllCompleted {
		detail, _ := e.db.Get(context.Background(), e.id) // what cannot be read is called a run
		return notCompleted(&detail.Boulder)
	}
	return nil
}

// ended adds to the error that ended a run how to go on.
func (e *ending) ended(err error) error {
	over := errors.Is(err, orchestrator.ErrDeclined) || errors.Is(err, orchestrator.ErrFinished) ||
		errors.Is(err, orchestrator.ErrCancelled)
	if e.id == "" || over {
		return err
	}
	detail, _ := e.db.Get(context.Background(), e.id) // what cannot be read is told without
	how := goOnWith(awaiting(detail))
	how = strings.ToUpper(how[:1]) + how[1:]
	return fmt.Errorf("%w\nNothing is lost. %smanager resume %s%s", err, how, e.id, moreOf(err, detail.Boulder.Loop))
}

// moreOf is the flag that a resume needs when a budget is used up, or a loop has had its turns.
func moreOf(err error, loop *boulder.Loop) string {
	if errors.Is(err, orchestrator.ErrLoopLimit) && loop != nil {
		return fmt.Sprintf(" --max-iterations %d", 2*loop.Iterations)
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
