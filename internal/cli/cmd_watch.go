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

// watchCall bounds a call of a watch to OpenCode. Meanwhile it takes no orders.
const watchCall = 10 * time.Second

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
		Long: `Attaches to an OpenCode that you work in, and keeps the project's sessions going: one that is left idle with open
items on its todo list is told to continue, after a countdown on your screen. Sessions of runs and of sub-agents are left
alone. What you write there counts everything anew; an abort or a "stop" ends it for that session. After 5 continuations
without progress, or 100 in all, it stops by itself.

docs/sessions.md says when a session is continued, docs/watch.md everything else.`,
		Example: `  opencode --port 4096                   in one terminal
  manager watch                          in another
  manager watch --dry-run --once         what would be done now, and why
  manager watch --attach http://127.0.0.1:5000 --done-when todos,tests
  manager watch --continuous --budget cost=5,time=8h
  manager watch --status
  manager watch stop                     every session; with an id, that one
  manager show --why ses_…               all decisions about one session`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.status && (o.once || o.dryRun || o.continuous):
				return usagef("--status only looks: it goes with none of --once, --dry-run and --continuous")
			case o.status:
				return a.runWatchStatus(cmd.Context())
			case o.iterations < 1 && cmd.Flags().Changed("max-iterations"):
				return usagef("--max-iterations is %d: it must be at least 1", o.iterations)
			case o.since <= 0:
				return usagef("--since is %s: it must be more than 0", o.since)
			case len(o.budget.subTasks) > 0 || o.budget.run != nil && (o.budget.run.Attempts > 0 || o.budget.run.Calls > 0):
				return usagef("--budget of a watch has tokens, cost and time only, and no sub-tasks")
			}
			return a.runWatch(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.attach, "attach", "", "the OpenCode server at `URL` (default "+defaultServer+")")
	f.Func("done-when",
		"`CRITERIA` that all have to hold: todos, diagnostics, tests, promise, judge; default todos", o.doneWhen.Set)
	f.StringArrayVar(&o.tests, "test-command", nil, "`COMMAND` of the criterion tests, which it switches on; repeatable")
	f.BoolVar(&o.continuous, "continuous", false, "go on improving when everything holds, until a bound is reached")
	f.IntVar(&o.iterations, "max-iterations", 0, "at most `N` continuations after each prompt of yours (default 100)")
	f.Func("budget",
		"`LIMITS` of a session as tokens=2M,cost=5,time=8h (cost in US dollars), counted from your newest prompt", o.budget.Set)
	f.DurationVar(&o.since, "since", 15*time.Minute, // what was left longer ago may have been left for good
		"leave sessions alone that rested for more than `TIME` when it begins")
	blockersFlag(cmd, &o.blockers)
	f.BoolVar(&o.all, "all", false, "sessions of sub-agents as well")
	f.BoolVar(&o.once, "once", false, "look at each session once, do what is due, and end")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done and why; do and store nothing")
	f.BoolVar(&o.status, "status", false, "how the sessions are; also while a watch runs, and without OpenCode")
	for order, short := range map[watch.Order]string{
		watch.OrderStop:  "Send nothing to sessions any more, until they are started again",
		watch.OrderStart: "Watch sessions again, and count everything anew",
	} {
		cmd.AddCommand(&cobra.Command{
			Use:   string(order) + " [SESSION]",
			Short: short,
			Long: short + `.

SESSION is the id of a session, or its end; without one it is about all sessions that are known. It is stored, and
counts at once if a watch runs.`,
			Args:              takes(0, 1, "one SESSION"),
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.runWatchOrder(cmd.Context(), watch.Request{Order: order, Session: strings.Join(args, "")})
			},
		})
	}
	return cmd
}

// runWatch watches until it is interrupted, or once.
func (a *app) runWatch(ctx context.Context, o *watchOptions) (err error) {
	p, err := a.open()
	if err != nil {
		return err
	}
	p.Config().Blockers.Enabled = p.Config().Blockers.Enabled || o.blockers
	address := cmp.Or(o.attach, p.Config().Watch.Attach, defaultServer)
	words, checks, err := o.criteria(p)
	if err != nil {
		return err
	}
	cfg := watch.Config{
		Project: p.Dir(), Policy: p.Config().Watch.Policy, DoneWhen: words, Tests: checks.Tests, Lint: checks.Lint,
		Budget: o.budget.run, Since: o.since, All: o.all, Once: o.once, DryRun: o.dryRun, Run: p.RunCommand,
		Redact: a.secrets.Text, Logger: a.logger(), Show: a.showDecisions(o),
		Note:   func(text string) { a.note("%s %s", view.Clock(time.Now()), text) },
		Attach: func(ctx context.Context) (*opencode.Client, error) { return p.Attach(ctx, address, watchCall) },
	}
	cfg.Policy.Continuous = o.continuous
	cfg.Policy.MaxIterations = cmp.Or(o.iterations, cfg.Policy.MaxIterations)
	if cfg.Diverter, err = p.Diverter(); err != nil {
		return err
	}
	if slices.Contains(words, boulder.DoneJudge) {
		if cfg.Judge, err = p.SessionJudge(ctx, address); err != nil {
			return err
		}
	}
	if o.dryRun {
		report, err := a.askWatch(ctx, watch.Request{})
		if err != nil {
			return err
		}
		cfg.Records = report.Records
		return watchEnd(watch.New(cfg).Run(ctx))
	}
	if cfg.Store, err = a.openWatch(ctx, p, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cfg.Store.Close()) }()
	if cfg.Records, err = cfg.Store.Records(); err != nil {
		cfg.Note(fmt.Sprintf("Some of what was stored cannot be read, and is begun anew: %v", err))
	}
	w := watch.New(cfg)
	server, err := w.Serve(ctx, watchSocket(p), watch.Holder{
		PID: os.Getpid(), Command: strings.Join(append([]string{"manager"}, a.Args...), " "), URL: address,
		Since: time.Now(), Diverts: p.Config().Blockers.Enabled,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if !o.once {
		a.note("Watching the sessions of %s at %s. Ctrl-C ends it; the sessions stay as they are.", p.Dir(), address)
	}
	return watchEnd(w.Run(ctx))
}

func watchEnd(err error) error {
	if errors.Is(err, opencode.ErrUnavailable) {
		err = fmt.Errorf("%w Run `opencode --port 4096` in the project, or say with --attach where it listens", err)
	}
	return err
}

// showDecisions shows decisions as they are made.
func (a *app) showDecisions(o *watchOptions) func(watch.Entry) {
	if a.json {
		return func(e watch.Entry) { _ = a.printJSON(e) } // a reader that went away is no reason to stop
	}
	stream := a.Stderr
	if o.dryRun || o.once {
		stream = a.Stdout // it is what was asked for
	}
	return view.Watch(a.on(stream), a.quiet, a.verbose, o.dryRun)
}

// criteria are the words of completion, and the commands behind tests and diagnostics. The user's own session is not held
// up by tests that nobody asked for, so that what the configuration says of runs does not count here.
func (o *watchOptions) criteria(p *project.Project) (words []string, checks boulder.Checks, err error) {
	words = o.doneWhen
	if len(words) == 0 {
		words = p.Config().Watch.DoneWhen
	}
	if len(words) == 0 {
		words = []string{boulder.DoneTodos}
	}
	if len(o.tests) > 0 && !slices.Contains(words, boulder.DoneTests) {
		words = append(slices.Clip(words), boulder.DoneTests)
	}
	found := p.Criteria(words)
	checks = found.Checks
	if len(o.tests) > 0 {
		checks.Tests = o.tests
	}
	if slices.Contains(words, boulder.DoneTests) && len(checks.Tests) == 0 {
		err = usagef("no command is known that runs the tests (%s): say it with --test-command, or with tests:"+
			" in the configuration", found.NoTests)
	}
	return words, checks, err
}

// openWatch opens the state of watches. While another watch has it, the error says who.
func (a *app) openWatch(ctx context.Context, p *project.Project, readOnly bool) (*watch.Store, error) {
	if !readOnly {
		if _, err := store.EnsureDir(p.Dir()); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(p.Dir(), store.DirName, watch.FileName)
	db, err := watch.OpenStore(path, readOnly, project.LockWait)
	if errors.Is(err, store.ErrHeld) {
		who := project.LockOwner(path)
		if r, err := watch.Call(ctx, watchSocket(p), watch.Request{}); err == nil {
			who = fmt.Sprintf(": process %d, `%s`, since %s", r.Holder.PID, r.Holder.Command, r.Holder.Since.Local().Format(time.DateTime))
		}
		return nil, fmt.Errorf("this project is watched already%s: look with `manager watch --status`, or end that one first (%w)",
			who, err)
	}
	if err == nil {
		db.Clean = a.secrets.JSON
	}
	return db, err
}

func watchSocket(p *project.Project) string {
	return filepath.Join(p.Dir(), store.DirName, watch.SocketName)
}

// askWatch has the process that watches answer; if there is none, the file. With an error the report has what could be read.
func (a *app) askWatch(ctx context.Context, req watch.Request) (report watch.Report, err error) {
	p, err := a.open()
	if err != nil {
		return report, err
	}
	if report, err = watch.Call(ctx, watchSocket(p), req); !errors.Is(err, unixsock.ErrNotServed) {
		return report, err
	}
	readOnly := req.Order == ""
	db, err := a.openWatch(ctx, p, readOnly)
	if readOnly && errors.Is(err, fs.ErrNotExist) {
		return report, nil
	}
	if err != nil {
		return report, err
	}
	records, unreadable := db.Records()
	report, err = watch.New(watch.Config{
		Store: db, Records: records, Redact: a.secrets.Text, Logger: a.logger(), Show: func(watch.Entry) {},
	}).Do(ctx, req)
	return report, errors.Join(unreadable, err, db.Close())
}

// runWatchOrder is `manager watch stop` and `manager watch start`.
func (a *app) runWatchOrder(ctx context.Context, req watch.Request) error {
	report, err := a.askWatch(ctx, req)
	switch ids := report.Named; {
	case err != nil:
		return err
	case len(ids) == 0 && req.Session != "":
		return usagef("there is no such session here: `manager watch --status` lists those that are known: %q", req.Session)
	case a.json:
		// Fields are added in later versions, never changed.
		return a.printJSON(struct {
			Type     string   `json:"type"` // watch-stop | watch-start
			Sessions []string `json:"sessions"`
		}{"watch-" + string(req.Order), append([]string{}, ids...)})
	case len(ids) == 0:
		a.note("No session is known here.")
	}
	for _, id := range report.Named {
		if req.Order == watch.OrderStop {
			a.tell(fmt.Sprintf("Session %s is stopped. Continue with: manager watch start %s", id, id))
		} else {
			a.tell(fmt.Sprintf("Session %s is watched.", id))
		}
	}
	return nil
}

// runWatchStatus tells how the sessions are.
func (a *app) runWatchStatus(ctx context.Context) error {
	report, err := a.askWatch(ctx, watch.Request{})
	if a.json {
		for _, s := range report.Sessions {
			err = errors.Join(err, a.printJSON(s))
		}
		return err
	}
	holder := report.Holder
	switch {
	case holder.PID == 0:
		a.note("Nobody watches here now.")
	case report.Online:
		a.note("Process %d watches, at %s, since %s.", holder.PID, holder.URL, holder.Since.Local().Format(time.DateTime))
	default:
		a.note("Process %d watches, and waits for OpenCode at %s.", holder.PID, holder.URL)
	}
	if len(report.Sessions) == 0 && err == nil {
		a.note("No session is known here.")
	}
	for _, s := range report.Sessions {
		if s.Watched || holder.PID == 0 || s.Newest == nil || s.Newest.Gate != enforcer.GateOwned || a.verbose {
			fmt.Fprintln(a.Stdout, view.WatchStatusLine(a.on(a.Stdout).Paint, s))
		}
	}
	return err
}

// watchedSession is the id of the watched session that ends so; empty if there is none, or several.
func (a *app) watchedSession(ctx context.Context, end string) string {
	if len(end) < view.WidthSession {
		return ""
	}
	report, _ := a.askWatch(ctx, watch.Request{Session: end}) // what cannot be read is told by the command that needs it
	return strings.Join(report.Named, "")
}

// runWhySession shows the decisions about a session that is or was watched.
func (a *app) runWhySession(ctx context.Context, id string) error {
	report, err := a.askWatch(ctx, watch.Request{Session: id})
	h := view.WatchHistory{Type: "watched-session-why", SessionID: id, Decisions: append([]watch.Entry{}, report.History...)}
	if i := slices.IndexFunc(report.Sessions, func(s watch.Status) bool { return s.SessionID == id }); i >= 0 {
		h.Session = &report.Sessions[i]
	}
	if err == nil && h.Session == nil {
		return usagef("nothing is known of session %s here: `manager watch --status` lists those that are or were watched", id)
	}
	return show(a, &h, err)
}
