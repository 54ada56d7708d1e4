// Package report is the report of a boulder for a user who left it alone: what to do next, which questions wait, what
// was not done and why, what was done and how it was verified, and what it cost.
//
// [New] makes a [Report] from stored records alone, without a model. The package is pure: no clock, no files, no printing.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Input is what is stored about a boulder.
type Input struct {
	Boulder  boulder.Boulder
	SubTasks []*boulder.SubTask // in plan order
	Attempts []*boulder.Attempt
	Turns    map[string]boulder.Turn // by sub-task: the newest turn with evidence or a verdict
	Events   []boulder.Event         // of its log, of which the report has what was decided for the user
	Running  bool                    // a process runs it
	Away     bool                    // another engine runs it and cannot be reached: this is an older copy
	Now      time.Time
}

// Report is what `manager report --json` prints: one object. Later versions add fields, but never change any. Texts are
// not sanitized.
type Report struct {
	Type      string         `json:"type"` // report
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"`
	Goal      string         `json:"goal,omitempty"`
	Project   string         `json:"project"`
	Base      string         `json:"base,omitempty"` // commit that the plan was made on
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Running   bool           `json:"running"` // a process runs it: the report is not final

	// Answer is what the user asked for, or what there is now; made of the records if no model wrote it. Empty before the end.
	Answer string `json:"answer,omitempty"`
	// Request is what the request asks for, as far as it was checked after all work; Missing is what was missing then.
	Request []boulder.RequestRow `json:"request,omitempty"`
	Missing []string             `json:"missing,omitempty"`
	// RequestUnchecked says why no model could tell whether the request is met; the gates alone decided.
	RequestUnchecked string `json:"request_unchecked,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	MadeAt    time.Time `json:"made_at"` // time of the report

	Tally    boulder.Tally   `json:"tally"` // of the sub-tasks
	Attempts int             `json:"attempts"`
	Replans  int             `json:"replans"`
	Usage    boulder.Usage   `json:"usage"`     // of everything, also of turns that are at work or were cut off
	WorkedMS int64           `json:"worked_ms"` // wall clock without pauses
	Budget   *boulder.Budget `json:"budget"`    // of the run; null: none

	Limited  []Limit    `json:"limited,omitempty"`
	Next     []NextStep `json:"next"`              // what to do now, in this order
	Decided  []Decision `json:"decided,omitempty"` // for the user, in order of time; [Report.Chosen] has what agents decided
	Blockers []Blocker  `json:"blockers"`          // sorted by [SortBlockers]
	SubTasks []SubTask  `json:"sub_tasks"`         // in plan order, without superseded ones
	Files    []string   `json:"files"`             // that sub-tasks changed, relative to the project, sorted
	Results  *Results   `json:"results,omitempty"` // of an isolated boulder; absent if there are none
	// InPlace says why the sub-tasks worked in the user's files and not in copies; empty: they did not, or were to work there.
	InPlace string `json:"in_place,omitempty"`

	written string          // Answer, if a model wrote it
	zone    *time.Location  // of the times that people read: that of Input.Now
	loop    *boulder.Loop   // not nil: the boulder is a loop
	closed  bool            // see [boulder.Boulder.Closed]
	out     []string        // why models cannot be used until the user sees to it; others do their work
	away    string          // the engine of [Input.Away], or empty
	claimed map[string]bool // see [boulder.Claimed]
}

// Written returns the answer that a model wrote for the user, or "".
func (r *Report) Written() string { return r.written }

// Zone is the time zone of what people read: that of [Input.Now].
func (r *Report) Zone() *time.Location { return r.zone }

// Away reports whether another engine has the boulder, and this is an older copy.
func (r *Report) Away() bool { return r.away != "" }

// Claimed returns the files that sub-tasks changed for certain, see [boulder.Claimed].
func (r *Report) Claimed() map[string]bool { return r.claimed }

// Limit is a cool-down of a model that at least one sub-task waits for.
type Limit struct {
	Model     string    `json:"model"`
	SubTaskID string    `json:"sub_task_id"`
	Until     time.Time `json:"until"`
}

// Decision is what was decided for the user, who was not asked.
type Decision struct {
	Kind   string    `json:"kind"` // type of the event: replan, model-switched, effort-missing
	Time   time.Time `json:"time"`
	What   string    `json:"what"`
	Reason string    `json:"reason"`
}

// decisions returns what was decided for the user.
func decisions(in *Input) (all []Decision) {
	add := func(e boulder.Event, reason, what string) {
		all = append(all, Decision{Kind: boulder.TypeOf(e.Body), Time: e.Time, What: what, Reason: reason})
	}
	for _, e := range in.Events {
		switch b := e.Body.(type) {
		case boulder.Switched:
			who := cmp.Or(text.If(b.Ledger, "the ledgers"), strings.Join(b.SubTasks, ", "))
			switch {
			case b.From == "":
			case b.Probe:
				add(e, boulder.Unnamed(b.From, b.Reason), who+": "+b.To+" is tried again, instead of "+b.From)
			default:
				add(e, boulder.Unnamed(b.From, b.Reason), who+": "+b.To+" instead of "+b.From)
			}
		case boulder.EffortMissing:
			add(e, fmt.Sprintf("it does not have the effort %s", b.Effort), b.SubTaskID+": "+b.Model+" with its default effort")
		case boulder.Replanned:
			if !in.Boulder.AskReplans {
				add(e, b.Reason, replanned(b))
			}
		}
	}
	return all
}

func replanned(b boulder.Replanned) string {
	what := fmt.Sprintf("%s %d", cmp.Or(text.If(len(b.Missing) > 0, "extension"), "replan"), b.Number)
	for _, added := range b.Added {
		what += ", + " + added.ID
	}
	for _, c := range b.Changed {
		what += ", ~ " + c.From + " → " + c.To.ID
	}
	for _, id := range b.Removed {
		what += ", − " + id
	}
	return what
}

// Results are the outcome of an isolated boulder: the tree that will land or has landed, and the gates passed on it.
type Results struct {
	Tree   string          `json:"tree"`
	Commit string          `json:"commit"`
	Gates  []string        `json:"gates"`  // that passed on Tree
	Landed *boulder.Landed `json:"landed"` // null: not yet
}

// resultsOf returns the results of a boulder, or nil. If the landed tree is not that of the trunk, it was made without
// the user's uncommitted files, and all gates ran on it again.
func resultsOf(in *Input) *Results {
	l := &in.Boulder.Trunk
	if l.Tip == l.Base {
		return nil
	}
	r := &Results{Tree: l.Tree, Commit: l.Tip, Gates: []string{}, Landed: l.Landed}
	if l.Landed != nil {
		r.Tree, r.Commit = l.Landed.Tree, l.Landed.Commit
	}
	if r.Tree != l.Tree {
		for _, t := range in.SubTasks {
			if t.Status == boulder.SubTaskCompleted {
				r.Gates = append(r.Gates, t.Gates...)
			}
		}
		r.Gates = append(r.Gates, in.Boulder.IntegrationGates...)
	}
	for _, g := range l.Green {
		if g.Tree == r.Tree {
			r.Gates = append(r.Gates, g.Command)
		}
	}
	slices.Sort(r.Gates)
	r.Gates = slices.Compact(r.Gates)
	return r
}

// New makes a report from stored records.
func New(in Input) *Report {
	b, until := in.Boulder, in.Boulder.UpdatedAt // without a process, work ended with the last event
	if in.Running {
		until = in.Now
	}
	r := &Report{
		Type: "report", BoulderID: b.ID, Task: b.Task, Goal: b.Goal, Project: b.Project, Base: b.Base, Status: b.Status,
		Reason: b.Reason, Running: in.Running, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, MadeAt: in.Now.UTC(),
		Attempts: b.Attempts, Replans: b.Replans, Usage: b.Usage, WorkedMS: b.WorkedBy(until).Milliseconds(), Budget: b.Budget,
		Tally: b.Tally, SubTasks: []SubTask{}, Files: []string{}, Answer: b.Answer, written: b.Written(),
		zone: in.Now.Location(), loop: b.Loop, closed: b.Closed(), away: text.If(in.Away, b.Engine), claimed: boulder.Claimed(in.SubTasks),
	}
	if check := b.Checked(); check != nil {
		r.Request, r.Missing, r.RequestUnchecked = check.Rows, check.Missing, check.Unchecked
	}
	running, worked := map[string]boulder.Usage{}, map[string]time.Duration{} // of turns that are at work or were cut off
	for _, a := range in.Attempts {
		worked[a.SubTaskID] += a.WorkedBy(until) - a.Worked
		running[a.SubTaskID] = running[a.SubTaskID].Add(a.Running())
		r.Usage = r.Usage.Add(a.Running())
		model := a.Model
		if a.Status == boulder.AttemptMonitoring {
			model = b.Ledger()
		}
		limited, known := b.Cooldowns[model].Until, func(l Limit) bool { return l.Model == model }
		if !a.Status.Terminal() && in.Now.Before(limited) && !slices.ContainsFunc(r.Limited, known) {
			r.Limited = append(r.Limited, Limit{model, a.SubTaskID, limited})
		}
	}
	for _, model := range slices.Sorted(maps.Keys(b.Cooldowns)) {
		waits := slices.ContainsFunc(r.Limited, func(l Limit) bool { return l.Model == model })
		if cool := b.Cooldowns[model]; cool.Endless() && !waits && !b.Status.Terminal() {
			r.out = append(r.out, model+" cannot be used: "+text.Clip(boulder.Unnamed(model, cool.Reason), 160))
		}
	}
	for _, t := range in.SubTasks {
		r.Files = append(r.Files, t.Files...)
		if t.Status != boulder.SubTaskSuperseded { // its replacement is in the report
			s := newSubTask(t, &in, running[t.ID])
			s.WorkedMS += worked[t.ID].Milliseconds()
			r.SubTasks = append(r.SubTasks, s)
			_, unclaimed, _ := boulder.Diff{Files: s.Changes}.Split(r.claimed)
			for _, f := range unclaimed {
				r.Files = append(r.Files, f.Path)
			}
		}
	}
	slices.Sort(r.Files)
	r.Files = slices.Compact(r.Files)
	r.Blockers = Blockers(b, in.SubTasks, in.Now)
	r.Results, r.InPlace = resultsOf(&in), b.Trunk.InPlace
	r.Decided = decisions(&in)
	r.Next = r.next()
	return r
}

// Awaited returns the blockers that a sub-task or a session waits for.
func (r *Report) Awaited() []Blocker {
	return slices.DeleteFunc(slices.Clone(r.Blockers), func(b Blocker) bool { return !b.Awaited })
}

// NextStep is a command that the user can run next.
type NextStep struct {
	Command string `json:"command"` // ready to type
	Why     string `json:"why"`
}

// Typed returns the command of a step with the short id of the boulder, as people type it.
func (r *Report) Typed(s NextStep) string {
	return strings.ReplaceAll(s.Command, " "+r.BoulderID, " "+boulder.ShortID(r.BoulderID))
}

// subTasksShown is how many sub-tasks get a [NextStep] of a kind.
const subTasksShown = 3

func (r *Report) next() []NextStep {
	steps := []NextStep{}
	add := func(why, command string, args ...any) {
		steps = append(steps, NextStep{fmt.Sprintf(command, args...), why})
	}
	if n := len(r.Awaited()); n > 0 {
		add("answer what is waited for: "+text.Plural(n, "question"), "manager blockers clarify")
	}
	switch {
	case r.Running:
		add("see how far it is: it is being worked on", "manager status %s", r.BoulderID)
	case r.Status.Terminal():
		switch {
		case r.Results != nil && r.Results.Landed == nil:
			add("look at whose change is whose", "manager diff -b %s", r.BoulderID)
			add("see what would land in your files, which are as they were", "manager land %s --files --dry-run", r.BoulderID)
		case r.Results != nil && r.Results.Landed.Marred() > 0:
			add("take back what was written with conflicts", "manager land --undo %s", r.BoulderID)
		case r.Results != nil && r.Results.Landed.Branch != "":
			add("look at what the branch brings", "git log -p %s..%s", r.Base[:min(len(r.Base), 12)], r.Results.Landed.Branch)
		case r.Base != "" && len(r.Files) > 0:
			add("look at what was changed", "manager diff -b %s", r.BoulderID)
		}
		if undone := r.undone(); r.Status != boulder.Completed && undone != "" && !r.closed {
			add(text.If(r.Results != nil && r.Results.Landed == nil, "once that has landed: ")+"redo what is not done and keep what is done",
				"manager redo%s -b %s", undone, r.BoulderID)
		}
	default:
		steps = append(append(steps, r.retried()...), r.Resumed())
	}
	for _, l := range r.Limited {
		why := "it is limited until " + text.Until(l.Until, r.MadeAt)
		if (boulder.Cooldown{Until: l.Until}).Endless() {
			why = "it cannot be used, without a known end"
		}
		add(fmt.Sprintf("ask %s again now: %s", cmp.Or(l.Model, "the default model"), why),
			"manager retry %s -b %s", l.SubTaskID, r.BoulderID)
	}
	for _, why := range r.out {
		add(why, "manager doctor")
	}
	if choices := r.Choices(); choices != "" {
		add("look at "+choices, "manager blockers list%s", text.If(r.Status.Terminal(), " --all -b "+r.BoulderID))
	}
	failed := 0
	for _, s := range r.SubTasks {
		if s.Status == boulder.SubTaskFailed && failed < subTasksShown {
			failed++
			add("why in full: "+text.Clip(s.Subject, 60), "manager show %s --why %s", r.BoulderID, s.ID)
		}
	}
	return steps
}

// undone names what a redo has to name for all that is not done: what does not hold, and one that is not completed, with
// which the others come.
func (r *Report) undone() (ids string) {
	open := false
	for _, s := range r.SubTasks {
		if s.Holds() || s.Status == boulder.SubTaskSkipped || s.Status != boulder.SubTaskCompleted && open {
			continue
		}
		open = open || s.Status != boulder.SubTaskCompleted
		ids += " " + s.ID
	}
	return ids
}

// Counts returns the tally, as "4 of 6 sub-tasks completed (1 with a red gate), 1 failed, 1 blocked".
func (r *Report) Counts() string {
	t := r.Tally
	switch {
	case t.Planned == 0:
		return "nothing planned yet"
	case r.loop != nil && r.Status == boulder.Completed:
		return "all criteria hold"
	case r.loop != nil && r.Status.Terminal():
		return "the loop ended without success"
	case r.loop != nil:
		return "the loop is not over"
	}
	red := 0
	for _, sub := range r.SubTasks {
		if sub.Status == boulder.SubTaskCompleted && !sub.Holds() {
			red++
		}
	}
	pending := t.Planned - t.Completed - t.Failed - t.Blocked - t.Cancelled - t.Skipped - t.InProgress
	return text.JoinedBy(", ", fmt.Sprintf("%d of %s completed%s", t.Completed, text.Plural(t.Planned, "sub-task"),
		text.If(red > 0, fmt.Sprintf(" (%d with a red gate)", red))),
		text.If(len(r.Missing) > 0, text.Plural(len(r.Missing), "part")+" of the request missing"),
		text.Some(t.Failed, "failed"), text.Some(t.Blocked, "blocked"), text.Some(t.Cancelled, "cancelled"),
		text.Some(t.Skipped, "skipped"), text.Some(t.InProgress, "in progress"), text.Some(pending, "pending"))
}

// Chosen returns what agents chose and were refused where they could not ask, as blockers that the user has not settled.
func (r *Report) Chosen() []Blocker {
	return slices.DeleteFunc(slices.Clone(r.Blockers), func(b Blocker) bool { return b.Hard || b.Awaited || b.Status.Settled() })
}

// Choices counts [Report.Chosen] in words; empty if there is nothing.
func (r *Report) Choices() string {
	defaults, choices, refused := 0, 0, 0
	for _, b := range r.Chosen() {
		switch {
		case b.AsksPermission():
			refused++
		case b.PlanQuestion != "":
			defaults++
		default:
			choices++
		}
	}
	return text.JoinedBy(" and ", text.If(defaults > 0, text.Plural(defaults, "question")+" of the plan answered by default"), text.If(choices > 0, text.Plural(choices, "choice")+" that agents made where they could not ask"),
		text.If(refused > 0, text.Plural(refused, "refused permission")))
}

// Resumed returns the command that continues a boulder.
func (r *Report) Resumed() NextStep {
	step := NextStep{"manager resume " + r.BoulderID, "continue where it stopped"}
	switch {
	case r.away != "" && !r.Status.Terminal():
		return NextStep{"manager-" + r.away + " gateway", "reach it: this is a copy of what runs on " + r.away}
	case r.Status == boulder.AwaitingApproval:
		step.Why = "look at the plan, and have it run"
	case r.Status == boulder.Planning:
		step.Why = "plan again: there is no plan yet"
	case len(r.Awaited()) > 0:
		step.Why = "continue with the answers"
	}
	raised := raise("", r.Budget, r.Usage, r.WorkedMS, r.Attempts)
	for _, s := range r.SubTasks {
		if s.task.Parked {
			raised += s.raise()
		}
	}
	if raised != "" {
		step.Command += raised
		step.Why += ", with a larger budget: this one, or what you think right"
	}
	if r.loop != nil && slices.ContainsFunc(r.SubTasks, func(s SubTask) bool { return s.task.AtLimit }) {
		step.Command += fmt.Sprintf(" --max-iterations %d", 2*r.loop.Iterations)
		step.Why += ", with twice the turns"
	}
	return step
}

// Spent reports whether a resume would stop again at once, because of what only larger budgets or more turns can continue:
// then [Report.Resumed] names them.
func (r *Report) Spent() bool {
	spent := raise("", r.Budget, r.Usage, r.WorkedMS, 0) != ""
	if r.Status.Terminal() || len(r.SubTasks) == 0 {
		return spent && !r.Status.Terminal()
	}
	begins := r.Budget == nil || r.Budget.Attempts == 0 || r.Attempts < r.Budget.Attempts
	open := map[string]bool{}
	for _, s := range r.SubTasks {
		open[s.ID] = !s.Status.Terminal()
	}
	continues := func(s SubTask) bool {
		switch {
		case s.task.Parked:
			return !s.task.AtLimit && s.raise() == ""
		case s.Status == boulder.SubTaskPending:
			return begins && !slices.ContainsFunc(s.DependsOn, func(id string) bool { return open[id] })
		}
		return s.Status == boulder.SubTaskInProgress
	}
	unfinished := slices.ContainsFunc(r.SubTasks, func(s SubTask) bool { return open[s.ID] && s.Status != boulder.SubTaskBlocked })
	return unfinished && (spent || !slices.ContainsFunc(r.SubTasks, continues))
}

// retried returns the retry commands for sub-tasks that failed or were cancelled, and for those parked because of what
// no agent can mend, such as a missing program of a gate. Other steps cover answers, budgets and turns.
func (r *Report) retried() []NextStep {
	var over, mended []NextStep
	for _, s := range r.SubTasks {
		command := fmt.Sprintf("manager retry %s -b %s", s.ID, r.BoulderID)
		switch t := s.task; {
		case s.Status == boulder.SubTaskFailed:
			over = append(over, NextStep{command, "have it tried again in a fresh session: it failed"})
		case s.Status == boulder.SubTaskCancelled:
			over = append(over, NextStep{command, "have it tried again in a fresh session: it was cancelled"})
		case t.Parked && !t.AtLimit && len(t.AwaitedBy(t.Attempts)) == 0 && s.raise() == "":
			mended = append(mended, NextStep{command, "when this is mended: " + text.Clip(t.Reason, 160)})
		}
	}
	return append(over[:min(len(over), subTasksShown)], mended[:min(len(mended), subTasksShown)]...)
}

func (s *SubTask) raise() string { return raise(s.ID+":", s.Budget, s.Usage, s.WorkedMS, 0) }

// raise returns flags that double the used-up limits of a budget until there is room. A call of unknown price uses up
// any cost budget: setting it again accepts such calls. Sub-tasks pass 0 attempts: they are not parked for those.
func raise(of string, b *boulder.Budget, used boulder.Usage, workedMS int64, attempts int) string {
	if b == nil {
		return ""
	}
	flag := func(reached bool, name string, limit any) string {
		return text.If(reached, fmt.Sprint(" --budget ", of, name, "=", limit))
	}
	worked := time.Duration(workedMS) * time.Millisecond
	return flag(b.Tokens > 0 && used.Tokens() >= b.Tokens, "tokens", doubled(b.Tokens, used.Tokens())) +
		flag(b.Cost > 0 && (used.Cost >= b.Cost || used.Unpriced > b.Unpriced), "cost", strconv.FormatFloat(doubled(b.Cost, used.Cost), 'f', -1, 64)) +
		flag(b.Time > 0 && workedMS >= time.Duration(b.Time).Milliseconds(), "time", doubled(time.Duration(b.Time), worked)) +
		flag(b.Attempts > 0 && attempts >= b.Attempts, "attempts", doubled(b.Attempts, attempts)) +
		flag(b.Calls > 0 && used.Calls >= b.Calls, "calls", doubled(b.Calls, used.Calls))
}

func doubled[N int | int64 | float64 | time.Duration](limit, used N) N {
	for limit > 0 && limit <= used {
		limit *= 2
	}
	return limit
}
