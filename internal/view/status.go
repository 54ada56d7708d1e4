package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// widestLabel bounds the column of sub-task ids, which may have 64 characters.
const widestLabel = 20

// Print shows a report to people.
func (s *Status) Print(o Out) {
	v := StatusView{Out: o, Report: s, Width: o.Width()}
	v.Head()
	v.State()
	v.SubTasks()
}

// StatusView prints how a boulder stands.
type StatusView struct {
	Out
	Report *Status
	Width  int
}

// Head prints the boulder, in a line or two.
func (v StatusView) Head() {
	s := v.Report
	head := v.Bold(s.BoulderID) + "  " + v.status(s.Status)
	if s.Total > 0 {
		head += fmt.Sprintf("  %d/%d done", s.Completed, s.Total)
	}
	sep := "  "
	rest := fmt.Sprintf("%s  started %s ago", UsageText(s.Usage), text.Elapsed(s.now.Sub(s.CreatedAt)))
	if ansi.StringWidthWc(head+sep+rest) >= v.Width {
		sep = "\n"
	}
	v.say(head + sep + v.Dim(rest))
	v.say(text.Clip(s.Task, 2*v.Width))
}

// say prints a text with its lines broken between words.
func (v StatusView) say(s string) { fmt.Fprintln(v, text.Wrap(s, v.Width-1)) }

// State says whether it goes on by itself, and if not, why and what to do.
func (v StatusView) State() {
	s := v.Report
	if text := s.Waiting.Text(); text != "" {
		if s.Waiting.Awaited() != "" {
			text = v.Yellow(text)
		}
		v.say(text + ": " + ClarifyHint)
	}
	if len(s.Left) > 0 {
		v.say(v.Yellow(strings.TrimSpace(leftText(s.Left))))
	}
	goOn := "Continue with: manager resume " + s.BoulderID
	if s.Waiting.Hard > 0 {
		goOn = "Answer first, then continue with: manager resume " + s.BoulderID
	}
	switch {
	case s.RunBy != nil:
		v.say(v.Dim(fmt.Sprintf("run by process %d since %s: %s", s.RunBy.PID, stamp(s.RunBy.Since, s.now),
			text.Clip(s.RunBy.Command, v.Width))))
		if s.Status == boulder.Paused {
			v.say(v.Yellow(Stated("paused", text.OneLine(s.Reason))) + ". " + goOn)
		}
	case s.Status == boulder.Paused:
		v.say(Stated("paused", text.OneLine(s.Reason)) + "\n" + goOn)
	case s.Status == boulder.AwaitingApproval:
		v.say("The plan waits for approval. Continue with: manager resume " + s.BoulderID)
	case s.Resumable:
		v.say(v.Yellow("interrupted") + ": no process runs it. Continue with: manager resume " + s.BoulderID)
	case s.Reason != "":
		v.say(text.OneLine(s.Reason))
	}
}

// SubTasks prints the sub-tasks in the order of the plan, a line each.
func (v StatusView) SubTasks() {
	if len(v.Report.SubTasks) == 0 {
		return
	}
	labels := 0
	for _, t := range v.Report.SubTasks {
		labels = max(labels, min(ansi.StringWidthWc(t.ID), widestLabel))
	}
	byID := map[string]*boulder.SubTask{}
	var rows []row
	for _, s := range v.Report.SubTasks {
		byID[s.ID] = s.row.task
		rows = append(rows, s.row)
	}
	t := newTable(v.Paint, v.Width, labels, func(t *boulder.SubTask) string { return t.ID },
		func(id string) string { return unlessDone(byID[id]) })
	t.now = v.Report.now
	t.size(rows)
	fmt.Fprintln(v)
	for _, s := range v.Report.SubTasks {
		t.now = v.Report.now
		if v.Report.RunBy == nil && s.row.attempt != nil {
			t.now = s.row.attempt.UpdatedAt
		}
		fmt.Fprintln(v, t.line(s.row))
		if more := v.more(t, s); more != "" {
			fmt.Fprintln(v, t.below(more))
		}
	}
}

// more is a second line for what did not go well, or is at work.
func (v StatusView) more(t *table, s subTaskStatus) string {
	switch {
	case s.row.live() && v.Report.RunBy == nil:
		return JoinedBy(" · ", left(s), checkpointText(s.Checkpoint))
	case s.row.live():
		return JoinedBy(" · ", t.activity(s.row), checkpointText(s.Checkpoint))
	case s.Status == boulder.SubTaskFailed, s.Status == boulder.SubTaskCancelled, s.Status == boulder.SubTaskSkipped,
		s.Status == boulder.SubTaskSuperseded:
		return s.Reason
	}
	return ""
}

// left says where a sub-task is that nobody is at.
func left(s subTaskStatus) string {
	where := fmt.Sprintf("in turn %d", s.Turn)
	switch {
	case s.row.replan:
		return "waits for a new plan"
	case s.Turn == 0:
		where = "before the first turn"
	case s.AttemptStatus == boulder.AttemptMonitoring:
		where = fmt.Sprintf("after turn %d", s.Turn)
	}
	return fmt.Sprintf("left %s of attempt %d", where, s.Attempt)
}

func checkpointText(c *boulder.Checkpoint) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("last edit %s:%d", c.File, c.Line)
}

// stamp is a time as people say it: today without the date.
func stamp(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

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

// subTaskStatus is a sub-task in a [statusReport].
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
		Total: Planned(d), Usage: b.Usage, Summary: b.Summary, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
		SubTasks: []subTaskStatus{}, now: now,
	}
	if project.Runs(holder, b) {
		s.RunBy, s.Left = holder, nil // it stops them now
	}
	s.Waiting = WaitingIn(d, nil, now)
	s.Resumable = !b.Status.Terminal() && (s.RunBy == nil || b.Status == boulder.Paused)
	if s.RunBy == nil {
		recent = nil // what an agent did when its run ended is not what it does
	}
	for r := range rowsOf(d, recent, limits, beside, now) {
		if r.task.Status == boulder.SubTaskCompleted {
			s.Completed++
		}
		if s.RunBy == nil && r.attempt != nil {
			now = r.attempt.UpdatedAt // nobody is at work: the clock stands still
		}
		s.SubTasks = append(s.SubTasks, newSubTaskStatus(r, now))
	}
	return s
}

func newSubTaskStatus(r row, now time.Time) subTaskStatus {
	t := r.task
	s := subTaskStatus{
		ID: t.ID, Position: t.Position, Subject: t.Subject, Status: t.Status, Reason: t.Reason, Priority: t.Priority,
		DependsOn: append([]string{}, t.DependsOn...), Model: t.Model, Agent: t.Agent, Attempt: t.Attempts,
		Waiting: r.wait, Stopped: r.stopped(), Activity: r.doing.activity, Checkpoint: t.Checkpoint,
		ElapsedMS: r.took(now).Milliseconds(), Usage: r.usage(), Summary: t.Summary, Blockers: t.Blockers,
		row: r,
	}
	if s.Stopped {
		s.Activity = "" // no turn runs
	}
	if r.newest != nil {
		s.AttemptStatus, s.Turn, s.SessionID = r.newest.Status, r.newest.Turns, r.newest.SessionID
	}
	return s
}
