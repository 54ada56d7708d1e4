package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
)

// column is how the cells of a table stand.
type column struct {
	right bool // aligned
	least int  // columns of the terminal; 0: as wide as its cells
	rest  bool // gets what the others leave, if its cells need it, and is cut
}

// table lays rows out in lines narrower than width. Cells are clean and may have colours. The last cell of a row with
// fewer cells than columns has the rest of the line.
func table(width int, columns []column, rows [][]string) []string {
	widths := make([]int, len(columns))
	left := width - 1 - 2*(len(columns)-1)
	for i, c := range columns {
		widths[i] = c.least
		for _, cells := range rows {
			if i < len(cells)-1 || len(cells) == len(columns) {
				widths[i] = max(widths[i], ansi.StringWidthWc(cells[i]))
			}
		}
		if !c.rest {
			left -= widths[i]
		}
	}
	var lines []string
	for _, cells := range rows {
		line := ""
		for i, cell := range cells {
			n := widths[i]
			if columns[i].rest {
				n = max(min(n, left), 1)
			}
			if i == len(cells)-1 && i < len(columns)-1 {
				n = width - 1 - ansi.StringWidthWc(line)
			}
			line += fit(cell, n, columns[i].right) + "  "
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// fit cuts a cell visibly, and fills it with spaces.
func fit(s string, n int, right bool) string {
	s = text.Truncate(s, n)
	if pad := strings.Repeat(" ", n-ansi.StringWidthWc(s)); right {
		return pad + s
	} else {
		return s + pad
	}
}

// tasks draws sub-tasks, one line each, in columns that fit the terminal: the narrower it is, the fewer columns there
// are.
type tasks struct {
	page.Paint
	width int // of the terminal
	label func(t *boulder.SubTask) string
	wide  int    // of the labels
	fixed bool   // columns do not depend on what they hold: lines are printed one by one
	spin  string // mark of a sub-task that is at work; empty: the usual one
}

// lines are those of the rows.
func (t *tasks) lines(rows ...row) []string {
	columns := []column{{rest: true}}
	var models []string
	for _, r := range rows {
		if !r.unused() && !r.idle() {
			models = append(models, r.task.Model)
		}
	}
	slices.Sort(models)
	model := t.width >= 100 || t.width >= 80 && (t.fixed || len(slices.Compact(models)) > 1)
	tokens := t.width >= 60
	if model {
		columns = append(columns, column{})
	}
	columns = append(columns, column{right: true})
	if tokens {
		columns = append(columns, column{right: true})
	}
	columns = append(columns, column{right: true})
	if t.fixed {
		columns[0].least = t.width
		for i := range columns[1:] {
			columns[i+1].least = 6
		}
		columns[len(columns)-1].least = 7
		if model {
			columns[1].least = min(t.width/5, 26)
		}
	}
	var cells [][]string
	for _, r := range rows {
		sign, name := report.Sign(r.task.Status), text.OneLine(r.task.Subject)
		switch {
		case r.working():
			if t.spin != "" {
				sign = t.spin
			}
			name = text.OneLine(r.task.ActiveForm)
			if name == "" {
				name = text.OneLine(r.task.Subject)
			}
			name = t.Bold(name)
		case r.idle() && r.task.Status == boulder.SubTaskInProgress:
			sign = "○"
		case r.task.Status == boulder.SubTaskFailed:
			name = t.Red(name)
		}
		mark := t.Mark(sign)
		if sign == t.spin {
			mark = t.Cyan(sign)
		}
		head := mark + " " + t.Dim(text.Fit(t.label(r.task), t.wide)) + " "
		switch {
		case r.idle():
			room := t.width - 4 - t.wide // a long reason gets what the name does not need, or some of what it does
			why := report.Prefixed(" · ", text.OneLine(r.waitsFor()))
			name = text.Clip(name, max(room-ansi.StringWidthWc(why), room*3/5))
			cells = append(cells, []string{head + name + t.Dim(why)})
			continue
		case r.unused():
			cells = append(cells, []string{head + name})
			continue
		}
		row := []string{head + name}
		if model {
			name := r.task.Model[strings.LastIndexByte(r.task.Model, '/')+1:] // without the provider
			if name == "" {
				name = "default model"
			}
			row = append(row, t.Dim(text.Clip(name, 26)))
		}
		row = append(row, t.Dim(text.Elapsed(r.took())))
		if tokens {
			row = append(row, t.Dim(text.Count(r.used().Tokens())))
		}
		cells = append(cells, append(row, t.Dim(costText(r.used()))))
	}
	return table(t.width, columns, cells)
}

// below is a dimmed line under a sub-task's.
func (t *tasks) below(s string) string {
	return strings.Repeat(" ", t.wide+3) + t.Dim(text.Clip(s, t.width-t.wide-4))
}

// aside is a line that tells something about a sub-task, or about the whole boulder.
func (t *tasks) aside(sign string, s *boulder.SubTask, line string) string {
	if s == nil {
		return t.Yellow(text.Clip(sign+" "+line, t.width-1))
	}
	return t.Mark(sign) + " " + t.Dim(text.Clip(text.Fit(t.label(s), t.wide)+" "+text.OneLine(line), t.width-3))
}

// numbered labels a sub-task by its place: [2/3].
func numbered(position, total int) string { return fmt.Sprintf("[%d/%d]", position, total) }

// costText is what is known of a cost: "$0.04", "$0.04+?" when some calls had no known price, "?" when none had.
func costText(u boulder.Usage) string {
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return text.Money(u.Cost) + "+?"
	case u.Unpriced > 0:
		return "?"
	}
	return text.Money(u.Cost)
}
