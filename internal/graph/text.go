package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Measures in a terminal, in columns.
const (
	minWidth  = 40 // leaves each column of a list some room
	maxBoxes  = 24 // nodes that are drawn as boxes: more of them fill several screens with frames
	boxWidest = 36 // with its frame
	boxLeast  = 17
	boxGap    = 2
	listID    = 20
	listAfter = 24
)

// Text gives the graph for a terminal of so many columns: as boxes with lines between them if they fit, else as a list in
// which each node says after which others it comes. paint colours what tells a status.
func (g *Graph) Text(width int, paint func(status, text string) string) string {
	o := textOptions{max(width, minWidth), paint}
	var b strings.Builder
	for _, line := range wrap(g.title, o.width, 3, ansi.StringWidthWc) {
		b.WriteString(line + "\n")
	}
	if len(g.nodes) == 0 {
		return b.String()
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	picture, ok := g.boxes(o)
	if !ok {
		picture = g.list(o)
	}
	b.WriteString(picture)
	const between = "   "
	columns := func(t tally) int { return ansi.StringWidthWc(t.sign + " " + t.String() + between) }
	for i, line := range g.legend(o.width+len(between), columns) {
		if i == 0 {
			b.WriteByte('\n')
		}
		for k, t := range line {
			if k > 0 {
				b.WriteString(between)
			}
			b.WriteString(o.paint(t.status, t.sign) + " " + cut(t.String(), o.width-2, ansi.StringWidthWc))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

type textOptions struct {
	width int
	paint func(status, text string) string
}

// boxes draws the graph as boxes, as wide as there is room for, if there are not too many and the lines find their way.
func (g *Graph) boxes(o textOptions) (picture string, ok bool) {
	if len(g.nodes) > maxBoxes {
		return "", false
	}
	size := boxLeast
	for _, n := range g.nodes {
		for i, line := range n.label() {
			size = max(size, ansi.StringWidthWc(line)+4+2*min(i, 1)) // below the title, lines are indented
		}
	}
	for size = min(size, boxWidest); !ok && size >= boxLeast; size-- {
		picture, ok = g.boxesOf(size, o)
	}
	return picture, ok
}

// boxesOf draws the graph as boxes of one width.
func (g *Graph) boxesOf(size int, o textOptions) (string, bool) {
	l := newLayout(g, spacing{size: func(int) int { return size }, gap: boxGap, lane: 1, pass: 2})
	if l.width > o.width {
		return "", false
	}
	var b strings.Builder
	for i, level := range l.levels {
		g.writeLevel(&b, level, o)
		if i+1 < len(l.levels) && !writeChannel(&b, level, l.levels[i+1], l.width) {
			return "", false
		}
	}
	return b.String(), true
}

// writeLevel draws the boxes and lanes of a level, all boxes of one height.
func (g *Graph) writeLevel(b *strings.Builder, level []*item, o textOptions) {
	inside, height := make([][]string, len(level)), 0
	for i, it := range level {
		if !it.lane {
			inside[i] = g.nodes[it.node].inside(it.size-4, o.paint)
			height = max(height, len(inside[i])+2)
		}
	}
	for row := range height {
		column := 0
		for i, it := range level {
			b.WriteString(strings.Repeat(" ", it.left-column))
			column = it.left + it.size
			rule := strings.Repeat("─", max(it.size-2, 0))
			switch {
			case it.lane:
				b.WriteString("│")
			case row == 0:
				b.WriteString("┌" + rule + "┐")
			case row == height-1 && len(it.down) > 0:
				half := len("─") * (it.size/2 - 1)
				b.WriteString("└" + rule[:half] + "┬" + rule[half+len("─"):] + "┘")
			case row == height-1:
				b.WriteString("└" + rule + "┘")
			case row <= len(inside[i]):
				b.WriteString("│ " + inside[i][row-1] + " │")
			default:
				b.WriteString("│" + strings.Repeat(" ", it.size-2) + "│")
			}
		}
		b.WriteByte('\n')
	}
}

// inside gives the lines of a box, each filled to its columns.
func (n Node) inside(columns int, paint func(status, text string) string) []string {
	indent := ""
	if n.Status != "" {
		indent = "  "
	}
	columns -= len(indent)
	t := n.text(columns, ansi.StringWidthWc, ansi.StringWidthWc)
	var lines []string
	for i, line := range slices.Concat(t.title, t.id, t.state) {
		start, filling := indent, strings.Repeat(" ", columns-ansi.StringWidthWc(line))
		if i == 0 && indent != "" {
			start = paint(n.Status, lookOf(n.Status).sign) + " "
		}
		if i >= len(t.title)+len(t.id) && n.Status != "" {
			line = paint(n.Status, line)
		}
		lines = append(lines, start+line+filling)
	}
	return lines
}

// list draws the graph as a list: a line for each node, a blank one between levels.
func (g *Graph) list(o textOptions) string {
	width := ansi.StringWidthWc
	from := make([][]int, len(g.nodes))
	for _, e := range g.edges {
		from[e.to] = append(from[e.to], e.from+1)
	}
	after := make([]string, len(g.nodes))
	titles := make([]string, len(g.nodes))
	var idColumns, afterColumns, titleColumns, signColumns int
	for i, n := range g.nodes {
		after[i], titles[i] = ranges(from[i]), n.Title
		if n.Note != "" {
			titles[i] += " (" + n.Note + ")" // the sign tells the status
		}
		if n.Status != "" {
			signColumns = 2
		}
		idColumns = max(idColumns, min(width(n.ID), listID, o.width/4))
		afterColumns = max(afterColumns, min(width(after[i]), listAfter, o.width/3))
		titleColumns = max(titleColumns, width(titles[i]))
	}
	number := len(fmt.Sprint(len(g.nodes)))
	titleColumns = max(min(titleColumns, o.width-number-signColumns-idColumns-afterColumns-5), 1)
	pad := func(s string, n int) string {
		s = cut(s, n, width)
		return s + strings.Repeat(" ", max(n-width(s), 0))
	}
	var b strings.Builder
	for depth, level := range g.levels {
		if depth > 0 {
			b.WriteByte('\n')
		}
		for _, i := range level {
			n, sign := g.nodes[i], ""
			if signColumns > 0 {
				sign = o.paint(n.Status, pad(lookOf(n.Status).sign, 1)) + " "
			}
			line := fmt.Sprintf("%*d %s%s  %s  %s", number, i+1, sign, pad(n.ID, idColumns), pad(titles[i], titleColumns),
				cut(after[i], afterColumns, width))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// ranges says after which numbers a node comes, with three and more that follow each other joined: "after 1-3, 7".
func ranges(numbers []int) string {
	slices.Sort(numbers)
	text, word := "", "after "
	for i := 0; i < len(numbers); word = ", " {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		text += word + fmt.Sprint(numbers[i])
		if i++; j > i {
			text += fmt.Sprint("-", numbers[j])
			i = j + 1
		}
	}
	return text
}
