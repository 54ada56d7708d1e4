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
	minWidth   = 40 // enough for each column of the list
	mostID     = 20
	mostAfter  = 24
	leastTitle = 16 // next to lanes
)

// Text returns the graph for a terminal with width columns: a numbered line per node, below its dependencies. Each line
// names these by number; lanes at the left also draw the edges if there is room. paint colours texts by status.
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
	var number, idColumns, afterColumns, titleColumns, signColumns int
	for i, n := range g.nodes {
		after[i], titles[i] = g.after(i), n.Title+text.If(n.Note != "", " ("+n.Note+")") // not the status
		if n.Status != "" {
			signColumns = 2
		}
		idColumns = max(idColumns, min(ansi.StringWidthWc(n.ID), mostID, width/4))
		number = max(number, len(fmt.Sprint(n.Number)))
		afterColumns = max(afterColumns, min(len(after[i]), mostAfter, width/3))
		titleColumns = max(titleColumns, ansi.StringWidthWc(titles[i]))
	}
	rows := slices.Concat(g.levels...)
	room := width - number - signColumns - idColumns - afterColumns - 5 // for lanes and titles
	lanes := g.lanes(rows, (room-leastTitle)/2)
	for row, i := range rows {
		n := g.nodes[i]
		sign := text.If(signColumns > 0, paint(n.Status, text.Fit(n.look().sign, 1))+" ")
		line := fmt.Sprintf("%s%*d %s%s  %s  %s", lanes[row], number, n.Number, sign, text.Fit(n.ID, idColumns),
			text.Fit(titles[i], min(titleColumns, room-utf8.RuneCountInString(lanes[row]))),
			text.Clip(after[i], afterColumns))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// lanes draws the edges to each row. A node with dependents has a lane from its row down to the last of them. In each
// row, a horizontal line leads from the lanes of its dependencies to the node, behind other lanes. All strings are
// empty if it takes more than most lanes.
func (g *Graph) lanes(rows []int, most int) []string {
	last := make([]int, len(rows)) // by node: the row of its last dependent
	for row, i := range rows {
		for _, from := range g.before[i] {
			last[from] = row
		}
	}
	const free = -1
	var lanes []int // the node of each, or free
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
			turn := "" // without and with that line
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
	for row, line := range lines { // fill up to the numbers
		fill := fills[0]
		if strings.HasSuffix(line, fills[1]) {
			fill = fills[1]
		}
		lines[row] += strings.Repeat(fill, 2*len(lanes)-utf8.RuneCountInString(line)) + strings.Repeat(" ", min(1, len(lanes)))
	}
	return lines
}

var fills = []string{" ", "─"}

// after lists the numbers of what a node depends on, three or more consecutive ones joined: "after 1-3, 7".
func (g *Graph) after(node int) string {
	var numbers []int
	for _, from := range g.before[node] {
		numbers = append(numbers, g.nodes[from].Number)
	}
	slices.Sort(numbers)
	said, word := "", "after "
	for i := 0; i < len(numbers); word = ", " {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		said += word + fmt.Sprint(numbers[i])
		if i++; j > i {
			said += fmt.Sprint("-", numbers[j])
			i = j + 1
		}
	}
	return said
}

// Mermaid returns the graph as a Mermaid flowchart, from top to bottom.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	used := map[string]bool{}
	for i, n := range g.nodes {
		class := n.look().class
		used[class] = true
		fmt.Fprintf(&b, "    n%d[\"%s\"]:::%s\n", i+1, n.label("<br/>", mermaidText), class)
	}
	g.writeEdges(&b, "    n%d --> n%d\n")
	for _, c := range palette() {
		if used[c.class] {
			fmt.Fprintf(&b, "    classDef %s fill:%s,stroke:%s,color:#1f2328%s\n", c.class, c.fill, c.line,
				text.If(c.class == dropped, ",stroke-dasharray:4 3"))
		}
	}
	return b.String()
}

func (g *Graph) writeEdges(b *strings.Builder, format string) {
	for i, before := range g.before {
		for _, from := range before {
			fmt.Fprintf(b, format, from+1, i+1)
		}
	}
}

// mermaidSigns matches all of ASCII except letters, digits, spaces and a few harmless signs. In a quoted label, a quote
// ends it, a backtick makes it Markdown, < and & are HTML; "%%{" starts a directive and "style x:" is rewritten
// anywhere.
var mermaidSigns = text.Regexp(`[^\x{80}-\x{10FFFF}0-9A-Za-z .,\-/()?!']`)

func mermaidText(s string) string {
	return mermaidSigns().ReplaceAllStringFunc(s, func(sign string) string { return fmt.Sprintf("#%d;", sign[0]) })
}

// dotColumns is the width of a DOT label, in columns. Graphviz itself does not wrap lines.
const dotColumns = 30

// DOT returns the graph in Graphviz' language, from top to bottom.
func (g *Graph) DOT() string {
	var b strings.Builder
	b.WriteString(`digraph boulder {
    rankdir=TB;
    bgcolor="transparent";
    node [shape=box, style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize=11, fontcolor="#1f2328", ` +
		`margin="0.18,0.1"];
    edge [color="#6e7781", arrowsize=0.7];
`)
	if g.title != "" {
		fmt.Fprintf(&b, "    label=\"%s\";\n    labelloc=t;\n    fontname=\"Helvetica,Arial,sans-serif\";\n"+
			"    fontcolor=\"#6e7781\";\n", dotLines(g.title, 2*dotColumns))
	}
	for i, n := range g.nodes {
		c, label := n.look(), n.label(`\n`, func(line string) string { return dotLines(line, dotColumns) })
		fmt.Fprintf(&b, "    n%d [label=\"%s\", fillcolor=\"%s\", color=\"%s\"%s];\n", i+1, label, c.fill, c.line,
			text.If(c.class == dropped, `, style="rounded,filled,dashed"`))
	}
	g.writeEdges(&b, "    n%d -> n%d;\n")
	b.WriteString("}\n")
	return b.String()
}

// dotEscapes escapes a text for a quoted label: a backslash starts escapes such as \N for the node's name, and Graphviz
// decodes HTML entities in every label.
var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, `&amp;`)

func dotLines(s string, columns int) string {
	lines := strings.Split(ansi.WrapWc(s, columns, ""), "\n")
	for i, line := range lines {
		lines[i] = dotEscapes.Replace(strings.TrimSpace(line))
	}
	return strings.Join(lines, `\n`)
}
