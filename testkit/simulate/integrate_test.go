package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

type isolated struct{ *process }

// prepare prepares a slot in two steps with time between them, as package workspace does.
func (p *process) prepare(ctx context.Context, lane int, c boulder.SlotClaim) (s *slot, err error) {
	whole := false
	err = p.alive(func() error {
		if old := p.w.repo.slots[c.Slot]; old != nil && old.files == nil {
			p.w.seen["half a slot"]++
		}
		s, whole = p.w.repo.claim(c)
		return nil
	})
	if err != nil || whole {
		return s, err
	}
	return s, p.step(ctx, lane, time.Minute, func() error {
		p.w.repo.fill(s, c)
		return nil
	})
}

// enterSlot makes the turn of an isolated boulder work in its slot.
func (c *call) enterSlot(ctx context.Context) (err error) {
	t := c.job.SubTask
	if c.job.Trunk.Base == "" {
		return nil
	}
	c.slot, err = c.prepare(ctx, c.lane, boulder.SlotClaim{
		BoulderID: boulderID, Slot: t.Slot, SubTaskID: t.ID, Attempt: c.job.Attempt.Attempt, Base: c.job.Trunk.Base,
		From: cmp.Or(t.From, c.job.Trunk.Tip),
	})
	return err
}

// collect adds the agent's edits in its slot, and the gates' results, to the evidence. The caller holds mu.
func (c *call) collect(e *boulder.Evidence) {
	s := c.slot
	if s.owner != c.job.Attempt.AttemptRef {
		c.w.violate("a slot has one owner", "%v works in that of %v", c.job.Attempt.AttemptRef, s.owner)
	}
	c.w.sc.edit(s.files, c.at, len(e.Red()) > 0)
	e.ToolCount = max(e.ToolCount, 1)
	for name := range s.files {
		if strings.HasPrefix(name, ignored) {
			e.Ignored = append(e.Ignored, name)
		}
	}
	e.Diff.Commit = c.w.repo.capture(s)
	e.Diff.Tree = c.w.repo.commits[e.Diff.Commit].tree
	for i, g := range e.Gates {
		e.Gates[i] = run(g.Command, s.files)
	}
}

func run(command string, f files) boulder.Gate {
	g := boulder.Gate{Command: command, Duration: time.Second}
	if !green(command, f) {
		g.ExitCode, g.Output = 1, "red"
	}
	return g
}

// integration is one call of Integrate, following the protocol of executor/integrate.go.
type integration struct {
	*process
	boulder.Integration
	dice
	report func(boulder.Body) error
}

// Integrate implements orchestrator.Integrator.
func (p isolated) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	now, l := what.Trunk.Integrating, what.Trunk
	i := integration{p.process, what, throw(p.w.sc.seed, "integrates", now.AttemptRef, len(what.SubTask.Conflicts), p.number), report}
	if err := i.moveTip(ctx, cmp.Or(l.Before, l.Tip), l.Tip); err != nil {
		return err
	}
	merged, conflicts := files(nil), []string(nil)
	err := i.alive(func() error {
		i.w.checkIntegrates(what)
		merged, conflicts = i.w.repo.merge(now.Tip, now.Result)
		switch {
		case slices.Equal(conflicts, []string{fileSum}):
			generate(merged)
			conflicts = nil
			i.w.seen["a generated file made again"]++
		case len(conflicts) == 0 && len(what.SubTask.Conflicts) > 0 && !green(noMarkers, merged):
			conflicts = []string{"marked"}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(conflicts) > 0 {
		return i.conflict(conflicts, nil)
	}
	var tree, commit string
	err = i.alive(func() error {
		tree = i.w.repo.tree(merged)
		if commit = now.Tip; tree != i.w.repo.commits[now.Tip].tree {
			commit = i.w.repo.commit(now.Tip, tree, now.SubTaskID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	gates, red, err := i.test(ctx, tree, merged)
	switch {
	case err != nil:
		return err
	case len(red) > 0:
		return i.conflict(nil, red)
	}
	_ = i.alive(func() error { p.moving = true; return nil })
	if err = report(boulder.Integrated{AttemptRef: now.AttemptRef, Tree: tree, Commit: commit, Gates: gates}); err == nil {
		err = i.moveTip(p.gone, now.Tip, commit)
	}
	_ = i.alive(func() error { p.moving = false; return nil })
	return err
}

// moveTip moves the ref. Sometimes another program moves it first.
func (i *integration) moveTip(ctx context.Context, from, to string) error {
	return i.step(ctx, laneIntegrate, i.span(time.Millisecond, time.Second), func() error {
		r := &i.w.repo
		if i.w.sc.class == anything && !i.w.sc.calm && i.number < maxDisturbed && i.is(0.05) {
			r.refs["tip"] = "somebody else's"
			i.w.seen["the tip was moved"]++
		} else if r.refs["tip"] == from && from != to && i.Trunk.Integrating.Tip == to {
			i.w.seen["a crash between the event and the tip"]++
		}
		return r.moveTip(from, to)
	})
}

func (i *integration) test(ctx context.Context, tree string, f files) (gates []boulder.TreeGate, red []boulder.Gate, err error) {
	e := i.Turn.Evidence
	for _, command := range i.w.gatesFor(&i.SubTask, &i.Trunk, i.Earlier) {
		if g := boulder.GateOf(e.Gates, command); e.Diff.Tree == tree && len(e.Ignored) == 0 && g != nil && g.Holds() || i.Trunk.Passed(command, tree) {
			gates = append(gates, boulder.TreeGate{Command: command, Tree: tree, Passed: true, Reused: true})
			continue
		}
		if _, err := i.prepare(ctx, laneIntegrate, boulder.SlotClaim{Base: i.Trunk.Base, From: i.Trunk.Integrating.Tip}); err != nil {
			return nil, nil, err
		}
		if err := i.w.nap(ctx, laneIntegrate, i.span(time.Second, 10*time.Minute)); err != nil {
			return nil, nil, err
		}
		var g boulder.Gate
		err := i.alive(func() error {
			g = run(command, f)
			if g.Holds() && !i.w.sc.class.same() && i.is(0.2) {
				i.flake(&g)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		event := boulder.NewGateRun(&i.SubTask, i.Trunk.Integrating.Attempt, g)
		event.Tree = tree
		if err := i.report(event); err != nil {
			return nil, nil, err
		}
		gates = append(gates, boulder.TreeGate{Command: command, Tree: tree, Passed: g.Holds(), FlakySuspected: g.FlakySuspected})
		if !g.Holds() {
			red = append(red, g)
		}
	}
	return gates, red, nil
}

// flake lets a green gate be red once. It runs again on the same files only if it passed before: else red may be the truth.
func (i *integration) flake(g *boulder.Gate) {
	passed := i.Trunk.Passed(g.Command, i.Trunk.Tree)
	if alone := boulder.GateOf(i.Turn.Evidence.Gates, g.Command); alone != nil {
		passed = alone.Holds()
	}
	if passed {
		g.FlakySuspected = true
	} else {
		g.ExitCode, g.Output = 1, "red"
	}
	i.w.seen[fmt.Sprintf("a flaky gate; it passed before: %v", passed)]++
}

// gatesFor returns the gates of the tree with a result: on a fast-forward, only the sub-task's own.
func (w *world) gatesFor(t *boulder.SubTask, l *boulder.Trunk, earlier []boulder.SubTask) []string {
	all := slices.Clone(t.Gates)
	if t.From == l.Tip && len(t.Conflicts) == 0 {
		return all
	}
	for i := range earlier {
		all = append(all, earlier[i].Gates...)
	}
	return append(all, noMarkers)
}

func (i *integration) conflict(files []string, red []boulder.Gate) error {
	c := boulder.Conflict{
		AttemptRef: i.Trunk.Integrating.AttemptRef, Files: append([]string{}, files...), With: []string{}, Red: red, Tip: i.Trunk.Tip,
	}
	for _, t := range i.Earlier {
		if t.Integrated != "" {
			c.With = append(c.With, t.ID)
		}
	}
	err := i.alive(func() error {
		c.Tree = i.w.repo.commits[c.Tip].tree
		i.w.seen[fmt.Sprintf("a conflict; in files: %v", len(files) > 0)]++
		if len(red) > 0 && len(i.Turn.Evidence.Ignored) > 0 {
			c.Ignored = i.Turn.Evidence.Ignored
			i.w.seen["a gate that needs an ignored file"]++
		}
		return nil
	})
	if err == nil {
		err = i.report(c)
	}
	if err != nil {
		return err
	}
	_, err = i.prepare(i.gone, laneIntegrate, boulder.SlotClaim{
		BoulderID: boulderID, Slot: i.SubTask.Slot, SubTaskID: i.SubTask.ID, Attempt: c.Attempt, Base: i.Trunk.Base, From: c.Tip,
	})
	return err
}

// Verify implements orchestrator.Verifier.
func (p isolated) Verify(ctx context.Context, what boulder.Verification, report func(boulder.Body) error) error {
	d := throw(p.w.sc.seed, "verifies", p.number)
	for i := range what.SubTasks {
		for _, command := range what.SubTasks[i].Gates {
			var event boulder.GateRun
			err := p.step(ctx, laneIntegrate, d.span(time.Second, time.Minute), func() error {
				err := p.w.repo.moveTip(cmp.Or(what.Trunk.Before, what.Trunk.Tip), what.Trunk.Tip)
				event = boulder.NewGateRun(&what.SubTasks[i], what.SubTasks[i].Attempts, run(command, p.w.repo.files(what.Trunk.Tip)))
				event.Final = true
				return err
			})
			if err == nil {
				err = report(event)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// checkIntegrates: the intent to integrate is stored first, and no other result is integrated meanwhile.
func (w *world) checkIntegrates(what boulder.Integration) {
	w.checkStopped(w.process)
	if i := w.disk.Boulder.Trunk.Integrating; i == nil || *i != *what.Trunk.Integrating {
		w.violate("intent before effect", "%+v is integrated, and on disk is %+v", what.Trunk.Integrating, i)
	}
}

// checkTrunk checks an event's effect on the trunk, before it is applied.
func (w *world) checkTrunk(e boulder.Event) {
	l, r := &w.disk.Boulder.Trunk, &w.repo
	switch b := e.Body.(type) {
	case boulder.Starting:
		for _, o := range w.disk.Live() {
			if o.SubTask.ID != b.SubTaskID && o.SubTask.Slot == b.Slot {
				w.violate("a slot has one owner", "%v starts in slot %d, which is that of %s", b.AttemptRef, b.Slot, o.SubTask.ID)
			}
		}
		w.slots = max(w.slots, len(w.disk.Live())+w.keptSlots()+w.endedNow()+1)
		if b.Slot > w.slots {
			w.violate("as many slots as work at once", "%v is in slot %d, and %d were needed", b.AttemptRef, b.Slot, w.slots)
		}
	case boulder.SubTaskStart:
		for _, id := range w.disk.SubTask(b.SubTaskID).DependsOn {
			if on := w.disk.SubTask(id).Integrated; on != "" && !r.has(b.From, on) {
				w.violate("work begins with what it depends on", "%v begins at %s, without %s", b.AttemptRef, b.From, id)
			}
		}
	case boulder.TurnEnded:
		if commit := b.Evidence.Diff.Commit; r.refs[refOf(b.AttemptRef)] != commit {
			w.violate("what was done is in a ref", "%v did %s", b.AttemptRef, commit)
		}
	case boulder.Integrated:
		t := w.disk.SubTask(b.SubTaskID)
		var earlier []boulder.SubTask
		for _, t := range w.disk.Completed(len(w.disk.SubTasks)) {
			earlier = append(earlier, *t)
		}
		for _, command := range w.gatesFor(t, l, earlier) {
			if !green(command, r.trees[b.Tree]) {
				w.violate("the tip is green", "%q is red on the tree of %v", command, b.AttemptRef)
			}
		}
		if c := r.commits[b.Commit]; c.tree != b.Tree || b.Commit != l.Tip && c.parent != l.Tip {
			w.violate("the line is straight", "%s follows %s", b.Commit, l.Tip)
		}
		if t.From == l.Tip && len(t.Conflicts) == 0 {
			w.seen["a fast-forward"]++
		} else {
			w.seen["a merge"]++
		}
	}
}

// keptSlots counts the slots that wait for the user.
// endedNow counts the attempts that the newest commit has ended so far: what it starts was decided beside them.
func (w *world) endedNow() (n int) {
	for _, e := range w.events[max(0, len(w.events)-20):] {
		switch e.Body.(type) {
		case boulder.Retry, boulder.Parked, boulder.SubTaskDone:
			if e.Seq >= w.since {
				n++
			}
		}
	}
	return n
}

func (w *world) keptSlots() (n int) {
	for _, t := range w.disk.SubTasks {
		if t.Parked && len(t.Conflicts) > 0 {
			n++
		}
	}
	return n
}

// checkTip: the ref is where the log says, before or after its last step, unless another program moved it. In the end
// the tip has the work of all completed sub-tasks.
func (w *world) checkTip() {
	l, r := &w.disk.Boulder.Trunk, &w.repo
	if at := r.refs["tip"]; at != "" && at != l.Tip && at != l.Before && r.commits[at] != (commit{}) {
		w.violate("the tip is where the log says", "it is at %s, not at %s or %s", at, l.Before, l.Tip)
	}
	if !w.disk.Boulder.Status.Terminal() {
		return
	}
	tip := r.files(l.Tip)
	for _, t := range w.disk.SubTasks {
		did, _, _ := strings.Cut(r.files(t.Work)[t.ID], " for ")
		if t.Status == boulder.SubTaskCompleted && !strings.Contains(tip[t.ID], did) { // contains: it may be between markers
			w.violate("no work is lost", "%s did %q, and the tip has %q", t.ID, did, tip[t.ID])
		}
		for _, command := range t.Gates {
			verified := t.Status == boulder.SubTaskCompleted && len(t.Unverified()) == 0
			if verified && w.disk.Boulder.Status != boulder.Cancelled && !green(command, tip) { // cancelled: no final gates
				w.violate("the tip is green", "%q is red in the end", command)
			}
		}
	}
}

// land lands the results of a finished boulder, as package project does, through crashes.
func (w *world) land(dir string) {
	landed := boulder.Order{Do: boulder.OrderLanded, Landed: &boulder.Landed{How: boulder.LandedFiles}}
	for number := 1; len(w.repo.refs) > 0 && len(w.broken) == 0; number++ {
		p, err := w.start(dir, -2_000-number, false)
		if err != nil {
			w.violate("a crash leaves a database that opens", "%v", err)
			return
		}
		already := w.disk.Boulder.Trunk.Landed != nil
		p.order(landed, lanePerson, func(err error) {
			if already && err == nil {
				w.violate("results land once", "they landed again")
			}
		})
		if already && !throw(w.sc.seed, "frees", number).is(0.1) {
			w.repo.refs, w.repo.slots = nil, nil
		}
		p.close(context.Canceled)
	}
}
