package view

import (
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// Receipt says where tokens, money and time of a boulder went. It is what `manager show --receipt --json` prints: one
// object. Fields are added in later versions, never changed.
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
func NewReceipt(d store.Detail, now time.Time) *Receipt {
	b := d.Boulder
	r := &Receipt{
		Type: "receipt", BoulderID: b.ID, Status: b.Status, Budget: b.Budget, Attempts: b.Attempts, Replans: b.Replans,
		spending: spending{b.Usage, b.WorkedBy(now).Milliseconds()}, Planning: b.Usage, SubTasks: []subTaskReceipt{},
	}
	place := map[string]int{}
	for i, t := range d.SubTasks {
		place[t.ID] = i
		r.SubTasks = append(r.SubTasks, subTaskReceipt{
			ID: t.ID, Subject: t.Subject, Status: t.Status, Budget: t.Budget, Attempts: []attemptReceipt{},
			spending: spending{t.Usage, t.Worked.Milliseconds()},
		})
		r.Planning = less(r.Planning, t.Usage)
	}
	for _, a := range d.Attempts {
		if a.Status == boulder.AttemptQueued {
			continue // it has not begun
		}
		running := a.Spent.Add(a.Seen)
		t := &r.SubTasks[place[a.SubTaskID]]
		t.Usage, r.Usage = t.Usage.Add(running), r.Usage.Add(running)
		t.Attempts = append(t.Attempts, attemptReceipt{
			Attempt: a.Attempt, Status: a.Status, Model: a.Model,
			spending: spending{a.Usage.Add(running), a.Worked.Milliseconds()},
			stopped:  stopped(b.Status == boulder.Paused, &a),
		})
	}
	return r
}

func less(a, b boulder.Usage) boulder.Usage {
	return boulder.Usage{
		Input: a.Input - b.Input, CacheRead: a.CacheRead - b.CacheRead, CacheWrite: a.CacheWrite - b.CacheWrite,
		Output: a.Output - b.Output, Reasoning: a.Reasoning - b.Reasoning, Calls: a.Calls - b.Calls,
		Cost: a.Cost - b.Cost, Unpriced: a.Unpriced - b.Unpriced,
	}
}

// Widths of the columns of a receipt besides the first, which gets what is left.
const (
	widthReceiptName   = 36                                          // at most
	widthReceiptNumber = len("   tokens       cost  calls     time") // all numbers
	widthReceiptNote   = len("  in_progress")
)

// ReceiptView draws a receipt as a table.
type ReceiptView struct {
	Out
	name int // width of the first column
	Room int // width of a line, at most
}

// Print writes the receipt as wide as the terminal is.
func (r *Receipt) Print(o Out) { ReceiptView{Out: o, Room: o.Width() - 1}.Table(r) }

// Table writes what was spent, by sub-task and attempt.
func (v ReceiptView) Table(r *Receipt) {
	v.name = max(16, min(widthReceiptName, v.Room-widthReceiptNumber-widthReceiptNote))
	fmt.Fprintln(v, v.Dim(text.Fit("where it went", v.name)+"   tokens       cost  calls     time"))
	plain := func(s string) string { return s }
	if r.Planning.Calls > 0 {
		v.line(plain, "", "planning", spending{Usage: r.Planning}, "", nil)
	}
	for _, t := range r.SubTasks {
		if len(t.Attempts) == 0 {
			continue
		}
		v.line(plain, "", t.ID+": "+t.Subject, t.spending, string(t.Status), t.Budget)
		for _, at := range t.Attempts {
			v.line(v.Dim, "  ", fmt.Sprintf("attempt %d, %s", at.Attempt, r.attemptWord(at)), at.spending, "", nil)
		}
	}
	v.line(v.Bold, "", "in all", r.spending, "", r.Budget)
}

// line is a row of numbers. The budget is told beside them if there is room, else below.
func (v ReceiptView) line(
	style func(string) string, margin, said string, s spending, note string, budget *boulder.Budget,
) {
	note, below := Prefixed("  ", note), ""
	if budget != nil && BudgetText(*budget) != "" {
		of := "of " + BudgetText(*budget)
		if v.name+widthReceiptNumber+ansi.StringWidthWc(note+"  "+of) <= v.Room {
			note += "  " + of
		} else {
			below = text.Indent(text.Wrap(of, v.Room-2), "  ")
		}
	}
	fmt.Fprintf(v, "%s%s %s %s %s %s%s\n", margin, style(text.Fit(said, v.name-len(margin))),
		text.FitRight(text.Count(s.Usage.Tokens()), 8), text.FitRight(costText(s.Usage), 10), text.FitRight(text.Count(s.Usage.Calls), 6),
		text.FitRight(text.Elapsed(time.Duration(s.WorkedMS)*time.Millisecond), 8), v.Dim(note))
	if below != "" {
		fmt.Fprintln(v, v.Dim(below))
	}
}

// attemptWord says how an attempt ended, or what it is about.
func (r *Receipt) attemptWord(a attemptReceipt) string {
	switch {
	case a.Status.Terminal():
		return string(a.Status)
	case r.Running && !a.stopped:
		return "at work"
	case r.Status == boulder.Paused:
		return "paused"
	}
	return "interrupted"
}
