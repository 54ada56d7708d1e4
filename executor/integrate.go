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
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/bisect"
	"github.com/bouldermgr/manager/internal/text"
)

// Integrate implements orchestrator.Integrator. It merges the results one after the other, tests all of them together, and
// if that is red, halves of them: what comes onto the tip has the tree that was tested.
func (e *Executor) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	i := &integration{Executor: e, Integration: what, report: e.reporting(report), tip: what.Trunk.Integrating.Tip, ran: map[runKey]boulder.Gate{}}
	if err := i.syncTip(ctx, what.BoulderID, what.Trunk); err != nil {
		return err
	}
	conflicts, err := i.merge(ctx)
	if err != nil {
		return err
	}
	if len(i.stack) == 0 {
		x := &stacked{Joined: boulder.Joined{SubTask: i.SubTask, Turn: i.Turn}}
		c := i.conflict(x, 0, i.tip, i.tipTree, conflicts, nil)
		if err := i.report(c); err != nil {
			return err
		}
		return i.sendBack(ctx, x, c)
	}
	var red []boulder.Gate
	n, err := bisect.Prefix(len(i.stack), func(k int, blames bool) (green bool, err error) {
		red, err = i.test(ctx, k, blames)
		return len(red) == 0, err
	})
	if err != nil {
		return err
	}
	return i.put(ctx, n, red)
}

// integration is under way. Its stack are the results that merge onto the tip in order; others have to wait.
type integration struct {
	*Executor
	boulder.Integration
	report       func(boulder.Body) error
	tip, tipTree string
	stack        []*stacked
	ran          map[runKey]boulder.Gate // here, on combined trees
}

type runKey struct{ tree, command string }

type stacked struct {
	boulder.Joined
	tree      string   // with the results before it
	generated []string // files that were made again
	gates     []boulder.TreeGate
}

// merge makes the stack. It returns the conflicts of the first result, which leave the stack empty; a later one that
// conflicts is left out.
func (i *integration) merge(ctx context.Context) (conflicts []string, err error) {
	if i.tipTree, err = i.cfg.Slots.Tree(ctx, i.tip); err != nil {
		return nil, err
	}
	onto := i.tip
	for n, j := range append([]boulder.Joined{{SubTask: i.SubTask, Turn: i.Turn}}, i.Then...) {
		x := &stacked{Joined: j}
		commit, tree, conflicts, err := i.cfg.Slots.Integrate(ctx, onto, j.SubTask.Work, i.message(x, nil), i.at(x))
		if err != nil {
			return nil, err
		}
		x.tree = tree
		if len(conflicts) > 0 {
			commit, conflicts, err = i.regenerate(ctx, x, onto, conflicts)
		}
		if last := len(j.SubTask.Conflicts) - 1; err == nil && len(conflicts) == 0 && last >= 0 {
			conflicts, err = i.cfg.Slots.Marked(ctx, x.tree, j.SubTask.Conflicts[last].Files)
		}
		switch {
		case err != nil:
			return nil, err
		case len(conflicts) > 0 && n == 0:
			return conflicts, nil
		case len(conflicts) == 0:
			i.stack = append(i.stack, x)
			onto = commit
		}
	}
	return nil, nil
}

func (i *integration) at(x *stacked) time.Time { return i.Trunk.At(x.Turn.AttemptRef) }

// commits makes the commits of the first k results, of which the tree of the last is the one that is tested.
func (i *integration) commits(ctx context.Context, k int) (commits []string, err error) {
	onto, below := i.tip, i.tipTree
	var tested *stacked
	if k > 0 && len(i.wanted(k)) > 0 {
		tested = i.stack[k-1]
	}
	for _, x := range i.stack[:k] {
		if x.tree != below {
			onto, err = i.cfg.Slots.Commit(ctx, x.tree, onto, i.message(x, tested), i.at(x))
		}
		if err != nil {
			return nil, err
		}
		commits, below = append(commits, onto), x.tree
	}
	return commits, nil
}

// put puts the first n results onto the tip, and sends the next one back, which is red on top of them.
func (i *integration) put(ctx context.Context, n int, red []boulder.Gate) error {
	commits, err := i.commits(ctx, n)
	if err != nil {
		return err
	}
	tip, tree := i.tip, i.tipTree
	if n > 0 {
		tip, tree = commits[n-1], i.stack[n-1].tree
	}
	var back *boulder.Conflict
	if n < len(i.stack) {
		back = new(i.conflict(i.stack[n], n, tip, tree, nil, red))
		if n == 0 {
			if back.Since, err = i.culprits(ctx, red); err != nil {
				return err
			}
			if len(back.Since) > 0 {
				back.With = back.Since
			}
		}
	}
	if n == 0 {
		err = i.report(*back)
	} else if err = i.report(i.integrated(n, commits, back)); err == nil {
		err = i.cfg.Slots.MoveTip(context.WithoutCancel(ctx), i.BoulderID, i.tip, tip)
	}
	if err != nil || back == nil {
		return err
	}
	return i.sendBack(ctx, i.stack[n], *back)
}

func (i *integration) integrated(n int, commits []string, back *boulder.Conflict) boulder.Integrated {
	top := i.stack[n-1]
	done := boulder.Integrated{AttemptRef: top.Turn.AttemptRef, Tree: top.tree, Commit: commits[n-1], Gates: top.gates, Back: back}
	for k, x := range i.stack[:n-1] {
		done.Under = append(done.Under, boulder.OnTip{AttemptRef: x.Turn.AttemptRef, Tree: x.tree, Commit: commits[k]})
	}
	return done
}

// regenerate resolves conflicts in generated files of a result by running their commands again on the version that it is
// merged onto. It returns the conflicts if another file conflicts or a command fails.
func (i *integration) regenerate(ctx context.Context, x *stacked, onto string, conflicts []string) (commit string, left []string, err error) {
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
			return "", conflicts, nil
		}
	}
	at, err := i.slot(ctx, boulder.SlotClaim{BoulderID: i.BoulderID, Base: i.Trunk.Base, From: onto})
	if err != nil {
		return "", nil, err
	}
	if err := at.slot.Lay(ctx, x.tree, conflicts); err != nil {
		i.cfg.Logger.Info("generated files were not regenerated", "files", conflicts, "error", err)
		return "", conflicts, context.Cause(ctx)
	}
	for _, file := range conflicts {
		dir := filepath.Join(at.path, filepath.FromSlash(path.Dir(file)))
		g := RunCommand(ctx, dir, at.env, commands[file], i.cfg.GateTimeout, i.cfg.Redact.Text)
		if ctx.Err() != nil || !g.Green() {
			i.cfg.Logger.Info("a generated file was not regenerated", "file", file, "command", g.Command, "output", g.Output)
			return "", conflicts, context.Cause(ctx)
		}
	}
	x.generated = conflicts
	if x.tree, _, err = at.snapshot(ctx); err == nil {
		commit, err = i.cfg.Slots.Commit(ctx, x.tree, onto, i.message(x, nil), i.at(x))
	}
	return commit, nil, err
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

// message returns the message of a result's commit. It says whether the tree was tested, or only that of tested, above it.
func (i *integration) message(x, tested *stacked) string {
	t := &x.SubTask
	message := fmt.Sprintf("%s%s\n\nManager-Boulder: %s\n%s: %s\n",
		t.Subject, text.Prefixed("\n\n", t.Summary), i.BoulderID, boulder.SubTaskTrailer, t.ID)
	for _, gate := range t.AllGates() {
		if !strings.Contains(gate, "\n") {
			message += "Manager-Gate: " + gate + "\n"
		}
	}
	switch {
	case tested == nil:
	case tested.tree == x.tree:
		message += "Manager-Tested: this tree\n"
	default:
		message += "Manager-Tested: only with " + tested.SubTask.ID + "\n"
	}
	for _, file := range x.generated {
		message += "Manager-Generated: " + file + "\n"
	}
	return strings.TrimSuffix(message, "\n")
}

// wanted is a gate of a combined tree.
type wanted struct {
	command string
	of      *boulder.SubTask // whose baseline counts; nil: it must be green
}

// wanted returns the gates of the tree with the first k results: those of these, and of all earlier sub-tasks and of every
// combined tree, unless the only result is a fast-forward to a tree that will not land. Of several the first is tested with all
// gates, too, if those of all are red: else the next would be blamed for it.
func (i *integration) wanted(k int) (all []wanted) {
	want := func(of *boulder.SubTask, commands []string) {
		for _, command := range commands {
			if !slices.ContainsFunc(all, func(w wanted) bool { return w.command == command }) {
				all = append(all, wanted{command, of})
			}
		}
	}
	for _, x := range slices.Backward(i.stack[:k]) { // what one has turned green may not be as red as it was before another
		want(&x.SubTask, x.SubTask.Gates)
	}
	for _, x := range slices.Backward(i.stack[:k]) {
		want(&x.SubTask, x.SubTask.AllGates())
	}
	first, last := &i.stack[0].SubTask, i.Last && k == 1+len(i.Then)
	if len(i.stack) > 1 || first.From != i.tip || len(first.Conflicts) > 0 || last {
		for j := range i.Earlier {
			want(&i.Earlier[j], i.Earlier[j].AllGates())
		}
		want(nil, i.Gates)
	}
	return all
}

// test runs the gates that are not known to pass on the tree with the first k results, in a clean copy of it, up to the
// first red one. If the last result is to be blamed, all run, and one that passed on the parts and is red on the whole runs
// once more.
func (i *integration) test(ctx context.Context, k int, blames bool) (red []boulder.Gate, err error) {
	top := i.stack[k-1]
	top.gates = nil
	var at place
	for _, w := range i.wanted(k) {
		if i.passed(w.command, top.tree) {
			top.gates = append(top.gates, boulder.TreeGate{Command: w.command, Tree: top.tree, Passed: true, Reused: true})
			continue
		}
		key := runKey{top.tree, w.command}
		g, known := i.ran[key]
		again := func() bool {
			return blames && !g.Holds() && ctx.Err() == nil && (i.passedBefore(k, w.command) || w.of != nil && newFailures(w.of, g))
		}
		if at.path == "" && (!known || again()) {
			var failed *boulder.Gate
			switch at, failed, err = i.copyOf(ctx, k, blames); {
			case err != nil:
				return nil, err
			case failed != nil:
				return []boulder.Gate{*failed}, nil
			}
		}
		if !known {
			g = i.run(ctx, at, w)
		}
		if again() {
			g = i.run(ctx, at, w)
			g.FlakySuspected = g.Holds()
			known = false
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if i.ran[key] = g; !known {
			if err := i.report(i.gateRun(top, top.tree, g)); err != nil {
				return nil, err
			}
		}
		top.gates = append(top.gates, boulder.TreeGate{Command: w.command, Tree: top.tree, Passed: g.Holds(), FlakySuspected: g.FlakySuspected})
		if !g.Holds() {
			red = append(red, g)
		}
		if !g.Holds() && !blames {
			break
		}
	}
	return red, nil
}

func (i *integration) run(ctx context.Context, at place, w wanted) boulder.Gate {
	g := RunGate(ctx, at.path, at.env, w.command, i.cfg.GateTimeout, i.cfg.Redact.Text)
	if w.of != nil && w.of.MayStayRed(w.command) {
		g.NoWorse = NoWorse(boulder.GateOf(w.of.Baseline, w.command), g)
	}
	return g
}

// copyOf prepares the slot for combined trees with the first k results. It returns the command that fails to set it up, if
// the results are to blame: the last of them, if the tree without it sets up.
func (i *integration) copyOf(ctx context.Context, k int, blames bool) (at place, failed *boulder.Gate, err error) {
	commits, err := i.commits(ctx, k)
	if err != nil {
		return at, nil, err
	}
	claim := boulder.SlotClaim{BoulderID: i.BoulderID, Base: i.Trunk.Base, From: commits[k-1]}
	at, err = i.slot(ctx, claim)
	setUp, ok := errors.AsType[*boulder.SetUpError](err)
	if !ok {
		return at, nil, err
	}
	if blames {
		if claim.From = i.tip; k > 1 {
			claim.From = commits[k-2]
		}
		if _, err := i.slot(ctx, claim); err != nil {
			return at, nil, err
		}
	}
	return at, &setUp.Gate, nil
}

// passed reports whether a gate is known to pass on a clean copy of a tree. The newest turn's gates ran on the tree that it
// left, which was one unless its slot had ignored files.
func (i *integration) passed(command, tree string) bool {
	for _, x := range i.stack {
		e := x.Turn.Evidence
		if g := boulder.GateOf(e.Gates, command); e.Diff.Tree == tree && len(e.Ignored) == 0 && g != nil && g.Holds() {
			return true
		}
	}
	return i.Trunk.Passed(command, tree)
}

// passedBefore reports whether a gate passed on the k-th result alone, or on what is below it. It is not so of one that the
// work has to turn green: red might be the truth about it.
func (i *integration) passedBefore(k int, command string) bool {
	if slices.Contains(i.Trunk.Red, command) {
		return false
	}
	if g := boulder.GateOf(i.stack[k-1].Turn.Evidence.Gates, command); g != nil {
		return g.Holds()
	}
	if k == 1 {
		return i.Trunk.Passed(command, i.Trunk.Tree)
	}
	below := i.stack[k-2].tree
	return i.ran[runKey{below, command}].Command != "" && i.ran[runKey{below, command}].Holds() || i.passed(command, below)
}

// conflict returns why a result does not come onto tip, with the tree of that, which has the first n of the stack.
func (i *integration) conflict(x *stacked, n int, tip, tree string, files []string, red []boulder.Gate) boulder.Conflict {
	c := boulder.Conflict{
		AttemptRef: x.Turn.AttemptRef, Files: slices.Clip(append([]string{}, files...)), With: []string{}, Red: red, Tip: tip, Tree: tree,
	}
	if len(red) > 0 {
		c.Ignored = x.Turn.Evidence.Ignored
	}
	on := slices.DeleteFunc(slices.Clone(i.Earlier), func(t boulder.SubTask) bool { return t.Integrated == "" })
	for _, below := range i.stack[:n] {
		on = append(on, below.SubTask)
	}
	var others []string
	for _, t := range on {
		others = append(others, t.ID)
		changed := slices.ContainsFunc(files, func(f string) bool { return slices.Contains(t.Files, f) })
		if changed || slices.ContainsFunc(red, func(g boulder.Gate) bool { return slices.Contains(t.AllGates(), g.Command) }) {
			c.With = append(c.With, t.ID)
		}
	}
	if len(c.With) == 0 && x.SubTask.From != tip {
		c.With = append(c.With, others...)
	}
	return c
}

// sendBack prepares the slot of a conflict, so that the user finds it there even if no attempt follows.
func (i *integration) sendBack(ctx context.Context, x *stacked, c boulder.Conflict) error {
	t := &x.SubTask
	_, err := i.slot(context.WithoutCancel(ctx), boulder.SlotClaim{
		BoulderID: i.BoulderID, Slot: t.Slot, SubTaskID: t.ID, Attempt: c.Attempt, Base: i.Trunk.Base, From: c.Tip, Since: t.Since,
	})
	return err
}
