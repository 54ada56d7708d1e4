package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Widths of the columns of a table of sub-tasks, in terminal columns.
const (
	widthElapsed = 6
	widthTokens  = 6
	widthCost    = 7
	widthLine    = 120 // what is farther apart is hard to read together
)

// table draws sub-tasks, one line each, in columns that fit the terminal: the narrower it is, the fewer columns there
// are.
type table struct {
	Paint
	width  int // of the terminal
	now    time.Time
	spin   string // mark of a sub-task that is at work; empty: the usual one
	labels int    // width of the labels
	label  func(t *boulder.SubTask) string
	named  func(id string) string // how another sub-task is called
	model  int                    // width of the model column, 0 for none
	took   int                    // of the time
	tokens int                    // of the tokens, 0 for none
	cost   int
}

// newTable sizes the columns. Sub-tasks are called by the given labels, none of which is wider than labels.
func newTable(p Paint, width, labels int, label func(*boulder.SubTask) string, named func(string) string) *table {
	t := &table{
		Paint: p, width: min(width, widthLine), labels: labels, label: label, named: named, took: widthElapsed, cost: widthCost,
	}
	if t.width >= 60 {
		t.tokens = widthTokens
	}
	switch {
	case t.width >= 110:
		t.model = 26
	case t.width >= 80:
		t.model = 18
	}
	return t
}

// size makes the columns as narrow as what they hold: the rest is for the names. A model that all have in common is left
// out where there is little room.
func (t *table) size(rows []row) {
	took, tokens, cost, model := 0, 0, 0, 0
	models := map[string]bool{}
	for _, r := range rows {
		if r.unused() || r.idle() {
			continue
		}
		took, tokens = max(took, len(text.Elapsed(r.took(t.now)))), max(tokens, len(text.Count(r.usage().Tokens())))
		cost, model = max(cost, len(costText(r.usage()))), max(model, ansi.StringWidthWc(shortModel(r.task.Model)))
		models[r.task.Model] = true
	}
	t.took, t.tokens, t.cost, t.model = took, min(t.tokens, tokens), cost, min(t.model, model)
	if len(models) == 1 && t.width < 100 {
		t.model = 0
	}
}

// unlessDone is how a sub-task is called that others wait for; empty if they do not wait any more.
func unlessDone(t *boulder.SubTask) string {
	if t == nil || t.Status == boulder.SubTaskCompleted || t.Status == boulder.SubTaskSkipped {
		return ""
	}
	return t.ID
}

// numbered calls sub-tasks by their place, as [2/3], and those that others wait for by their names.
func numbered(p Paint, width int, total int, named func(id string) string) *table {
	label := func(t *boulder.SubTask) string { return fmt.Sprintf("[%d/%d]", t.Position, total) }
	return newTable(p, width, len(fmt.Sprintf("[%d/%d]", total, total)), label, named)
}

// line is a sub-task on one line.
func (t *table) line(r row) string {
	mark := t.mark(r.task.Status)
	if r.live() && t.spin != "" && !r.stopped() {
		mark = t.Cyan(t.spin)
	}
	head := mark + " " + t.Dim(text.Fit(t.label(r.task), t.labels)) + " "
	room := t.width - 1 - t.labels - 3 // the last column stays empty: some terminals wrap when it is used
	if r.unused() {
		return head + text.Clip(r.name(), room)
	}
	numbers := t.numbers(r)
	name := room - ansi.StringWidthWc(numbers)
	if r.idle() {
		return head + t.idle(r, name, room-name)
	}
	return head + t.strong(r, text.Fit(r.name(), name)) + t.Dim(numbers)
}

func (t *table) strong(r row, s string) string {
	switch {
	case r.live() && !r.stopped():
		return t.Bold(s)
	case r.task.Status == boulder.SubTaskFailed:
		return t.Red(s)
	}
	return s
}

// numbers are the columns on the right: model, time, tokens, cost.
func (t *table) numbers(r row) string {
	var b strings.Builder
	if t.model > 0 {
		b.WriteString("  " + text.Fit(shortModel(r.task.Model), t.model))
	}
	b.WriteString("  " + text.FitRight(text.Elapsed(r.took(t.now)), t.took))
	if t.tokens > 0 {
		b.WriteString("  " + text.FitRight(text.Count(r.usage().Tokens()), t.tokens))
	}
	cost := costText(r.usage())
	return b.String() + "  " + text.FitRight(cost, max(t.cost, len(cost))) // what it costs is never cut
}

// idle is the rest of the line of a sub-task that waits: its name, and in the columns on the right what it waits for.
// A long reason gets what the name does not need, or some of what it does.
func (t *table) idle(r row, name, rest int) string {
	why := "  " + text.Clip(t.why(r), name+rest)
	if over := min(ansi.StringWidthWc(why)-rest, max(name-ansi.StringWidthWc(r.name()), name*2/5)); over > 0 {
		name, rest = name-over, rest+over
	}
	return text.Fit(r.name(), name) + t.Dim(ansi.TruncateWc(why, rest, "…"))
}

// why says what a sub-task waits for.
func (t *table) why(r row) string {
	switch {
	case r.task.Status == boulder.SubTaskBlocked:
		return r.task.Reason
	case r.replan:
		return "waits for a new plan"
	case r.wait != nil && !r.wait.Until.IsZero(): // the end first: the rest may be cut
		return fmt.Sprintf("until %s: %s", Clock(r.wait.Until), cmp.Or(r.cooling, r.wait.Reason))
	case r.wait != nil:
		return fmt.Sprintf("%s in line: %s", ordinal(r.wait.Position), r.wait.Reason)
	case r.attempt != nil:
		return "is next"
	case len(r.task.DependsOn) == 0:
		return ""
	}
	names := make([]string, 0, len(r.task.DependsOn))
	for _, id := range r.task.DependsOn {
		if name := t.named(id); name != "" {
			names = append(names, name)
		}
	}
	return Prefixed("after ", strings.Join(names, ", "))
}

// activity is what is going on in a sub-task that is at work.
func (t *table) activity(r row) string {
	a := r.attempt
	var parts []string
	if a.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", a.Attempt))
	}
	if a.Turns > 1 {
		parts = append(parts, fmt.Sprintf("turn %d", a.Turns))
	}
	if d := r.doing; d.todosTotal > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d todos", d.todosDone, d.todosTotal))
	}
	return strings.Join(append(parts, t.doing(r)), " · ")
}

func (t *table) doing(r row) string {
	a := r.attempt
	switch {
	case a.NotBefore.After(t.now):
		return fmt.Sprintf("until %s: %s", Clock(a.NotBefore), text.OneLine(a.Reason)) // the end first: the rest may be cut
	case r.stopped():
		return "stopped, to be taken up again"
	case r.replan:
		return "a new plan is being made"
	case a.Status == boulder.AttemptMonitoring && r.paused:
		return "its result is to be judged"
	case a.Status == boulder.AttemptMonitoring:
		return "judging the result"
	case r.doing.activity != "":
		return text.OneLine(r.doing.activity)
	case a.Status == boulder.AttemptStarting:
		return "starting a session"
	}
	return "waiting for the model"
}

// below is a dimmed line under a sub-task's.
func (t *table) below(s string) string {
	return strings.Repeat(" ", t.labels+3) + t.Dim(text.Clip(s, t.width-t.labels-4))
}

// shortModel leaves the provider out where there is little room.
func shortModel(model string) string {
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		return model[i+1:]
	}
	if model == "" {
		return "default model"
	}
	return model
}

func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
