package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
)

type column struct {
	right    bool // right-aligned
	least    int  // minimum width, in terminal columns
	flexible bool // as wide as its cells need, cut to what the other columns leave
}

// table lays out sanitized cells in lines narrower than width, without empty columns. In a row with fewer cells than
// columns, the last cell gets the rest of the line.
func table(width int, columns []column, rows [][]string) []string {
	widths := make([]int, len(columns))
	left := width + 1
	for i, c := range columns {
		widths[i] = c.least
		for _, cells := range rows {
			if i < len(cells)-1 || len(cells) == len(columns) {
				widths[i] = max(widths[i], ansi.StringWidthWc(cells[i]))
			}
		}
		switch {
		case c.flexible:
			left -= 2
		case widths[i] > 0:
			left -= widths[i] + 2
		}
	}
	var lines []string
	for _, cells := range rows {
		line := ""
		for i, cell := range cells {
			n := widths[i]
			switch {
			case i == len(cells)-1 && i < len(columns)-1:
				n = width - 1 - ansi.StringWidthWc(line)
			case columns[i].flexible:
				n = max(min(n, left), 1)
			case n == 0:
				continue
			}
			cell = text.Truncate(cell, n)
			pad := strings.Repeat(" ", max(0, n-ansi.StringWidthWc(cell)))
			line += text.If(columns[i].right, pad) + cell + text.If(!columns[i].right, pad) + "  "
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func printTable(o page.Out, columns []column, rows [][]string) {
	for _, line := range table(o.Width(), columns, rows) {
		fmt.Fprintln(o, line)
	}
}

// tasks draws one line per sub-task. A narrow terminal gets fewer columns.
type tasks struct {
	page.Paint
	width      int    // of the terminal
	ids        bool   // sub-tasks are named by number and id, else by number alone
	numbers    int    // width of the numbers
	labelWidth int    // of the column with these names
	provider   bool   // models are named with their provider
	fixed      bool   // column widths do not depend on the cells: lines are printed one by one
	spin       string // mark of a live sub-task; empty: that of its status
}

// lines draws rows: name, model, time, tokens, cost.
func (t *tasks) lines(rows ...row) []string {
	var models []string
	for i := range rows {
		if r := &rows[i]; !r.unused() && !r.idle() && !slices.Contains(models, r.runs()) {
			models = append(models, r.runs())
		}
	}
	provider := t.provider || sameName(rows)
	model := t.width >= 100 || t.width >= 80 && (t.fixed || len(models) > 1)
	columns := []column{{flexible: true}, {}, {right: true}, {right: true}, {right: true}}
	if t.fixed {
		columns[0].least, columns[2].least, columns[4].least = t.width, 6, 7
		if model {
			columns[1].least = min(t.width/5, 26)
		}
		if t.width >= 60 {
			columns[3].least = 6
		}
	}
	var cells [][]string
	for i := range rows {
		r := &rows[i]
		name, mark := text.OneLine(r.Subject), t.Mark(Sign(r.Status))
		switch {
		case r.live && !r.Stopped:
			name, mark = t.Bold(r.name), cmp.Or(t.Cyan(t.spin), mark)
		case r.idle() && r.Status == boulder.SubTaskInProgress:
			mark = t.Mark(page.Idle)
		case r.Status == boulder.SubTaskFailed:
			name = t.Red(name)
		}
		head := mark + " " + t.Dim(text.Fit(text.Fit(numbered(r.Position), t.numbers)+text.If(t.ids, " "+r.ID), t.labelWidth)) + " "
		switch {
		case r.idle():
			room := t.width - 4 - t.labelWidth // at least 3/5 for the name, the rest for the reason
			why := text.Prefixed(" · ", text.OneLine(r.Now))
			name = text.Clip(name, max(room-ansi.StringWidthWc(why), room*3/5))
			cells = append(cells, []string{head + name + t.Dim(why)})
		case r.unused():
			cells = append(cells, []string{head + name})
		default:
			of := r.runs()
			if !provider {
				of = withoutProvider(of)
			}
			of = cmp.Or(text.Clip(of, 26), "default model")
			cells = append(cells, []string{
				head + name, text.If(model, t.Dim(of)), t.Dim(text.Millis(r.WorkedMS)),
				text.If(t.width >= 60, t.Dim(text.Count(r.Usage.Tokens()))), t.Dim(costText(r.Usage)),
			})
		}
	}
	return table(t.width, columns, cells)
}

// sameName reports whether models of different providers have one name.
func sameName(rows []row) bool {
	named := map[string]string{}
	for i := range rows {
		model := rows[i].runs()
		if other, known := named[withoutProvider(model)]; known && other != model {
			return true
		}
		named[withoutProvider(model)] = model
	}
	return false
}

func withoutProvider(model string) string { return model[strings.LastIndexByte(model, '/')+1:] }

// Row draws sub-task i and its activity, with branch of a tree in front, in at most width columns.
func (s *Status) Row(p page.Paint, i, width int, branch string) string {
	t := tasks{Paint: p, width: width + 1 - ansi.StringWidthWc(branch), fixed: true}
	t.nameByID(s.SubTasks, max(8, width/6))
	r := s.SubTasks[i]
	t.provider = sameName(s.SubTasks)
	if r.live {
		r.name = text.JoinedBy(" · ", r.name, r.Now)
	}
	return p.Dim(branch) + strings.Join(t.lines(r), "")
}

func (t *tasks) below(s string) string {
	return strings.Repeat(" ", t.labelWidth+3) + t.Dim(text.Clip(s, t.width-t.labelWidth-4))
}

// numbered shows the number of a sub-task, which it keeps: a replan supersedes sub-tasks and adds others behind the last.
func numbered(position int) string { return fmt.Sprintf("[%d]", position) }

// nameByID makes the column of names as wide as number and id need. Ids can have 64 characters: they get at most widest columns.
func (t *tasks) nameByID(all []row, widest int) {
	t.ids, t.numbers = true, len(numbered(len(all)))
	for i := range all {
		t.labelWidth = max(t.labelWidth, t.numbers+1+min(ansi.StringWidthWc(all[i].ID), widest, widestID))
	}
}

const widestID = 20

// costText returns "$0.04", "$0.04+?" if the price of some calls is unknown, or "?" if that of all is.
func costText(u boulder.Usage) string {
	if u.Unpriced > 0 && u.Cost == 0 {
		return "?"
	}
	return text.Money(u.Cost) + text.If(u.Unpriced > 0, "+?")
}
