package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

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

// fill gives it new lines. The cursor stays at the same id, and a text at its end if it was there.
func (p *pane) fill(lines, ids []string, at string) {
	p.lines, p.ids = lines, ids
	if p.filter != "" {
		p.lines, p.ids = nil, nil
		for i, line := range lines {
			if strings.Contains(strings.ToLower(ansi.Strip(line)), strings.ToLower(p.filter)) {
				p.lines = append(p.lines, line)
				if ids != nil {
					p.ids = append(p.ids, ids[i])
				}
			}
		}
	}
	if i := slices.Index(p.ids, at); i >= 0 {
		p.at = i
	}
	p.clamp()
}

func (p *pane) clamp() {
	p.at = max(0, min(p.at, len(p.lines)-1))
	if p.ids != nil {
		p.top = max(min(p.top, p.at), p.at-p.height+1)
	}
	end := max(0, len(p.lines)-p.height)
	if p.top = max(0, min(p.top, end)); p.ids == nil && p.tail {
		p.top = end
	}
}

func (p *pane) move(by int) {
	if p.ids != nil {
		p.at += by
	} else {
		p.tail = false
		p.top += by
	}
	p.clamp()
	p.tail = p.top == max(0, len(p.lines)-p.height)
}

// id is what the cursor of a list is at; empty: nothing.
func (p *pane) id() string {
	if p.at < len(p.ids) {
		return p.ids[p.at]
	}
	return ""
}

// draw draws it in lines of exactly so many columns, below a title.
func (p *pane) draw(paint page.Paint, title string, width int, focused bool) []string {
	rule, mark := "─", " "
	if focused {
		rule, mark, title = "━", ">", paint.Bold(title)
	}
	title = text.JoinedBy(" ", title, paint.Yellow(text.Prefixed("/", text.OneLine(p.filter))))
	title = text.Truncate(paint.Dim(strings.Repeat(rule, 2))+" "+title+" ", width)
	all := []string{title + paint.Dim(strings.Repeat(rule, max(0, width-ansi.StringWidthWc(title))))}
	for i := p.top; i < p.top+p.height; i++ {
		line := ""
		switch {
		case i >= len(p.lines):
		case p.ids != nil && i == p.at:
			line = paint.Bold(paint.Cyan(mark)) + p.lines[i]
		case p.ids != nil:
			line = " " + p.lines[i]
		default:
			line = p.lines[i]
		}
		line = text.Truncate(line, width)
		all = append(all, line+strings.Repeat(" ", max(0, width-ansi.StringWidthWc(line))))
	}
	return all
}
