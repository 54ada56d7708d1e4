package executor

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/bisect"
)

// culprits returns the sub-tasks on the tip with whose results red gates became red, and not only with that of the first of the
// stack: a result that follows the tip comes onto it with its own gates alone, so others may be red since.
func (i *integration) culprits(ctx context.Context, red []boulder.Gate) (ids []string, err error) {
	for _, w := range i.wanted(1) {
		isRed := slices.ContainsFunc(red, func(g boulder.Gate) bool { return g.Command == w.command })
		unsure := slices.Contains(i.stack[0].SubTask.AllGates(), w.command) || slices.Contains(i.Trunk.Red, w.command) ||
			i.Trunk.Passed(w.command, i.tipTree)
		if !isRed || unsure {
			continue
		}
		guilty, err := i.culprit(ctx, w)
		if err != nil {
			return nil, err
		}
		if guilty != "" && !slices.Contains(ids, guilty) {
			ids = append(ids, guilty)
		}
	}
	return ids, nil
}

// culprit returns the sub-task on the tip whose result made a gate red; empty if none did.
func (i *integration) culprit(ctx context.Context, w wanted) (string, error) {
	on := slices.DeleteFunc(slices.Clone(i.Earlier), func(t boulder.SubTask) bool { return t.Integrated == "" })
	slices.SortFunc(on, func(a, b boulder.SubTask) int { return cmp.Compare(a.Place, b.Place) })
	green := i.Trunk.Base
	if w.of != nil { // it holds since then
		n := slices.IndexFunc(on, func(t boulder.SubTask) bool { return t.ID == w.of.ID })
		green, on = w.of.Integrated, on[n+1:]
	}
	n, err := bisect.Prefix(len(on), func(k int, _ bool) (bool, error) { return i.holdsAt(ctx, w, on[k-1].Integrated) })
	if err != nil || n == len(on) {
		return "", err
	}
	if n == 0 {
		if holds, err := i.holdsAt(ctx, w, green); err != nil || !holds {
			return "", err
		}
	}
	return on[n].ID, nil
}

// holdsAt runs a gate on a commit of the trunk, in a clean copy, unless it is known there.
func (i *integration) holdsAt(ctx context.Context, w wanted, commit string) (bool, error) {
	tree, err := i.cfg.Slots.Tree(ctx, commit)
	if err != nil {
		return false, err
	}
	key := runKey{tree, w.command}
	if i.passed(w.command, tree) {
		return true, nil
	}
	if g, known := i.ran[key]; known {
		return g.Holds(), nil
	}
	at, err := i.slot(ctx, boulder.SlotClaim{BoulderID: i.BoulderID, Base: i.Trunk.Base, From: commit})
	if _, fails := errors.AsType[*boulder.SetUpError](err); fails {
		return false, nil
	} else if err != nil {
		return false, err
	}
	g := i.run(ctx, at, w)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	i.ran[key] = g
	return g.Holds(), i.report(i.gateRun(i.stack[0], tree, g))
}

// gateRun returns the event for a run of a gate on a tree, to integrate a result.
func (i *integration) gateRun(x *stacked, tree string, g boulder.Gate) boulder.GateRun {
	ran := boulder.NewGateRun(&x.SubTask, x.Turn.Attempt, g)
	ran.Tree = tree
	return ran
}
