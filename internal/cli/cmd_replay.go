package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type replayOptions struct {
	of      string // BOULDER, FILE or -
	to      uint64
	check   bool
	limits  string
	rejudge bool
}

func (a *app) newReplayCmd() *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay [flags] [BOULDER|FILE|-]",
		Short: "Replay the log of a boulder, without running anything",
		Long: `Folds the log of a boulder (default: the active one), or of what ` + "`manager export`" + ` wrote to FILE or, with -, to
stdin, and shows the status that it leads to. It writes nothing and, but for --rejudge, asks no model.

With --check it asks the scheduler again for each decision in the log, with the state, limits and time of then, and names
the first one that this version makes differently: exit code 1.

With --limits it shows when each attempt would have run with other limits, if it had taken as long. With --rejudge it asks
another judge about the stored evidence of each turn, and shows where verdicts and gates disagree.`,
		Example: `  manager replay --to 40          the status as it was at event 40
  manager replay --check
  manager replay --limits default=3,global=8
  manager replay --rejudge --model anthropic/claude-haiku-4-5
  ssh host manager -C work export | manager replay --check -`,
		Args: takes(0, 1, "one BOULDER, FILE, or - for stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.of = cmp.Or(args...); cmd.Flags().Changed("to") && opts.to == 0 {
				return usagef("--to takes the number of an event, from 1")
			}
			return a.runReplay(cmd.Context(), opts)
		},
		ValidArgsFunction: a.completion(1, boulders),
	}
	cmd.Flags().BoolVar(&opts.check, "check", false, "compare each decision with the one that is made now")
	cmd.Flags().Uint64Var(&opts.to, "to", 0, "only the events up to number `N`, as `manager logs --json` prints it in seq")
	cmd.Flags().BoolVar(&opts.rejudge, "rejudge", false,
		"ask --ledger-model, or else --model, about each judged turn again: this costs tokens")
	cmd.Flags().StringVar(&opts.limits, "limits", "",
		"the schedule with these limits instead: `NAME=N,…`, where NAME is global, default or a pattern of models")
	cmd.MarkFlagsMutuallyExclusive("check", "limits", "rejudge")
	return cmd
}

func (a *app) runReplay(ctx context.Context, opts replayOptions) error {
	events, err := a.readLog(ctx, opts.of)
	if err != nil {
		return err
	}
	if n := uint64(len(events)); opts.to > n {
		return usagef("--to %d: the log has %d events", opts.to, n)
	} else if opts.to > 0 {
		events = events[:opts.to]
	}
	x := store.NewExport(events)
	s, err := x.State()
	if err != nil {
		return usagef("%w", err)
	}
	switch {
	case opts.limits != "":
		return a.runReschedule(s, events, opts.limits)
	case opts.rejudge:
		return a.runRejudge(ctx, s.Boulder.ID, events)
	case !opts.check:
		return show(a, view.StatusAt(s, events, a.limitsOf(nil)), nil)
	}
	check, err := orchestrator.CheckDecisions(events)
	switch {
	case err != nil:
		return err
	case check.Unchecked == check.Events && check.Difference == nil:
		return fmt.Errorf("boulder %s cannot be checked: its log does not have the limits that it was run with, because an older "+
			"manager wrote it", s.Boulder.ID)
	}
	if err := show(a, view.NewReplayed(s.Boulder.ID, check), nil); err != nil {
		return err
	}
	if check.Unchecked > 0 {
		a.note("%d of these events were not checked: no limits were recorded with them.", check.Unchecked)
	}
	if check.Difference != nil {
		return errSilent
	}
	return nil
}

// readLog reads the log of a boulder, or what was exported to a file.
func (a *app) readLog(ctx context.Context, of string) ([]boulder.Event, error) {
	if of != "-" && !exists(a.file(of)) {
		events, err := read(ctx, a, of, func(there *project.Desk, d boulder.Snapshot) (*[]boulder.Event, error) {
			events, err := there.Events(ctx, d.Boulder.ID, 0, 0)
			return &events, err
		})
		if err != nil {
			return nil, err
		}
		return *events, nil
	}
	x, err := a.readExport(of)
	return x.Events, err
}

func (a *app) runReschedule(s *boulder.State, events []boulder.Event, changes string) error {
	limits, recorded := orchestrator.LimitsOf(events)
	if !recorded {
		limits = a.limitsOf(nil)
		a.note("The log does not have the limits that it was run with: those of the configuration count.")
	}
	for change := range strings.SplitSeq(changes, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(change), "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil || name == "":
			return usagef("--limits %q: write NAME=N, for example default=3", change)
		case name == "global":
			limits.Global = n
		case name == "default":
			limits.PerModel = n
		default:
			limits.Models = slices.Concat([]orchestrator.ModelLimit{{Pattern: name, Limit: n}}, limits.Models)
		}
	}
	if err := limits.Validate(); err != nil {
		return usagef("--limits: %w", err)
	}
	all, err := orchestrator.Reschedule(events, limits)
	if err != nil {
		return fmt.Errorf("no schedule with these limits: %w", err)
	}
	return show(a, view.NewRescheduled(s.Boulder.ID, limits, all), nil)
}

func (a *app) runRejudge(ctx context.Context, boulderID string, events []boulder.Event) error {
	if a.openErr != nil {
		return a.openErr
	}
	a.interrupts.onHurry(a.Kill)
	judge, err := a.OtherJudge(ctx)
	if err != nil {
		return err
	}
	var all []*view.Rejudged
	for turn, err := range orchestrator.Rejudge(ctx, events, judge) {
		if err != nil {
			return err
		}
		all = append(all, view.NewRejudged(boulderID, turn))
		if err := show(a, all[len(all)-1], nil); err != nil {
			return err
		}
	}
	a.note("%s", view.RejudgedTotal(all, a.Ledger()))
	return nil
}
