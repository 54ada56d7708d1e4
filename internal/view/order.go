package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// Order is what an order prints with --json: one object.
type Order struct {
	Type      string `json:"type"` // order
	BoulderID string `json:"boulder_id"`
	boulder.Order
	Status boulder.Status  `json:"status"` // of the boulder, afterwards
	RunBy  *control.Holder `json:"run_by"` // the process that runs it, and carried the order out; null if none does
	// AtWork are the sub-tasks that an agent or the judge is at; after "now" those that a resume takes up again.
	AtWork  []string `json:"at_work"`
	Blocked []string `json:"blocked"` // sub-tasks that this order blocked
	Freed   []string `json:"freed"`   // sub-tasks that this order let go on: dependents, and what is tried again
	// Left are sessions that the next run or resume stops: their agents may be at work although their attempts have ended.
	Left []boulder.LeftSession `json:"left,omitempty"`

	tally    boulder.Tally
	depended bool // something depends on the sub-task
	lifted   bool // a limit of its model was lifted
}

// NewOrder reports what an order did.
func NewOrder(done *project.Ordered) *Order {
	before, after, holder, o := done.Before, done.After, done.Holder, done.Order
	b := after.Boulder
	r := &Order{
		Type: "order", BoulderID: b.ID, Order: o, Status: b.Status, AtWork: []string{}, Blocked: []string{},
		Freed: []string{}, Left: b.Left, tally: b.Tally,
	}
	atWork, was := map[string]bool{}, map[string]boulder.SubTaskStatus{}
	if holder.Has(b.ID) {
		r.RunBy, r.Left = holder, nil // it stops them now
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

// Print is the report for people, in one sentence after the other.
func (r *Order) Print(o page.Out) { o.Say(r.Text()) }

// Text is the report for people.
func (r *Order) Text() string {
	id, resume, left := r.SubTaskID, "manager resume "+r.BoulderID, text.Prefixed(" ", leftText(r.Left))
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
	case boulder.OrderKeep:
		return fmt.Sprintf("The result of %q is taken as up to date.", r.Kept.SubTaskID)
	case boulder.OrderResume:
		line = "Resumed."
	case boulder.OrderCancel:
		if id == "" {
			return fmt.Sprintf("Cancelled boulder %s, with %d of %s done. What they changed in the project stays.%s",
				r.BoulderID, r.tally.Completed, text.Plural(r.tally.Planned, "sub-task"), left)
		}
		line = fmt.Sprintf("Cancelled %q.", id) + text.If(len(r.Blocked) > 0, " Blocked, because of that: "+Listed(r.Blocked)+".")
	case boulder.OrderSkip:
		line = fmt.Sprintf("Skipped %q%s.", id, text.If(r.depended, ": what depends on it continues without it"))
	case boulder.OrderRetry:
		line = fmt.Sprintf("%q is retried in a fresh session, with all its attempts.", id)
		if r.lifted {
			line = fmt.Sprintf("%q continues now: its model is asked again before its limit is known to end.", id)
		}
	default:
		whom := cmp.Or(text.If(id != "", fmt.Sprintf("sub-task %q", id)), "all sub-tasks")
		line = "Noted for " + whom + ": it goes into the next prompt and the next judgement."
	}
	line += left
	switch { // what has to be done for the order to have an effect
	case r.Status.Terminal():
		line += fmt.Sprintf(" Boulder %s is over: %s.", r.BoulderID, r.Status)
	case r.RunBy == nil:
		line += " No process runs the boulder; continue with: " + resume
	case r.Status == boulder.Paused:
		line += " The boulder is paused; continue with: " + resume
	case r.Do == boulder.OrderResume:
		line += fmt.Sprintf(" Process %d continues boulder %s.", r.RunBy.PID, r.BoulderID)
	}
	return line
}

// leftText says which agents may be at work although an order has ended their attempts.
func leftText(left []boulder.LeftSession) (all string) {
	for _, l := range left {
		all += fmt.Sprintf(" The agent of %q may still be at work in session %s: the next run or resume here stops it before"+
			" it starts anything.", l.SubTaskID, l.SessionID)
	}
	return strings.TrimSpace(all)
}

// Listed is names in a row: "a", "b".
func Listed(names []string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", names), "[]"), `" "`, `", "`)
}

// Settled says what became of an answer to a blocker, and what comes of it.
func Settled(r *project.Answered, now time.Time) string {
	did, with := "Answered", "with the answer"
	switch {
	case r.Status == boulder.BlockerSkipped:
		did, with = "Skipped", "without an answer"
	case r.Allowed:
		did, with = "Allowed", "with the permission"
	}
	follows := fmt.Sprintf("%q goes on %s.", r.SubTaskID, with)
	switch {
	case r.Handover == project.NoBoulder && r.Ask != nil && r.Ask.Reply == boulder.ReplyWaiting && r.Until.After(now):
		follows = "The session that waits for it gets it."
	case r.Handover == project.NoBoulder && IsSession(r.SessionID):
		follows = "It came up outside of a run: its session is told by the next prompt of `manager watch`, if that watches it."
	case r.Handover == project.NoBoulder:
		follows = "It came up outside of a run: nobody waits for it."
	case r.Handover == project.OverBefore:
		follows = "Nothing waited for it any more."
	case r.Handover == project.NotAsked:
		follows = fmt.Sprintf("%q gets it as soon as it has told its boulder of the blocker.", r.SubTaskID)
	case r.Handover == project.Kept:
		follows = ""
	case len(r.Awaited) > 0:
		follows = fmt.Sprintf("%q still waits for %s.", r.SubTaskID, strings.Join(r.Awaited, ", "))
	case GoesOnLater(r):
		follows = fmt.Sprintf("%q goes on %s when the boulder does: manager resume %s", r.SubTaskID, with, r.BoulderID)
	}
	option := text.If(slices.Contains(r.Options, r.Answer), ": "+strings.TrimSuffix(text.Short(r.Answer, 100), "."))
	return strings.TrimSpace(did + " " + r.ID + option + ". " + follows)
}

// GoesOnLater reports whether the boulder has the answer, and the user has to resume it.
func GoesOnLater(r *project.Answered) bool {
	return r.Handover == project.HandedOver && (r.RunBy == nil || r.BoulderStatus == boulder.Paused)
}

// Finding is the outcome of a check of `manager doctor`.
type Finding string

// The findings.
const (
	Fine   Finding = "ok"
	Notice Finding = "note"   // works, but is worth knowing
	Broken Finding = "failed" // in the way of a run
	// Skipped is for `manager doctor --contract`.
	Skipped Finding = "skipped"
)

// Check is one line of `manager doctor`.
type Check struct {
	Name    string  `json:"name"`
	Finding Finding `json:"finding"`
	Detail  string  `json:"detail"`
	Do      string  `json:"do,omitempty"` // what to do about it
}

// Doctor is what `manager doctor --json` prints.
type Doctor struct {
	Type   string  `json:"type"` // doctor
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Print prints the report for people.
func (d *Doctor) Print(o page.Out) {
	for _, c := range d.Checks {
		sign := map[Finding]string{Fine: "✓", Notice: "!", Broken: "✗"}[c.Finding]
		lines := strings.Split(strings.TrimSpace(text.Safe(c.Detail)), "\n")
		if c.Do != "" {
			lines = append(lines, "→ "+text.OneLine(c.Do))
		}
		fmt.Fprintf(o, "%s %s  %s\n", o.Mark(sign), o.Bold(text.Fit(c.Name, len("opencode"))),
			strings.Join(lines, "\n"+strings.Repeat(" ", len("! opencode  "))))
	}
	if !d.OK {
		o.Say("\nSomething is in the way of a run; see the lines with ", o.Mark("✗"), ".")
	}
}
