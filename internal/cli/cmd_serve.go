package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

type serveOptions struct {
	untilIdle      time.Duration
	stop, blockers bool
}

func (a *app) newServeCmd() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the background server",
		Long: `Holds the project's state and runs boulders that are handed over with ` + "`manager run --detach`" + `, several at the
same time and under the same limits. What a crashed process left running is taken up at once; what is paused waits for
` + "`manager resume`" + `.

Ctrl-C, or ` + "`manager serve --stop`" + ` in another terminal, lets the running turns end, pauses all boulders and ends; a
second one aborts the turns.`,
		Args: takes(0, 0, "no arguments: `manager run --detach` hands a task over"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.stop {
				return a.stopServing(cmd.Context())
			}
			return a.runServe(cmd.Context(), &o)
		},
	}
	a.attachFlag(cmd)
	cmd.Flags().DurationVar(&o.untilIdle, "until-idle", 0, "end when nothing was at work for `TIME`")
	cmd.Flags().BoolVar(&o.stop, "stop", false, "stop the server of this project, and wait until it has ended")
	blockersFlag(cmd, &o.blockers)
	a.lockFlag(cmd)
	return cmd
}

// stopServing does what Ctrl-C does where the server runs.
func (a *app) stopServing(ctx context.Context) error {
	p, err := a.openAnyway()
	if err != nil {
		return err
	}
	there, err := p.Dial(ctx)
	if errors.Is(err, control.ErrNotServed) {
		err = usagef("no server runs here")
	}
	if err != nil {
		return err
	}
	pid := there.Holder.PID
	if !there.Holder.Serves {
		return usagef("process %d runs a boulder of its own, `%s`: pause it with `manager pause`, or stop it where it runs",
			pid, there.Holder.Command)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	a.note("Process %d lets its turns end. Once more aborts them.", pid)
	for range project.Tries(ctx, serverLook, 0) {
		if control.HolderOf(ctx, there.Reader) == nil {
			break
		}
	}
	return context.Cause(ctx)
}

func (a *app) runServe(ctx context.Context, o *serveOptions) error {
	if err := a.connect(ctx); err != nil {
		return err
	}
	a.Config().Blockers.Enabled = a.Config().Blockers.Enabled || o.blockers
	if _, err := a.Notifier(); err != nil { // it is needed when a run ends
		return err
	}
	st, err := a.Hold(ctx, true)
	if err != nil {
		return err
	}
	defer st.Release()
	work, giveBack := a.interrupts.stopInTwo(ctx, func() {
		a.note("%s", view.StoppingText)
		st.Stop()
	})
	defer giveBack()
	a.note("Serving %s. Hand a task over with: manager run --detach", a.Dir())
	err = st.Serve(work, o.untilIdle, func(events iter.Seq2[boulder.Event, error]) { a.followServed(work, st, events) })
	if errors.Is(err, orchestrator.ErrStopped) {
		return errInterrupted
	}
	return err
}

// followServed shows a boulder that was handed over, and tells on stderr how it ended: there is nobody else to tell.
func (a *app) followServed(ctx context.Context, st *project.State, events iter.Seq2[boulder.Event, error]) {
	end, err := a.newEnding(st.DB)
	if err != nil {
		a.warn("%v", err)
		return
	}
	err = end.follow(ctx, events, func(id string) *view.Run {
		return view.NewServeRun(a.console(), view.NewProgress(st.DB.Load), id)
	})
	if err != nil && !errors.Is(err, orchestrator.ErrCancelled) && exitCode(err) != exitPartial { // those were shown
		fmt.Fprintf(a.Stderr, "%s boulder %s: %s\n", view.Clock(time.Now()), end.id, message(err))
	}
	if path := end.conclude(ctx, err); path != "" {
		fmt.Fprintf(a.Stderr, "%s boulder %s: report: %s\n", view.Clock(time.Now()), end.id, path)
	}
}
