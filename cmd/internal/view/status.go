package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/store"
)

// Status is what `manager status --json` prints: one object.
type Status struct {
	Type      string         `json:"type"` // status
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"`
	Goal      string         `json:"goal,omitempty"`
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	// Left lists sessions of ended attempts whose agents may still be at work. The next run or resume stops them.
	Left        []boulder.LeftSession `json:"left,omitempty"`
	Project     string                `json:"project"`
	Base        string                `json:"base,omitempty"` // commit that the plan was made on
	Revision    int                   `json:"revision"`       // of the plan; 0 while planning
	Model       boulder.Models        `json:"model,omitempty"`
	Effort      string                `json:"effort,omitempty"` // of models that are named without one
	Engine      string                `json:"engine,omitempty"` // that runs it; empty: a manager on this machine
	LedgerModel boulder.Models        `json:"ledger_model,omitempty"`
	RunBy       *project.Holder       `json:"run_by"`             // the process that runs it; null if none does
	Resumable   bool                  `json:"resumable"`          // `manager resume` would continue it now
	Completed   int                   `json:"completed"`          // sub-tasks
	Total       int                   `json:"total"`              // sub-tasks, without superseded ones
	Unlanded    bool                  `json:"unlanded,omitempty"` // see [boulder.Boulder.Unlanded]
	Usage       boulder.Usage         `json:"usage"`
	Answer      string                `json:"answer,omitempty"` // of a boulder that is over
	Summary     string                `json:"summary,omitempty"`
	Waiting     WaitingBlockers       `json:"waiting_blockers,omitzero"` // that the user can still answer
	StartAt     time.Time             `json:"start_at,omitzero"`         // when it may begin
	CreatedAt   time.Time             `json:"created_at"`
	UpdatedAt   time.Time             `json:"updated_at"`
	AtEvent     uint64                `json:"at_event,omitempty"` // the status is as of this event of the log
	// Models lists the models that it uses, and those behind them in a list.
	Models   []orchestrator.ModelUse `json:"models,omitempty"`
	SubTasks []row                   `json:"sub_tasks"` // in plan order

	now     time.Time
	worked  time.Duration // as in report and receipt
	written string        // the answer that a model wrote
	resume  string        // the command that continues it
	copied  bool          // a copy of a boulder on Engine, which cannot be reached from here
}

// NewStatus makes the status of a boulder.
func NewStatus(r *project.Reading) *Status {
	b, recent := r.Boulder, r.Events[max(0, len(r.Events)-project.Newest):]
	made := report.New(report.Input{
		Boulder: b, SubTasks: r.SubTasks, Attempts: r.Attempts, Away: b.Engine != "" && r.Holder == nil, Now: r.Now,
	})
	s := &Status{
		Type: "status", BoulderID: b.ID, Task: b.Task, Goal: b.Goal, Status: b.Status, Reason: b.Reason, Left: b.LeftSessions,
		Project: b.Project, Base: b.Base, Revision: b.Revision, Engine: b.Engine, Model: b.Model, Effort: b.Effort, LedgerModel: b.LedgerModel,
		Completed: b.Tally.Completed, Total: b.Tally.Planned, Unlanded: b.Unlanded(), Usage: made.Usage, Answer: b.Answer, Summary: b.Summary,
		StartAt: b.StartAt, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, Waiting: WaitingOf(made.Blockers), now: r.Now, worked: r.Worked(),
		copied: made.Away(), written: b.Written(), resume: made.Typed(made.Resumed()),
	}
	if r.Holder.Has(b.ID) {
		s.Left = nil // that process stops them now
	}
	if r.Running() {
		s.RunBy = r.Holder
	} else {
		recent = nil // activities of an ended run are not current
	}
	s.Resumable = !b.Status.Terminal() && (s.RunBy == nil || b.Status == boulder.Paused)
	p, _ := ProgressOf(nil, r.Snapshot, recent) // contradictory records are shown as well
	s.Models = orchestrator.ModelUses(p.State, r.Now)
	s.SubTasks = p.rows(r.Limits, r.Others, r.Now, s.RunBy != nil)
	return s
}

// Shown returns the status as [ListItem.Shown] does.
func (s *Status) Shown() string {
	return shownAs(s.Status, s.RunBy != nil || s.AtEvent > 0 || s.copied, s.now.Before(s.StartAt))
}

const zoned = time.DateTime + " MST"

// Print writes the status for people: what to do if the boulder does not continue by itself, and a line per sub-task.
func (s *Status) Print(o page.Out) {
	o.Columns = min(o.Width(), page.Widest)
	done := text.If(s.Total > 0, fmt.Sprintf("%d/%d done", s.Completed, s.Total))
	waits, shown := s.now.Before(s.StartAt), Words(s.Shown())
	o.Say(text.JoinedBy("  ", o.Strong(boulder.ShortID(s.BoulderID)), o.As(statusSign(s.Status), shown), done,
		o.Dim(Usage(s.Usage)), o.Dim(text.If(s.worked > 0, "worked "+text.Elapsed(s.worked))), o.Dim(started(s.Status, s.CreatedAt, s.StartAt, s.UpdatedAt, s.now))))
	o.Say(text.Clip(s.Task, 2*o.Columns))
	if s.written != "" && s.AtEvent == 0 {
		o.Text(0, s.written)
	}
	if waiting := s.Waiting.Text(); waiting != "" {
		o.Say(o.Yellow(waiting), ": ", o.Code(ClarifyHint))
	}
	if len(s.Left) > 0 {
		o.Say(o.Yellow(o.Plain(leftText(s.Left))))
	}
	if s.RunBy != nil {
		since := s.RunBy.Since.Local().Format(zoned)
		since = strings.TrimPrefix(since, s.now.Local().Format(time.DateOnly)+" ")
		o.Say(o.Dim(fmt.Sprintf("run by process %d since %s: %s", s.RunBy.PID, since, text.Clip(s.RunBy.Command, o.Columns))))
		if s.RunBy.Trouble != "" {
			o.Say(o.Yellow("This may be out of date: "), o.Plain(text.OneLine(s.RunBy.Trouble)))
		}
	}
	how := map[bool]string{true: "Answer first, then continue with: ", false: "Continue with: "}[s.Waiting.Hard > 0]
	resume := how + o.Code(s.resume)
	if s.copied {
		resume = o.Yellow("a copy") + " of a boulder that runs on " + s.Engine + ". Reach it with: " + o.Code(s.resume)
	}
	if s.AtEvent > 0 {
		o.Say(o.Dim(fmt.Sprintf("as it was at event %d, %s", s.AtEvent, s.UpdatedAt.Local().Format(zoned))))
		resume = ""
	}
	switch {
	case s.Status == boulder.Paused:
		o.Say(o.Yellow(o.Plain(Stated("paused", s.Reason))))
		o.Say(resume)
	case s.RunBy != nil, s.AtEvent > 0:
	case waits && !s.Status.Terminal():
		o.Say("No process is there to start it. Begin one with: ", o.Code("manager serve"))
	case s.Status == boulder.AwaitingApproval:
		o.Say("The plan waits for approval. ", resume)
	case s.Resumable && s.copied:
		o.Say(resume)
	case s.Resumable && !s.StartAt.IsZero() && !s.UpdatedAt.After(s.StartAt):
		o.Say(o.Yellow("not started"), ": no process was there at "+text.Until(s.StartAt, s.now)+". ", resume)
	case s.Resumable:
		o.Say(o.Yellow("interrupted"), ": no process runs it. ", resume)
	case s.Reason != "":
		o.Say(o.Plain(s.Reason))
	}
	if s.Unlanded && s.AtEvent == 0 {
		o.Say(o.Yellow("The results have not landed: "), o.Code("manager land --files "+boulder.ShortID(s.BoulderID)))
	}
	t := tasks{Paint: o.Paint, width: o.Columns}
	t.nameByID(s.SubTasks, widestID)
	for i, line := range t.lines(s.SubTasks...) {
		if i == 0 {
			o.Say()
		}
		fmt.Fprintln(o, line)
		if more := s.SubTasks[i].more(); more != "" {
			fmt.Fprintln(o, t.below(more))
		}
	}
	for i, line := range s.Refused() {
		if i == 0 {
			o.Say()
		}
		o.Text(0, line)
	}
}

// Refused says where the models stand that were refused.
func (s *Status) Refused() (lines []string) {
	for _, u := range s.Models {
		if u.Cooldown != nil {
			lines = append(lines, ModelUseText(u, s.now))
		}
	}
	return lines
}

// ModelUseText says on one line whether a model can be used, which one works in its place or would do so, and what its provider
// said last. What matters least is last: the line may be cut.
func ModelUseText(u orchestrator.ModelUse, now time.Time) string {
	cool, stands := u.Cooldown, ": no limit is known"
	if cool == nil {
		cool = &boulder.Cooldown{}
	}
	switch {
	case u.Cooldown == nil:
	case !now.Before(cool.Until) && !cool.Lifted.IsZero():
		stands = " is asked again, as the user wants that"
	case !cool.Awaited():
		stands = " is asked again once the run is resumed"
	case !now.Before(cool.Until):
		stands = " can be asked again since " + text.Until(cool.Until, now)
	case cool.Endless():
		stands = " cannot be used"
	default:
		stands = " is limited until " + text.Until(cool.Until, now)
	}
	next := slices.DeleteFunc(slices.Clone(u.Fallback), func(m string) bool { return slices.Contains(u.Instead, m) })
	parts := []string{ModelName(u.Model) + stands, text.Prefixed("in its place: ", strings.Join(u.Instead, ", ")),
		text.Prefixed("next: ", strings.Join(next, ", "))}
	if !cool.Reset.IsZero() {
		parts = append(parts, "its provider named "+text.Until(cool.Reset, now))
	}
	if cool.Lifted.IsZero() && !cool.Since.IsZero() {
		parts = append(parts, "refused "+text.Elapsed(now.Sub(cool.Since).Round(time.Second))+" ago")
	}
	return text.JoinedBy("; ", parts...) + text.Prefixed(": ", text.OneLine(boulder.Unnamed(u.Model, cool.Reason)))
}

// more returns a second line for a sub-task that is at work or did not succeed, or "".
func (r *row) more() string {
	switch c := r.Checkpoint; {
	case r.Status.Terminal() && r.Status != boulder.SubTaskCompleted:
		return r.Reason
	case !r.live:
		return ""
	case c == nil:
		return r.Now
	default:
		return fmt.Sprintf("%s · last edit %s:%d", r.Now, c.File, c.Line)
	}
}

// ListItem is one line of `manager list --json`.
type ListItem struct {
	Type string `json:"type"` // boulder
	store.Item
	Running   bool `json:"running"`   // a process runs it
	Completed int  `json:"completed"` // sub-tasks
	Total     int  `json:"total"`     // sub-tasks, without superseded ones

	waits bool // it may not begin yet
}

// NewListItem makes the list item of a boulder. holder is nil if no process holds the state.
func NewListItem(b *store.Item, holder *project.Holder, now time.Time) ListItem {
	runs := holder.Runs(boulder.Boulder{ID: b.BoulderID, Status: b.Status})
	return ListItem{Type: "boulder", Item: *b, Running: runs, Completed: b.Tally.Completed, Total: b.Tally.Planned, waits: now.Before(b.StartAt)}
}

// MissedStart reports whether a boulder was to start, and no process was there.
func MissedStart(b *store.Item, holder *project.Holder, now time.Time) bool {
	due := !b.StartAt.IsZero() && !now.Before(b.StartAt) && !b.UpdatedAt.After(b.StartAt)
	return due && !b.Status.Terminal() && !holder.Runs(boulder.Boulder{ID: b.BoulderID, Status: b.Status})
}

// interrupted is shown for a boulder that should be at work, without a process.
const interrupted = "interrupted"

// scheduled is shown for a boulder that may not begin yet.
const scheduled = "scheduled"

func shownAs(s boulder.Status, runs, waits bool) string {
	switch s {
	case boulder.Planning, boulder.Running, boulder.Synthesizing:
		switch {
		case waits:
			return scheduled
		case !runs:
			return interrupted
		}
	}
	return string(s)
}

// ListStatuses are the statuses that [ListItem.Shown] returns.
var ListStatuses = []string{
	string(boulder.Planning), scheduled, string(boulder.AwaitingApproval), string(boulder.Running), interrupted, string(boulder.Paused),
	string(boulder.Synthesizing), string(boulder.Completed), string(boulder.Partial), string(boulder.Failed), string(boulder.Cancelled),
}

// Shown returns the status that a list shows.
func (b *ListItem) Shown() string {
	return shownAs(b.Status, b.Running, b.waits)
}

// started says when a boulder began, or is to begin. Nothing happens to a scheduled one before it begins, but by the user.
func started(status boulder.Status, created, startAt, updated, now time.Time) string {
	ago := func(t time.Time) string { return text.Elapsed(now.Sub(t)) + " ago" }
	switch begun, held := updated.After(startAt), status.Terminal() || status == boulder.Paused; {
	case !begun && held:
		return "created " + ago(created)
	case now.Before(startAt):
		return Starts(startAt, now)
	case !begun:
		return "to start " + ago(startAt)
	case created.Before(startAt):
		return "started " + ago(startAt)
	}
	return "started " + ago(created)
}

// Starts says when a boulder may begin.
func Starts(at, now time.Time) string {
	return "starts at " + text.Until(at, now) + " (in " + text.Elapsed(at.Sub(now).Round(time.Second)) + ")"
}

// leastTask is how many columns of a task a list shows before others than status and id.
const leastTask = 30

// List writes a header and one line per boulder, with the task first. A narrow terminal gets fewer columns.
func List(o page.Out, items []ListItem, now time.Time) {
	rows := [][]string{{o.Dim("  TASK"), o.Dim("STATUS"), o.Dim("DONE"), o.Dim("STARTED"), o.Dim("BOULDER")}}
	task, beside := 0, make([]int, 5)
	for _, b := range items {
		since := strings.TrimPrefix(started(b.Status, b.CreatedAt, b.StartAt, b.UpdatedAt, now), "started ")
		if now.Before(b.StartAt) && strings.HasPrefix(since, "starts ") {
			since = "in " + text.Elapsed(b.StartAt.Sub(now).Round(time.Second))
		}
		fork := text.If(b.ForkOf != "", " fork"+text.If(o.Width() >= 100, " of "+boulder.ShortID(b.ForkOf)))
		rows = append(rows, []string{
			map[bool]string{true: "* ", false: "  "}[b.Active] + text.Clip(b.Task, page.Widest),
			b.Shown() + text.If(b.Unlanded, ", not landed"), fmt.Sprintf("%d/%d", b.Completed, b.Total), since, o.Dim(boulder.ShortID(b.BoulderID) + fork),
		})
	}
	for _, cells := range rows {
		task = max(task, ansi.StringWidthWc(cells[0]))
		for i, cell := range cells[1:] {
			beside[i] = max(beside[i], ansi.StringWidthWc(cell)+2)
		}
	}
	const done, since = 2, 3
	for _, drop := range []int{since, done} {
		if total := min(task, leastTask); o.Width() <= total+beside[0]+beside[1]+beside[2]+beside[3] {
			beside[drop-1] = 0
			for _, cells := range rows {
				cells[drop] = ""
			}
		}
	}
	printTable(o, []column{{flexible: true}, {}, {right: true}, {right: true}, {}}, rows)
}

// need is a question or trouble in a boulder that the user should see.
type need struct {
	mark    page.Sign     // Question: waits for an answer; Bad: failed; Attention: blocked
	name    string        // the sub-task as "[2]"; of a question "B7 [2]"
	left    time.Duration // until its session continues without an answer; 0: no limit
	text    string        // the question, or subject and reason
	command string        // that resolves it; empty: none
}

// needsOf lists questions first, then failed, parked and blocked sub-tasks in plan order. on is the suffix of commands
// that names the boulder.
func needsOf(s *boulder.State, on string, now time.Time) (needs []need) {
	places, asking := map[string]string{}, map[string]bool{}
	for _, t := range s.SubTasks {
		places[t.ID] = numbered(t.Position)
	}
	for _, b := range report.Blockers(s.Boulder, s.SubTasks, now) {
		if !b.Awaited {
			continue
		}
		asking[b.SubTaskID] = true
		n := need{mark: page.Question, name: b.ID + " " + places[b.SubTaskID], text: b.Question, command: "manager blockers answer " + b.ID}
		n.command += map[bool]string{true: " --allow", false: ` "…"`}[b.AsksPermission()]
		if b.Waiting(now) {
			n.left = b.Until.Sub(now)
		}
		needs = append(needs, n)
	}
	for _, t := range s.SubTasks {
		n := need{mark: page.Attention, name: places[t.ID], text: t.Subject + ": " + t.Reason, command: "manager retry " + t.ID + on}
		switch {
		case t.Status == boulder.SubTaskFailed:
			n.mark = page.Bad
		case t.Parked && !asking[t.ID]:
		case t.Status == boulder.SubTaskBlocked && !t.Parked:
			n.command = ""
		default:
			continue
		}
		needs = append(needs, n)
	}
	return needs
}

// needLines draws needs in at most room lines narrower than width, with their commands if all fit. The last line counts
// what does not fit.
func needLines(needs []need, width, room int, p page.Paint) []string {
	var heads, full []string
	for _, n := range needs {
		head := n.mark.String() + " " + n.name + " " + text.If(n.left > 0, "("+text.Elapsed(n.left.Truncate(time.Second))+" left) ")
		heads = append(heads, p.Yellow(head)+text.Clip(n.text, width-1-ansi.StringWidthWc(head)))
		full = append(full, heads[len(heads)-1])
		if n.command != "" {
			full = append(full, p.Dim("    "+text.Clip(n.command, width-5)))
		}
	}
	for _, all := range [][]string{full, heads} {
		if len(all) > 0 && len(all) < room {
			return append([]string{p.Yellow("Needs you")}, all...)
		}
	}
	clip := func(s string) string { return text.Clip(s, width-1) }
	return fit(heads, 0, room, clip, "and %d more: manager status") // the needs matter more than the heading
}
