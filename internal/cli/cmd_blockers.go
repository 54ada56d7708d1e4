package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newBlockersCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "blockers",
		Short:      "Show and answer the questions that agents recorded",
		SuggestFor: []string{"questions", "answer", "clarify"},
		Long: `Shows what only a person can answer: questions that agents reported with the blocker tool, and permissions
and questions that OpenCode asked for while nobody was there. A hard blocker stops its sub-task until it is answered;
with a soft one the agent chose for itself and went on. Without a command: status and list.

Agents get the tool, and asks are diverted, where the configuration (blockers: {enabled: true}), a flag (--blockers)
or ` + "`manager blockers on`" + ` says so. All of this works while runs and other processes are at work.`,
		Example: `  manager blockers
  manager blockers clarify
  manager blockers answer B7 "Use bcrypt, cost 12"
  manager blockers export -o night.md`,
		Args: noSuchCommand,
		RunE: a.withDesk(a.runBlockers),
	}
	cmd.AddCommand(
		a.newBlockersStatusCmd(), a.newBlockersListCmd(), a.newBlockersShowCmd(),
		a.newBlockersClarifyCmd(), a.newBlockersAnswerCmd(), a.newBlockersSkipCmd(), a.newBlockersExportCmd(),
		a.newBlockersSwitchCmd("on", "Divert what only a person can answer"),
		a.newBlockersSwitchCmd("off", "Do not divert: agents ask as they always do"),
		a.newBlockersSwitchCmd("unset", "Take on or off back: the configuration counts again"),
		a.blockersInstallCommand(), a.blockersUninstallCommand(), a.blockersSlashCommand(),
	)
	return cmd
}

// alternatives is "a", "b" or "c".
func alternatives(names []string) string {
	text := view.Listed(names)
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " or " + text[i+2:]
	}
	return text
}

// noSuchCommand refuses a word that is no command, and says which one was meant.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("%s has no command %q: did you mean %s?", cmd.CommandPath(), args[0], alternatives(near))
	}
	return usagef("%s has no command %q: see `%[1]s --help`", cmd.CommandPath(), args[0])
}

func (a *app) runBlockers(ctx context.Context, d *blockers.Desk, _ []string) error {
	s, err := a.readBlockersStatus(ctx, d, "")
	if err != nil {
		return err
	}
	open, _ := view.WithoutMoot(s.Open)
	if a.json {
		return errors.Join(a.printJSON(s), a.printBlockers(open), s.Unread)
	}
	o := a.on(a.Stdout)
	s.Print(o)
	if len(open) > 0 {
		o.Say()
		view.PrintBlockers(o, open, time.Now())
	}
	return s.Unread
}

func (a *app) newBlockersStatusCmd() *cobra.Command {
	var session string
	cmd := &cobra.Command{
		Use:               "status [flags]",
		Short:             "Whether blockers are diverted, and how many wait",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, _ []string) error {
			return a.tellBlockersStatus(ctx, d, session)
		}),
	}
	cmd.Flags().StringVar(&session, "session", "", "say it of this `SESSION` of OpenCode")
	return cmd
}

func (a *app) tellBlockersStatus(ctx context.Context, d *blockers.Desk, session string) error {
	s, err := a.readBlockersStatus(ctx, d, session)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	s.Print(a.on(a.Stdout))
	return nil
}

func (a *app) readBlockersStatus(ctx context.Context, d *blockers.Desk, session string) (*view.BlockersStatus, error) {
	s, err := d.Status(ctx)
	if err != nil {
		return nil, err
	}
	report := &view.BlockersStatus{
		Type: "blockers-status", On: s.Enabled, SessionID: session, Switch: s.Switch, Sessions: s.Sessions,
		Pending: s.Pending, Answered: s.Answered, Skipped: s.Skipped, Unwritten: s.Unwritten, File: s.File,
	}
	if s.Pending > 0 {
		records, err := d.List(ctx, blockers.Filter{Status: boulder.BlockerPending})
		report.Open, report.Unread = a.placed(ctx, records), err
		waits := view.WaitingOf(report.Open)
		report.Hard, report.Asks, report.Soft = waits.Hard, waits.Asks, waits.Soft
		report.Moot = len(records) - waits.Hard - waits.Asks - waits.Soft
	}
	if s.Switch == nil && !s.Enabled {
		report.Diverted, report.Watched = a.divertedNow(ctx), a.watchDiverts(ctx)
		report.On = len(report.Diverted) > 0 || report.Watched
	}
	if on, ok := s.Sessions[session]; ok {
		report.On = on
	}
	if s.Trouble != nil {
		report.Trouble = s.Trouble.Error()
	}
	return report, nil
}

// divertedNow lists the boulders at work that were begun with --blockers.
func (a *app) divertedNow(ctx context.Context) []string {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil // whoever holds it is about to begin or to end
	}
	defer closeReader()
	holder := control.HolderOf(ctx, r)
	if holder == nil {
		return nil
	}
	var ids []string
	for _, id := range holder.AtWork() {
		if d, _ := r.Get(ctx, id); d.Boulder.Diverted {
			ids = append(ids, id)
		}
	}
	return ids
}

// watchDiverts reports whether a watch is at work that was begun with --blockers.
func (a *app) watchDiverts(ctx context.Context) bool {
	p, err := a.watchProject()
	if err != nil {
		return false
	}
	client, err := watch.Dial(ctx, p.socket)
	if err != nil {
		return false // nobody watches
	}
	report, err := client.Report(ctx)
	return err == nil && report.Holder.Diverts
}

// newBlockersSwitchCmd is on, off or unset.
func (a *app) newBlockersSwitchCmd(name, short string) *cobra.Command {
	long := `Switches the diverter ` + name + ` for the project, or for one session of OpenCode,
whatever the configuration and the flag --blockers say. Processes that are at work see it with the next ask. It stays
until it is switched again; ` + "`manager blockers unset`" + ` takes it back.`
	on := name == "on"
	to := &on
	if name == "unset" {
		to = nil
		long = `Takes what was switched on or off back, for the project or for one session: the configuration and the flag
--blockers count again.`
	}
	var session string
	cmd := &cobra.Command{
		Use: name + " [flags]", Short: short, Long: long,
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&session, "session", "", "only for this `SESSION` of OpenCode")
	cmd.RunE = a.withDesk(func(ctx context.Context, d *blockers.Desk, _ []string) error {
		if cmd.Flags().Changed("session") && !view.IsSession(session) {
			return usagef("--session takes the id of an OpenCode session, ses_…, not %q", session)
		}
		if err := d.Switch(ctx, session, to); err != nil {
			return err
		}
		return a.tellBlockersStatus(ctx, d, session)
	})
	return cmd
}

const blockersUsage = "nobody is here: what only a person can answer is taken down, and agents go on without " +
	"(see 'manager blockers')"

func blockersFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "blockers", false, blockersUsage)
}

// warnOfSwitch says that --blockers was typed in vain.
func (a *app) warnOfSwitch(typed bool) {
	if !typed {
		return
	}
	if d, err := a.blockers(); err == nil && !d.On(boulder.BlockerScope{Diverted: true}) { // an error is told later
		a.warn("--blockers changes nothing: `manager blockers off` was said for this project, and counts more. Take it back" +
			" with: manager blockers unset")
	}
}

// blockers opens the blockers of the project that the command line is about.
func (a *app) blockers() (*blockers.Desk, error) {
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	return p.Blockers()
}

// withDesk runs a command with the blockers of the project.
func (a *app) withDesk(
	run func(ctx context.Context, d *blockers.Desk, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		d, err := a.blockers()
		if err != nil {
			return err
		}
		return run(cmd.Context(), d, args)
	}
}

// placed finds out who has use for answers to blockers, and sorts them: what is waited for first. Of a boulder that cannot be
// read, every blocker counts as waited for: that can be answered, and what is not shown cannot.
func (a *app) placed(ctx context.Context, all []boulder.Blocker) []view.BlockerItem {
	now, details := time.Now(), a.detailsOf(ctx, all)
	items := make([]view.BlockerItem, len(all))
	for i, b := range all {
		t := &boulder.SubTask{ID: b.SubTaskID, Attempts: b.Attempt}
		if d, known := details[b.BoulderID]; known {
			at := slices.IndexFunc(d.SubTasks, func(t boulder.SubTask) bool { return t.ID == b.SubTaskID })
			if t = nil; at >= 0 && !d.Boulder.Status.Terminal() {
				t = &d.SubTasks[at]
			}
		}
		items[i] = view.BlockerItem{Type: view.TypeBlocker, Blocker: b, Standing: blockers.StandingOf(&b, t, now)}
	}
	slices.SortStableFunc(items, func(x, y view.BlockerItem) int {
		return cmp.Or(view.CompareBlockers(&x, &y, now), x.CreatedAt.Compare(y.CreatedAt))
	})
	return items
}

// detailsOf reads the boulders that unsettled blockers belong to. One that is not there any more is empty.
func (a *app) detailsOf(ctx context.Context, all []boulder.Blocker) map[string]store.Detail {
	details := map[string]store.Detail{}
	for _, b := range all {
		if b.BoulderID != "" && !b.Status.Settled() {
			details[b.BoulderID] = store.Detail{}
		}
	}
	if len(details) == 0 {
		return nil
	}
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil
	}
	defer closeReader()
	for id := range details {
		d, err := r.Get(ctx, id)
		if details[id] = d; d.Boulder.ID == "" && !errors.Is(err, boulder.ErrNotFound) {
			delete(details, id)
		}
	}
	return details
}

// awaiting reports whether a sub-task stands still, or will, until somebody answers a blocker.
func awaiting(d store.Detail) bool { return view.WaitingIn(d, nil, time.Now()).Hard > 0 }
