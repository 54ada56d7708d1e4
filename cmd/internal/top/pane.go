package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
)

// pane is a list with a cursor, or a scrolled text.
type pane struct {
	lines  []string // sanitized, and may have colours
	ids    []string // of the boulder or sub-task of each line; nil: a text
	filter string
	height int  // number of visible lines
	top    int  // index of the first visible line
	at     int  // index of a list's cursor
	tail   bool // a text follows its end
}

// fill replaces the lines. The cursor of a list moves to the id at, if that exists.
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

// scroll makes the cursor visible, or the end of a text with tail.
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

func (p *pane) id() string {
	if p.at < len(p.ids) {
		return p.ids[p.at]
	}
	return ""
}

// draw returns a title and the visible lines, each at most width columns wide.
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

// leaf is a line of a tree: the index of a sub-task, and the branch in front of it.
type leaf struct {
	index  int
	branch string
}

// tree puts each sub-task below the last earlier one that it depends on. Beyond depth deepest the indentation stays.
func tree(tasks []*boulder.SubTask, deepest int) (all []leaf) {
	below := map[int][]int{} // children by index of the parent; -1: the root
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
