package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// blockerFilter are the flags that choose blockers.
type blockerFilter struct {
	all, hard, soft           bool
	status                    string
	boulder, subTask, session string
}

func (o *blockerFilter) register(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.hard, "hard", false, "only those that stop a sub-task")
	f.BoolVar(&o.soft, "soft", false, "only those for which the agent chose for itself")
	f.StringVar(&o.status, "status", "", "only those with this `STATUS`: pending, answered or skipped")
	f.StringVarP(&o.boulder, "boulder", "b", "", "only those of this `BOULDER`")
	f.StringVar(&o.subTask, "sub-task", "", "only those of this `SUBTASK`")
	f.StringVar(&o.session, "session", "", "only those of this `SESSION` of OpenCode")
	_ = cmd.RegisterFlagCompletionFunc("boulder", a.completeBoulder(false)) // fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(
		[]cobra.Completion{
			string(boulder.BlockerPending), string(boulder.BlockerAnswered), string(boulder.BlockerSkipped),
		}, cobra.ShellCompDirectiveNoFileComp))
}

// filter is what the flags say; without a status, and without all of them being wanted, the one that is given.
func (o *blockerFilter) filter(ctx context.Context, a *app, status boulder.BlockerStatus) (blockers.Filter, error) {
	f := blockers.Filter{SubTaskID: o.subTask, SessionID: o.session, Status: status}
	switch {
	case o.hard && o.soft:
		return f, usagef("--hard and --soft together are all: leave them out")
	case o.hard || o.soft:
		f.Hard = &o.hard
	}
	switch s := boulder.BlockerStatus(o.status); {
	case o.status != "" && o.all:
		return f, usagef("--all and --status contradict each other: give one of them")
	case s == boulder.BlockerPending, s.Settled():
		f.Status = s
	case o.status != "":
		return f, usagef("--status takes pending, answered or skipped, not %q", o.status)
	case o.all:
		f.Status = ""
	}
	_, numbered := subTaskPlace(o.subTask)
	if o.boulder == "" && !numbered {
		return f, nil
	}
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return f, err
	}
	defer closeReader()
	if f.BoulderID, err = project.Resolve(ctx, r, o.boulder); err != nil || !numbered {
		return f, err
	}
	d, err := r.Get(ctx, f.BoulderID)
	if err != nil {
		return f, err
	}
	t, err := findSubTask(d, o.subTask)
	if err != nil {
		return f, err
	}
	f.SubTaskID = t.ID
	return f, nil
}

func (a *app) newBlockersListCmd() *cobra.Command {
	var o blockerFilter
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "What waits for an answer, the most urgent first",
		Long: `Lists the blockers that wait for an answer, one line each: id, age, hard or soft, category, the sub-task or
session that it came up in, and the question. What a session holds still for comes first, then hard ones, then the
oldest. Choices that agents made for themselves follow, as long as an answer still reaches them; with --all also what
nobody waits for any more, since its sub-task is over or was tried again without, and what is settled.`,
		Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, _ []string) error { return a.runBlockersList(ctx, d, &o) }),
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also those that nobody waits for any more, and those that are settled")
	o.register(a, cmd)
	return cmd
}

func (a *app) runBlockersList(ctx context.Context, d *blockers.Desk, o *blockerFilter) error {
	f, err := o.filter(ctx, a, boulder.BlockerPending)
	if err != nil {
		return err
	}
	records, err := d.List(ctx, f)
	found := a.placed(ctx, records)
	moot := 0
	if o.status == "" && !o.all {
		found, moot = view.WithoutMoot(found)
	}
	if a.json || len(found) > 0 {
		return errors.Join(a.printBlockers(found), err)
	}
	if err != nil {
		return err
	}
	line := "No blocker is of that kind."
	if f == (blockers.Filter{Status: boulder.BlockerPending}) {
		line = "Nothing waits for an answer."
	}
	var more []string
	if moot > 0 {
		more = append(more, fmt.Sprintf("for %s nobody waits any more", text.Plural(moot, "blocker")))
	}
	if s, statusErr := d.Status(ctx); statusErr == nil && s.Answered+s.Skipped > 0 && !o.all {
		more = append(more, view.Are(s.Answered+s.Skipped, "blocker")+" settled")
	}
	if len(more) > 0 {
		said := strings.Join(more, ", ")
		line += " " + strings.ToUpper(said[:1]) + said[1:] + "; see: manager blockers list --all"
	}
	a.note("%s", line)
	return nil
}

// printBlockers prints blockers, one line each.
func (a *app) printBlockers(all []view.BlockerItem) error {
	if !a.json {
		view.PrintBlockers(a.on(a.Stdout), all, time.Now())
		return nil
	}
	for i := range all {
		if err := a.printJSON(all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) newBlockersShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show [flags] ID",
		Short: "Everything about one blocker",
		Args:  oneBlocker, ValidArgsFunction: a.completeBlocker(""),
		RunE: a.withDesk(a.runBlockersShow),
	}
}

// oneBlocker takes exactly one argument.
func oneBlocker(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s takes one ID, not %d arguments: `manager blockers list` has them", cmd.CommandPath(), len(args))
	}
	return nil
}

func (a *app) runBlockersShow(ctx context.Context, d *blockers.Desk, args []string) error {
	b, err := a.findBlocker(ctx, d, args[0])
	if err != nil {
		return err
	}
	item := a.placed(ctx, []boulder.Blocker{b})[0]
	if a.json {
		return a.printJSON(item)
	}
	v := a.on(a.Stdout)
	morning.PrintBlocker(v, 0, &b, item.Standing, true, time.Now())
	if b.Status.Settled() {
		return nil
	}
	v.Say("")
	late := a.tooLate(ctx, &b)
	switch {
	case late != "":
		v.Say("No answer is waited for: " + late)
	case item.Standing == blockers.Moot:
		v.Say(fmt.Sprintf("Nobody waits for an answer any more: sub-task %q was tried again without it.", b.SubTaskID))
	default:
		v.Say("Answer with: manager blockers answer " + b.ID + ` "…"`)
		if allowable(&b) {
			v.Say("Allow it with: manager blockers answer " + b.ID + " --allow")
		}
		v.Say("Go on without: manager blockers skip " + b.ID)
	}
	return nil
}

// allowable reports whether a permission can be given: OpenCode asked for one.
func allowable(b *boulder.Blocker) bool { return b.Ask != nil && b.Ask.Kind == boulder.AskPermission }

// findBlocker reads the blocker that a person means. If there is none, the error says which one was probably meant.
func (a *app) findBlocker(ctx context.Context, d *blockers.Desk, id string) (boulder.Blocker, error) {
	b, err := d.Get(ctx, id)
	if !errors.Is(err, blockers.ErrNotFound) {
		return b, err
	}
	all, err := d.List(ctx, blockers.Filter{})
	if len(all) == 0 && err == nil {
		return b, usagef("there is no blocker %q, and none at all: nothing came up yet", id)
	}
	var ids []string
	for _, item := range a.placed(ctx, all) {
		ids = append(ids, item.ID)
	}
	for _, guess := range []string{"B" + id, text.Nearest(strings.ToUpper(id), ids)} { // 7 is B7
		if slices.Contains(ids, guess) {
			return b, usagef("there is no blocker %q: did you mean %s?", id, guess)
		}
	}
	const named = 10
	more := ""
	if n := len(ids) - named; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return b, usagef("there is no blocker %q: there are %s%s", id, strings.Join(ids[:min(len(ids), named)], ", "), more)
}

// completeBlocker offers ids of blockers to the shell, for the first argument; with a status only those that have it.
func (a *app) completeBlocker(status boulder.BlockerStatus) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const how = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if len(args) > 0 {
			return nil, how
		}
		d, err := a.blockers()
		if err != nil {
			return nil, how
		}
		found, _ := d.List(cmd.Context(), blockers.Filter{Status: status}) // those that can be read
		var all []cobra.Completion
		for _, b := range a.placed(cmd.Context(), found) {
			all = append(all, cobra.CompletionWithDesc(b.ID, text.Clip(b.Question, 60)))
		}
		return all, how
	}
}
