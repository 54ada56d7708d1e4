package report

import (
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// Blocker is a blocker in a [Report].
type Blocker struct {
	boulder.Blocker
	// Awaited: its sub-task stands still until a person has settled it.
	Awaited bool `json:"awaited"`
	// Undelivered: a person has settled it, and its sub-task has not been told yet: the next run tells it.
	Undelivered bool `json:"undelivered,omitempty"`
}

// blockersOf puts the full records together with what the sub-tasks know: either may be ahead of the other, when a
// process was killed between the two.
func blockersOf(in Input) []Blocker {
	full := slices.Clone(in.Blockers)
	place := map[string]int{}
	for i := range full {
		place[full[i].ID] = i
	}
	subTasks := map[string]*boulder.SubTask{}
	raised := map[string]boulder.RaisedBlocker{}
	for i := range in.SubTasks {
		t := &in.SubTasks[i]
		subTasks[t.ID] = t
		for _, k := range t.Blockers {
			raised[k.ID] = k
			at, known := place[k.ID]
			if !known {
				full = append(full, boulder.Blocker{
					ID: k.ID, BoulderID: in.Boulder.ID, SubTaskID: t.ID, Attempt: k.Attempt, Question: k.Question, Hard: k.Hard,
					ChosenOption: k.Choice, Status: k.Status, Answer: k.Answer, Allowed: k.Allowed,
				})
				continue
			}
			if f := &full[at]; k.Status.Settled() && !f.Status.Settled() {
				f.Status, f.Answer, f.Allowed = k.Status, k.Answer, k.Allowed
			}
		}
	}
	all := []Blocker{}
	for _, f := range full {
		b := Blocker{Blocker: f}
		k, known := raised[f.ID]
		t := subTasks[f.SubTaskID]
		if known && t != nil && !t.Status.Terminal() {
			b.Awaited = !f.Status.Settled() && f.Hard && k.Attempt == t.Attempts
			b.Undelivered = f.Status.Settled() && !k.Status.Settled()
		}
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(x, y Blocker) int { return rank(x) - rank(y) })
	return all
}

// rank orders blockers by how much they matter to whoever reads: what is waited for, what else nobody has seen to, the
// rest.
func rank(b Blocker) int {
	switch {
	case b.Awaited:
		return 0
	case !b.Status.Settled() && b.Hard:
		return 1
	case !b.Status.Settled():
		return 2
	}
	return 3
}
