package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/mcp"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newServeCmd() *cobra.Command {
	var untilIdle time.Duration
	var stop, apart bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the background server",
		Long: `Holds the project's state and runs boulders that are handed over with ` + "`manager run --detach`" + `, several at the
same time and under the same limits. What a crashed process left running is taken up at once; what is paused waits for
` + "`manager resume`" + `.

Ctrl-C, or ` + "`manager serve --stop`" + ` in another terminal, lets the running turns end, pauses all boulders and ends; a
second one aborts the turns.`,
		Args: argCount(0, 0, "no arguments: `manager run --detach` hands a task over"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notNegative("--until-idle", untilIdle); err != nil {
				return err
			}
			switch {
			case stop:
				return a.stopServing(cmd.Context())
			case apart:
				_, err := a.startServer(cmd.Context())
				return err
			}
			return a.runServe(cmd.Context(), untilIdle)
		},
	}
	a.shared(cmd, "attach", "blockers", "lock-timeout")
	cmd.Flags().DurationVar(&untilIdle, "until-idle", 0, "end after `TIME` without work")
	cmd.Flags().BoolVar(&stop, "stop", false, "stop the server of this project, and wait until it has ended")
	cmd.Flags().BoolVar(&apart, "apart", false, "start the server of `manager run --detach`, and leave")
	_ = cmd.Flags().MarkHidden("apart")
	return cmd
}

// stopServing stops the server as Ctrl-C does, and waits for its end.
func (a *app) stopServing(ctx context.Context) error {
	there, err := a.project.Dial(ctx)
	if errors.Is(err, project.ErrNotServed) {
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
		if _, err := a.project.Dial(ctx); err != nil {
			break
		}
	}
	return context.Cause(ctx)
}

func (a *app) runServe(ctx context.Context, untilIdle time.Duration) error {
	if err := a.connect(ctx); err != nil {
		return err
	}
	a.project.Config().Blockers.Enabled = a.project.Config().Blockers.Enabled || a.blockers
	notifier, err := a.project.Notifier()
	if err != nil {
		return err
	}
	st, err := a.project.Hold(ctx, true)
	if err != nil {
		return err
	}
	defer st.Release()
	defer a.interrupts.onFirst(func() {
		a.note("%s", view.StoppingText)
		st.Stop()
	})()
	a.note("Serving %s. Hand a task over with: manager run --detach", a.project.Dir())
	err = st.Serve(ctx, untilIdle, func(events iter.Seq2[boulder.Event, error]) {
		end := &ending{app: a, db: st.DB, notifier: notifier, limited: map[string]time.Time{}}
		end.followServed(ctx, events, view.NewProgress(st.DB.Get))
	})
	if !errors.Is(err, orchestrator.ErrStopped) && ctx.Err() == nil {
		return err
	}
	all, _ := st.DB.Listing(context.WithoutCancel(ctx)) // without those that cannot be read
	all = slices.DeleteFunc(all, func(i store.Item) bool { return i.Status != boulder.Paused || !i.ArchivedAt.IsZero() })
	return fmt.Errorf("%w: the server has ended%s", errInterrupted,
		text.If(len(all) > 0, ", and "+text.Are(len(all), "boulder")+" paused; continue with: manager resume"))
}

// followServed shows a submitted boulder, and prints on stderr how it ended.
func (e *ending) followServed(ctx context.Context, events iter.Seq2[boulder.Event, error], p *view.Progress) {
	err := e.follow(ctx, events, view.NewServeRun(e.console(), p))
	if err != nil && !errors.Is(err, orchestrator.ErrCancelled) && exitCode(err) != exitPartial { // those were shown
		fmt.Fprintf(e.Stderr, "%s boulder %s: %s\n", view.Clock(time.Now()), boulder.ShortID(e.id), text.Safe(project.Message(err)))
	}
	if path := e.conclude(ctx, err); path != "" {
		fmt.Fprintf(e.Stderr, "%s boulder %s: report: %s\n", view.Clock(time.Now()), boulder.ShortID(e.id), path)
	}
}

const (
	// servedUntilIdle is how long a server of `run --detach` stays idle, so that the next task needs no new server.
	servedUntilIdle = "30s"
	// serverStart bounds the start of a server, which answers once the database is open, before OpenCode runs.
	serverStart = 20 * time.Second
	serverLook  = 50 * time.Millisecond // between two looks for a server
	serverLog   = "serve.log"           // output of the background server, in the state directory
)

func (a *app) detached(id string, pid int, startAt time.Time) error {
	if a.json {
		return a.printJSON(view.Detached{Type: "detached", BoulderID: id, PID: pid, StartAt: startAt})
	}
	runs := "runs"
	if now := time.Now(); now.Before(startAt) {
		runs = view.Starts(startAt, now)
	}
	fmt.Fprintf(a.Stdout, "Boulder %[1]s %[3]s in the background (process %[2]d).\nLook: manager status %[1]s"+
		" · follow: manager logs -f %[1]s · wait: manager wait %[1]s · end: manager cancel -b %[1]s\n", boulder.ShortID(id), pid, runs)
	return nil
}

// startServer starts a background server, in its own session to survive the terminal, and waits until it answers.
func (a *app) startServer(ctx context.Context) (*project.Access, error) {
	root, err := statedir.Open(a.project.Dir(), store.DirName)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	log, err := root.OpenFile(serverLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := log.Chmod(0o600); err != nil { // despite the umask
		return nil, err
	}
	cmd := exec.Command(a.Executable, a.serverArgs()...)
	cmd.Env, cmd.Stdout, cmd.Stderr = a.Environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }() // left behind at the end of this process, which the server outlives
	says := func() string {
		printed, _ := root.ReadFile(serverLog)
		lines := strings.Split(strings.TrimSpace(string(printed[max(0, len(printed)-2000):])), "\n")
		return strings.Join(lines[max(0, len(lines)-8):], "\n")
	}
	for last := range project.Tries(ctx, serverLook, serverStart) {
		there, err := a.project.Dial(ctx)
		if !errors.Is(err, project.ErrNotServed) {
			return there, err
		}
		select {
		case err := <-died:
			return nil, fmt.Errorf("it ended before it could take a task: %w; it says:\n%s",
				cmp.Or(err, errors.New("exit status 0")), says())
		default:
		}
		if last {
			return nil, fmt.Errorf("it did not answer within %s; it says:\n%s", serverStart, says())
		}
	}
	return nil, context.Cause(ctx)
}

// serverArgs returns the arguments of a background server with the flags of this command.
func (a *app) serverArgs() []string {
	args := []string{"serve", "--until-idle", servedUntilIdle}
	for _, flag := range []struct{ name, value string }{ // paths stay valid: the server inherits the working directory
		{"-C", a.dir}, {"--attach", a.opts.Attach}, {"--model", string(a.opts.Model)}, {"--effort", a.opts.Effort}, {"--ledger-model", string(a.opts.LedgerModel)},
		{"--config", a.configFile}, {"--opencode", a.opts.OpenCode},
	} {
		if flag.value != "" {
			args = append(args, flag.name, flag.value)
		}
	}
	return args
}

const (
	waitDone    = "done"
	waitBlocked = "blocked"
)

func (a *app) newWaitCmd() *cobra.Command {
	w := view.Wait{Type: "wait", For: waitDone, Blocked: []string{}}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [flags] [BOULDER]",
		Short: "Wait until a boulder is over or needs you",
		Long: `Waits for a boulder (default: the one that is at work, or the newest unfinished one, or the newest), then prints its
status. A server that is restarted has five seconds to take it up.

  --for done      until it is over
  --for blocked   until a sub-task is blocked, or the boulder waits for the user

Exit codes: 0 what was waited for has come, and with "done" every sub-task is completed · 1 the time is up, or with
"blocked" the boulder is over and nothing was · 3 it is over, but some sub-tasks failed, or a gate is red · 4 no
process runs it, or waiting for "done": it is paused or waits for the user, so that it will not be done by itself · 130 it
was cancelled, or Ctrl-C.`,
		Example: `  manager wait && git push
  manager wait --for blocked --timeout 8h; notify-send "manager" "$(manager status)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runWait(cmd.Context(), &w, timeout, cmp.Or(args...))
		},
	}
	oneOf(cmd, &w.For, "for", "", "`STATE` to wait for (default done)", waitDone, waitBlocked)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after `TIME`, as 30m; 0: never")
	return cmd
}

func notNegative(flag string, t time.Duration) error {
	if t < 0 {
		return usagef("%s takes a time that is not below zero, not %s", flag, t)
	}
	return nil
}

var errTimeUp = errors.New("the time is up")

func (a *app) runWait(ctx context.Context, w *view.Wait, timeout time.Duration, ref string) error {
	if err := notNegative("--timeout", timeout); err != nil {
		return err
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeUp)
		defer cancel()
	}
	err := a.wait(ctx, w, ref)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errTimeUp) {
		how := "nothing could be read"
		if w.Status != "" {
			how = fmt.Sprintf("boulder %s is %s, %d/%d done", boulder.ShortID(w.BoulderID), w.Shown(), w.Completed, w.Total)
		}
		err = fmt.Errorf("%w: after %s %s", errTimeUp, timeout, how)
	}
	switch {
	case w.BoulderID == "" || errors.Is(err, errInterrupted):
	case a.json:
		err = errors.Join(a.printJSON(w), err)
	case err == nil:
		if w.Written != "" {
			a.on(a.Stdout).Text(0, w.Written)
		}
		a.on(a.Stdout).Say(fmt.Sprintf("Boulder %s is %s, %d/%d done.%s%s", boulder.ShortID(w.BoulderID),
			view.Stated(string(w.Status), text.OneLine(w.Reason)), w.Completed, w.Total,
			text.If(len(w.Blocked) > 0, " Blocked: "+view.Listed(w.Blocked)+"."),
			text.If(w.Unlanded, " Its results have not landed: manager land --files "+boulder.ShortID(w.BoulderID)+".")))
	}
	return err
}

const (
	waitPoll = 500 * time.Millisecond
	// notRunLooks is how often no process may run the boulder (5 s in all): a restarted server resumes it after
	// moments.
	notRunLooks = 10
)

// errNotRun means that a boulder is not paused, but no process runs it.
var errNotRun = errors.New("no process runs it")

// wait polls until w's state is reached (nil) or cannot be reached any more.
func (a *app) wait(ctx context.Context, w *view.Wait, ref string) error {
	told, patience := false, notRunLooks
	for range project.Tries(ctx, waitPoll, 0) {
		arrived, err := a.lookOnce(ctx, w, ref)
		switch {
		case arrived:
			return nil
		case errors.Is(err, errNotRun) && patience > 0:
			patience--
		case errors.Is(err, store.ErrHeld):
			if !told && ctx.Err() == nil {
				a.note("Another process holds the state and does not answer; waiting for it.")
			}
			told = true
		case err != nil && !errors.Is(err, project.ErrNotServed) && !errors.Is(err, project.ErrNotReady):
			return err
		}
	}
	return context.Cause(ctx)
}

// lookOnce reads the boulder once, with the database open only briefly, since no run can start meanwhile.
func (a *app) lookOnce(ctx context.Context, w *view.Wait, ref string) (arrived bool, err error) {
	there, err := a.project.Read(ctx)
	if err != nil {
		return false, err
	}
	defer there.Close()
	d, err := there.Find(ctx, cmp.Or(w.BoulderID, ref))
	if errors.Is(err, project.ErrAllOver) {
		d, err = project.Get(ctx, there, "") // the newest
	}
	if d.Boulder.ID == "" {
		return false, err
	}
	w.BoulderID = d.Boulder.ID
	return waitOutcome(w, d, there.Holder) // the head is enough, so err does not matter
}

// waitOutcome reports whether the awaited state is reached. An error means that it can no longer be reached.
func waitOutcome(r *view.Wait, d boulder.Snapshot, holder *project.Holder) (arrived bool, err error) {
	b, stands := d.Boulder, r.Take(d, holder)
	switch {
	case r.For == waitBlocked && (len(r.Blocked) > 0 || stands):
		return true, nil
	case r.For == waitBlocked && b.Status.Terminal():
		return false, fmt.Errorf("boulder %s is %s, and nothing in it was blocked", boulder.ShortID(b.ID), b.Status)
	case !b.Status.Terminal() && !stands && !holder.Runs(b):
		return false, stoppedError(d, holder)
	case r.For == waitBlocked:
		return false, nil
	case b.Status == boulder.Completed:
		return true, nil
	case b.Status == boulder.Cancelled:
		return false, fmt.Errorf("boulder %s: %w", boulder.ShortID(b.ID), orchestrator.ErrCancelled)
	case b.Status.Terminal():
		return false, fmt.Errorf("boulder %s is %s: %w", boulder.ShortID(b.ID), b.Status, notCompleted(d))
	case stands:
		return false, stoppedError(d, holder)
	}
	return false, nil
}

// stoppedError returns the error for a boulder that does not continue by itself: that of its run, if it is known.
func stoppedError(d boulder.Snapshot, holder *project.Holder) error {
	b := &d.Boulder
	if err := orchestrator.RunsElsewhere(b); err != nil && holder == nil {
		return fmt.Errorf("%w: %w", errNotRun, err)
	}
	why, asks := strings.CutPrefix(text.OneLine(b.Reason), orchestrator.ErrWaiting.Error()+": ")
	switch {
	case b.Status == boulder.AwaitingApproval:
		why = "the plan of boulder " + boulder.ShortID(b.ID) + " has to be approved"
	case b.Status != boulder.Paused:
		return nothingLost(fmt.Errorf("%w: boulder %s was interrupted: %w", orchestrator.ErrWaiting, boulder.ShortID(b.ID), errNotRun), d)
	case !asks:
		why = view.Stated(string(b.Status), why)
	}
	return nothingLost(fmt.Errorf("%w: %s", orchestrator.ErrWaiting, why), d)
}

func (a *app) newMCPCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve MCP tools, with which other agents hand tasks over",
		Long: `An MCP server over standard input and output with the tools plan, run, status, wait, blockers, answer, note, pause,
resume, report and land. What an agent hands over runs in the background as after ` + "`manager run --detach`" + `, and continues
when the agent is gone. A plan with gates waits until you agree to it: ` + "`manager resume`" + ` shows it and asks.

In the configuration of OpenCode, under a name other than manager, which is that of runs:

  "mcp": {"boulders": {"type": "local", "command": ["manager", "mcp"]}}

In Claude Code: claude mcp add boulders -- manager mcp`,
		Example: `  manager mcp -C ~/src/shop`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runMCP(cmd.Context()) },
	}
}

func (a *app) runMCP(ctx context.Context) error {
	if a.Getenv(orphan.Variable) != "" {
		return usagef("an agent of a run cannot hand tasks over: what it starts ends with the run")
	}
	if terminal(a.Stdin) {
		a.note("Waiting for an MCP client on standard input; Ctrl-D ends it.")
	}
	tools := mcp.New(a.project, a.startServerApart, newVersionInfo(debug.ReadBuildInfo()).Version)
	return mcptool.Stdio(ctx, tools, a.Stdin, a.Stdout)
}

// startServerApart is [app.startServer] in a process that then exits, since MCP clients end a server with its children.
func (a *app) startServerApart(ctx context.Context) (*project.Access, error) {
	cmd := exec.CommandContext(ctx, a.Executable, append(a.serverArgs(), "--apart")...)
	cmd.Env = a.Environ
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s (%w)", strings.TrimPrefix(strings.TrimSpace(string(said)), "manager: "), err)
	}
	return a.project.Dial(ctx)
}
