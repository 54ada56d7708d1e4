package view

import (
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// Status is what `manager status --json` prints: one object. Fields are added in later versions, never changed.
type Status struct {
	Type      string         `json:"type"` // status
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"`
	Goal      string         `json:"goal,omitempty"`
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	// Left are sessions whose agents may be at work although their attempts have ended; the next run or resume stops them.
	Left        []boulder.LeftSession `json:"left,omitempty"`
	Project     string                `json:"project"`
	Base        string                `json:"base,omitempty"` // commit the plan was made on
	Revision    int                   `json:"revision"`       // of the plan; 0 while planning
	Model       string                `json:"model,omitempty"`
	LedgerModel string                `json:"ledger_model,omitempty"`
	// RunBy is the process that runs it; null if none does.
	RunBy *control.Holder `json:"run_by"`
	// Resumable: it is not over, and `manager resume` would go on with it now.
	Resumable bool          `json:"resumable"`
	Completed int           `json:"completed"` // sub-tasks
	Total     int           `json:"total"`     // sub-tasks of the plan, without superseded ones
	Usage     boulder.Usage `json:"usage"`
	Summary   string        `json:"summary,omitempty"`
	// Waiting are the blockers that a person may still answer.
	Waiting   WaitingBlockers `json:"waiting_blockers,omitzero"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`

	SubTasks []subTaskStatus `json:"sub_tasks"` // in plan order

	now time.Time
}

// subTaskStatus is a sub-task in a [Status].
type subTaskStatus struct {
	ID        string                `json:"id"`
	Position  int                   `json:"position"` // in the plan, from 1
	Subject   string                `json:"subject"`
	Status    boulder.SubTaskStatus `json:"status"`
	Reason    string                `json:"reason,omitempty"`
	Priority  boulder.Priority      `json:"priority"`
	DependsOn []string              `json:"depends_on"`
	Model     string                `json:"model,omitempty"` // empty: OpenCode's default
	Agent     string                `json:"agent,omitempty"`

	Attempt       int                   `json:"attempt"`                  // number of the newest; 0 before the first
	AttemptStatus boulder.AttemptStatus `json:"attempt_status,omitempty"` // of the newest
	Turn          int                   `json:"turn,omitempty"`           // of the newest attempt
	SessionID     string                `json:"session_id,omitempty"`     // of the newest attempt
	// Waiting is its place in line and the reason, while it waits for a slot.
	Waiting *schedule.Wait `json:"waiting,omitempty"`
	// Stopped: its turn was broken off, and is taken up again when the pause is over.
	Stopped    bool                `json:"stopped,omitempty"`
	Activity   string              `json:"activity,omitempty"` // last sign of life of the running turn
	Checkpoint *boulder.Checkpoint `json:"checkpoint,omitempty"`
	// Blockers are what its attempts came upon that a person has to answer, oldest first.
	Blockers  []boulder.RaisedBlocker `json:"blockers,omitempty"`
	ElapsedMS int64                   `json:"elapsed_ms"` // of all attempts together
	Usage     boulder.Usage           `json:"usage"`
	Summary   string                  `json:"summary,omitempty"`

	row row
}

// NewStatus reports how a boulder stands.
func NewStatus(
	d store.Detail, recent []boulder.Event, holder *control.Holder, limits schedule.Limits, beside []Neighbour,
	now time.Time,
) *Status {
	b := d.Boulder
	s := &Status{
		Type: "status", BoulderID: b.ID, Task: b.Task, Goal: b.Goal, Status: b.Status, Reason: b.Reason, Left: b.Left,
		Project: b.Project, Base: b.Base, Revision: b.Revision, Model: b.Model, LedgerModel: b.LedgerModel,
		Usage: b.Usage, Summary: b.Summary, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, SubTasks: []subTaskStatus{}, now: now,
	}
	s.Completed, s.Total = Done(d)
	if holder.Runs(b) {
		s.RunBy, s.Left = holder, nil // it stops them now
	} else {
		recent = nil // what an agent did when its run ended is not what it does
	}
	s.Waiting = WaitingIn(d, nil, now)
	s.Resumable = !b.Status.Terminal() && (s.RunBy == nil || b.Status == boulder.Paused)
	p, _ := ProgressOf(nil, d, recent, nil) // contradictory records are shown as well: that is when people look
	for _, r := range p.rows(limits, beside, now) {
		t := r.task
		if s.RunBy == nil && r.attempt != nil {
			r.now = r.attempt.UpdatedAt // where no process is at it, the clock stands still
		}
		sub := subTaskStatus{
			ID: t.ID, Position: t.Position, Subject: t.Subject, Status: t.Status, Reason: t.Reason, Priority: t.Priority,
			DependsOn: append([]string{}, t.DependsOn...), Model: t.Model, Agent: t.Agent, Attempt: t.Attempts,
			Waiting: r.wait, Stopped: r.live() && !r.working(), Activity: r.activity, Checkpoint: t.Checkpoint,
			ElapsedMS: r.took().Milliseconds(), Usage: r.used(), Summary: t.Summary, Blockers: t.Blockers, row: r,
		}
		if sub.Stopped {
			sub.Activity = "" // no turn runs
		}
		if r.newest != nil {
			sub.AttemptStatus, sub.Turn, sub.SessionID = r.newest.Status, r.newest.Turns, r.newest.SessionID
		}
		s.SubTasks = append(s.SubTasks, sub)
	}
	return s
}

// Done counts the completed sub-tasks of a boulder, and those of its plan: what a replan put something else in the place
// of is not of it any more.
func Done(d store.Detail) (completed, planned int) {
	counts := map[boulder.SubTaskStatus]int{}
	for i := range d.SubTasks {
		counts[d.SubTasks[i].Status]++
	}
	return counts[boulder.SubTaskCompleted], len(d.SubTasks) - counts[boulder.SubTaskSuperseded]
}

// widestLabel bounds the column of sub-task ids, which may have 64 characters.
const widestLabel = 20

// Print shows the status to people: how it stands, whether it continues by itself and if not what to do, and a line for
// each sub-task.
func (s *Status) Print(o page.Out) {
	if o.Columns = o.Width(); o.Columns > page.Widest {
		o.Columns = page.Widest
	}
	head := o.Strong(s.BoulderID) + "  " + o.As(statusSign(s.Status), string(s.Status))
	if s.Total > 0 {
		head += fmt.Sprintf("  %d/%d done", s.Completed, s.Total)
	}
	o.Say(head, "  ", o.Dim(report.Usage(s.Usage)), "  ", o.Dim("started "+text.Elapsed(s.now.Sub(s.CreatedAt))+" ago"))
	o.Say(text.Clip(s.Task, 2*o.Columns))
	if waiting := s.Waiting.Text(); waiting != "" {
		o.Say(o.Yellow(waiting), ": ", o.Code(ClarifyHint))
	}
	if len(s.Left) > 0 {
		o.Say(o.Yellow(o.Plain(leftText(s.Left))))
	}
	resume := "Continue with: " + o.Code("manager resume "+s.BoulderID)
	if s.Waiting.Hard > 0 {
		resume = "Answer first, then continue with: " + o.Code("manager resume "+s.BoulderID)
	}
	if s.RunBy != nil {
		o.Say(o.Dim(fmt.Sprintf("run by process %d since %s: %s", s.RunBy.PID, stamp(s.RunBy.Since, s.now),
			text.Clip(s.RunBy.Command, o.Columns))))
	}
	switch {
	case s.Status == boulder.Paused:
		o.Say(o.Yellow(o.Plain(report.Stated("paused", s.Reason))))
		o.Say(resume)
	case s.RunBy != nil:
	case s.Status == boulder.AwaitingApproval:
		o.Say("The plan waits for approval. ", resume)
	case s.Resumable:
		o.Say(o.Yellow("interrupted"), ": no process runs it. ", resume)
	case s.Reason != "":
		o.Say(o.Plain(s.Reason))
	}
	if len(s.SubTasks) > 0 {
		o.Say()
		s.printTasks(o)
	}
}

func (s *Status) printTasks(o page.Out) {
	t := tasks{Paint: o.Paint, width: o.Columns, label: func(t *boulder.SubTask) string { return t.ID }}
	var rows []row
	for _, sub := range s.SubTasks {
		t.wide = max(t.wide, min(ansi.StringWidthWc(sub.ID), widestLabel))
		rows = append(rows, sub.row)
	}
	for i, line := range t.lines(rows...) {
		fmt.Fprintln(o, line)
		if more := s.more(s.SubTasks[i]); more != "" {
			fmt.Fprintln(o, t.below(more))
		}
	}
}

// more is a second line for what did not go well, or is at work.
func (s *Status) more(sub subTaskStatus) string {
	edited := ""
	if c := sub.Checkpoint; c != nil {
		edited = fmt.Sprintf("last edit %s:%d", c.File, c.Line)
	}
	switch r := sub.row; {
	case r.live() && s.RunBy != nil:
		return JoinedBy(" · ", r.does(), edited)
	case r.live() && r.replan:
		return JoinedBy(" · ", "waits for a new plan", edited)
	case r.live():
		where := fmt.Sprintf("in turn %d", sub.Turn)
		if sub.Turn == 0 {
			where = "before the first turn"
		} else if sub.AttemptStatus == boulder.AttemptMonitoring {
			where = fmt.Sprintf("after turn %d", sub.Turn)
		}
		return JoinedBy(" · ", fmt.Sprintf("left %s of attempt %d", where, sub.Attempt), edited)
	case sub.Status.Terminal() && sub.Status != boulder.SubTaskCompleted:
		return sub.Reason
	}
	return ""
}

// stamp is a time as people say it: today without the date.
func stamp(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
