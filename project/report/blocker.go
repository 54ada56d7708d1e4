package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
)

// Blocker is a blocker as --json prints it, and whether an answer is still of use.
type Blocker struct {
	Type string `json:"type"` // blocker-record: the event is of type blocker
	boulder.Blocker
	Standing    blockers.Standing `json:"standing"`
	Awaited     bool              `json:"awaited"`               // its sub-task or session waits
	Undelivered bool              `json:"undelivered,omitempty"` // settled, but its sub-task was not told yet
	Over        string            `json:"-"`                     // what is over, so that an answer has no effect
}

// NewBlocker finds out whether an answer is of use. t and over are the results of [blockers.SubTaskOf].
func NewBlocker(b boulder.Blocker, t *boulder.SubTask, over string, now time.Time) Blocker {
	standing := blockers.StandingOf(&b, t, now)
	return Blocker{Type: "blocker-record", Blocker: b, Standing: standing, Awaited: standing == blockers.Awaited, Over: over}
}

// SortBlockers sorts blockers by urgency: first those of waiting sessions, by the time at which these continue without
// an answer, then the others by standing and age.
func SortBlockers(all []Blocker, now time.Time) {
	place := func(b Blocker) int {
		if b.Awaited && blockers.Waiting(&b.Blocker, now) {
			return -1
		}
		return slices.Index([]blockers.Standing{blockers.Awaited, blockers.Choice, blockers.Moot, blockers.Over}, b.Standing)
	}
	slices.SortStableFunc(all, func(x, y Blocker) int {
		until := 0
		if place(x) < 0 {
			until = x.Until.Compare(y.Until)
		}
		return cmp.Or(place(x)-place(y), until, x.CreatedAt.Compare(y.CreatedAt))
	})
}

// Blockers merges the full records of a boulder's blockers with those of its sub-tasks, sorted by [SortBlockers]. After
// a crash between the two writes either may be ahead.
func Blockers(of boulder.Boulder, tasks []*boulder.SubTask, records []boulder.Blocker, now time.Time) []Blocker {
	full := slices.Clone(records)
	raised := map[string]boulder.RaisedBlocker{}
	for _, t := range tasks {
		for _, k := range t.Blockers {
			raised[k.ID] = k
			at := slices.IndexFunc(full, func(b boulder.Blocker) bool { return b.ID == k.ID })
			if at < 0 {
				full = append(full, boulder.Blocker{
					ID: k.ID, BlockerScope: boulder.BlockerScope{BoulderID: of.ID, SubTaskID: t.ID, Attempt: k.Attempt},
					Question: k.Question, Hard: k.Hard,
					ChosenOption: k.Choice, Status: k.Status, Answer: k.Answer, Allowed: k.Allowed,
				})
			} else if f := &full[at]; k.Status.Settled() && !f.Status.Settled() {
				f.Status, f.Answer, f.Allowed = k.Status, k.Answer, k.Allowed
			}
		}
	}
	all := []Blocker{}
	for _, f := range full {
		t, over := blockers.SubTaskOf(&f, of, tasks)
		b := NewBlocker(f, t, over, now)
		k, known := raised[f.ID]
		b.Undelivered = known && t != nil && f.Status.Settled() && !k.Status.Settled()
		all = append(all, b)
	}
	SortBlockers(all, now)
	return all
}
