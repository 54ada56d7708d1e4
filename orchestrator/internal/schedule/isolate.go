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
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/prompts"
)

// Try means that the gates should be tried in a slot, which ends with [boulder.Isolated].
type Try struct{}

// isolate returns what precedes the first attempt of a boulder that may work in slots.
func (c *computing) isolate() Action {
	if c.s.Boulder.Isolation == boulder.IsolationAuto && !Parallel(c.s, c.l) {
		return apply(boulder.Isolated{InPlace: true, Reason: "no two sub-tasks can be at work at once", Gates: []boulder.TreeGate{}})
	}
	return Try{}
}

// Parallel reports whether two unfinished sub-tasks can be at work at once.
func Parallel(s *boulder.State, l Limits) bool {
	var open []*boulder.SubTask
	var nodes []dag.Node
	places := map[string]int{}
	for _, t := range s.SubTasks {
		if t.Unfinished() {
			places[t.ID] = len(open)
			open, nodes = append(open, t), append(nodes, dag.Node{ID: t.ID, DependsOn: t.DependsOn})
		}
	}
	before := make([]big.Int, len(open)) // by index: the indexes of all that it waits for
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
			if taken.whyFull(a.Model) == "" {
				return true
			}
		}
	}
	return false
}

// Integrate means that the results of [boulder.State.Batch] should be put onto the tip.
type Integrate struct{}

// maxConflicts bounds the turns in which the session of a result resolves conflicts. Then a fresh session gets one.
const maxConflicts = 2

// integrate puts the complete results that wait onto the tip, together, once nothing else is put there.
func (c *computing) integrate(o *boulder.Open) Action {
	switch now := c.s.Boulder.Trunk.Integrating; {
	case o.SubTask.Work == "":
		return apply(complete(o)) // no tool was called
	case o.Turn.Conflict != nil:
		return apply(c.afterConflict(o))
	case now != nil && now.AttemptRef == o.Attempt.AttemptRef:
		return Integrate{}
	case now != nil:
		return nil
	}
	batch := c.batch()
	if depart := c.departure(batch); c.now.Before(depart) {
		return Wake{At: depart}
	}
	if !slices.Contains(batch, o) {
		return nil
	}
	joins := c.departing
	c.departing = true
	return apply(boulder.Integrating{
		AttemptRef: o.Attempt.AttemptRef, Tip: c.s.Boulder.Trunk.Tip, Result: o.SubTask.Work, At: o.Turn.EndedAt, Joins: joins,
	})
}

// batch returns the results that are to be tested together next: those that waited longest, then in the order of the plan.
func (c *computing) batch() (batch []*boulder.Open) {
	for _, o := range c.s.Live() {
		if c.ready(o) {
			batch = append(batch, o)
		}
	}
	slices.SortStableFunc(batch, func(a, b *boulder.Open) int {
		return cmp.Or(a.Turn.EndedAt.Compare(b.Turn.EndedAt), a.SubTask.Position-b.SubTask.Position)
	})
	return batch[:min(len(batch), max(c.l.Batch, 1))]
}

// ready reports whether the result of a live attempt waits to be put onto the tip.
func (c *computing) ready(o *boulder.Open) bool {
	t := o.SubTask
	return o.Attempt.Status == boulder.AttemptMonitoring && o.Turn.Verdict != nil && o.Turn.Verdict.Completed &&
		o.Turn.Conflict == nil && t.Work != "" && t.Integrated == "" && !c.awaitsUser(o) && unrunnable(o) == nil
}

// departure returns until when a batch waits for results that may be complete soon, for a small part of the time that its
// gates take. It does not wait if they do not run, nor alone.
func (c *computing) departure(batch []*boulder.Open) time.Time {
	if len(batch) == 0 || len(batch) >= c.l.Batch || len(batch) == 1 && c.gatesHold(batch[0]) {
		return time.Time{}
	}
	coming := slices.ContainsFunc(c.s.Live(), func(o *boulder.Open) bool {
		return !slices.Contains(batch, o) && o.SubTask.Integrated == "" && o.Turn != nil && o.Turn.Conflict == nil && !c.now.Before(o.Attempt.NotBefore)
	})
	if !coming {
		return time.Time{}
	}
	var longest time.Duration
	first := batch[0].Turn.JudgedAt
	for _, o := range batch {
		var took time.Duration
		for _, g := range o.Turn.Evidence.Gates {
			took += g.Duration
		}
		longest = max(longest, took)
		if o.Turn.JudgedAt.Before(first) {
			first = o.Turn.JudgedAt
		}
	}
	return first.Add(min(longest/waitShare, maxBatchWait))
}

// A batch waits for a fifth of the time of its gates: that much longer lasts a result to which no other comes, and twice
// as long as its gates the one that has just missed a batch.
const (
	waitShare    = 5
	maxBatchWait = 30 * time.Second
)

// gatesHold reports whether a result follows the tip, with the gates that ran in its slot.
func (c *computing) gatesHold(o *boulder.Open) bool {
	return o.SubTask.From == c.s.Boulder.Trunk.Tip && len(o.SubTask.Conflicts)+len(o.Turn.Evidence.Ignored) == 0
}

// afterConflict has a conflict resolved by the session of the result, then by a fresh one, then by the user. It also
// follows a turn that was to resolve one and did not: without the work of others the sub-task was complete, so such a
// turn neither stalls it nor uses up a try.
func (c *computing) afterConflict(o *boulder.Open) boulder.Body {
	conflict := o.SubTask.Reconciling()
	with := strings.Join(conflict.With, ", ")
	reason, where, question := "could not be integrated with "+with, "the combined files", "How is %q to be integrated with "+with+"?"
	if with == "" {
		reason, where = "is not so in a clean copy of its files", "them"
		question = "How is %q to pass in a clean copy of its files?"
	}
	if len(conflict.Files) > 0 {
		reason += ": conflicts in " + strings.Join(conflict.Files, ", ")
	} else {
		reason += ": red on " + where + ": " + commands(conflict.Red) +
			text.Prefixed(", since the result of ", strings.Join(conflict.Since, ", ")) +
			text.Prefixed(", without what git ignores: ", strings.Join(conflict.Ignored, ", "))
	}
	if o.Turn.Conflict == nil {
		reason += text.Prefixed("; not yet: ", shortcoming(o.Turn.Verdict))
	}
	switch n := o.SubTask.Unresolved; {
	case n <= maxConflicts && c.canContinue(o):
		b := proceed(o, "complete by itself, but it "+reason)
		if o.Turn.Conflict != nil {
			b.Remaining = []string{}
		}
		return b
	case n <= maxConflicts+1:
		b := uncounted(o, "", boulder.AttemptFailed)
		b.Reason = "complete by itself, but it " + reason
		b.Digest = prompts.WaitDigest("was complete by itself, but "+reason, *o.Turn.Evidence)
		return b
	}
	return c.blocker(o, boulder.BlockerMerge, fmt.Sprintf(question, o.SubTask.ID),
		fmt.Sprintf("It is complete by itself, but %s.\nIts files are in %s%s: put it right there, or say here how the "+
			"agent is to do it. Then it continues.", reason, c.slotOf(o.SubTask), text.If(with != "", ", merged with theirs")))
}

// slotOf returns the directory in which a sub-task works. Old logs do not have it; it was in the project then.
func (c *computing) slotOf(t *boulder.SubTask) string {
	return cmp.Or(t.Dir, fmt.Sprintf(".manager/slots/%s/%d", c.s.Boulder.ID, t.Slot))
}

func commands(gates []boulder.Gate) string {
	var all []string
	for _, g := range gates {
		all = append(all, "`"+g.Command+"`")
	}
	return strings.Join(all, ", ")
}

// freeSlot returns the sub-task's former slot if it is free, or the first free one. A slot in which the user has to
// resolve a conflict or an escape is taken.
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
		if a, ok := a.(Apply); ok {
			if b, ok := a.Body.(boulder.Starting); ok {
				taken[b.Slot] = true
			}
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
	return slices.ContainsFunc(t.AwaitedBy(t.Attempts), func(b boulder.Blocker) bool { return b.Category == boulder.BlockerEscape })
}
