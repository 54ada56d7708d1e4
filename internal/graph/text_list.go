package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Columns of the list, at most.
const (
	listID    = 20
	listAfter = 24
)

// list draws the graph as a list: a line for each node, a blank one between levels.
func (g *Graph) list(o TextOptions) string {
	after := g.after()
	number := len(fmt.Sprint(len(g.nodes)))
	id, last := 0, 0
	for i, n := range g.nodes {
		id = max(id, min(ansi.StringWidthWc(n.ID), listID, o.Width/4))
		last = max(last, min(ansi.StringWidthWc(after[i]), listAfter, o.Width/3))
	}
	sign := 0
	if len(g.legend()) > 0 {
		sign = 2
	}
	levels, title := make([][]int, g.deep), 0
	for i, n := range g.nodes {
		levels[g.level[i]] = append(levels[g.level[i]], i)
		title = max(title, ansi.StringWidthWc(n.listTitle()))
	}
	title = max(min(title, o.Width-number-sign-id-last-5), 1)
	var b strings.Builder
	for depth, level := range levels {
		if depth > 0 {
			b.WriteByte('\n')
		}
		for _, i := range level {
			n := g.nodes[i]
			var line strings.Builder
			fmt.Fprintf(&line, "%*d ", number, i+1)
			if sign > 0 {
				line.WriteString(o.Paint(n.Status, pad(lookOf(n.Status).sign, 1)) + " ")
			}
			fmt.Fprintf(&line, "%s  %s  %s", pad(n.ID, id), pad(n.listTitle(), title), fit(after[i], last))
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	return b.String()
}

// listTitle is a title with the note: the sign tells the status.
func (n Node) listTitle() string {
	if n.Note == "" {
		return n.Title
	}
	return n.Title + " (" + n.Note + ")"
}

// after says of each node after which numbers it comes: "after 1-3, 7".
func (g *Graph) after() []string {
	from := make([][]int, len(g.nodes))
	for _, e := range g.edges {
		from[e.to] = append(from[e.to], e.from+1)
	}
	texts := make([]string, len(g.nodes))
	for i, numbers := range from {
		if len(numbers) > 0 {
			texts[i] = "after " + ranges(numbers)
		}
	}
	return texts
}

// ranges writes numbers, with those that follow each other joined.
func ranges(numbers []int) string {
	slices.Sort(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		switch {
		case j > i+1:
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		case j > i:
			parts = append(parts, fmt.Sprint(numbers[i]), fmt.Sprint(numbers[j]))
		default:
			parts = append(parts, fmt.Sprint(numbers[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
