package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

func (a *app) newBlockersCmd() *cobra.Command {
	var o blockerOptions
	cmd := &cobra.Command{
		Use:        "blockers",
		Short:      "Show and answer the questions that agents recorded",
		SuggestFor: []string{"questions", "answer", "clarify"},
		Long: `Shows what agents asked for while the user was away: questions that they reported with the blocker tool, and
permissions and questions of OpenCode. A hard blocker stops its sub-task until it is answered; with a soft one the agent
chose for itself. Without a command: status and list. All of this works while runs are at work.

Recording is off unless the configuration (blockers: {enabled: true}), --blockers or ` + "`manager blockers on`" + ` says so.`,
		Example: `  manager blockers
  manager blockers clarify
  manager blockers answer B7 "Use bcrypt, cost 12"
  manager blockers export -o night.md`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.blockersStatus(cmd.Context(), "", true) },
	}
	status := &cobra.Command{
		Use: "status [flags]", Short: "Show whether blockers are recorded, and how many wait",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.blockersStatus(cmd.Context(), o.SessionID, false) },
	}
	status.Flags().StringVar(&o.SessionID, "session", "", "of this `SESSION` of OpenCode")

	list := &cobra.Command{
		Use: "list [flags] [BOULDER]", Short: "List what waits for an answer, most urgent first",
		Long: `Lists the blockers that wait for an answer: what a session holds still for, then hard ones, then the oldest. Choices
that agents made for themselves follow, as long as an answer still reaches them.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.boulder = cmp.Or(args...)
			return a.listBlockers(cmd.Context(), &o)
		},
	}
	list.Flags().BoolVarP(&o.all, "all", "a", false, "also what is obsolete or settled")

	show := &cobra.Command{
		Use: "show [flags] ID", Short: "Show everything about one blocker", ValidArgsFunction: a.completion(a.recorded("")),
		RunE: func(cmd *cobra.Command, args []string) error { return a.showBlocker(cmd.Context(), args[0]) },
	}
	export := &cobra.Command{
		Use: "export [flags] [BOULDER]", Short: "Write the blockers as a Markdown document, or with --json as data",
		Long: `Writes all blockers, those that are settled as well: as a Markdown document, with --json as one object per line. With
-o the ending of the file decides: .md is the document; .json, .jsonl and .ndjson are data.`,
		Example: `  manager blockers export --status pending -o open.md
  manager blockers export --json | jq -r .question`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.boulder = cmp.Or(args...)
			return a.exportBlockers(cmd.Context(), &o)
		},
	}
	export.Flags().StringVarP(&o.output, "output", "o", "", "write to a new `FILE` instead of stdout")
	export.Flags().BoolVar(&o.force, "force", false, "replace the file if it is there")
	for _, cmd := range []*cobra.Command{list, export} {
		o.choose(cmd)
		oneOf(cmd, &o.Status, "status", "", "only those with this `STATUS`", "pending", "answered", "skipped")
	}
	list.MarkFlagsMutuallyExclusive("all", "status")

	cmd.AddCommand(
		status, list, show, export, a.newBlockersClarifyCmd(), a.newBlockersAnswerCmd(), a.newBlockersSkipCmd(),
		a.newSlashFileCmd(true), a.newSlashFileCmd(false), a.newSlashCmd(), a.newBlockersMCPCmd(),
		a.newSwitchCmd("on", "Record questions, whatever the configuration and --blockers say"),
		a.newSwitchCmd("off", "Record no questions: agents ask as they always do"),
		a.newSwitchCmd("unset", "Clear on or off: the configuration decides again"),
	)
	return cmd
}

func (a *app) newSwitchCmd(name, short string) *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: name + " [flags]", Short: short,
		Long: short + `, for the project or with --session for one session. It stays until it is changed, and
running processes see it with the next ask.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("session") && !view.IsSession(session) {
				return usagef("--session takes the id of an OpenCode session, ses_…, not %q", session)
			}
			return a.runSwitch(cmd.Context(), name, session)
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "only for this `SESSION` of OpenCode")
	return cmd
}

func (a *app) runSwitch(ctx context.Context, word, session string) error {
	if err := a.project.Blockers().Switch(ctx, session, switches()[word]); err != nil {
		return err
	}
	_, err := a.project.AskWatch(ctx, project.WatchRequest{Order: project.WatchLook})
	if err != nil && !errors.Is(err, project.ErrNotServed) {
		a.warn("the process that watches sees the switch with the next event only: %v", err)
	}
	return a.blockersStatus(ctx, session, false)
}

// switches maps the commands on, off and unset to their settings.
func switches() map[string]*bool {
	return map[string]*bool{"on": new(true), "off": new(false), "unset": nil}
}

func (a *app) blockersStatus(ctx context.Context, session string, list bool) error {
	status, open, unread, err := a.readBlockers(ctx, session)
	if err != nil {
		return err
	}
	if err := a.show(status); err != nil || !list { // status shows unread as trouble
		return err
	}
	if !a.json && len(open) > 0 {
		fmt.Fprintln(a.Stdout)
	}
	return errors.Join(a.printBlockers(open), unread)
}

// readBlockers reads the status of the project, or of a session, and the open blockers that an answer still reaches.
func (a *app) readBlockers(ctx context.Context, session string) (
	status *view.BlockersStatus, open []report.Blocker, unread, err error,
) {
	d, scope := a.project.Blockers(), boulder.BlockerScope{SessionID: session}
	all, unread := a.project.ListBlockers(ctx, blockers.Filter{BlockerScope: scope})
	s, err := d.Status(ctx)
	if there, readErr := a.project.Read(ctx); readErr == nil {
		s, err = a.project.BlockersStatus(ctx, there)
		there.Close()
	} else if err == nil { // the switches can be read
		s.Trouble = readErr.Error()
	}
	if err != nil {
		return nil, nil, nil, err
	}
	status = &view.BlockersStatus{Type: "blockers-status", On: d.On(scope), SessionID: session, Status: s}
	open = slices.DeleteFunc(all, func(b report.Blocker) bool {
		switch {
		case b.Status == boulder.BlockerAnswered:
			status.Answered++
		case b.Status == boulder.BlockerSkipped:
			status.Skipped++
		case b.Standing == blockers.Moot:
			status.Moot++
		}
		return b.Status.Settled() || b.Standing == blockers.Moot
	})
	status.WaitingBlockers, status.Pending = view.WaitingOf(open), len(open)+status.Moot
	if _, own := s.Sessions[session]; !own && s.Switch == nil && !status.On {
		status.Diverted, status.Watched = a.divertedNow(ctx)
		status.On = len(status.Diverted) > 0 || status.Watched
	}
	return status, open, unread, nil
}

// divertedNow returns the running boulders that were started with --blockers, and whether a watch was. Processes that
// do not answer are starting or ending, and do not count.
func (a *app) divertedNow(ctx context.Context) (ids []string, watched bool) {
	watching, _ := a.project.AskWatch(ctx, project.WatchRequest{})
	if there, err := a.project.Read(ctx); err == nil {
		defer there.Close()
		if there.Holder != nil {
			ids = slices.DeleteFunc(there.Holder.Running, func(id string) bool {
				d, _ := there.Get(ctx, id)
				return !d.Boulder.Diverted
			})
		}
	}
	return ids, watching.Holder.Diverts
}

func (a *app) warnOfSwitch() {
	if a.blockers && !a.project.Blockers().On(boulder.BlockerScope{Diverted: true}) {
		a.warn("--blockers changes nothing: `manager blockers off` is set for this project, and overrides it. Clear that" +
			" with: manager blockers unset")
	}
}

type blockerOptions struct {
	blockers.Filter
	all, force      bool
	boulder, output string
}

func (o *blockerOptions) choose(cmd *cobra.Command) {
	f := cmd.Flags()
	constFlag(cmd, &o.Hard, new(true), "hard", "only those that stop a sub-task")
	constFlag(cmd, &o.Hard, new(false), "soft", "only those for which the agent chose for itself")
	f.StringVar(&o.SubTaskID, "sub-task", "", "only those of this `SUBTASK`")
	f.StringVar(&o.SessionID, "session", "", "only those of this `SESSION` of OpenCode")
	cmd.MarkFlagsMutuallyExclusive("hard", "soft")
}

func (o *blockerOptions) filter(ctx context.Context, a *app) (blockers.Filter, error) {
	f := o.Filter
	if _, numbered := subTaskPlace(f.SubTaskID); o.boulder == "" && !numbered {
		return f, nil
	}
	d, err := a.project.Snapshot(ctx, o.boulder)
	if f.BoulderID = d.Boulder.ID; d.Boulder.ID != "" && f.SubTaskID != "" {
		t, findErr := findSubTask(d, f.SubTaskID)
		if err = cmp.Or(err, findErr); t != nil {
			f.SubTaskID = t.ID
		}
	}
	return f, err
}

func (a *app) listBlockers(ctx context.Context, o *blockerOptions) error {
	f, err := o.filter(ctx, a)
	if err != nil {
		return err
	}
	all, err := a.project.ListBlockers(ctx, f)
	shown := slices.DeleteFunc(slices.Clone(all), func(b report.Blocker) bool {
		return o.Status == "" && !o.all && (b.Standing == blockers.Moot || b.Standing == blockers.Over)
	})
	if a.json || len(shown) > 0 || err != nil {
		return errors.Join(a.printBlockers(shown), err)
	}
	line := "No blocker is of that kind."
	if f == (blockers.Filter{}) {
		line = "Nothing waits for an answer."
	}
	a.note("%s", line+text.If(len(all) > 0,
		" "+text.Are(len(all), "blocker")+" obsolete or settled; see: manager blockers list --all"))
	return nil
}

func (a *app) printBlockers(all []report.Blocker) error {
	if a.json {
		return writeLines(a.Stdout, all)
	}
	view.PrintBlockers(a.on(a.Stdout), all, time.Now())
	return nil
}

func writeLines[T any](w io.Writer, all []T) error {
	for _, v := range all {
		if err := view.WriteJSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showBlocker(ctx context.Context, id string) error {
	item, err := a.findBlocker(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(item)
	}
	v, b := a.on(a.Stdout), &item.Blocker
	view.PrintBlocker(v, &item, 0, true, time.Now())
	if b.Status.Settled() {
		return nil
	}
	v.Say("")
	switch {
	case item.Over != "":
		v.Say("Nothing waits for an answer: " + project.TooLate(&item))
	case item.Standing == blockers.Moot:
		v.Say(fmt.Sprintf("Nothing waits for an answer any more: sub-task %q was retried without it.", b.SubTaskID))
	default:
		v.Say("Answer with: manager blockers answer " + b.ID + ` "…"`)
		if b.AsksPermission() {
			v.Say("Allow it with: manager blockers answer " + b.ID + " --allow")
		}
		v.Say("Continue without: manager blockers skip " + b.ID)
	}
	return nil
}

// findBlocker reads a blocker by its id. If there is none, the error suggests a similar id.
func (a *app) findBlocker(ctx context.Context, id string) (report.Blocker, error) {
	b, err := a.project.Blocker(ctx, id)
	if !errors.Is(err, blockers.ErrNotFound) {
		return b, err
	}
	all, err := a.project.ListBlockers(ctx, blockers.Filter{})
	var ids []string
	for _, b := range all {
		ids = append(ids, b.ID)
	}
	meant := text.Nearest(id, ids)
	for _, known := range ids {
		if strings.EqualFold(known, id) {
			return a.project.Blocker(ctx, known)
		}
		if known[1:] == id { // 7 means B7, or W7
			meant = known
			break
		}
	}
	switch {
	case meant != "":
		return report.Blocker{}, usagef("there is no blocker %q: did you mean %s?", id, meant)
	case len(all) == 0 && err == nil:
		return report.Blocker{}, usagef("there is no blocker %q: nothing was recorded yet", id)
	}
	return report.Blocker{}, usagef("there is no blocker %q: see `manager blockers list --all`", id)
}

func (a *app) exportBlockers(ctx context.Context, o *blockerOptions) error {
	if o.force && o.output == "" {
		return usagef("--force is for the file of -o, and none is given")
	}
	f, err := o.filter(ctx, a)
	if err != nil {
		return err
	}
	found, unread := a.project.ListBlockers(ctx, f)
	if unread != nil && (len(found) == 0 || o.output != "") {
		return unread
	}
	found = secret.Each(found, a.secrets)
	data := a.json
	switch strings.ToLower(filepath.Ext(o.output)) {
	case ".json", ".jsonl", ".ndjson":
		data = true
	case ".md", ".markdown":
		data = false
	}
	write := func(w io.Writer) error {
		if data {
			return writeLines(w, found)
		}
		_, err := io.WriteString(w, view.BlockersMarkdown(found, time.Now()))
		return err
	}
	if o.output == "" || o.output == "-" {
		return errors.Join(write(asIs(a.Stdout)), unread)
	}
	file := a.file(o.output)
	if err := writeNew(file, o.force, write); err != nil {
		return err
	}
	if a.json { // later versions only add fields
		return errors.Join(a.printJSON(struct {
			Type     string `json:"type"` // blockers-export
			File     string `json:"file"`
			Blockers int    `json:"blockers"`
		}{"blockers-export", file, len(found)}), unread)
	}
	a.note("Exported %s to %s.", text.Plural(len(found), "blocker"), a.pretty(file))
	return unread
}
