package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// defaultServer is where OpenCode listens if it is not told a port and nobody else does.
const defaultServer = "http://127.0.0.1:4096"

type watchOptions struct {
	attach     string
	doneWhen   doneFlag
	tests      []string
	iterations int
	budget     budgetFlag
	since      time.Duration

	once, dryRun, continuous, all, status, blockers bool
}

func (a *app) newWatchCmd() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [flags]",
		Short: "Keep your own OpenCode sessions going",
		Long: `Attaches to an OpenCode that you work in, the terminal interface with a port or a server, and keeps the
project's sessions going: one that is left idle with open items on its todo list is told to go on, after a countdown on
your screen. Sessions of runs and of sub-agents are left alone.

You are obeyed: what you write counts everything anew, and an abort or a "stop" ends it for that session until you write
there again or say ` + "`manager watch start SESSION`" + `. It stops by itself after 5 continuations without progress,
or 100 in all.

  opencode --port 4096     in one terminal
  manager watch            in another

docs/sessions.md says when a session is told to go on, and docs/watch.md has everything else about this command.`,
		Example: `  manager watch --dry-run --once         what would be done now, and why
  manager watch --attach http://127.0.0.1:5000 --done-when todos,tests
  manager watch --continuous --budget cost=5,time=8h
  manager watch --status
  manager watch stop                     every session; with an id, that one
  manager show --why ses_…               all decisions about one session`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.status && (o.once || o.dryRun || o.continuous):
				return usagef("--status only looks: it goes with none of --once, --dry-run and --continuous")
			case o.status:
				return a.runWatchStatus(cmd.Context())
			case o.iterations < 1 && cmd.Flags().Changed("max-iterations"):
				return usagef("--max-iterations is %d: it must be at least 1", o.iterations)
			}
			return a.runWatch(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.attach, "attach", "", "the OpenCode server at `URL` (default "+defaultServer+")")
	f.Var(&o.doneWhen, "done-when",
		"`CRITERIA` that all have to hold: todos, diagnostics, tests, promise, judge; default todos")
	f.StringArrayVar(&o.tests, "test-command", nil, "`COMMAND` of the criterion tests, which it switches on; repeatable")
	f.BoolVar(&o.continuous, "continuous", false, "go on improving when everything holds, until a bound is reached")
	f.IntVar(&o.iterations, "max-iterations", 0, "at most `N` continuations after each prompt of yours (default 100)")
	f.Var(&o.budget, "budget",
		"`LIMITS` of a session as tokens=2M,cost=5,time=8h (cost in US dollars), counted from your newest prompt")
	f.DurationVar(&o.since, "since", watch.DefaultSince,
		"leave sessions alone that rested for more than `TIME` when it begins")
	blockersFlag(cmd, &o.blockers)
	f.BoolVar(&o.all, "all", false, "sessions of sub-agents as well")
	f.BoolVar(&o.once, "once", false, "look at each session once, do what is due, and end")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done and why; do and store nothing")
	f.BoolVar(&o.status, "status", false, "how the sessions are; also while a watch runs, and without OpenCode")
	cmd.AddCommand(
		a.newWatchOrderCmd(watch.OrderStop, "Send nothing to sessions any more, until they are started again"),
		a.newWatchOrderCmd(watch.OrderStart, "Watch sessions again, and count everything anew"),
	)
	return cmd
}

// runWatch watches until it is interrupted, or once.
func (a *app) runWatch(ctx context.Context, o *watchOptions) error {
	p, err := a.watchProject()
	if err != nil {
		return err
	}
	cfg, err := p.config(ctx, o)
	if p.judge != nil {
		defer p.judge.Close()
	}
	if err != nil {
		return err
	}
	if o.dryRun {
		report, err := p.read(ctx)
		if err != nil {
			return err
		}
		for _, s := range report.Sessions {
			cfg.Records = append(cfg.Records, s.Record)
		}
	} else {
		if cfg.Store, err = p.open(ctx, false); err != nil {
			return err
		}
		defer p.close(cfg.Store)
	}
	w, err := watch.New(cfg)
	if err != nil {
		return err
	}
	if !o.dryRun {
		stop, err := w.Serve(ctx, p.socket, watch.Holder{
			PID: os.Getpid(), Command: strings.Join(append([]string{"manager"}, a.Args...), " "), URL: p.address(o),
			Since: time.Now(), Diverts: p.Config().Blockers.Enabled,
		})
		if err != nil {
			return err
		}
		defer stop()
		if !o.once {
			a.note("Watching the sessions of %s at %s. Ctrl-C ends it; the sessions stay as they are.", p.Dir(), p.address(o))
		}
	}
	return watchEnd(w.Run(ctx), p.address(o))
}

// watchEnd adds what to do to the error that ended a watch.
func watchEnd(err error, address string) error {
	switch {
	case errors.Is(err, opencode.ErrBadAddress):
		return usagef("attach: %w", err)
	case errors.Is(err, opencode.ErrUnauthorized):
		return fmt.Errorf("attach: %w: set OPENCODE_SERVER_PASSWORD to the server's password", err)
	case errors.Is(err, opencode.ErrUnavailable):
		return fmt.Errorf("attach: %w: run `opencode --port 4096` in the project, or say with --attach where OpenCode"+
			" listens, not at %s", err, address)
	}
	return err
}

// watchProject is what the commands of `manager watch` know of a project. No server is needed for it.
type watchProject struct {
	*project.Project
	app          *app
	path, socket string                // of the state, and of the process that watches
	judge        *project.SessionJudge // nil unless a criterion asks for it
}

func (a *app) watchProject() (*watchProject, error) {
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.Dir(), store.DirName)
	return &watchProject{
		Project: p, app: a, path: filepath.Join(dir, watch.FileName), socket: filepath.Join(dir, watch.SocketName),
	}, nil
}

// open opens the state. While another watch has it, the error says who.
func (p *watchProject) open(ctx context.Context, readOnly bool) (*watch.Store, error) {
	if !readOnly {
		if _, err := store.EnsureDir(p.Dir()); err != nil {
			return nil, err
		}
	}
	db, err := watch.OpenStore(p.path, readOnly, project.LockWait)
	if errors.Is(err, store.ErrHeld) {
		return nil, p.heldBy(ctx)
	}
	if err == nil {
		db.Clean = p.app.secrets.JSON
	}
	return db, err
}

func (p *watchProject) close(db *watch.Store) {
	if err := db.Close(); err != nil {
		p.app.logger().Error("close the state of the watch", "error", err)
	}
}

// ofWatch asks the process that watches, or looks at the file if none does. Where there is nothing to read, there is
// nothing.
func ofWatch[T any](
	ctx context.Context, p *watchProject, readOnly bool, live func(*watch.Client) (T, error),
	stored func(*watch.Store) (T, error),
) (nothing T, err error) {
	client, err := watch.Dial(ctx, p.socket)
	if err == nil {
		return live(client)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return nothing, err
	}
	db, err := p.open(ctx, readOnly)
	if readOnly && errors.Is(err, fs.ErrNotExist) {
		return nothing, nil
	}
	if err != nil {
		return nothing, err
	}
	defer p.close(db)
	return stored(db)
}

// read gives what is known of the sessions. The report has no holder if nobody watches.
func (p *watchProject) read(ctx context.Context) (watch.Report, error) {
	return ofWatch(ctx, p, true,
		func(c *watch.Client) (watch.Report, error) { return c.Report(ctx) },
		func(s *watch.Store) (r watch.Report, err error) {
			r.Sessions, err = watch.Stored(s)
			return r, err
		})
}

// heldBy says who watches, as far as that process tells, or the kernel.
func (p *watchProject) heldBy(ctx context.Context) error {
	who := project.LockOwner(p.path)
	if client, err := watch.Dial(ctx, p.socket); err == nil {
		if r, err := client.Report(ctx); err == nil {
			since := r.Holder.Since.Local().Format(time.DateTime)
			who = fmt.Sprintf(": process %d, `%s`, since %s", r.Holder.PID, r.Holder.Command, since)
		}
	}
	return fmt.Errorf("this project is watched already%s: look with `manager watch --status`, or end that one first (%w)",
		who, store.ErrHeld)
}

// address is where OpenCode is.
func (p *watchProject) address(o *watchOptions) string {
	return cmp.Or(o.attach, p.Config().Watch.Attach, defaultServer)
}

// config makes a watch's configuration of flags and configuration files.
func (p *watchProject) config(ctx context.Context, o *watchOptions) (cfg watch.Config, err error) {
	a := p.app
	if o.since <= 0 {
		return cfg, usagef("--since is %s: it must be more than 0", o.since)
	}
	if len(o.budget.subTasks) > 0 || o.budget.run != nil && (o.budget.run.Attempts > 0 || o.budget.run.Calls > 0) {
		return cfg, usagef("--budget of a watch has tokens, cost and time only, and no sub-tasks")
	}
	policy := p.Config().Watch.Policy()
	policy.Continuous = o.continuous
	policy.MaxIterations = cmp.Or(o.iterations, policy.MaxIterations)
	words, checks, err := p.criteria(o)
	if err != nil {
		return cfg, err
	}
	cfg = watch.Config{
		Project: p.Dir(), Policy: &policy, DoneWhen: words, Tests: checks.Tests, Lint: checks.Lint,
		Budget: o.budget.run, Since: o.since, All: o.all, Once: o.once, DryRun: o.dryRun, Redact: a.secrets.Text, Logger: a.logger(),
		Attach: func(ctx context.Context) (*opencode.Client, error) { return p.attach(ctx, p.address(o)) },
		Show:   p.show(o), Note: func(text string) { a.note("%s %s", view.Clock(time.Now()), text) },
		Run: p.RunCommand,
	}
	p.Config().Blockers.Enabled = p.Config().Blockers.Enabled || o.blockers
	if cfg.Diverter, err = p.Diverter(); err != nil || !slices.Contains(words, boulder.DoneJudge) {
		return cfg, err
	}
	if p.judge, err = p.SessionJudge(ctx, p.address(o)); err == nil {
		cfg.Judge = p.judge.Ask
	}
	return cfg, err
}

// criteria are the words of completion, and the commands behind tests and diagnostics. A person's own session is not held
// up by tests that nobody asked for, so that what the configuration says of runs does not count here.
func (p *watchProject) criteria(o *watchOptions) (words []string, checks boulder.Checks, err error) {
	for _, words = range [][]string{o.doneWhen, p.Config().Watch.DoneWhen, {boulder.DoneTodos}} {
		if len(words) > 0 {
			break
		}
	}
	if len(o.tests) > 0 && !slices.Contains(words, boulder.DoneTests) {
		words = append(slices.Clip(words), boulder.DoneTests)
	}
	done := p.Criteria(words)
	if slices.Contains(words, boulder.DoneDiagnostics) {
		checks.Lint = done.Checks.Lint
	}
	if !slices.Contains(words, boulder.DoneTests) {
		return words, checks, nil
	}
	if checks.Tests = done.Checks.Tests; len(o.tests) > 0 {
		checks.Tests = o.tests
	}
	if len(checks.Tests) == 0 {
		return nil, checks, usagef("no command is known that runs the tests (%s): say it with --test-command, or with tests:"+
			" in the configuration", done.NoTests)
	}
	return words, checks, nil
}

// attach connects to OpenCode.
func (p *watchProject) attach(ctx context.Context, address string) (*opencode.Client, error) {
	a := p.app
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{
		Username: a.Getenv("OPENCODE_SERVER_USERNAME"), Password: a.Getenv("OPENCODE_SERVER_PASSWORD"), Logger: a.logger(),
	})
	if err != nil {
		return nil, err
	}
	if err := client.Check(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// show shows decisions as they are made.
func (p *watchProject) show(o *watchOptions) func(watch.Entry) {
	a := p.app
	if a.json {
		return func(e watch.Entry) { _ = a.printJSON(e) } // a reader that went away is no reason to stop
	}
	stream := a.Stderr
	if o.dryRun || o.once {
		stream = a.Stdout // it is what was asked for
	}
	return view.Watch(a.on(stream), a.quiet, a.verbose, o.dryRun)
}

// newWatchOrderCmd is `manager watch stop` and `manager watch start`.
func (a *app) newWatchOrderCmd(order watch.Order, short string) *cobra.Command {
	return &cobra.Command{
		Use:   string(order) + " [SESSION]",
		Short: short,
		Long: short + `.

SESSION is the id of a session, or its end; without one it is about all sessions that are known. It is stored, and
counts at once if a watch runs.`,
		Args:              atMostOne("SESSION"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runWatchOrder(cmd.Context(), order, strings.Join(args, ""))
		},
	}
}

func (a *app) runWatchOrder(ctx context.Context, order watch.Order, ref string) error {
	p, err := a.watchProject()
	if err != nil {
		return err
	}
	ids, err := ofWatch(ctx, p, false,
		func(c *watch.Client) ([]string, error) { return c.Order(ctx, ref, order) },
		func(s *watch.Store) ([]string, error) { return watch.Steer(s, ref, order, time.Now()) })
	if errors.Is(err, watch.ErrUnknownSession) {
		return &project.UsageError{Err: err}
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(watchOrderReport{Type: "watch-" + string(order), Sessions: append([]string{}, ids...)})
	}
	if len(ids) == 0 {
		a.note("No session is known here.")
	}
	for _, id := range ids {
		if order == watch.OrderStop {
			a.tell(fmt.Sprintf("Session %s is stopped. Continue with: manager watch start %s", id, id))
		} else {
			a.tell(fmt.Sprintf("Session %s is watched.", id))
		}
	}
	return nil
}

// watchOrderReport is what `manager watch stop --json` and `start --json` print. Fields are added in later versions,
// never changed.
type watchOrderReport struct {
	Type     string   `json:"type"` // watch-stop | watch-start
	Sessions []string `json:"sessions"`
}

// runWatchStatus tells how the sessions are.
func (a *app) runWatchStatus(ctx context.Context) error {
	p, err := a.watchProject()
	if err != nil {
		return err
	}
	report, err := p.read(ctx)
	if a.json {
		for _, s := range report.Sessions {
			if err := a.printJSON(view.NewWatchItem(s)); err != nil {
				return err
			}
		}
		return err
	}
	switch {
	case report.Holder.PID == 0:
		a.note("Nobody watches here now.")
	case report.Online:
		a.note("Process %d watches, at %s, since %s.", report.Holder.PID, report.Holder.URL,
			report.Holder.Since.Local().Format(time.DateTime))
	default:
		a.note("Process %d watches, and waits for OpenCode at %s.", report.Holder.PID, report.Holder.URL)
	}
	if len(report.Sessions) == 0 && err == nil {
		a.note("No session is known here.")
	}
	for _, s := range report.Sessions {
		if s.Watched || report.Holder.PID == 0 || s.Newest == nil || s.Newest.Gate != enforcer.GateOwned || a.verbose {
			fmt.Fprintln(a.Stdout, view.WatchStatusLine(a.on(a.Stdout).Paint, view.NewWatchItem(s)))
		}
	}
	return err
}

// watchedSession is the id of the watched session that ends so; empty if there is none, or several.
func (a *app) watchedSession(ctx context.Context, end string) string {
	p, err := a.watchProject()
	if err != nil || len(end) < view.WidthSession {
		return ""
	}
	report, _ := p.read(ctx) // what cannot be read is told by the command that needs it
	found := ""
	for _, s := range report.Sessions {
		if strings.HasSuffix(s.SessionID, end) {
			if found != "" {
				return ""
			}
			found = s.SessionID
		}
	}
	return found
}

// runWhySession shows the decisions about a session that is or was watched.
func (a *app) runWhySession(ctx context.Context, id string) error {
	p, err := a.watchProject()
	if err != nil {
		return err
	}
	report, err := p.read(ctx)
	if err != nil {
		return err
	}
	h := view.WatchHistory{Type: "watched-session-why", SessionID: id}
	for _, s := range report.Sessions {
		if s.SessionID == id {
			item := view.NewWatchItem(s)
			h.Session = &item
		}
	}
	history, err := ofWatch(ctx, p, true,
		func(c *watch.Client) ([]watch.Entry, error) { return c.History(ctx, id) },
		func(s *watch.Store) ([]watch.Entry, error) { return s.History(id) })
	h.Decisions = append([]watch.Entry{}, history...)
	switch {
	case err == nil && h.Session == nil && len(history) == 0:
		return usagef("nothing is known of session %s here: `manager watch --status` lists those that are or were watched", id)
	case a.json:
		if printErr := a.printJSON(h); printErr != nil {
			return printErr
		}
		return err
	}
	h.Print(a.on(a.Stdout))
	return err
}
