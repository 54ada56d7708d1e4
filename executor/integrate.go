package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Integrate implements orchestrator.Integrator.
func (e *Executor) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	i := integration{Executor: e, Integration: what, report: e.reporting(report)}
	if err := i.syncTip(ctx, what.BoulderID, what.Trunk); err != nil {
		return err
	}
	result := what.Trunk.Integrating
	commit, tree, conflicts, err := e.cfg.Slots.Integrate(ctx, result.Tip, result.Result, i.message(), result.At)
	if err != nil {
		return err
	}
	if len(conflicts) > 0 {
		made, madeTree, err := i.regenerate(ctx, tree, conflicts)
		if err != nil {
			return err
		}
		if made != "" {
			commit, tree, conflicts = made, madeTree, nil
		}
	}
	if len(conflicts) == 0 && len(what.SubTask.Conflicts) > 0 {
		last := what.SubTask.Conflicts[len(what.SubTask.Conflicts)-1]
		if conflicts, err = e.cfg.Slots.Marked(ctx, tree, last.Files); err != nil {
			return err
		}
	}
	if len(conflicts) > 0 {
		return i.conflict(ctx, conflicts, nil)
	}
	gates, red, err := i.test(ctx, commit, tree)
	if err != nil {
		return err
	}
	if len(red) > 0 {
		return i.conflict(ctx, nil, red)
	}
	err = i.report(boulder.Integrated{AttemptRef: result.AttemptRef, Tree: tree, Commit: commit, Gates: gates})
	if err != nil {
		return err
	}
	return e.cfg.Slots.MoveTip(context.WithoutCancel(ctx), what.BoulderID, result.Tip, commit)
}

type integration struct {
	*Executor
	boulder.Integration
	report func(boulder.Body) error
}

// regenerate resolves conflicts in generated files by running their commands again on the tip's version. It returns no
// commit and no error if another file conflicts or a command fails.
func (i *integration) regenerate(ctx context.Context, tree string, conflicts []string) (commit, made string, err error) {
	commands := map[string]string{}
	for _, file := range conflicts {
		for pattern, command := range i.Generated {
			name := file
			if !strings.Contains(pattern, "/") {
				name = path.Base(file)
			}
			if ok, _ := path.Match(pattern, name); ok && command != "" {
				commands[file] = command
			}
		}
		if commands[file] == "" {
			return "", "", nil
		}
	}
	tip := i.Trunk.Integrating.Tip
	at, err := i.slot(ctx, boulder.SlotClaim{BoulderID: i.BoulderID, Base: i.Trunk.Base, From: tip})
	if err != nil {
		return "", "", err
	}
	if err := at.slot.Lay(ctx, tree, conflicts); err != nil {
		i.cfg.Logger.Info("generated files were not regenerated", "files", conflicts, "error", err)
		return "", "", context.Cause(ctx)
	}
	message := i.message()
	for _, file := range conflicts {
		dir := filepath.Join(at.path, filepath.FromSlash(path.Dir(file)))
		g := RunCommand(ctx, dir, at.env, commands[file], i.cfg.GateTimeout, i.cfg.Redact.Text)
		if ctx.Err() != nil || !g.Green() {
			i.cfg.Logger.Info("a generated file was not regenerated", "file", file, "command", g.Command, "output", g.Output)
			return "", "", context.Cause(ctx)
		}
		message += fmt.Sprintf("\nManager-Generated: %s", file)
	}
	if made, _, err = at.snapshot(ctx); err == nil {
		commit, err = i.cfg.Slots.Commit(ctx, made, tip, message, i.Trunk.Integrating.At)
	}
	return commit, made, err
}

// syncTip moves the ref of the tip to where the log says it is.
func (e *Executor) syncTip(ctx context.Context, boulderID string, l boulder.Trunk) error {
	if e.cfg.Slots == nil {
		return fmt.Errorf("%w: executor: Config.Slots is nil", boulder.ErrFatal)
	}
	return e.cfg.Slots.MoveTip(ctx, boulderID, cmp.Or(l.Before, l.Tip), l.Tip)
}

// tip prepares the slot for combined trees, at the tip.
func (e *Executor) tip(ctx context.Context, boulderID string, l boulder.Trunk) (place, error) {
	if err := e.syncTip(ctx, boulderID, l); err != nil {
		return place{}, err
	}
	return e.slot(ctx, boulder.SlotClaim{BoulderID: boulderID, Base: l.Base, From: l.Tip})
}

func (i *integration) message() string {
	t := i.SubTask
	message := fmt.Sprintf("%s%s\n\nManager-Boulder: %s\n%s: %s\n",
		t.Subject, text.Prefixed("\n\n", t.Summary), i.BoulderID, boulder.SubTaskTrailer, t.ID)
	for _, gate := range t.AllGates() {
		if !strings.Contains(gate, "\n") {
			message += "Manager-Gate: " + gate + "\n"
		}
	}
	return strings.TrimSuffix(message, "\n")
}

// test runs the gates that are not known to pass on the combined tree, in a clean copy of it: those of the sub-task, and
// those of all earlier sub-tasks and of every combined tree, unless it is a fast-forward to a tree that will not land. A
// gate that passed on the parts and is red on the whole runs once more before anything is blamed.
func (i *integration) test(ctx context.Context, commit, tree string) (gates []boulder.TreeGate, red []boulder.Gate, err error) {
	t := i.SubTask
	type wanted struct {
		command string
		of      *boulder.SubTask // whose baseline counts; nil: it must be green
	}
	var all []wanted
	want := func(of *boulder.SubTask, commands []string) {
		for _, command := range commands {
			if !slices.ContainsFunc(all, func(w wanted) bool { return w.command == command }) {
				all = append(all, wanted{command, of})
			}
		}
	}
	want(&t, t.AllGates())
	if t.From != i.Trunk.Tip || len(t.Conflicts) > 0 || i.Last {
		for j := range i.Earlier {
			want(&i.Earlier[j], i.Earlier[j].AllGates())
		}
		want(nil, i.Gates)
	}
	var at place
	for _, w := range all {
		if i.passed(w.command, tree) {
			gates = append(gates, boulder.TreeGate{Command: w.command, Tree: tree, Passed: true, Reused: true})
			continue
		}
		if at.path == "" {
			claim := boulder.SlotClaim{BoulderID: i.BoulderID, Base: i.Trunk.Base, From: commit}
			at, err = i.slot(ctx, claim)
			if failed, ok := errors.AsType[*boulder.SetUpError](err); ok {
				claim.From = i.Trunk.Tip
				if _, err = i.slot(ctx, claim); err == nil { // the tip sets up, so the result is to blame
					return nil, []boulder.Gate{failed.Gate}, nil
				}
			}
			if err != nil {
				return nil, nil, err
			}
		}
		run := func() boulder.Gate {
			g := RunGate(ctx, at.path, at.env, w.command, i.cfg.GateTimeout, i.cfg.Redact.Text)
			if w.of != nil && w.of.MayStayRed(w.command) {
				g.NoWorse = noWorse(boulder.GateOf(w.of.Baseline, w.command), g)
			}
			return g
		}
		g := run()
		if ctx.Err() == nil && !g.Holds() && (i.passedBefore(w.command) || w.of != nil && newFailures(w.of, g)) {
			g = run()
			g.FlakySuspected = g.Holds()
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		ran := boulder.NewGateRun(&t, i.Trunk.Integrating.Attempt, g)
		ran.Tree = tree
		if err := i.report(ran); err != nil {
			return nil, nil, err
		}
		gates = append(gates, boulder.TreeGate{Command: w.command, Tree: tree, Passed: g.Holds(), FlakySuspected: g.FlakySuspected})
		if !g.Holds() {
			red = append(red, g)
		}
	}
	return gates, red, nil
}

// passed reports whether a gate is known to pass on a clean copy of a tree. The newest turn's gates ran on the tree that it
// left, which was one unless its slot had ignored files.
func (i *integration) passed(command, tree string) bool {
	e := i.Turn.Evidence
	if g := boulder.GateOf(e.Gates, command); e.Diff.Tree == tree && len(e.Ignored) == 0 && g != nil && g.Holds() {
		return true
	}
	return i.Trunk.Passed(command, tree)
}

// passedBefore reports whether a gate passed on the result alone, or on the tip. It is not so of one that the work has to
// turn green: red might be the truth about it.
func (i *integration) passedBefore(command string) bool {
	if slices.Contains(i.Trunk.Red, command) {
		return false
	}
	if g := boulder.GateOf(i.Turn.Evidence.Gates, command); g != nil {
		return g.Holds()
	}
	return i.Trunk.Passed(command, i.Trunk.Tree)
}

func (i *integration) conflict(ctx context.Context, files []string, red []boulder.Gate) error {
	tree, err := i.cfg.Slots.Tree(ctx, i.Trunk.Tip)
	if err != nil {
		return err
	}
	c := boulder.Conflict{
		AttemptRef: i.Trunk.Integrating.AttemptRef, Files: slices.Clip(append([]string{}, files...)), With: []string{}, Red: red,
		Tip: i.Trunk.Tip, Tree: tree,
	}
	if len(red) > 0 {
		c.Ignored = i.Turn.Evidence.Ignored
	}
	var others []string
	for _, t := range i.Earlier {
		if t.Integrated == "" {
			continue
		}
		others = append(others, t.ID)
		changed := slices.ContainsFunc(files, func(f string) bool { return slices.Contains(t.Files, f) })
		if changed || slices.ContainsFunc(red, func(g boulder.Gate) bool { return slices.Contains(t.AllGates(), g.Command) }) {
			c.With = append(c.With, t.ID)
		}
	}
	if len(c.With) == 0 && i.SubTask.From != i.Trunk.Tip {
		c.With = append(c.With, others...)
	}
	if err := i.report(c); err != nil {
		return err
	}
	// Prepare the slot now, so that the user finds the conflict there even if no attempt follows.
	_, err = i.slot(context.WithoutCancel(ctx), boulder.SlotClaim{
		BoulderID: i.BoulderID, Slot: i.SubTask.Slot, SubTaskID: i.SubTask.ID, Attempt: c.Attempt, Base: i.Trunk.Base, From: c.Tip,
		Since: i.SubTask.Since,
	})
	return err
}
