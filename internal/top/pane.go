package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// pane is a list with a cursor, or a text that is scrolled.
type pane struct {
	lines  []string // clean, perhaps with colours
	ids    []string // of what each line of a list is about; nil: it is a text
	filter string
	height int  // lines that are seen
	top    int  // the first of them
	at     int  // the cursor of a list
	tail   bool // a text stays at its end
}

// fill gives it new lines. The cursor of a list stays at an id, as long as that is there.
func (p *pane) fill(lines, ids []string, at string) {
	p.lines, p.ids = nil, nil
	for i, line := range lines {
		if strings.Contains(strings.ToLower(ansi.Strip(line)), strings.ToLower(p.filter)) {
			p.lines = append(p.lines, line)
			if ids != nil {
				p.ids = append(p.ids, ids[i])
			}
		}
	}
	if i := slices.Index(p.ids, at); i >= 0 {
		p.at = i
	}
}

// scroll has what matters be seen: the cursor, or the end of a text that stays there.
func (p *pane) scroll() {
	p.at = max(0, min(p.at, len(p.lines)-1))
	if p.ids != nil {
		p.top = max(min(p.top, p.at), p.at-p.height+1)
	}
	if p.top = max(0, min(p.top, p.end())); p.tail && p.ids == nil {
		p.top = p.end()
	}
}

func (p *pane) end() int { return max(0, len(p.lines)-p.height) }

func (p *pane) move(by int) {
	p.tail = false
	if p.ids != nil {
		p.at += by
	} else {
		p.top += by
	}
	p.scroll()
	p.tail = p.top == p.end()
}

// id is what the cursor of a list is at; empty: nothing.
func (p *pane) id() string {
	if p.at < len(p.ids) {
		return p.ids[p.at]
	}
	return ""
}

// draw draws it in lines of at most so many columns, below a title.
func (p *pane) draw(paint page.Paint, title string, width int, focused bool) []string {
	if p.ids != nil {
		title += fmt.Sprintf(" %d/%d", min(p.at+1, len(p.lines)), len(p.lines))
	}
	rule, mark := "─", " "
	if focused {
		rule, mark, title = "━", paint.Bold(paint.Cyan(">")), paint.Bold(title)
	}
	title = text.JoinedBy(" ", paint.Dim(rule+rule), title, paint.Yellow(text.Prefixed("/", text.OneLine(p.filter)))) + " "
	title = text.Truncate(title, width)
	all := []string{title + paint.Dim(strings.Repeat(rule, width-ansi.StringWidthWc(title)))}
	for i := p.top; i < p.top+p.height; i++ {
		line := ""
		if i < len(p.lines) {
			line = p.lines[i]
		}
		switch {
		case p.ids != nil && i == p.at:
			line = mark + line
		case p.ids != nil:
			line = " " + line
		}
		all = append(all, text.Truncate(line, width))
	}
	return all
}

// leaf is a sub-task in a tree: its place in the plan, and the branch that is drawn before it.
type leaf struct {
	index  int
	branch string
}

// tree puts each sub-task below the last one before it that it depends on. What is deeper than deepest stands no
// further to the right.
func tree(tasks []*boulder.SubTask, deepest int) (all []leaf) {
	below := map[int][]int{} // by the place of the one above; -1: there is none
	for i, t := range tasks {
		above := i - 1
		for above >= 0 && !slices.Contains(t.DependsOn, tasks[above].ID) {
			above--
		}
		below[above] = append(below[above], i)
	}
	var grow func(above, depth int, before string)
	grow = func(above, depth int, before string) {
		for n, i := range below[above] {
			branch, next := "├ ", "│ "
			if n == len(below[above])-1 {
				branch, next = "└ ", "  "
			}
			if depth == 0 {
				branch = ""
			}
			if depth == 0 || depth >= deepest {
				next = ""
			}
			all = append(all, leaf{i, before + branch})
			grow(i, depth+1, before+next)
		}
	}
	grow(-1, 0, "")
	return all
}
