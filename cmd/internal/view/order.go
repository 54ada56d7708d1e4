package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// Order is what a command such as `manager pause --json` prints: one object.
type Order struct {
	Type      string `json:"type"` // order
	BoulderID string `json:"boulder_id"`
	boulder.Order
	Status boulder.Status  `json:"status"` // of the boulder after the order
	RunBy  *project.Holder `json:"run_by"` // the process that runs it and carried out the order; null if none does
	// AtWork lists the sub-tasks that are worked on; after a pause with "now", those that a resume continues.
	AtWork  []string `json:"at_work"`
	Blocked []string `json:"blocked"`          // sub-tasks that this order blocked
	Freed   []string `json:"freed"`            // blocked sub-tasks that this order made pending again
	Edited  bool     `json:"edited,omitempty"` // what the plan file says of the sub-task was taken over
	// Left lists sessions of ended attempts whose agents may still be at work. The next run or resume stops them.
	Left []boulder.LeftSession `json:"left,omitempty"`

	tally    boulder.Tally
	depended bool   // another sub-task depends on this one
	lifted   bool   // the cool-down of its model was lifted
	starts   string // when the boulder may begin; empty: it has, or may
}

// NewOrder reports what an order did.
func NewOrder(done *project.Ordered) *Order {
	before, after, holder, o := done.Before, done.After, done.Holder, done.Order
	b := after.Boulder
	r := &Order{
		Type: "order", BoulderID: b.ID, Order: o, Status: b.Status, AtWork: []string{}, Blocked: []string{},
		Freed: []string{}, Left: b.LeftSessions, tally: b.Tally, Edited: o.Do == boulder.OrderRetry && o.Plan != nil,
	}
	r.Plan, r.Hash = nil, "" // the whole of it is no news
	if now := b.UpdatedAt; b.Waits(now) {
		r.starts = Starts(b.StartAt, now)
	}
	atWork, was := map[string]bool{}, map[string]boulder.SubTaskStatus{}
	if holder.Has(b.ID) {
		r.RunBy, r.Left = holder, nil // that process stops them now
		for _, a := range after.Attempts {
			atWork[a.SubTaskID] = atWork[a.SubTaskID] || a.Status.Live() && (o.Now || !stopped(b.Status == boulder.Paused, a))
		}
	}
	for _, t := range before.SubTasks {
		was[t.ID] = t.Status
	}
	for model, c := range b.Cooldowns {
		r.lifted = r.lifted || c.Lifted.After(before.Boulder.Cooldowns[model].Lifted)
	}
	for _, t := range after.SubTasks {
		if atWork[t.ID] {
			r.AtWork = append(r.AtWork, t.ID)
		}
		r.depended = r.depended || slices.Contains(t.DependsOn, o.SubTaskID) && t.Status != boulder.SubTaskSuperseded
		switch old := was[t.ID]; {
		case t.Status == boulder.SubTaskBlocked && old != t.Status:
			r.Blocked = append(r.Blocked, t.ID)
		case t.Status == boulder.SubTaskPending && old == boulder.SubTaskBlocked:
			r.Freed = append(r.Freed, t.ID)
		}
	}
	return r
}

// Answered says what the user decided about a plan or a replan.
func Answered(o boulder.Order) string {
	return map[boulder.OrderKind]string{
		boulder.OrderApprove: "Approved.", boulder.OrderDecline: "Declined.", boulder.OrderRevise: "The plan is revised, and then waits for you again.",
	}[o.Do]
}

// Print writes the report for people.
func (r *Order) Print(o page.Out) { o.Say(r.Text()) }

// Text returns the report for people.
func (r *Order) Text() string {
	id, resume, left := r.SubTaskID, "manager resume "+boulder.ShortID(r.BoulderID), text.Prefixed(" ", leftText(r.Left))
	line := ""
	switch r.Do {
	case boulder.OrderPause:
		at := "Still at work, to the end of the turn: " + Listed(r.AtWork) + "; nothing new starts."
		switch {
		case r.RunBy == nil:
			at = "No process runs it."
		case len(r.AtWork) == 0:
			at = "Nothing is at work, and nothing starts."
		case r.Now:
			at = "Stopped, to be taken up again: " + Listed(r.AtWork) + "."
		}
		return "Paused. " + at + left + " Continue with: " + resume
	case boulder.OrderApprove, boulder.OrderDecline, boulder.OrderRevise:
		line = Answered(r.Order) + text.If(len(r.Blocked) > 0, " Blocked, because of that: "+Listed(r.Blocked)+".")
	case boulder.OrderKeep:
		return fmt.Sprintf("The result of %q is taken as up to date.", r.Kept.SubTaskID)
	case boulder.OrderResume:
		line = "Resumed."
	case boulder.OrderCancel:
		if id == "" {
			return fmt.Sprintf("Cancelled boulder %s, with %d of %s done. What they changed in the project stays.%s",
				boulder.ShortID(r.BoulderID), r.tally.Completed, text.Plural(r.tally.Planned, "sub-task"), left)
		}
		line = fmt.Sprintf("Cancelled %q.", id) + text.If(len(r.Blocked) > 0, " Blocked, because of that: "+Listed(r.Blocked)+".")
	case boulder.OrderSkip:
		line = fmt.Sprintf("Skipped %q%s.", id, text.If(r.depended, ": what depends on it continues without it"))
	case boulder.OrderRetry:
		line = fmt.Sprintf("%q is retried in a fresh session, with all its attempts%s.", id, text.If(r.Edited, ", as the plan file has it now"))
		if r.lifted {
			line = fmt.Sprintf("%q continues now: its model is asked again before its limit is known to end.", id)
		}
	default:
		whom := cmp.Or(text.If(id != "", fmt.Sprintf("sub-task %q", id)), "all sub-tasks")
		line = "Noted for " + whom + ": it goes into the next prompt and the next judgement."
	}
	line += left
	switch { // what it takes for the order to have an effect
	case r.Status.Terminal():
		line += fmt.Sprintf(" Boulder %s is over: %s.", boulder.ShortID(r.BoulderID), r.Status)
	case r.RunBy == nil:
		line += " No process runs the boulder; continue with: " + resume
	case r.Status == boulder.Paused:
		line += " The boulder is paused; continue with: " + resume
	case r.Do == boulder.OrderResume && r.starts != "":
		line += fmt.Sprintf(" Boulder %s %s, in process %d.", boulder.ShortID(r.BoulderID), r.starts, r.RunBy.PID)
	case r.Do == boulder.OrderResume:
		line += fmt.Sprintf(" Process %d continues boulder %s.", r.RunBy.PID, boulder.ShortID(r.BoulderID))
	}
	return line
}

func leftText(left []boulder.LeftSession) (all string) {
	for _, l := range left {
		all += fmt.Sprintf(" The agent of %q may still be at work in session %s: the next run or resume here stops it before"+
			" it starts anything.", l.SubTaskID, l.SessionID)
	}
	return strings.TrimSpace(all)
}

// Listed formats names as "a", "b".
func Listed(names []string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", names), "[]"), `" "`, `", "`)
}
