package graph

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/text"
)

// Mermaid gives the graph as a flowchart for Mermaid, from top to bottom.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	used := map[string]bool{}
	for i, n := range g.nodes {
		class := n.look().class
		used[class] = true
		lines := n.label()
		for k := range lines {
			lines[k] = mermaidText(lines[k])
		}
		fmt.Fprintf(&b, "    n%d[\"%s\"]:::%s\n", i+1, strings.Join(lines, "<br/>"), class)
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

// mermaidSigns are all of ASCII but letters, digits, spaces and a few harmless signs. In a quoted label, a quote would end
// it, "%%{" begins a directive and "style x:" is rewritten wherever they stand, a backtick makes Markdown of it, and < and
// & are HTML.
var mermaidSigns = text.Regexp(`[^\x{80}-\x{10FFFF}0-9A-Za-z .,\-/()?!']`)

// mermaidText writes a text that may stand in a quoted label: such signs become codes.
func mermaidText(s string) string {
	return mermaidSigns().ReplaceAllStringFunc(s, func(sign string) string { return fmt.Sprintf("#%d;", sign[0]) })
}

// dotColumns is how wide a label of DOT becomes, in columns: Graphviz itself breaks no lines.
const dotColumns = 30

// DOT gives the graph in the language of Graphviz, from top to bottom.
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
		c := n.look()
		lines := n.label()
		for k := range lines {
			lines[k] = dotLines(lines[k], dotColumns)
		}
		fmt.Fprintf(&b, "    n%d [label=\"%s\", fillcolor=\"%s\", color=\"%s\"%s];\n", i+1, strings.Join(lines, `\n`),
			c.fill, c.line, text.If(c.class == dropped, `, style="rounded,filled,dashed"`))
	}
	g.writeEdges(&b, "    n%d -> n%d;\n")
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
