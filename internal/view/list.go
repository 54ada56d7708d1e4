package view

import (
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// ListItem is one line of `manager list --json`.
type ListItem struct {
	Type      string         `json:"type"` // boulder
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"` // its first 1,000 characters
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Running   bool           `json:"running"` // a process is at it
	// Active: it was begun or taken up last.
	Active     bool          `json:"active"`
	Completed  int           `json:"completed"` // sub-tasks
	Total      int           `json:"total"`     // sub-tasks of the plan, without superseded ones
	Tally      boulder.Tally `json:"tally"`
	Usage      boulder.Usage `json:"usage"`
	CreatedAt  time.Time     `json:"created_at"`
	UpdatedAt  time.Time     `json:"updated_at"`
	ArchivedAt time.Time     `json:"archived_at,omitzero"`
}

// NewListItem is a boulder as lists show it. holder is nil if no process holds the state.
func NewListItem(b *store.Item, holder *control.Holder) ListItem {
	return ListItem{
		Type: "boulder", BoulderID: b.BoulderID, Task: b.Task, Status: b.Status, Reason: b.Reason,
		Running: holder.Runs(boulder.Boulder{ID: b.BoulderID, Status: b.Status}), Active: b.Active,
		Completed: b.Tally.Completed, Total: b.Tally.Planned, Tally: b.Tally, Usage: b.Usage,
		CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, ArchivedAt: b.ArchivedAt,
	}
}

// List writes boulders, a line each.
func List(o page.Out, items []ListItem, now time.Time) {
	var rows [][]string
	for _, b := range items {
		status, mark := string(b.Status), " "
		if b.Status == boulder.Running && !b.Running {
			status = "interrupted"
		}
		if b.Active {
			mark = "*"
		}
		rows = append(rows, []string{
			o.Dim(mark + " " + b.BoulderID), status, fmt.Sprintf("%d/%d", b.Completed, b.Total),
			text.Elapsed(now.Sub(b.CreatedAt)) + " ago", text.Clip(b.Task, page.Widest),
		})
	}
	for _, line := range table(o.Width(), []column{{}, {}, {right: true}, {right: true}, {rest: true}}, rows) {
		fmt.Fprintln(o, line)
	}
}
