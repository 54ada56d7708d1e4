package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
)

// Receipt says where tokens, money and time of a boulder went: one object of `manager show --receipt --json`.
type Receipt struct {
	Type      string          `json:"type"` // receipt
	BoulderID string          `json:"boulder_id"`
	Status    boulder.Status  `json:"status"`
	Budget    *boulder.Budget `json:"budget"` // of the run; null: none
	spending
	Attempts int `json:"attempts"`
	Replans  int `json:"replans"`
	// Planning is what the Task Ledger used: the plan, and replans.
	Planning boulder.Usage    `json:"planning"`
	SubTasks []subTaskReceipt `json:"sub_tasks"` // in plan order

	JudgedTurns int `json:"judged_turns"`
	// The worst case, see [Receipt.Bound]. The cost is at what a judged turn has cost so far; 0: that is not known.
	MostJudgedTurns int     `json:"most_judged_turns,omitempty"`
	MostCost        float64 `json:"most_cost,omitempty"`

	Running bool `json:"-"` // a process is at it
}

// spending is what something used, with the turns that are at work or were cut off.
type spending struct {
	Usage    boulder.Usage `json:"usage"`
	WorkedMS int64         `json:"worked_ms"` // of a run: wall clock without pauses; else of its turns together
}

type subTaskReceipt struct {
	ID      string                `json:"id"`
	Subject string                `json:"subject"`
	Status  boulder.SubTaskStatus `json:"status"`
	Budget  *boulder.Budget       `json:"budget"` // null: none
	spending
	Attempts []attemptReceipt `json:"attempts"`
}

type attemptReceipt struct {
	Attempt int                   `json:"attempt"`
	Status  boulder.AttemptStatus `json:"status"`
	Model   string                `json:"model"`
	spending

	stopped bool // by a pause
}

// NewReceipt adds up what is stored. now is for a run that is at work.
func NewReceipt(d boulder.Snapshot, now time.Time) *Receipt {
	b := d.Boulder
	r := &Receipt{
		Type: "receipt", BoulderID: b.ID, Status: b.Status, Budget: b.Budget, Attempts: b.Attempts, Replans: b.Replans,
		spending: spending{b.Usage, b.WorkedBy(now).Milliseconds()}, Planning: b.Usage, SubTasks: []subTaskReceipt{},
	}
	for _, t := range d.SubTasks {
		r.JudgedTurns += t.Judged
		s := subTaskReceipt{
			ID: t.ID, Subject: t.Subject, Status: t.Status, Budget: t.Budget, Attempts: []attemptReceipt{},
			spending: spending{t.Usage, t.Worked.Milliseconds()},
		}
		r.Planning = r.Planning.Sub(t.Usage)
		for _, a := range d.Attempts {
			if a.SubTaskID != t.ID || a.Status == boulder.AttemptQueued { // it has not begun
				continue
			}
			running := a.Running()
			s.Usage, r.Usage = s.Usage.Add(running), r.Usage.Add(running)
			s.Attempts = append(s.Attempts, attemptReceipt{
				Attempt: a.Attempt, Status: a.Status, Model: a.Model, stopped: stopped(b.Status == boulder.Paused, a),
				spending: spending{a.Usage.Add(running), a.Worked.Milliseconds()},
			})
		}
		r.SubTasks = append(r.SubTasks, s)
	}
	return r
}

// Bound says what the run comes to at worst, if a sub-task and all that replaces it get so many judged turns.
func (r *Receipt) Bound(d boulder.Snapshot, total int) *Receipt {
	if d.Boulder.Loop != nil || r.JudgedTurns == 0 {
		return r
	}
	open := map[string]bool{} // lines, by their first
	for _, t := range d.SubTasks {
		if !t.Status.Terminal() && !d.Boulder.Status.Terminal() {
			open[cmp.Or(t.Line, t.ID)] = true
		}
	}
	for _, t := range d.SubTasks {
		if r.MostJudgedTurns += t.Judged; open[t.ID] {
			r.MostJudgedTurns += max(0, total-t.Judged)
		}
	}
	if left := r.MostJudgedTurns - r.JudgedTurns; r.Usage.Unpriced == 0 {
		r.MostCost = r.Usage.Cost + float64(left)*(r.Usage.Cost-r.Planning.Cost)/float64(r.JudgedTurns)
	}
	return r
}

// Print writes what was spent, by sub-task and attempt.
func (r *Receipt) Print(o page.Out) {
	rows := [][]string{{o.Dim("where it went"), o.Dim("tokens"), o.Dim("cost"), o.Dim("calls"), o.Dim("time"), ""}}
	budgets := map[int]*boulder.Budget{} // by row
	add := func(style func(string) string, name string, s spending, note string, budget *boulder.Budget) {
		budgets[len(rows)] = budget
		rows = append(rows, []string{
			style(text.Clip(name, 36)), text.Count(s.Usage.Tokens()), costText(s.Usage), text.Count(s.Usage.Calls),
			text.Elapsed(time.Duration(s.WorkedMS) * time.Millisecond), o.Dim(note),
		})
	}
	plain := func(s string) string { return s }
	if r.Planning.Calls > 0 {
		add(plain, "planning", spending{Usage: r.Planning}, "", nil)
	}
	for _, t := range r.SubTasks {
		if len(t.Attempts) > 0 {
			add(plain, t.ID+": "+t.Subject, t.spending, string(t.Status), t.Budget)
		}
		for _, a := range t.Attempts {
			how := "interrupted"
			switch {
			case a.Status.Terminal():
				how = string(a.Status)
			case r.Running && !a.stopped:
				how = "at work"
			case r.Status == boulder.Paused:
				how = "paused"
			}
			add(o.Dim, fmt.Sprintf("· attempt %d, %s", a.Attempt, how), a.spending, "", nil)
		}
	}
	add(o.Bold, "in all", r.spending, "", r.Budget)
	columns := []column{{rest: true}, {right: true}, {right: true}, {right: true}, {right: true}, {}}
	for i, line := range table(o.Width(), columns, rows) {
		fmt.Fprintln(o, line)
		if b := budgets[i]; b != nil {
			o.Item(1, o.Faint(text.Prefixed("of ", report.Budget(b))))
		}
	}
	if r.MostJudgedTurns > 0 {
		o.Say(o.Dim(text.Plural(r.JudgedTurns, "judged turn") + text.If(r.MostJudgedTurns > r.JudgedTurns,
			fmt.Sprintf(" of at most %d%s", r.MostJudgedTurns,
				text.If(r.MostCost > 0, ", "+text.Money(r.MostCost)+" in all at what a turn cost so far")))))
	}
}
