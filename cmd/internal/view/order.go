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
	"github.com/bouldermgr/manager/workspace"
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
	Blocked []string `json:"blocked"` // sub-tasks that this order blocked
	Freed   []string `json:"freed"`   // blocked sub-tasks that this order made pending again
	// Left lists sessions of ended attempts whose agents may still be at work. The next run or resume stops them.
	Left []boulder.LeftSession `json:"left,omitempty"`

	tally    boulder.Tally
	depended bool // another sub-task depends on this one
	lifted   bool // the cool-down of its model was lifted
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
	return map[bool]string{true: "Approved.", false: "Declined."}[o.Do == boulder.OrderApprove]
}

// Print writes the report for people.
func (r *Order) Print(o page.Out) { o.Say(r.Text()) }

// Text returns the report for people.
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
	case boulder.OrderApprove, boulder.OrderDecline:
		line = Answered(r.Order) + text.If(len(r.Blocked) > 0, " Blocked, because of that: "+Listed(r.Blocked)+".")
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
	switch { // what it takes for the order to have an effect
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

// Finding is the outcome of a check of `manager doctor`.
type Finding string

const (
	Fine    Finding = "ok"
	Notice  Finding = "note"    // worth knowing, but not in the way of a run
	Broken  Finding = "failed"  // in the way of a run
	Skipped Finding = "skipped" // of `manager doctor --contract`
)

// Check is one line of `manager doctor`.
type Check struct {
	Name    string  `json:"name"`
	Finding Finding `json:"finding"`
	Detail  string  `json:"detail"`
	Do      string  `json:"do,omitempty"` // how to mend it
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

// Redo is what `manager redo --json` prints: one object.
type Redo struct {
	Type      string        `json:"type"` // redo-preview
	BoulderID string        `json:"boulder_id"`
	SubTasks  []redoRow     `json:"sub_tasks"` // that are redone, perhaps redone, or keep their results; in plan order
	Files     boulder.Files `json:"files"`
	Paths     []string      `json:"paths,omitempty"` // in the project, that are reverted
	Why       string        `json:"why,omitempty"`   // why changes stay although the default is to revert them
	Usage     boulder.Usage `json:"usage"`           // so far, of the sub-tasks that are redone
	Worked    int64         `json:"worked_ms"`       // of the same sub-tasks
	Note      string        `json:"note,omitempty"`
	DryRun    bool          `json:"dry_run"`

	isolated bool
}

type redoRow struct {
	ID      string           `json:"id"`
	Do      string           `json:"do"` // redo | perhaps | keep
	Reasons []boulder.Reason `json:"reasons,omitempty"`
	Why     string           `json:"why"`
}

func reasonText(reasons []boulder.Reason) string {
	says := map[boulder.Reason]string{
		boulder.ReasonAsked: "you asked for it", boulder.ReasonEdited: "its plan was edited", boulder.ReasonModel: "its model or agent is another one now",
		boulder.ReasonInput: "what it builds on is different now", boulder.ReasonBase: "commits changed files that it changed too",
		boulder.ReasonGate: "a gate is red now",
	}
	var all []string
	for _, r := range reasons {
		all = append(all, says[r])
	}
	return strings.Join(all, "; ")
}

// NewRedo reports what a redo does or, with dryRun, would do.
func NewRedo(before *boulder.Snapshot, r boulder.Redoing, dryRun bool) *Redo {
	o := r.Order.Redone
	v := &Redo{
		Type: "redo-preview", BoulderID: before.Boulder.ID, Files: o.Files, Paths: r.Paths, Why: r.Why, Note: r.Order.Text, DryRun: dryRun,
		isolated: before.Boulder.Isolated(),
	}
	for _, was := range before.SubTasks {
		t := r.After.SubTask(was.ID)
		row := redoRow{ID: t.ID, Do: "keep", Why: "does not depend on it"}
		switch {
		case slices.Contains(o.SubTasks, t.ID):
			row = redoRow{t.ID, "redo", o.Reasons[t.ID], reasonText(o.Reasons[t.ID])}
			v.Usage, v.Worked = v.Usage.Add(was.Usage), v.Worked+was.Worked.Milliseconds()
		case was.Status != boulder.SubTaskCompleted:
			continue
		case t.Standing == boulder.StandingPerhaps:
			row.Do, row.Why = "perhaps", "kept if "+needed(r.After, t)+" the same"
		case t.Generation > was.Generation:
			row.Do, row.Why = "redo", reasonText(t.Earlier.Reasons)
		case t.Standing == boulder.StandingKept && !slices.Contains(r.Moved, t.ID):
			row.Why = "you want no dependents redone"
		case t.Standing == boulder.StandingKept:
			row.Why += "; its change is applied and tested again"
		}
		v.SubTasks = append(v.SubTasks, row)
	}
	return v
}

func needed(s *boulder.State, t *boulder.SubTask) string {
	var all []string
	for _, id := range t.DependsOn {
		if s.SubTask(id).Status != boulder.SubTaskCompleted {
			all = append(all, id)
		}
	}
	return text.Clip(strings.Join(all, ", "), 40) + text.If(len(all) == 1, " comes out") + text.If(len(all) != 1, " come out")
}

// Print writes the report for people.
func (r *Redo) Print(o page.Out) {
	var rows [][]string
	for _, row := range r.SubTasks {
		rows = append(rows, []string{row.Do, row.ID, row.Why})
	}
	how := "what it changed stays, and its next session finds it"
	switch {
	case r.isolated && r.Files == boulder.FilesRevert:
		how = "the results are rebuilt from before it; the old ones stay under refs/manager/" + r.BoulderID
	case r.Files == boulder.FilesKeep:
	case len(r.Paths) == 0:
		how = "stay as they are"
	default:
		how = text.Clip(strings.Join(r.Paths, ", "), 60) + text.If(len(r.Paths) == 1, " goes") + text.If(len(r.Paths) > 1, " go") + " back to before it"
	}
	rows = append(rows, []string{"files", how})
	printTable(o, []column{{}, {}, {flexible: true}}, rows)
	if r.Why != "" {
		o.Say("It stays because ", o.Plain(r.Why), ".")
	}
	o.Say(fmt.Sprintf("so far: %s, %s", Usage(r.Usage), text.Millis(r.Worked)))
}

// Stale is what `manager status --stale --json` prints: one object.
type Stale struct {
	Type      string     `json:"type"` // stale
	BoulderID string     `json:"boulder_id"`
	SubTasks  []staleRow `json:"sub_tasks"` // in plan order

	closed bool
}

type staleRow struct {
	ID      string           `json:"id"`
	Reasons []boulder.Reason `json:"reasons"`
}

// NewStale lists the sub-tasks whose results are out of date.
func NewStale(b *boulder.Snapshot, stale map[string][]boulder.Reason) *Stale {
	v := &Stale{Type: "stale", BoulderID: b.Boulder.ID, SubTasks: []staleRow{}, closed: b.Boulder.Closed()}
	for _, t := range b.SubTasks {
		if why := stale[t.ID]; len(why) > 0 {
			v.SubTasks = append(v.SubTasks, staleRow{t.ID, why})
		}
	}
	return v
}

// Print writes the list for people.
func (s *Stale) Print(o page.Out) {
	if len(s.SubTasks) == 0 {
		o.Say(s.BoulderID + ": nothing is out of date.")
		return
	}
	var rows [][]string
	for _, t := range s.SubTasks {
		rows = append(rows, []string{t.ID, reasonText(t.Reasons)})
	}
	printTable(o, []column{{}, {flexible: true}}, rows)
	if !s.closed {
		o.Say("Redo them with: ", o.Code("manager redo --stale"))
	}
	o.Say("Take a result as it is with: ", o.Code("manager keep SUBTASK"))
}

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
	Total     int            `json:"total"`              // sub-tasks, without superseded ones
	Blocked   []string       `json:"blocked"`            // sub-tasks
	Unlanded  bool           `json:"unlanded,omitempty"` // see [boulder.Boulder.Unlanded]
}

// Take records the state of a boulder. stands reports whether it continues only with the user.
func (w *Wait) Take(d boulder.Snapshot, holder *project.Holder) (stands bool) {
	b := d.Boulder
	w.Status, w.Reason, w.Blocked = b.Status, b.Reason, []string{}
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

// Land is what `manager land --json` prints: one object.
type Land struct {
	Type      string `json:"type"` // land
	BoulderID string `json:"boulder_id"`
	boulder.Landed
	Files  []workspace.Change `json:"files,omitempty"`
	DryRun bool               `json:"dry_run"`
}
