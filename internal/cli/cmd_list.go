package cli

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

type listOptions struct{ archived bool }

func (a *app) newListCmd() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:        "list [flags]",
		Short:      "List the boulders of the project",
		SuggestFor: []string{"ls", "boulders"},
		Long: `Lists the boulders of the project, the newest first, without those that are archived. The active one,
which is marked with *, was begun or taken up last: it is the one that is meant where a command is given none.`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), &o) },
	}
	cmd.Flags().BoolVar(&o.archived, "archived", false, "those that are archived, and no others")
	return cmd
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

func (a *app) runList(ctx context.Context, o *listOptions) error {
	all, holder, err := a.readList(ctx)
	total := len(all)
	hidden := func(item store.Item) bool { return item.ArchivedAt.IsZero() == o.archived }
	shown := all
	if slices.ContainsFunc(all, hidden) {
		shown = slices.DeleteFunc(all, hidden)
	}
	if a.json {
		for i := range shown {
			if err := a.printJSON(newListItem(&shown[i], holder)); err != nil {
				return err
			}
		}
		return err
	}
	if len(shown) == 0 && err == nil {
		switch {
		case o.archived:
			a.note("Nothing is archived here.")
		case total > 0:
			a.note("Everything that was run here is archived: %s. See `manager list --archived`.", plural(total, "boulder"))
		default:
			a.note("Nothing has been run here yet. %s", a.firstStep())
		}
		return nil
	}
	if printErr := a.printList(shown, holder, time.Now()); printErr != nil {
		return printErr
	}
	return err
}

// readList reads what the list shows, and who holds the state. With an error there are the boulders that could be read.
func (a *app) readList(ctx context.Context) ([]store.Item, *control.Holder, error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer closeReader()
	all, err := r.Listing(ctx)
	return all, project.HolderOf(ctx, r), err
}

func newListItem(b *store.Item, holder *control.Holder) listItem {
	return listItem{
		Type: "boulder", BoulderID: b.BoulderID, Task: b.Task, Status: b.Status, Reason: b.Reason,
		Running: runsItem(holder, b), Active: b.Active, Completed: b.Tally.Completed, Total: b.Tally.Planned, Tally: b.Tally,
		Usage: b.Usage, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, ArchivedAt: b.ArchivedAt,
	}
}

func runsItem(holder *control.Holder, b *store.Item) bool {
	return holder != nil && project.Runs(holder, boulder.Boulder{ID: b.BoulderID, Status: b.Status})
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

// listPiece is how much of a list is written at once, in bytes: there may be thousands of lines.
const listPiece = 32 << 10

// printList writes the list in pieces that end with a line: a secret is found within one write.
func (a *app) printList(items []store.Item, holder *control.Holder, now time.Time) error {
	dim, plain, _ := strings.Cut(a.paint(a.Stdout).dim("|"), "|") // once, and not for each line
	width := terminalSize(a.Stdout).Width
	var out bytes.Buffer
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
		age := elapsed(now.Sub(item.CreatedAt)) + " ago"
		status = clipText(status, widthStatus)
		room := max(20, width-1-len(item.BoulderID)-widthStatus-widthDone-widthAge-10)
		for _, s := range [...]string{
			dim, mark, item.BoulderID, "  ", status, blanks(widthStatus - len(status) + 2 + widthDone - len(done)), done,
			blanks(2 + widthAge - len(age)), age, "  ", plain, clipText(item.Task, room), "\n",
		} {
			out.WriteString(s)
		}
		if out.Len() < listPiece && i+1 < len(items) {
			continue
		}
		if _, err := out.WriteTo(a.Stdout); err != nil {
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
