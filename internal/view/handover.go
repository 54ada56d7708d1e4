package view

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/workspace"
)

// Detached is what `manager run --detach --json` prints: one object.
type Detached struct {
	Type      string `json:"type"` // detached
	BoulderID string `json:"boulder_id"`
	PID       int    `json:"pid"` // of the process that runs it
}

// Wait is what `manager wait --json` prints at its end: one object.
type Wait struct {
	Type      string         `json:"type"` // wait
	BoulderID string         `json:"boulder_id"`
	For       string         `json:"for"`    // done | blocked
	Status    boulder.Status `json:"status"` // when the wait ended
	Reason    string         `json:"reason,omitempty"`
	Completed int            `json:"completed"`          // sub-tasks
	Total     int            `json:"total"`              // sub-tasks of the plan, without superseded ones
	Blocked   []string       `json:"blocked"`            // sub-tasks
	Unlanded  bool           `json:"unlanded,omitempty"` // see [boulder.Boulder.Unlanded]
}

// Take takes in how a boulder is. stands: it does not continue by itself.
func (w *Wait) Take(d boulder.Snapshot, holder *control.Holder) (stands bool) {
	b := d.Boulder
	w.Status, w.Reason, w.Blocked = b.Status, b.Reason, []string{}
	w.Completed, w.Total, w.Unlanded = b.Tally.Completed, b.Tally.Planned, b.Unlanded()
	for _, t := range d.SubTasks {
		if t.Status == boulder.SubTaskBlocked {
			w.Blocked = append(w.Blocked, t.ID)
		}
	}
	// A process that does not say yet what it runs may be about to go on with it, and one that has made a plan may be about
	// to go ahead without asking.
	return b.Status == boulder.Paused && (holder == nil || !holder.Beginning()) ||
		b.Status == boulder.AwaitingApproval && !holder.Runs(b)
}

// Land is what `manager land --json` prints: one object.
type Land struct {
	Type      string `json:"type"` // land
	BoulderID string `json:"boulder_id"`
	boulder.Landed
	Files  []workspace.Change `json:"files,omitempty"`
	DryRun bool               `json:"dry_run"`
}
