package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
)

// Blocker is a blocker in a [Report].
type Blocker struct {
	boulder.Blocker
	// Standing says who has use for an answer: awaited, choice, moot or settled.
	Standing blockers.Standing `json:"standing"`
	// Awaited: its sub-task stands still until a person has settled it, or its session until the time for that is over.
	Awaited bool `json:"awaited"`
	// Undelivered: a person has settled it, and its sub-task has not been told yet: the next run tells it.
	Undelivered bool `json:"undelivered,omitempty"`
}

// Blockers puts the full records of a boulder's blockers together with what its sub-tasks know, and finds out who has use
// for an answer: either may be ahead of the other, when a process was killed between the two. What matters most comes
// first.
func Blockers(of boulder.Boulder, tasks []boulder.SubTask, records []boulder.Blocker, now time.Time) []Blocker {
	full := slices.Clone(records)
	place := map[string]int{}
	for i := range full {
		place[full[i].ID] = i
	}
	subTasks := map[string]*boulder.SubTask{}
	raised := map[string]boulder.RaisedBlocker{}
	for i := range tasks {
		t := &tasks[i]
		subTasks[t.ID] = t
		for _, k := range t.Blockers {
			raised[k.ID] = k
			at, known := place[k.ID]
			if !known {
				full = append(full, boulder.Blocker{
					ID: k.ID, BoulderID: of.ID, SubTaskID: t.ID, Attempt: k.Attempt, Question: k.Question, Hard: k.Hard,
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
		t := subTasks[f.SubTaskID]
		if of.Status.Terminal() {
			t = nil
		}
		b := Blocker{Blocker: f, Standing: blockers.StandingOf(&f, t, now)}
		b.Awaited = b.Standing == blockers.Awaited
		k, known := raised[f.ID]
		b.Undelivered = known && t != nil && !t.Status.Terminal() && f.Status.Settled() && !k.Status.Settled()
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(x, y Blocker) int { return cmp.Or(rank(x)-rank(y), soft(x)-soft(y)) })
	return all
}

// rank orders blockers by how much they matter to whoever reads: what is waited for, what can still be changed, what
// nobody has seen to, the rest.
func rank(b Blocker) int {
	return slices.Index([]blockers.Standing{blockers.Awaited, blockers.Choice, blockers.Moot, blockers.Over}, b.Standing)
}

func soft(b Blocker) int {
	if b.Hard {
		return 0
	}
	return 1
}
