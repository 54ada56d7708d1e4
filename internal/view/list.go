package view

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// Completed counts the completed sub-tasks of a boulder.
func Completed(d store.Detail) int {
	n := 0
	for i := range d.SubTasks {
		if d.SubTasks[i].Status == boulder.SubTaskCompleted {
			n++
		}
	}
	return n
}

// Planned is how many sub-tasks the plan has: what a replan put something else in the place of is not of it any more.
func Planned(d store.Detail) int {
	n := 0
	for i := range d.SubTasks {
		if d.SubTasks[i].Status != boulder.SubTaskSuperseded {
			n++
		}
	}
	return n
}

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
	return holder != nil && project.Runs(holder, boulder.Boulder{ID: b.BoulderID, Status: b.Status})
}

// listPiece is how much of a list is written at once, in bytes: there may be thousands of lines.
const listPiece = 32 << 10

// List writes the list in pieces that end with a line: a secret is found within one write.
func List(o Out, items []store.Item, holder *control.Holder, now time.Time) error {
	dim, plain, _ := strings.Cut(o.Dim("|"), "|") // once, and not for each line
	width := o.Width()
	var line bytes.Buffer
	for i := range items {
		item := &items[i]
		status, mark := string(item.Status), "  "
		if item.Status == boulder.Running && !runsItem(holder, item) {
			status = "interrupted"
		}
		if item.Active {
			mark = "* "
		}
		done := strconv.Itoa(item.Tally.Completed) + "/" + strconv.Itoa(item.Tally.Planned)
		age := text.Elapsed(now.Sub(item.CreatedAt)) + " ago"
		status = text.Clip(status, widthStatus)
		room := max(20, width-1-len(item.BoulderID)-widthStatus-widthDone-widthAge-10)
		for _, s := range [...]string{
			dim, mark, item.BoulderID, "  ", status, blanks(widthStatus - len(status) + 2 + widthDone - len(done)), done,
			blanks(2 + widthAge - len(age)), age, "  ", plain, text.Clip(item.Task, room), "\n",
		} {
			line.WriteString(s)
		}
		if line.Len() < listPiece && i+1 < len(items) {
			continue
		}
		if _, err := line.WriteTo(o); err != nil {
			return err
		}
	}
	return nil
}

func blanks(n int) string { return strings.Repeat(" ", max(n, 1)) }

// Widths of the columns of a list.
const (
	widthStatus = 17 // awaiting_approval
	widthDone   = 5
	widthAge    = 10
)
