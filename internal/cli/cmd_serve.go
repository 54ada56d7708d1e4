package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type serveOptions struct {
	attach      string
	untilIdle   time.Duration
	lockTimeout time.Duration
	stop        bool
	blockers    bool
}

func (a *app) newServeCmd() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the background server",
		Long: `Holds the root's state and runs boulders that are handed over with
` + "`manager run --detach`" + `, several at the same time and under the same limits; the one that has waited longer
for a free slot goes first. What a crashed process left running is taken up at once; what is paused waits for
` + "`manager resume`" + `.

Ctrl-C, or ` + "`manager serve --stop`" + ` in another terminal, lets the running turns end, pauses all boulders and
ends; a second one aborts the turns.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s takes no arguments: hand a task over with `manager run --detach`", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.stop {
				return a.stopServing(cmd.Context())
			}
			return a.runServe(cmd.Context(), &o)
		},
	}
	cmd.Flags().StringVar(&o.attach, "attach", "", "use the OpenCode server at `URL` instead of starting one")
	cmd.Flags().DurationVar(&o.untilIdle, "until-idle", 0, "end when nothing was at work for `TIME`")
	cmd.Flags().BoolVar(&o.stop, "stop", false, "stop the server of this project, and wait until it has ended")
	blockersFlag(cmd, &o.blockers)
	lockFlag(cmd, &o.lockTimeout)
	return cmd
}

// stopServing does what Ctrl-C does where the server runs.
func (a *app) stopServing(ctx context.Context) error {
	root, err := a.project()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, store.DirName)
	client, err := control.Dial(ctx, filepath.Join(dir, control.SocketName))
	if errors.Is(err, control.ErrNotServed) {
		return usagef("no server runs here")
	}
	if err != nil {
		return project.Unanswering(ctx, dir, err)
	}
	defer client.Close()
	holder, err := client.Holder(ctx)
	if err != nil {
		return err
	}
	if !holder.Serves {
		return usagef("process %d runs a boulder of its own, `%s`: pause it with `manager pause`, or stop it where it runs",
			holder.PID, holder.Command)
	}
	if err := syscall.Kill(holder.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", holder.PID, err)
	}
	a.note("Process %d lets its turns end. Once more aborts them.", holder.PID)
	look := time.NewTicker(serverLook)
	defer look.Stop()
	for {
		if _, err := client.Holder(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *app) runServe(ctx context.Context, o *serveOptions) error {
	d, err := a.connect(ctx, o.attach, o.lockTimeout)
	if err != nil {
		return err
	}
	defer d.Close()
	d.Config().Blockers.Enabled = d.Config().Blockers.Enabled || o.blockers
	st, err := d.Hold(ctx, true)
	if err != nil {
		return err
	}
	defer st.Release()
	run, err := st.Orchestrator(ctx)
	if err != nil {
		return err
	}
	work, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	stopped := make(chan struct{})
	defer a.interrupts.take(func(n int) {
		if n == 1 {
			a.note("%s", view.StoppingText)
			run.Stop()
			close(stopped)
			return
		}
		abort(errInterrupted)
	})()
	s := &service{deps: d, st: st, run: run, ctx: work, patient: o.untilIdle, empty: make(chan struct{})}
	defer s.close()
	if err := s.takeUp(ctx); err != nil {
		fmt.Fprintf(a.Stderr, "manager: %s\n", message(err))
	}
	st.SetSteerer(s)
	a.note("Serving %s. Hand a task over with: manager run --detach", d.Dir())
	s.mu.Lock()
	s.rest()
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-stopped:
	case <-work.Done():
	}
	return errInterrupted
}
