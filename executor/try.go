package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const namedMissing = 20 // missing files in a message

// Try implements orchestrator.Trier. It uses the slot of the first sub-task, so that it is warm when that starts.
func (e *Executor) Try(ctx context.Context, what boulder.Trial, report func(boulder.Body) error) error {
	report, auto := e.reporting(report), what.Isolation == boulder.IsolationAuto
	var commands []string
	gates, failed := []boulder.TreeGate{}, ""
	for i := range what.SubTasks {
		t := &what.SubTasks[i]
		commands = slices.Concat(commands, t.AllGates(), t.Lint)
		if auto && boulder.ReservedID(t.ID) {
			failed = fmt.Sprintf("no sub-task in a slot can be called %q", t.ID)
		}
	}
	commands = append(commands, what.Gates...)
	at, err := e.slot(ctx, boulder.SlotClaim{BoulderID: what.BoulderID, Slot: 1, Base: what.Base, From: what.Base})
	if err != nil {
		return err
	}
	tree, err := e.cfg.Slots.Tree(ctx, what.Base)
	if err != nil {
		return err
	}
	for i, line := range commands {
		if failed != "" || slices.Contains(commands[:i], line) {
			continue
		}
		g := RunGate(ctx, at.path, at.env, line, e.cfg.GateTimeout, e.cfg.Redact.Text)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		gates = append(gates, boulder.TreeGate{Command: line, Tree: tree, Passed: g.Green()})
		if g.Green() {
			continue
		}
		in := e.project()
		here := RunGate(ctx, in.path, in.env, line, e.cfg.GateTimeout, e.cfg.Redact.Text)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if here.Green() {
			failed = fmt.Sprintf("the gate `%s` is red in a slot (%s), and green in the project", line, g.End()) +
				text.If(!auto, ":\n"+g.Output)
		}
	}
	if failed == "" && (len(gates) > 0 || !auto) {
		return report(boulder.Isolated{Reason: text.Plural(len(gates), "gate") + " tried there", Gates: gates})
	}
	missing, err := at.slot.Missing(ctx)
	if err != nil {
		return err
	}
	files := strings.Join(missing[:min(len(missing), namedMissing)], ", ") + text.Prefixed(" and ", text.Some(len(missing)-namedMissing, "more"))
	switch {
	case !auto:
		return fmt.Errorf("%w: %s%s\nHave them copied (slots.copy in the configuration, or .worktreeinclude) or made (slots.setup), or run it"+
			" with --in-place; see docs/isolation.md", boulder.ErrSlots, failed,
			text.Prefixed("\nIgnored files that only the project has: ", files))
	case failed == "" && files == "":
		return report(boulder.Isolated{Reason: "they have all that the project has", Gates: gates})
	}
	failed = cmp.Or(failed, "no gate tells whether a slot has what they need")
	if err := e.cfg.Slots.Free(ctx, what.BoulderID, what.Base, true, func(string) bool { return true }); err != nil {
		return err
	}
	return report(boulder.Isolated{
		InPlace: true, Reason: failed + text.Prefixed("; ignored files that only the project has: ", files) +
			" (they share your files: a gate, slots.copy in the configuration or --isolate keeps them apart)", Gates: gates,
	})
}
