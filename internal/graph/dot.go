package graph

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// dotColumns is how wide a label of DOT becomes, in columns: Graphviz itself breaks no lines.
const dotColumns = 30

// DOT gives the graph in the language of Graphviz, from top to bottom.
func (g *Graph) DOT() string {
	var b strings.Builder
	b.WriteString("digraph boulder {\n")
	b.WriteString("    rankdir=TB;\n")
	b.WriteString("    bgcolor=\"transparent\";\n")
	b.WriteString("    node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica,Arial,sans-serif\", fontsize=11," +
		" fontcolor=\"#1f2328\", margin=\"0.18,0.1\"];\n")
	b.WriteString("    edge [color=\"#6e7781\", arrowsize=0.7];\n")
	if g.title != "" {
		fmt.Fprintf(&b, "    label=\"%s\";\n    labelloc=t;\n    fontname=\"Helvetica,Arial,sans-serif\";\n"+
			"    fontcolor=\"#6e7781\";\n", dotLines(g.title, 2*dotColumns))
	}
	for i, n := range g.nodes {
		l := lookOf(n.Status)
		label := dotLines(strings.TrimSpace(l.sign+" "+n.Title), dotColumns)
		if n.ID != n.Title {
			label += `\n` + dotLines(n.ID, dotColumns)
		}
		if state := n.state(); state != "" {
			label += `\n` + dotLines(state, dotColumns)
		}
		fmt.Fprintf(&b, "    n%d [label=\"%s\", fillcolor=\"%s\", color=\"%s\"", i+1, label, l.light.fill, l.light.line)
		if l.dashed {
			b.WriteString(`, style="rounded,filled,dashed"`)
		}
		b.WriteString("];\n")
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "    n%d -> n%d;\n", e.from+1, e.to+1)
	}
	b.WriteString("}\n")
	return b.String()
}

// dotEscapes keep a text inside its quotes and as it is: a backslash begins escapes such as \N for the node's name, and
// Graphviz reads HTML's entities in every label.
var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, `&amp;`)

// dotLines writes a text that may stand in a quoted label, broken into lines.
func dotLines(s string, columns int) string {
	lines := strings.Split(ansi.WrapWc(s, columns, ""), "\n")
	for i, line := range lines {
		lines[i] = dotEscapes.Replace(strings.TrimSpace(line))
	}
	return strings.Join(lines, `\n`)
}
