package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// listItem is one line of `manager list --json`.
type listItem struct {
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
func NewListItem(b *store.Item, holder *control.Holder) listItem {
	return listItem{
		Type: "boulder", BoulderID: b.BoulderID, Task: b.Task, Status: b.Status, Reason: b.Reason,
		Running: runsItem(holder, b), Active: b.Active, Completed: b.Tally.Completed, Total: b.Tally.Planned, Tally: b.Tally,
		Usage: b.Usage, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, ArchivedAt: b.ArchivedAt,
	}
}

func runsItem(holder *control.Holder, b *store.Item) bool {
	return holder.Runs(boulder.Boulder{ID: b.BoulderID, Status: b.Status})
}

// List writes boulders, a line each.
func List(o page.Out, items []store.Item, holder *control.Holder, now time.Time) {
	var rows [][]string
	for i := range items {
		item := &items[i]
		status, mark := string(item.Status), " "
		if item.Status == boulder.Running && !runsItem(holder, item) {
			status = "interrupted"
		}
		if item.Active {
			mark = "*"
		}
		rows = append(rows, []string{
			o.Dim(mark + " " + item.BoulderID), status, fmt.Sprintf("%d/%d", item.Tally.Completed, item.Tally.Planned),
			text.Elapsed(now.Sub(item.CreatedAt)) + " ago", text.Clip(item.Task, page.Widest),
		})
	}
	lines := table(o.Width(), []column{{}, {}, {right: true}, {right: true}, {rest: true}}, rows)
	fmt.Fprint(o, strings.Join(append(lines, ""), "\n"))
}
