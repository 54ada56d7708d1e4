package view

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// Order is what an order prints with --json: one object. Fields are added in later versions, never changed.
type Order struct {
	Type      string `json:"type"` // order
	BoulderID string `json:"boulder_id"`
	boulder.Order
	Status boulder.Status `json:"status"` // of the boulder, afterwards
	// RunBy is the process that runs it, and carried the order out; null if none does.
	RunBy *control.Holder `json:"run_by"`
	// AtWork are the sub-tasks that an agent or the judge is at; after "now" those that a resume takes up again.
	AtWork  []string `json:"at_work"`
	Blocked []string `json:"blocked"` // sub-tasks that this order blocked
	Freed   []string `json:"freed"`   // sub-tasks that this order let go on: dependents, and what is tried again
	// Left are sessions whose agents may be at work although their attempts have ended; the next run or resume stops them.
	Left []boulder.LeftSession `json:"left,omitempty"`

	done, total int
}

// NewOrder reports what an order did, from the boulder before and after it.
func NewOrder(before, after store.Detail, holder *control.Holder, o boulder.Order) *Order {
	b := after.Boulder
	r := &Order{
		Type: "order", BoulderID: b.ID, Order: o, Status: b.Status, AtWork: []string{}, Blocked: []string{},
		Freed: []string{}, Left: b.Left, done: Completed(after), total: Planned(after),
	}
	if project.Runs(holder, b) {
		r.RunBy, r.Left = holder, nil // it stops them now
		for _, t := range after.Attempts {
			left := !o.Now && stopped(b.Status == boulder.Paused, &t)
			if t.Status.Live() && !left {
				r.AtWork = append(r.AtWork, t.SubTaskID)
			}
		}
	}
	was := map[string]boulder.SubTaskStatus{}
	for _, t := range before.SubTasks {
		was[t.ID] = t.Status
	}
	for _, t := range after.SubTasks {
		switch old := was[t.ID]; {
		case t.Status == boulder.SubTaskBlocked && old != t.Status:
			r.Blocked = append(r.Blocked, t.ID)
		case t.Status == boulder.SubTaskPending && old == boulder.SubTaskBlocked:
			r.Freed = append(r.Freed, t.ID)
		}
	}
	return r
}

// Text is the report for people, on one line.
func (r *Order) Text() string { return r.outcome() + leftText(r.Left) }

// leftText says which agents may be at work although an order has ended their attempts.
func leftText(left []boulder.LeftSession) string {
	var text strings.Builder
	for _, l := range left {
		fmt.Fprintf(&text, " The agent of %q may still be at work in session %s: the next run or resume here stops it"+
			" before it starts anything.", l.SubTaskID, l.SessionID)
	}
	return text.String()
}

func (r *Order) outcome() string {
	switch r.Do {
	case boulder.OrderPause:
		return fmt.Sprintf("Paused. %s Continue with: manager resume %s", r.left(), r.BoulderID)
	case boulder.OrderResume:
		return "Resumed." + r.goesOn()
	case boulder.OrderCancel:
		if r.SubTaskID == "" {
			return fmt.Sprintf("Cancelled boulder %s, with %d of %s done. What they changed in the project stays.",
				r.BoulderID, r.done, text.Plural(r.total, "sub-task"))
		}
		text := fmt.Sprintf("Cancelled %q.", r.SubTaskID)
		if len(r.Blocked) > 0 {
			text += fmt.Sprintf(" Blocked, because of that: %s.", Listed(r.Blocked))
		}
		return text + r.goesOn()
	case boulder.OrderSkip:
		return fmt.Sprintf("Skipped %q: what depends on it goes on without it.%s", r.SubTaskID, r.goesOn())
	case boulder.OrderRetry:
		return fmt.Sprintf("%q is tried again in a fresh session, with all its tries.%s", r.SubTaskID, r.goesOn())
	}
	whom := "all sub-tasks"
	if r.SubTaskID != "" {
		whom = fmt.Sprintf("sub-task %q", r.SubTaskID)
	}
	return fmt.Sprintf("Noted for %s: it goes into the next prompt and the next judgement.%s", whom, r.goesOn())
}

// left says what is still at work after a pause.
func (r *Order) left() string {
	switch n := len(r.AtWork); {
	case r.RunBy == nil:
		return "No process runs it."
	case n == 0:
		return "Nothing is at work, and nothing starts."
	case r.Now:
		return fmt.Sprintf("Stopped, to be taken up again: %s.", Listed(r.AtWork))
	case n == 1:
		return fmt.Sprintf("%q is still at work, to the end of its turn; nothing new starts.", r.AtWork[0])
	}
	return fmt.Sprintf("%s are still at work, to the end of their turns; nothing new starts.", Listed(r.AtWork))
}

// goesOn says what has to be done for the order to have an effect, if anything has.
func (r *Order) goesOn() string {
	switch {
	case r.RunBy == nil:
		return fmt.Sprintf(" No process runs the boulder; continue with: manager resume %s", r.BoulderID)
	case r.Status == boulder.Paused:
		return fmt.Sprintf(" The boulder is paused; continue with: manager resume %s", r.BoulderID)
	case r.Do == boulder.OrderResume:
		return fmt.Sprintf(" Process %d goes on with boulder %s.", r.RunBy.PID, r.BoulderID)
	}
	return ""
}

// Listed is names in a row: "a", "b".
func Listed(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%q", name))
	}
	return strings.Join(all, ", ")
}
