package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newListCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "list [flags]",
		Short:             "All boulders of the project, the newest first",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context()) },
	}
}

// noArguments refuses arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// listItem is one line of `manager list --json`.
type listItem struct {
	Type      string         `json:"type"` // boulder
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"`
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Running   bool           `json:"running"`   // a process is at it
	Completed int            `json:"completed"` // sub-tasks
	Total     int            `json:"total"`     // sub-tasks of the plan, without superseded ones
	Usage     boulder.Usage  `json:"usage"`
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
}

func (a *app) runList(ctx context.Context) error {
	items, err := a.readList(ctx)
	if a.json {
		for _, item := range items {
			if err := a.printJSON(item); err != nil {
				return err
			}
		}
		return err
	}
	if len(items) == 0 && err == nil {
		a.note("Nothing has been run here yet. %s", a.firstStep())
		return nil
	}
	a.printList(items, time.Now())
	return err
}

// readList reads what the list shows. With an error there are the boulders that could be read.
func (a *app) readList(ctx context.Context) ([]listItem, error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil, err
	}
	defer closeReader()
	boulders, err := r.List(ctx)
	holder := holderOf(ctx, r)
	items := make([]listItem, 0, len(boulders))
	for _, b := range boulders {
		d, detailErr := r.Get(ctx, b.ID)
		if err == nil {
			err = detailErr
		}
		items = append(items, listItem{
			Type: "boulder", BoulderID: b.ID, Task: b.Task, Status: b.Status, Reason: b.Reason,
			Running: runs(holder, b), Completed: completed(d), Total: planned(d), Usage: b.Usage,
			CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
		})
	}
	return items, err
}

func completed(d store.Detail) int {
	n := 0
	for i := range d.SubTasks {
		if d.SubTasks[i].Status == boulder.SubTaskCompleted {
			n++
		}
	}
	return n
}

// planned is how many sub-tasks the plan has: what a replan put something else in the place of is not of it any more.
func planned(d store.Detail) int {
	n := 0
	for i := range d.SubTasks {
		if d.SubTasks[i].Status != boulder.SubTaskSuperseded {
			n++
		}
	}
	return n
}

func (a *app) printList(items []listItem, now time.Time) {
	p := a.paint(a.Stdout)
	width := terminalSize(a.Stdout).width
	for _, item := range items {
		status := string(item.Status)
		if item.Status == boulder.Running && !item.Running {
			status = "interrupted"
		}
		done := fmt.Sprintf("%d/%d", item.Completed, item.Total)
		head := fmt.Sprintf("%s  %s  %s  %s  ", item.BoulderID, fit(status, widthStatus), fitRight(done, widthDone),
			fitRight(elapsed(now.Sub(item.CreatedAt))+" ago", widthAge))
		room := max(20, width-1-len(item.BoulderID)-widthStatus-widthDone-widthAge-8)
		fmt.Fprintln(a.Stdout, p.dim(head)+clipText(item.Task, room))
	}
}

// Widths of the columns of a list.
const (
	widthStatus = 17 // awaiting_approval
	widthDone   = 5
	widthAge    = 10
)
