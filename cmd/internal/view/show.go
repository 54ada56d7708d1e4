package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// Show is what `manager show --json` prints: one object with the stored records.
type Show struct {
	Type     string                `json:"type"` // show
	Boulder  boulder.Boulder       `json:"boulder"`
	Revision *boulder.PlanRevision `json:"revision"`  // the adopted plan; null while planning
	SubTasks []SubTaskShow         `json:"sub_tasks"` // in plan order

	claimed map[string]bool // see [boulder.Claimed]
}

// SubTaskShow is a sub-task with its history.
type SubTaskShow struct {
	boulder.SubTask
	History []AttemptShow `json:"history"` // its attempts, oldest first
}

// AttemptShow is an attempt with its turns.
type AttemptShow struct {
	boulder.Attempt
	History []boulder.Turn `json:"history"` // its turns, oldest first: prompt, evidence, verdict
}

// NewShow joins stored records.
func NewShow(d boulder.Snapshot, turns []boulder.Turn) *Show {
	s := &Show{Type: "show", Boulder: d.Boulder, Revision: d.Revision, SubTasks: []SubTaskShow{}}
	s.claimed = boulder.Claimed(d.SubTasks)
	history := map[boulder.AttemptRef][]boulder.Turn{}
	for _, turn := range turns {
		history[turn.AttemptRef] = append(history[turn.AttemptRef], turn)
	}
	for _, t := range d.SubTasks {
		shown := SubTaskShow{*t, []AttemptShow{}}
		for _, a := range d.Attempts {
			if a.SubTaskID == t.ID {
				shown.History = append(shown.History, AttemptShow{*a, append([]boulder.Turn{}, history[a.AttemptRef]...)})
			}
		}
		s.SubTasks = append(s.SubTasks, shown)
	}
	return s
}

// Print writes the records for people.
func (s *Show) Print(o page.Out) {
	b := s.Boulder
	fork, loop := "", ""
	if f := b.ForkOf; f != nil {
		fork = boulder.ShortID(f.BoulderID) + ", from " + strings.Join(f.SubTasks, ", ") + " on"
	}
	if l := b.Loop; l != nil {
		loop = fmt.Sprintf("at most %s, ends after %s without progress",
			text.Plural(l.Iterations, "turn"), text.Plural(l.Failures, "continuation"))
	}
	o.Say(o.Strong(boulder.ShortID(b.ID)), "  ", o.As(statusSign(b.Status), Words(b.Status)), text.Prefixed("  ", o.Plain(b.Reason)))
	o.Text(1, b.Task)
	o.Fields(1, "id", b.ID, "created", text.Stamp(b.CreatedAt), "updated", text.Stamp(b.UpdatedAt), "project", b.Project, "commit", b.Base,
		"model", b.Model.String(), "effort", b.Effort, "ledgers", b.LedgerModel.String(), "usage", Usage(b.Usage), "fork of", fork,
		"done when", strings.Join(b.DoneWhen, ", "), "loop", loop)
	if b.Status == boulder.Paused {
		o.Item(1, o.Dim("continue with:"), " ", o.Code("manager resume "+boulder.ShortID(b.ID)))
	}
	o.Fields(1, "left at work", leftText(b.LeftSessions), "in place", b.Trunk.InPlace)
	if l := b.Trunk.Landed; l != nil {
		o.Field(1, "results", Landed(*l))
		if l.Marred() > 0 {
			o.Item(1, o.Dim("take that back with:"), " ", o.Code("manager land --undo "+b.ID))
		}
	} else if b.Unlanded() {
		o.Item(1, o.Dim("results: have not landed; see"), " ", o.Code("manager land "+boulder.ShortID(b.ID)+" --dry-run --files"))
	}
	for _, n := range b.Notes {
		o.Field(1, text.JoinedBy(" for ", text.Stamp(n.At)+" note", n.SubTaskID), n.Text)
	}
	if r := s.Revision; r != nil {
		o.Fields(1, "plan", fmt.Sprintf("revision %d (%s%s), %s, hash %s", r.Number, r.Origin, text.If(r.Edited, ", edited"),
			text.Plural(len(r.Plan.SubTasks), "sub-task"), text.Head(r.Hash, 10)), "goal", r.Plan.Goal)
		for _, c := range r.Plan.Constraints {
			o.Field(1, "constraint", c)
		}
		Questions(o, &r.Plan)
	}
	for _, t := range s.SubTasks {
		o.Say()
		subTaskHead(o, &t.SubTask, nil)
		for _, a := range t.History {
			a.print(o, &t.SubTask, b.Project, s.claimed)
		}
		if t.Status == boulder.SubTaskCompleted {
			o.Field(1, "summary", t.Summary)
		}
	}
	if answer := b.Written(); answer != "" {
		o.Heading("Answer")
		o.Text(1, answer)
	}
	if b.Summary != "" {
		o.Heading("Summary")
		o.Text(1, b.Summary)
	}
}

// subTaskHead prints a sub-task without its history. gatesFrom maps inherited gates to the superseded sub-task.
func subTaskHead(o page.Out, t *boulder.SubTask, gatesFrom map[string]string) {
	replaces, edit := text.If(t.Replaces != "", fmt.Sprintf("%s, since plan revision %d", t.Replaces, t.Revision)), ""
	if c := t.Checkpoint; c != nil {
		edit = fmt.Sprintf("%s:%d  %s", c.File, c.Line, c.Context)
	}
	o.Say(o.Mark(Sign(t.Status)), fmt.Sprintf(" %d. ", t.Position), o.Strong(t.Subject), "  ",
		o.Faint(fmt.Sprintf("(%s) %s", t.ID, Words(t.Status))))
	o.Fields(1, "why", t.Reason, "replaces", replaces, "after", strings.Join(t.DependsOn, ", "), "model", boulder.WithEffort(t.Model, t.Effort),
		"agent", t.Agent, "usage", text.If(t.Usage.Calls > 0, Usage(t.Usage)),
		"works in", text.If(!t.Status.Terminal(), t.Dir), "integrated", text.Prefixed("as commit ", t.Integrated)+text.Prefixed(", tested together with ", t.TestedWith),
		"stalls", text.If(t.Stalls > 0, fmt.Sprint(t.Stalls)), "last edit", edit)
	for _, gate := range slices.Concat(t.Gates, t.NoWorse) {
		if from := gatesFrom[gate]; from != "" {
			o.Field(1, "gate", fmt.Sprintf("%s (taken over from %s, which was replaced)", gate, from))
		}
	}
	PrintGateHints(o, 1, t.GateHints)
	for _, g := range t.Baseline {
		if !g.Green() && !t.MayStayRed(g.Command) && boulder.GateOf(t.NoGates, g.Command) == nil { // as it has to be
			continue
		}
		o.Item(1, o.Dim("before it began:"))
		printGate(o, report.NewGate(g), 2)
	}
	for _, b := range t.Blockers {
		settled := text.If(b.Status.Settled(), "; "+settledText(b.Status, b.Allowed, b.Answer))
		o.Field(1, "blocker", fmt.Sprintf("%s (%s): %s%s%s", b.ID, Hardness(b.Hard), b.Question,
			text.Prefixed("; chosen for now: ", b.ChosenOption), settled))
	}
}

func (a *AttemptShow) print(o page.Out, t *boulder.SubTask, dir string, claimed map[string]bool) {
	status := attemptText(t, &a.Attempt)
	took := text.If(a.Worked > 0, "  worked "+text.Elapsed(a.Worked))
	o.Item(1, o.Bold(fmt.Sprintf("attempt %d", a.Attempt.Attempt)), "  ", status,
		text.Prefixed("  ", o.Faint(text.Prefixed("session ", a.SessionID))), took)
	o.Field(2, "why", a.Reason)
	for _, t := range a.History {
		how := text.If(!t.SentAt.IsZero(), "  sent "+text.Stamp(t.SentAt))
		if !t.EndedAt.IsZero() && how != "" {
			how = "  worked " + text.Elapsed(t.EndedAt.Sub(t.SentAt))
		}
		o.Item(2, fmt.Sprintf("turn %d (%s)", t.Number, t.Kind), o.Dim(how))
		if t.Evidence != nil {
			o.Field(3, "ended", endText(t.Evidence.Ended))
			evidence(o, 3, t.Evidence, dir, claimed)
		}
		if v := t.Verdict; v != nil {
			how, said := o.Yellow("not complete"), ": "
			switch {
			case v.Completed:
				how = o.Green("complete")
			case len(v.Overruled) > 0:
				how, said = o.Yellow("complete, and overruled"), "; the judge said: "
			}
			o.Item(3, "judged ", how, text.Prefixed(said, o.Plain(v.Summary)))
			PrintVerdict(o, 4, v)
		}
		if c := t.Conflict; c != nil {
			o.Item(3, o.Yellow("not integrated"), ": ", conflictText(*c))
		}
	}
}

// attemptText returns the status of an attempt as people read it: what ended because its sub-task waits is not cancelled.
func attemptText(t *boulder.SubTask, a *boulder.Attempt) string {
	if t.Parked && a.Status == boulder.AttemptCancelled && a.Attempt == t.Attempts {
		return "waits for you"
	}
	return string(a.Status)
}

// evidence prints a part of a turn's evidence. `--json` has all of it.
func evidence(o page.Out, depth int, e *boulder.Evidence, dir string, claimed map[string]bool) {
	const shown, wide = 5, 110 // calls; columns of a call
	if t := e.Ended.Truncated; !strings.Contains(endText(e.Ended), t) {
		o.Field(depth, "truncated", t)
	}
	calls := e.ToolCalls[max(0, len(e.ToolCalls)-shown):]
	last := text.If(len(calls) > 0 && len(calls) < e.ToolCount, fmt.Sprintf(", the last %d:", len(calls)))
	o.Fields(depth, "said", text.Clip(e.Words(), 3*wide), "tools", text.Plural(e.ToolCount, "call")+last)
	PrintCalls(o, depth+1, wide, calls)
	PrintFound(o, depth, e, claimed)
	for _, g := range e.Gates {
		printGate(o, report.NewGate(g), depth)
	}
	at := e.Transcript
	if _, err := os.Stat(filepath.Join(dir, at)); at != "" && errors.Is(err, fs.ErrNotExist) {
		at = "on the machine that ran it"
	}
	o.Field(depth, "transcript", at)
}

// PrintFound prints what the manager itself found out after a turn, but for its gates.
func PrintFound(o page.Out, depth int, e *boulder.Evidence, claimed map[string]bool) {
	const shown = 5 // diagnostics
	printChanges(o, depth, e.Diff, claimed)
	o.Fields(depth, "cannot be stored", strings.Join(e.Diff.Unstored, "; "))
	o.Fields(depth, "outside of its writes", strings.Join(e.Outside, ", "), "changed in the project itself", strings.Join(e.Escaped, ", "),
		"perhaps changed in the project itself", strings.Join(e.Strayed, ", "))
	if open := e.OpenTodos(); len(open) > 0 {
		o.Field(depth, "todos", fmt.Sprintf("%d of %d open: %s", len(open), len(e.Todos), open[0].Content))
	} else if len(e.Todos) > 0 {
		o.Field(depth, "todos", fmt.Sprintf("%d, all done", len(e.Todos)))
	}
	for _, d := range e.Diagnostics[:min(shown, len(e.Diagnostics))] {
		o.Field(depth, "diagnostic", fmt.Sprintf("%s:%d: %s: %s", d.File, d.Line, d.Severity, d.Message))
	}
	o.Field(depth, "diagnostic", text.Prefixed("and ", text.Some(len(e.Diagnostics)-shown, "more")))
	o.Fields(depth, "diagnostics", text.If(e.NoServer, "no language server ran"), "promise", text.If(e.Promised, "given"))
}

// PrintCalls prints a line of at most wide columns for each tool call.
func PrintCalls(o page.Out, depth, wide int, calls []boulder.ToolCall) {
	for _, c := range calls {
		ended := text.If(c.Status != "completed", " (never ended)")
		if c.Status == "error" {
			ended = " error: " + text.Clip(c.Output, wide)
		}
		o.Item(depth, callMark(o.Paint, c.Tool, c.Status), " ",
			text.Clip(c.Tool+" "+cmp.Or(c.Title, toolInput(json.RawMessage(c.Input))), wide), o.Dim(ended))
	}
}

// PrintVerdict prints why the judge ruled as it did.
func PrintVerdict(o page.Out, depth int, v *boulder.Verdict) {
	o.Field(depth, "note", text.If(v.JudgeUnavailable, "no usable answer came from the judge: the gates alone decided"))
	for _, s := range v.Overruled {
		o.Item(depth, o.Red("overruled:"), " ", o.Plain(s))
	}
	remaining := slices.DeleteFunc(slices.Clone(v.Remaining), func(s string) bool { return slices.Contains(v.Overruled, s) })
	printJudged(o, depth, v.Criteria, remaining, v.Completed)
	o.Field(depth, "the judge saw", text.JoinedBy("; ",
		text.If(v.IsStuck, "stuck"+text.Prefixed(": ", v.StuckReason)),
		text.If(v.IsInLoop && !v.Completed, "a loop"),
		text.If(!v.IsProgress && !v.Completed && !v.JudgeUnavailable, "no progress"),
		text.If(v.NeedReplan, "a new plan is needed"+text.Prefixed(": ", v.ReplanReason)),
		text.If(v.BlockedBy != "" && v.BlockedBy != "none", "blocked by "+strings.ReplaceAll(v.BlockedBy, "_", " ")),
		text.If(v.GoalAchieved, "the whole goal achieved")))
}

// callMark returns the sign for the end of a tool call. A completed shell command gets no check mark: its exit code is
// not stored, so it may have failed.
func callMark(p page.Paint, tool, state string) string {
	sign := map[string]page.Sign{"error": page.Bad, "completed": page.Good}[state]
	if sign == page.Good && tool == "bash" {
		sign = page.Minor
	}
	return p.Mark(cmp.Or(sign, page.Unended))
}

func statusSign(s boulder.Status) page.Sign {
	return cmp.Or(map[boulder.Status]page.Sign{
		boulder.Completed: page.Good, boulder.Failed: page.Bad, boulder.Cancelled: page.Dropped,
		boulder.Partial: page.Attention, boulder.Paused: page.Attention, boulder.AwaitingApproval: page.Attention,
	}[s], page.Active)
}

// Receipt says where tokens, money and time of a boulder went. `manager show --receipt --json` prints it as one object.
type Receipt struct {
	Type      string          `json:"type"` // receipt
	BoulderID string          `json:"boulder_id"`
	Status    boulder.Status  `json:"status"`
	Budget    *boulder.Budget `json:"budget"` // of the run; null: none
	spending
	Attempts int              `json:"attempts"`
	Replans  int              `json:"replans"`
	Planning boulder.Usage    `json:"planning"`  // plan, replans, and the check of the request
	Looks    boulder.Usage    `json:"looks"`     // at the project
	SubTasks []subTaskReceipt `json:"sub_tasks"` // in plan order

	JudgedTurns int `json:"judged_turns"`
	// The worst case, see [Receipt.bound]. MostCost assumes the cost per judged turn so far; 0: unknown.
	MostJudgedTurns int     `json:"most_judged_turns,omitempty"`
	MostCost        float64 `json:"most_cost,omitempty"`

	running bool // a process runs it
}

// spending includes turns that are at work or were cut off.
type spending struct {
	Usage    boulder.Usage `json:"usage"`
	WorkedMS int64         `json:"worked_ms"` // of a run: wall clock without pauses; else the sum of its turns
}

type subTaskReceipt struct {
	ID       string                `json:"id"`
	Position int                   `json:"position"`
	Subject  string                `json:"subject"`
	Status   boulder.SubTaskStatus `json:"status"`
	Budget   *boulder.Budget       `json:"budget"` // null: none
	spending
	Attempts []attemptReceipt `json:"attempts"`
}

type attemptReceipt struct {
	Attempt int                   `json:"attempt"`
	Status  boulder.AttemptStatus `json:"status"`
	Model   string                `json:"model"`
	Effort  string                `json:"effort,omitempty"`
	Instead []boulder.Instead     `json:"instead,omitempty"` // of these, which could not be used
	spending

	stopped bool   // see [stopped]
	shown   string // its status, for people
}

// NewReceipt adds up the stored usage and computes the worst case.
func NewReceipt(of *project.Reading) *Receipt {
	d, b := of.Snapshot, of.Boulder
	r := &Receipt{
		Type: "receipt", BoulderID: b.ID, Status: b.Status, Budget: b.Budget, Attempts: b.Attempts, Replans: b.Replans,
		spending: spending{b.Usage, of.Worked().Milliseconds()}, Planning: b.Usage.Sub(b.LookUsage), Looks: b.LookUsage, SubTasks: []subTaskReceipt{}, running: of.Running(),
	}
	until := of.Until()
	for _, t := range d.SubTasks {
		r.JudgedTurns += t.Judged
		s := subTaskReceipt{
			ID: t.ID, Position: t.Position, Subject: t.Subject, Status: t.Status, Budget: t.Budget, Attempts: []attemptReceipt{},
			spending: spending{t.Usage, t.Worked.Milliseconds()},
		}
		r.Planning = r.Planning.Sub(t.Usage)
		for _, a := range d.Attempts {
			if a.SubTaskID != t.ID || a.Status == boulder.AttemptQueued { // not started
				continue
			}
			running := a.Running()
			s.Usage, r.Usage = s.Usage.Add(running), r.Usage.Add(running)
			worked := a.WorkedBy(until)
			s.WorkedMS += (worked - a.Worked).Milliseconds()
			s.Attempts = append(s.Attempts, attemptReceipt{
				Attempt: a.Attempt, Status: a.Status, Model: a.Model, Effort: a.EffortUsed(), Instead: a.Instead, stopped: stopped(b.Status == boulder.Paused, a), shown: attemptText(t, a),
				spending: spending{a.Usage.Add(running), worked.Milliseconds()},
			})
		}
		r.SubTasks = append(r.SubTasks, s)
	}
	if b.Loop == nil && r.JudgedTurns > 0 {
		r.bound(d, of.Limits.EvaluationsTotal)
	}
	return r
}

// bound computes the worst case, in which a sub-task and all its replacements together get total judged turns.
func (r *Receipt) bound(d boulder.Snapshot, total int) {
	open := map[string]bool{} // chains of a sub-task and its replacements, by the id of the first
	for _, t := range d.SubTasks {
		if !t.Status.Terminal() && !d.Boulder.Status.Terminal() {
			open[cmp.Or(t.Root, t.ID)] = true
		}
	}
	for _, t := range d.SubTasks {
		if r.MostJudgedTurns += t.Judged; open[t.ID] {
			r.MostJudgedTurns += max(0, total-t.Judged)
		}
	}
	if left := r.MostJudgedTurns - r.JudgedTurns; r.Usage.Unpriced == 0 {
		r.MostCost = r.Usage.Cost + float64(left)*(r.Usage.Cost-r.Planning.Cost-r.Looks.Cost)/float64(r.JudgedTurns)
	}
}

// Print writes a table of the usage by sub-task and attempt.
func (r *Receipt) Print(o page.Out) {
	rows := [][]string{{o.Dim("where it went"), o.Dim("tokens"), o.Dim("cost"), o.Dim("calls"), o.Dim("worked"), ""}}
	add := func(style func(string) string, name string, s spending, note string, budget *boulder.Budget) {
		rows = append(rows, []string{
			style(text.Clip(name, 36)), text.Count(s.Usage.Tokens()), costText(s.Usage), text.Count(s.Usage.Calls),
			text.Millis(s.WorkedMS), o.Dim(note),
		})
		if of := Budget(budget); of != "" {
			rows = append(rows, []string{"  " + o.Faint("of "+of)})
		}
	}
	plain := func(s string) string { return s }
	if r.Planning.Calls > 0 {
		add(plain, "planning", spending{Usage: r.Planning}, "", nil)
	}
	if r.Looks.Calls > 0 {
		add(plain, "looks", spending{Usage: r.Looks}, "", nil)
	}
	for _, t := range r.SubTasks {
		if len(t.Attempts) > 0 {
			add(plain, fmt.Sprintf("%d. %s: %s", t.Position, t.ID, t.Subject), t.spending, Words(t.Status), t.Budget)
		}
		for _, a := range t.Attempts {
			how := "interrupted"
			switch {
			case a.Status.Terminal():
				how = a.shown
			case r.running && !a.stopped:
				how = "at work"
			case r.Status == boulder.Paused:
				how = "paused"
			}
			add(o.Dim, fmt.Sprintf("· attempt %d, %s", a.Attempt, how), a.spending, text.If(a.Effort != "", boulder.WithEffort(a.Model, a.Effort)), nil)
			for _, of := range a.Instead {
				rows = append(rows, []string{"  " + o.Faint(text.Clip(InsteadText(boulder.WithEffort(a.Model, a.Effort), of), 200))})
			}
		}
	}
	add(o.Bold, "in all", r.spending, "", r.Budget)
	printTable(o, []column{{flexible: true}, {right: true}, {right: true}, {right: true}, {right: true}, {}}, rows)
	if r.MostJudgedTurns > 0 {
		o.Say(o.Dim(text.Plural(r.JudgedTurns, "judged turn") + text.If(r.MostJudgedTurns > r.JudgedTurns,
			fmt.Sprintf(" of at most %d%s", r.MostJudgedTurns,
				text.If(r.MostCost > 0, "; all of them would come to about "+text.Money(r.MostCost)+", at what one has cost so far")))))
	}
}
