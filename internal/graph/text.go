package graph

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/text"
)

// Measures in a terminal, in columns.
const (
	minWidth   = 40 // leaves each column of the list some room
	mostID     = 20
	mostAfter  = 24
	leastTitle = 16 // beside lanes
)

// Text gives the graph for a terminal of so many columns: a numbered line for each node, below those that it waits for.
// Lines at the left lead there, if there is room for them, and in any case each line says after which others it comes.
// paint colours what tells a status.
func (g *Graph) Text(width int, paint func(status, s string) string) string {
	width = max(width, minWidth)
	var b strings.Builder
	for _, line := range wrap(g.title, width, 3, ansi.StringWidthWc) {
		b.WriteString(line + "\n")
	}
	if b.Len() > 0 && len(g.nodes) > 0 {
		b.WriteByte('\n')
	}
	g.list(&b, width, paint)
	const between = "   "
	columns := func(t tally) int { return ansi.StringWidthWc(t.sign + " " + t.String() + between) }
	for i, line := range g.legend(width+len(between), columns) {
		if i == 0 {
			b.WriteByte('\n')
		}
		var entries []string
		for _, t := range line {
			entries = append(entries, paint(t.status, t.sign)+" "+text.Clip(t.String(), width-2))
		}
		b.WriteString(strings.Join(entries, between) + "\n")
	}
	return b.String()
}

func (g *Graph) list(b *strings.Builder, width int, paint func(status, s string) string) {
	after, titles := make([]string, len(g.nodes)), make([]string, len(g.nodes))
	var idColumns, afterColumns, titleColumns, signColumns int
	for i, n := range g.nodes {
		after[i], titles[i] = ranges(g.before[i]), n.Title+text.If(n.Note != "", " ("+n.Note+")") // the sign tells the status
		if n.Status != "" {
			signColumns = 2
		}
		idColumns = max(idColumns, min(ansi.StringWidthWc(n.ID), mostID, width/4))
		afterColumns = max(afterColumns, min(len(after[i]), mostAfter, width/3))
		titleColumns = max(titleColumns, ansi.StringWidthWc(titles[i]))
	}
	rows := slices.Concat(g.levels...)
	number := len(fmt.Sprint(len(g.nodes)))
	room := width - number - signColumns - idColumns - afterColumns - 5 // for lanes and titles
	lanes := g.lanes(rows, (room-leastTitle)/2)
	for row, i := range rows {
		n := g.nodes[i]
		sign := text.If(signColumns > 0, paint(n.Status, text.Fit(n.look().sign, 1))+" ")
		line := fmt.Sprintf("%s%*d %s%s  %s  %s", lanes[row], number, i+1, sign, text.Fit(n.ID, idColumns),
			text.Fit(titles[i], min(titleColumns, room-utf8.RuneCountInString(lanes[row]))),
			text.Clip(after[i], afterColumns))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// lanes draws what leads to each row: a node that others wait for has a lane of its own, from its row down to the last of
// them. A horizontal line leads from all lanes that it joins to its row, and passes behind the others. The lanes are
// empty where that takes more than most of them.
func (g *Graph) lanes(rows []int, most int) []string {
	last := make([]int, len(rows)) // of each node: the row of the last one that waits for it
	for row, i := range rows {
		for _, from := range g.before[i] {
			last[from] = row
		}
	}
	const free = -1
	var lanes []int // the node that each belongs to
	lines := make([]string, len(rows))
	for row, i := range rows {
		own := free
		if last[i] > row {
			if own = slices.Index(lanes, free); own == free {
				own, lanes = len(lanes), append(lanes, free)
			}
			if own >= most {
				return make([]string, len(rows))
			}
		}
		run := 0 // 1: a horizontal line comes from the left
		for k, from := range lanes {
			turn := "" // without and with such a line
			switch {
			case k == own:
				turn, lanes[k] = "┌┬", i
			case from != free && last[from] == row:
				turn, lanes[k] = "└┴", free
			case slices.Contains(g.before[i], from):
				turn = "├┼"
			}
			switch {
			case turn != "":
				lines[row] += string([]rune(turn)[run])
				run = 1
			case from != free:
				lines[row] += "│"
			default:
				lines[row] += fills[run]
			}
			lines[row] += fills[run]
		}
	}
	for row, line := range lines { // up to the numbers
		fill := fills[0]
		if strings.HasSuffix(line, fills[1]) {
			fill = fills[1]
		}
		lines[row] += strings.Repeat(fill, 2*len(lanes)-utf8.RuneCountInString(line)) + strings.Repeat(" ", min(1, len(lanes)))
	}
	return lines
}

var fills = []string{" ", "─"}

// ranges says after which numbers a node comes, with three and more that follow each other joined: "after 1-3, 7".
func ranges(nodes []int) string {
	nodes = slices.Sorted(slices.Values(nodes))
	said, word := "", "after "
	for i := 0; i < len(nodes); word = ", " {
		j := i
		for j+1 < len(nodes) && nodes[j+1] == nodes[j]+1 {
			j++
		}
		said += word + fmt.Sprint(nodes[i]+1)
		if i++; j > i {
			said += fmt.Sprint("-", nodes[j]+1)
			i = j + 1
		}
	}
	return said
}
