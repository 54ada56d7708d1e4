package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
)

type watchOptions struct {
	project.WatchConfig
	attach             string
	iterations         int
	budget             budgetFlag
	continuous, status bool
}

func (a *app) newWatchCmd() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [flags]",
		Short: "Keep your own OpenCode sessions going",
		Long: `Attaches to an OpenCode that you work in, and keeps the project's sessions going: one that is left idle with open
items on its todo list is told to continue, after a countdown on your screen. Sessions of runs, of sub-agents and of
the agent plan are left alone. Your own prompt resets all counters; an abort or a "stop" ends it for that
session. After 5 continuations without progress, or 100 in all, it stops by itself.

docs/sessions.md says when a session is continued, docs/watch.md everything else.`,
		Example: `  opencode --port 4096                   in one terminal
  manager watch                          in another
  manager watch --dry-run --once         what would be done now, and why
  manager watch --attach http://127.0.0.1:5000 --done-when todos,tests
  manager watch --continuous --budget cost=5,time=8h
  manager watch --status
  manager watch stop                     every session; with an id, that one
  manager show --why ses_…               all decisions about one session`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.status:
				return a.runWatchStatus(cmd.Context())
			case o.iterations < 1 && cmd.Flags().Changed("max-iterations"):
				return usagef("--max-iterations is %d: it must be at least 1", o.iterations)
			case o.Since <= 0:
				return usagef("--since is %s: it must be more than 0", o.Since)
			case len(o.budget.subTasks) > 0 || o.budget.run != nil && (o.budget.run.Attempts > 0 || o.budget.run.Calls > 0):
				return usagef("--budget of a watch has tokens, cost and time only, and no sub-tasks")
			}
			return a.runWatch(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.attach, "attach", "", "the OpenCode server at `URL` (default "+project.DefaultServer+
		", else the background service of OpenCode 2)")
	f.Func("done-when", "`CRITERIA` that all have to hold: todos, diagnostics, tests, promise, judge; default todos",
		(*doneFlag)(&o.DoneWhen).Set)
	f.StringArrayVar(&o.Tests, "test-command", nil, "`COMMAND` of the criterion tests, which it switches on; repeatable")
	f.BoolVar(&o.continuous, "continuous", false, "keep improving when everything holds, until a bound is reached")
	f.IntVar(&o.iterations, "max-iterations", 0, "at most `N` continuations after each prompt of yours (default 100)")
	f.Func("budget",
		"`LIMITS` of a session as tokens=2M,cost=5,time=8h (cost in US dollars), counted from your newest prompt", o.budget.Set)
	f.DurationVar(&o.Since, "since", 15*time.Minute, // older sessions may have been abandoned
		"leave sessions alone that rested for more than `TIME` when it begins")
	a.shared(cmd, "blockers")
	f.BoolVar(&o.All, "all", false, "sessions of sub-agents as well")
	f.BoolVar(&o.Once, "once", false, "look at each session once, do what is due, and end")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be done and why; do and store nothing")
	f.BoolVar(&o.status, "status", false, "show the sessions; also while a watch runs, and without OpenCode")
	for _, other := range []string{"once", "dry-run", "continuous"} {
		cmd.MarkFlagsMutuallyExclusive("status", other)
	}
	for order, short := range map[project.WatchOrder]string{
		project.WatchStop:  "Send nothing to sessions until they are started again",
		project.WatchStart: "Watch sessions again, with all counters reset",
	} {
		cmd.AddCommand(&cobra.Command{
			Use:   string(order) + " [SESSION]",
			Short: short,
			Long: short + `.

SESSION is the id of a session, or its end; without one it is about all sessions that are known. It is stored, and
counts at once if a watch runs.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.runWatchOrder(cmd.Context(), project.WatchRequest{Order: order, Session: strings.Join(args, "")})
			},
		})
	}
	return cmd
}

func (a *app) runWatch(ctx context.Context, o *watchOptions) (err error) {
	if err := a.askTrust(ctx); err != nil {
		return err
	}
	c := a.project.Config()
	c.Blockers.Enabled = c.Blockers.Enabled || a.blockers
	if err := a.watchCriteria(&o.WatchConfig); err != nil {
		return err
	}
	address := cmp.Or(o.attach, c.Watch.Attach)
	o.Show = a.showDecisions(o)
	o.Note = func(text string) { a.note("%s %s", view.Clock(time.Now()), text) }
	o.Typed = func(ctx context.Context, session, word string) string {
		return a.doTyped(ctx, session, word, a.blockers)
	}
	o.Policy, o.Budget = c.Watch.Policy, o.budget.run
	o.Policy.Continuous = o.continuous
	o.Policy.MaxIterations = cmp.Or(o.iterations, o.Policy.MaxIterations)
	if err = a.project.Watch(ctx, o.WatchConfig, address); errors.Is(err, opencode.ErrUnavailable) {
		err = fmt.Errorf("%w Run `opencode --port 4096` in the project (OpenCode 2: `opencode`), or say with --attach where it listens", err)
	}
	return err
}

func (a *app) showDecisions(o *watchOptions) func(project.WatchEntry) {
	if a.json {
		return func(e project.WatchEntry) { _ = a.printJSON(e) } // a closed pipe does not stop the watch
	}
	stream := a.Stderr
	if o.DryRun || o.Once {
		stream = a.Stdout // decisions are the result of the command
	}
	return view.Watch(a.on(stream), a.quiet, a.verbose, o.DryRun)
}

// watchCriteria sets criteria and commands. It ignores the configured done_when of runs: tests that the user did not
// ask for here must not hold up their own session.
func (a *app) watchCriteria(w *project.WatchConfig) error {
	if len(w.DoneWhen) == 0 {
		w.DoneWhen = slices.Clone(a.project.Config().Watch.DoneWhen)
	}
	if len(w.DoneWhen) == 0 {
		w.DoneWhen = []string{boulder.DoneTodos}
	}
	if len(w.Tests) > 0 && !slices.Contains(w.DoneWhen, boulder.DoneTests) {
		w.DoneWhen = append(w.DoneWhen, boulder.DoneTests)
	}
	found := a.project.Criteria(w.DoneWhen)
	if w.Lint = found.Checks.Lint; len(w.Tests) == 0 {
		w.Tests = found.Checks.Tests
	}
	if found.Checks.Tests = w.Tests; found.Check(nil) != nil {
		return fmt.Errorf("%w; --test-command names one, too", found.Check(nil))
	}
	return nil
}

func (a *app) runWatchOrder(ctx context.Context, req project.WatchRequest) error {
	report, err := a.project.AskWatch(ctx, req)
	ids := report.Named
	switch {
	case err != nil:
		return err
	case len(ids) == 0 && req.Session != "":
		return usagef("there is no such session here: `manager watch --status` lists those that are known: %q", req.Session)
	case a.json:
		// Later versions only add fields.
		return a.printJSON(struct {
			Type     string   `json:"type"` // watch-stop | watch-start
			Sessions []string `json:"sessions"`
		}{"watch-" + string(req.Order), append([]string{}, ids...)})
	case len(ids) == 0:
		a.note("No session is known here.")
	}
	for _, id := range ids {
		says := "Session %s is watched."
		switch {
		case req.Order == project.WatchStop:
			says = "Session %s is stopped. Continue with: manager watch start %[1]s"
		case !slices.ContainsFunc(report.Sessions, func(s project.WatchStatus) bool { return s.SessionID == id && s.Watched }):
			says = "Session %s is watched as soon as `manager watch` finds it in OpenCode."
		}
		a.on(a.Stdout).Say(fmt.Sprintf(says, id))
	}
	return nil
}

func (a *app) runWatchStatus(ctx context.Context) error {
	report, err := a.project.AskWatch(ctx, project.WatchRequest{})
	holder := report.Holder
	switch {
	case a.json:
		return errors.Join(err, writeLines(a.Stdout, report.Sessions))
	case holder.PID == 0:
		a.note("No watch runs here now.")
	case report.Online:
		a.note("Process %d watches, at %s, since %s.", holder.PID, holder.URL, holder.Since.Local().Format(time.DateTime))
	default:
		a.note("Process %d watches, and waits for OpenCode at %s.", holder.PID, holder.URL)
	}
	if len(report.Sessions) == 0 && err == nil {
		a.note("No session is known here.")
	}
	shown := report.Sessions
	if !a.verbose {
		shown = view.Watched(report)
	}
	for _, s := range shown {
		fmt.Fprintln(a.Stdout, view.WatchStatusLine(a.on(a.Stdout).Paint, s))
	}
	return err
}

// watchedSession returns the id of the only watched session with this ending, or "".
func (a *app) watchedSession(ctx context.Context, end string) string {
	if len(end) < view.WidthSession {
		return ""
	}
	report, _ := a.project.AskWatch(ctx, project.WatchRequest{Session: end}) // commands that need the state report the error
	return strings.Join(report.Named, "")
}

func (a *app) runWhySession(ctx context.Context, id string) error {
	report, err := a.project.AskWatch(ctx, project.WatchRequest{Session: id})
	h := view.WatchHistory{Type: "watched-session-why", SessionID: id, Decisions: append([]project.WatchEntry{}, report.History...)}
	if i := slices.IndexFunc(report.Sessions, func(s project.WatchStatus) bool { return s.SessionID == id }); i >= 0 {
		h.Session = &report.Sessions[i]
	}
	if err == nil && h.Session == nil {
		return usagef("nothing is known of session %s here: `manager watch --status` lists those that are or were watched", id)
	}
	return cmp.Or(a.show(&h), err)
}
