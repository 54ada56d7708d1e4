package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/bisect"
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
	tip    string
	stack  []stacked
	ran    map[[2]string]boulder.Gate // by tree and command
}

type stacked struct {
	boulder.Joined
	files  files
	tree   string
	commit string
	gates  []boulder.TreeGate
}

// Integrate implements orchestrator.Integrator.
func (p isolated) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	now, l := what.Trunk.Integrating, what.Trunk
	d := throw(p.w.sc.seed, "integrates", now.AttemptRef, len(what.SubTask.Conflicts), p.number)
	i := integration{Integration: what, process: p.process, dice: d, report: report, tip: now.Tip, ran: map[[2]string]boulder.Gate{}}
	if err := i.moveTip(ctx, cmp.Or(l.Before, l.Tip), l.Tip); err != nil {
		return err
	}
	conflicts := i.merge()
	if err := i.alive(func() error { i.w.checkIntegrates(what); return nil }); err != nil {
		return err
	}
	if len(i.stack) == 0 {
		return i.sendBack(stacked{Joined: boulder.Joined{SubTask: i.SubTask, Turn: i.Turn}}, i.tip, conflicts, nil)
	}
	var red []boulder.Gate
	n, err := bisect.Prefix(len(i.stack), func(k int, blames bool) (green bool, err error) {
		red, err = i.test(ctx, k, blames)
		return len(red) == 0, err
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return i.sendBack(i.stack[0], i.tip, nil, red)
	}
	return i.put(n, red)
}

// merge puts the results onto each other, and leaves out what does not fit. If the first does not fit, it returns why.
func (i *integration) merge() (conflicts []string) {
	_ = i.alive(func() error {
		onto := i.tip
		for n, j := range append([]boulder.Joined{{SubTask: i.SubTask, Turn: i.Turn}}, i.Then...) {
			x := stacked{Joined: j}
			x.files, conflicts = i.w.repo.merge(onto, j.SubTask.Work)
			switch {
			case slices.Equal(conflicts, []string{fileSum}):
				generate(x.files)
				conflicts = nil
				i.w.seen["a generated file made again"]++
			case len(conflicts) == 0 && len(j.SubTask.Conflicts) > 0 && !green(noMarkers, x.files):
				conflicts = []string{"marked"}
			}
			if len(conflicts) > 0 && n == 0 {
				return nil
			}
			if len(conflicts) > 0 {
				i.w.seen["a result was left out"]++
				continue
			}
			x.tree = i.w.repo.tree(x.files)
			if x.commit = onto; x.tree != i.w.repo.commits[onto].tree {
				x.commit = i.w.repo.commit(onto, x.tree, j.SubTask.ID)
			}
			i.stack, onto = append(i.stack, x), x.commit
		}
		conflicts = nil
		return nil
	})
	return conflicts
}

// put moves the tip to the n-th result.
func (i *integration) put(n int, red []boulder.Gate) error {
	top := i.stack[n-1]
	done := boulder.Integrated{AttemptRef: top.Turn.AttemptRef, Tree: top.tree, Commit: top.commit, Gates: top.gates}
	for _, x := range i.stack[:n-1] {
		done.Under = append(done.Under, boulder.OnTip{AttemptRef: x.Turn.AttemptRef, Tree: x.tree, Commit: x.commit})
	}
	var back *boulder.Conflict
	_ = i.alive(func() error {
		i.moving = true
		if n > 1 {
			i.w.seen["results tested together"]++
		}
		if n < len(i.stack) {
			i.w.seen["one of several was to blame"]++
			back = new(i.conflict(i.stack[n], top.commit, nil, red))
			done.Back = back
		}
		return nil
	})
	err := i.report(done)
	if err == nil {
		err = i.moveTip(i.gone, i.tip, top.commit)
	}
	_ = i.alive(func() error { i.moving = false; return nil })
	if err != nil || back == nil {
		return err
	}
	return i.prepareBack(i.stack[n], *back)
}

// moveTip moves the ref. Sometimes another program moves it first.
func (i *integration) moveTip(ctx context.Context, from, to string) error {
	return i.step(ctx, laneIntegrate, i.span(time.Millisecond, time.Second), func() error {
		r := &i.w.repo
		if i.w.sc.class == anything && !i.w.sc.calm && i.number < maxDisturbed && i.is(0.05) {
			r.refs["tip"] = "somebody else's"
			i.w.seen["the tip was moved"]++
		} else if r.refs["tip"] == from && from != to && i.tip == to {
			i.w.seen["a crash between the event and the tip"]++
		}
		return r.moveTip(from, to)
	})
}

func (i *integration) test(ctx context.Context, k int, blames bool) (red []boulder.Gate, err error) {
	top := &i.stack[k-1]
	top.gates = nil
	for _, command := range i.w.gatesFor(i.stack[:k], &i.Trunk, i.Earlier) {
		if i.passed(command, top.tree) {
			top.gates = append(top.gates, boulder.TreeGate{Command: command, Tree: top.tree, Passed: true, Reused: true})
			continue
		}
		g, known := i.ran[[2]string{top.tree, command}]
		if again := blames && known && !g.Holds() && i.passedBefore(k, command); !known || again {
			if _, err := i.prepare(ctx, laneIntegrate, boulder.SlotClaim{Base: i.Trunk.Base, From: top.commit}); err != nil {
				return nil, err
			}
			if err := i.w.nap(ctx, laneIntegrate, i.span(time.Second, i.w.sc.gateTime)); err != nil {
				return nil, err
			}
			err := i.alive(func() error {
				g = run(command, top.files)
				if g.FlakySuspected = again && g.Holds(); g.Holds() && !again && !i.w.sc.class.same() && i.is(0.2) {
					i.flake(&g, blames && i.passedBefore(k, command))
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			event := boulder.NewGateRun(&top.SubTask, top.Turn.Attempt, g)
			event.Tree = top.tree
			if err := i.report(event); err != nil {
				return nil, err
			}
			i.ran[[2]string{top.tree, command}] = g
		}
		top.gates = append(top.gates, boulder.TreeGate{Command: command, Tree: top.tree, Passed: g.Holds(), FlakySuspected: g.FlakySuspected})
		if !g.Holds() {
			red = append(red, g)
		}
		if !g.Holds() && !blames {
			break
		}
	}
	return red, nil
}

func (i *integration) passed(command, tree string) bool {
	return i.Trunk.Passed(command, tree) || slices.ContainsFunc(i.stack, func(x stacked) bool {
		e := x.Turn.Evidence
		g := boulder.GateOf(e.Gates, command)
		return e.Diff.Tree == tree && len(e.Ignored) == 0 && g != nil && g.Holds()
	})
}

func (i *integration) passedBefore(k int, command string) bool {
	if alone := boulder.GateOf(i.stack[k-1].Turn.Evidence.Gates, command); alone != nil {
		return alone.Holds()
	}
	if k == 1 {
		return i.Trunk.Passed(command, i.Trunk.Tree)
	}
	below := i.stack[k-2].tree
	g, ran := i.ran[[2]string{below, command}]
	return ran && g.Holds() || i.passed(command, below)
}

// flake lets a green gate be red once. It runs again on the same files at once only if it passed before: else red may be the
// truth.
func (i *integration) flake(g *boulder.Gate, passed bool) {
	if passed {
		g.FlakySuspected = true
	} else {
		g.ExitCode, g.Output = 1, "red"
	}
	i.w.seen[fmt.Sprintf("a flaky gate; it passed before: %v", passed)]++
}

// gatesFor returns the gates of the tree with results: on a fast-forward, only the sub-task's own.
func (w *world) gatesFor(stack []stacked, l *boulder.Trunk, earlier []boulder.SubTask) (all []string) {
	for _, x := range slices.Backward(stack) {
		all = append(all, x.SubTask.Gates...)
	}
	if len(stack) == 1 && stack[0].SubTask.From == l.Tip && len(stack[0].SubTask.Conflicts) == 0 {
		return all
	}
	for i := range earlier {
		all = append(all, earlier[i].Gates...)
	}
	return append(all, noMarkers)
}

// conflict returns why a result does not come onto tip. The caller holds mu.
func (i *integration) conflict(x stacked, tip string, files []string, red []boulder.Gate) boulder.Conflict {
	c := boulder.Conflict{AttemptRef: x.Turn.AttemptRef, Files: append([]string{}, files...), With: []string{}, Red: red, Tip: tip}
	for _, t := range i.Earlier {
		if t.Integrated != "" {
			c.With = append(c.With, t.ID)
		}
	}
	c.Tree = i.w.repo.commits[c.Tip].tree
	i.w.seen[fmt.Sprintf("a conflict; in files: %v", len(files) > 0)]++
	if len(red) > 0 && len(x.Turn.Evidence.Ignored) > 0 {
		c.Ignored = x.Turn.Evidence.Ignored
		i.w.seen["a gate that needs an ignored file"]++
	}
	return c
}

// sendBack reports why a result does not come onto the tip.
func (i *integration) sendBack(x stacked, tip string, files []string, red []boulder.Gate) error {
	var c boulder.Conflict
	err := i.alive(func() error { c = i.conflict(x, tip, files, red); return nil })
	if err == nil {
		err = i.report(c)
	}
	if err != nil {
		return err
	}
	return i.prepareBack(x, c)
}

func (i *integration) prepareBack(x stacked, c boulder.Conflict) error {
	_, err := i.prepare(i.gone, laneIntegrate, boulder.SlotClaim{
		BoulderID: boulderID, Slot: x.SubTask.Slot, SubTaskID: x.SubTask.ID, Attempt: c.Attempt, Base: i.Trunk.Base, From: c.Tip,
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
	l := &w.disk.Boulder.Trunk
	if i := l.Integrating; i == nil || *i != *what.Trunk.Integrating || !slices.Equal(l.Joined, what.Trunk.Joined) || len(what.Then) != len(l.Joined) {
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
		w.batch = append(w.batch, stacked{Joined: boulder.Joined{SubTask: *t}})
		if c := r.commits[b.Commit]; c.tree != b.Tree || b.Commit != l.Tip && c.parent != l.Tip {
			w.violate("the line is straight", "%s follows %s", b.Commit, l.Tip)
		}
		if b.TestedWith != "" {
			w.untested = b.TestedWith
			return
		}
		if w.untested != "" && w.untested != b.SubTaskID {
			w.violate("the tip is tested", "%s came with %s, and then came %v", w.batch[0].SubTask.ID, w.untested, b.AttemptRef)
		}
		w.checkGreen(b)
		if t.From == l.Tip && len(t.Conflicts) == 0 {
			w.seen["a fast-forward"]++
		} else {
			w.seen["a merge"]++
		}
		w.batch, w.untested = nil, ""
	}
}

// checkGreen: the gates of all results on the tip are green on its tree, and each has been seen so.
func (w *world) checkGreen(b boulder.Integrated) {
	trunk := w.disk.Boulder.Trunk
	trunk.Tip = trunk.Integrating.Tip
	var earlier []boulder.SubTask
	for _, t := range w.disk.Completed(len(w.disk.SubTasks)) {
		earlier = append(earlier, *t)
	}
	for _, command := range w.gatesFor(w.batch, &trunk, earlier) {
		ran := slices.ContainsFunc(b.Gates, func(g boulder.TreeGate) bool { return g.Command == command && g.Tree == b.Tree && g.Passed })
		if !green(command, w.repo.trees[b.Tree]) || !ran {
			w.violate("the tip is green", "%q is red on the tree of %v, or did not run", command, b.AttemptRef)
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
