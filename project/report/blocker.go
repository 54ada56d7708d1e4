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
	Standing blockers.Standing `json:"standing"`
	Awaited  bool              `json:"awaited"` // its sub-task or session waits
	Over     string            `json:"-"`       // what is over, so that an answer has no effect
}

// NewBlocker finds out whether an answer is of use. t and over are the results of [blockers.SubTaskOf].
func NewBlocker(b boulder.Blocker, t *boulder.SubTask, over string, now time.Time) Blocker {
	standing := blockers.StandingOf(&b, t, over, now)
	b.Key, b.Grants = "", nil // of use to the register only
	return Blocker{Type: "blocker-record", Blocker: b, Standing: standing, Awaited: standing == blockers.Awaited, Over: over}
}

// Ref names the blocker also where an import brought another with its id: B7@BOULDER.
func (b Blocker) Ref() string {
	if b.BoulderID == "" {
		return b.ID
	}
	return b.ID + "@" + b.BoulderID
}

// SortBlockers sorts blockers by urgency: first those of waiting sessions, by the time at which these continue without
// an answer, then the others by standing and age.
func SortBlockers(all []Blocker, now time.Time) {
	place := func(b Blocker) int {
		if b.Awaited && b.Waiting(now) {
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

// Blockers returns the blockers of a boulder, sorted by [SortBlockers].
func Blockers(of boulder.Boulder, tasks []*boulder.SubTask, now time.Time) []Blocker {
	all := []Blocker{}
	for _, b := range boulder.Raised(of, tasks) {
		reached, over := blockers.SubTaskOf(&b, of, tasks)
		all = append(all, NewBlocker(b, reached, over, now))
	}
	SortBlockers(all, now)
	return all
}
