package view

import (
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

// Detached is what `manager run --detach --json` prints: one object.
type Detached struct {
	Type      string `json:"type"` // detached
	BoulderID string `json:"boulder_id"`
	PID       int    `json:"pid"` // of the process that runs it

	StartAt time.Time `json:"start_at,omitzero"`
}

// Wait is what `manager wait --json` prints at its end: one object.
type Wait struct {
	Type      string         `json:"type"` // wait
	BoulderID string         `json:"boulder_id"`
	For       string         `json:"for"`    // done | blocked
	Status    boulder.Status `json:"status"` // when the wait ended
	Reason    string         `json:"reason,omitempty"`
	Answer    string         `json:"answer,omitempty"`   // of a boulder that is over
	Completed int            `json:"completed"`          // sub-tasks
	Total     int            `json:"total"`              // sub-tasks, without superseded ones
	Blocked   []string       `json:"blocked"`            // sub-tasks
	Unlanded  bool           `json:"unlanded,omitempty"` // see [boulder.Boulder.Unlanded]

	Written string `json:"-"` // Answer, if a model wrote it
	Waits   bool   `json:"-"` // it was not to begin yet
}

// Shown returns the status as status and list show it, of a boulder that a process has.
func (w *Wait) Shown() string { return shownAs(w.Status, true, w.Waits) }

// Take records the state of a boulder. stands reports whether it continues only with the user.
func (w *Wait) Take(d boulder.Snapshot, holder *project.Holder) (stands bool) {
	b := d.Boulder
	w.Status, w.Reason, w.Blocked = b.Status, b.Reason, []string{}
	w.Answer, w.Written, w.Waits = b.Answer, b.Written(), b.Waits(time.Now())
	w.Completed, w.Total, w.Unlanded = b.Tally.Completed, b.Tally.Planned, b.Unlanded()
	for _, t := range d.SubTasks {
		if t.Status == boulder.SubTaskBlocked {
			w.Blocked = append(w.Blocked, t.ID)
		}
	}
	// A process that does not report its runs yet may be about to resume this one. A process that has made a plan may
	// not need approval.
	return b.Status == boulder.Paused && (holder == nil || !holder.Beginning()) ||
		b.Status == boulder.AwaitingApproval && !holder.Runs(b)
}
