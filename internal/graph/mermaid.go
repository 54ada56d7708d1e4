package graph

import (
	"fmt"
	"strings"
)

// Mermaid gives the graph as a flowchart for Mermaid, from top to bottom.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	used := map[string]bool{}
	for i, n := range g.nodes {
		l := lookOf(n.Status)
		used[l.class] = true
		lines := []string{mermaidText(strings.TrimSpace(l.sign + " " + n.Title))}
		if n.ID != n.Title {
			lines = append(lines, mermaidText(n.ID))
		}
		if state := n.state(); state != "" {
			lines = append(lines, mermaidText(state))
		}
		fmt.Fprintf(&b, "    n%d[\"%s\"]:::%s\n", i+1, strings.Join(lines, "<br/>"), l.class)
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "    n%d --> n%d\n", e.from+1, e.to+1)
	}
	for _, l := range classes() {
		if !used[l.class] {
			continue
		}
		fmt.Fprintf(&b, "    classDef %s fill:%s,stroke:%s,color:#1f2328", l.class, l.light.fill, l.light.line)
		if l.dashed {
			b.WriteString(",stroke-dasharray:4 3")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// mermaidText writes a text that may stand in a quoted label. All ASCII but letters, digits, spaces and a few harmless
// signs become codes: a quote would end the label, "%%{" begins a directive and "style x:" is rewritten wherever they
// stand, a backtick makes Markdown of the label, and < and & are HTML.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 0x80, r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z',
			strings.ContainsRune(" .,-/()?!'", r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
