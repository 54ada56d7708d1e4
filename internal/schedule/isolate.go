package schedule

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
)

// Try says that the gates should be being tried in a slot, which ends with [boulder.Isolated].
type Try struct{}

// isolate is what comes before the first attempt of a boulder whose sub-tasks may work in slots.
func (c *computing) isolate() Action {
	if c.s.Boulder.Isolation == boulder.IsolationAuto && !parallel(c.s, c.l) {
		return boulder.Isolated{InPlace: true, Reason: "no two sub-tasks can be at work at once", Gates: []boulder.TreeGate{}}
	}
	return Try{}
}

// parallel reports whether two of the sub-tasks that have to run can be at work at once.
func parallel(s *boulder.State, l Limits) bool {
	var open []*boulder.SubTask
	var nodes []dag.Node
	places := map[string]int{}
	for _, t := range s.SubTasks {
		if t.Unfinished() {
			places[t.ID] = len(open)
			open, nodes = append(open, t), append(nodes, dag.Node{ID: t.ID, DependsOn: t.DependsOn})
		}
	}
	before := make([]big.Int, len(open)) // by place: the places of all that it waits for
	for _, level := range dag.Levels(nodes) {
		for _, i := range level {
			for _, id := range open[i].DependsOn {
				if j, unfinished := places[id]; unfinished {
					before[i].Or(&before[i], &before[j]).SetBit(&before[i], j, 1)
				}
			}
		}
	}
	for i, a := range open {
		for j, b := range open[:i] {
			if before[i].Bit(j) == 1 || before[j].Bit(i) == 1 || claimed(a, []*boulder.Open{{SubTask: b}}) != "" {
				continue
			}
			taken := slotsOf(nil, l, time.Time{})
			taken.held[b.Model]++
			if taken.full(a.Model) == "" {
				return true
			}
		}
	}
	return false
}

// Integrate says that the result for which [boulder.Line.Integrating] stands should be being put onto the tip.
type Integrate struct{ Open *boulder.Open }

// maxConflicts is how often the session that made a result is asked to make it fit the tip; after that a fresh one is, once.
const maxConflicts = 2

// integrate is what follows when the work of a sub-task is complete in its slot. One result is integrated at a time: the one
// that was finished first, and of several the first in the plan.
func (c *computing) integrate(o *boulder.Open) Action {
	switch now := c.s.Boulder.Line.Integrating; {
	case o.SubTask.Work == "":
		return complete(o) // no tool was called
	case o.Turn.Conflict != nil:
		return c.afterConflict(o)
	case now != nil && now.AttemptRef == o.Attempt.AttemptRef:
		return Integrate{o}
	case now != nil || c.nextToIntegrate() != o:
		return nil
	}
	return boulder.Integrating{
		AttemptRef: o.Attempt.AttemptRef, Tip: c.s.Boulder.Line.Tip, Result: o.SubTask.Work, At: o.Turn.EndedAt,
	}
}

func (c *computing) nextToIntegrate() (first *boulder.Open) {
	for _, o := range c.s.Live() {
		ready := o.Attempt.Status == boulder.AttemptMonitoring && o.Turn.Verdict != nil && o.Turn.Verdict.Completed &&
			o.Turn.Conflict == nil && o.SubTask.Work != "" && o.SubTask.Integrated == "" && !c.waits(o) && unrunnable(o) == nil
		if ready && (first == nil || cmp.Or(o.Turn.EndedAt.Compare(first.Turn.EndedAt), o.SubTask.Position-first.SubTask.Position) < 0) {
			first = o
		}
	}
	return first
}

// afterConflict asks the session that made a result to make it fit, then a fresh one, and then the user.
func (c *computing) afterConflict(o *boulder.Open) Action {
	conflict := o.Turn.Conflict
	reason := "it could not be put together with " + strings.Join(conflict.With, ", ")
	if len(conflict.Files) > 0 {
		reason += ": conflicts in " + strings.Join(conflict.Files, ", ")
	} else {
		for _, g := range conflict.Red {
			reason += fmt.Sprintf(": `%s` is red on the combined files", g.Command)
		}
	}
	switch n := len(o.SubTask.Conflicts); {
	case n <= maxConflicts && c.canContinue(o):
		b := proceed(o, reason)
		b.Remaining = []string{}
		return b
	case n <= maxConflicts+1:
		b := retry(o, reason, boulder.AttemptFailed)
		b.Uncounted, b.Digest = true, reason
		return b
	}
	return c.blocker(o, boulder.BlockerMerge, fmt.Sprintf("How is %q to be put together with %s?", o.SubTask.ID, strings.Join(conflict.With, ", ")),
		fmt.Sprintf("%s.\nBoth are merged in .manager/slots/%s/%d: put it right there, or say here how the agent is to do it. Then it continues.",
			reason, c.s.Boulder.ID, o.SubTask.Slot))
}

// freeSlot is the one that a sub-task had, if nobody works in it, or the first that nobody works in. One in which the
// user is to resolve a conflict, or look after an escape, is taken.
func (c *computing) freeSlot(t *boulder.SubTask) int {
	if !c.s.Boulder.Isolated() {
		return 0
	}
	taken := map[int]bool{}
	for _, x := range c.s.SubTasks {
		if o := c.s.Open(x.ID); x != t && (o != nil && o.Attempt.Status.Live() || x.Parked && (len(x.Conflicts) > 0 || escaped(x))) {
			taken[x.Slot] = true
		}
	}
	for _, a := range c.actions {
		if b, ok := a.(boulder.Starting); ok {
			taken[b.Slot] = true
		}
	}
	if t.Slot > 0 && !taken[t.Slot] {
		return t.Slot
	}
	n := 1
	for taken[n] {
		n++
	}
	return n
}

func escaped(t *boulder.SubTask) bool {
	return slices.ContainsFunc(t.AwaitedBy(t.Attempts), func(b boulder.RaisedBlocker) bool { return b.Escape })
}
