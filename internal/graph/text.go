package graph

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// TextOptions say how a graph is drawn for a terminal.
type TextOptions struct {
	// Width is how many columns there are. Defaults to 80; 40 are used at least.
	Width int
	// Paint colours what tells a status. Defaults to none: the text is plain.
	Paint func(status, text string) string
}

// minWidth leaves each column of a list some room.
const minWidth = 40

// maxBoxes is how many nodes are drawn as boxes at most. More of them fill several screens with frames.
const maxBoxes = 24

// Text gives the graph for a terminal: as boxes with lines between them if they fit, else as a list in which each node
// says after which others it comes.
func (g *Graph) Text(o TextOptions) string {
	if o.Width <= 0 {
		o.Width = 80
	}
	o.Width = max(o.Width, minWidth)
	if o.Paint == nil {
		o.Paint = func(_, text string) string { return text }
	}
	var b strings.Builder
	if g.title != "" {
		b.WriteString(strings.Join(wrapTo(g.title, o.Width, 3), "\n") + "\n")
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
	if legend := g.textLegend(o); legend != "" {
		b.WriteString("\n" + legend)
	}
	return b.String()
}

// textLegend counts the statuses, on as many lines as it needs.
func (g *Graph) textLegend(o TextOptions) string {
	var b strings.Builder
	at := 0
	for _, t := range g.legend() {
		number := fmt.Sprint(" ", t.count)
		text := fit(t.sign+" "+t.word, o.Width-len(number)) + number
		w := ansi.StringWidthWc(text)
		switch {
		case at > 0 && at+3+w > o.Width:
			b.WriteByte('\n')
			at = 0
		case at > 0:
			b.WriteString("   ")
			at += 3
		}
		b.WriteString(o.Paint(t.status, t.sign) + strings.TrimPrefix(text, t.sign))
		at += w
	}
	if at > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// fit cuts a text visibly to n columns.
func fit(s string, n int) string {
	// TruncateWc takes a family of emojis for one of them, and keeps too much.
	for w := n; ansi.StringWidthWc(s) > n; w-- {
		s = ansi.TruncateWc(s, max(w, 0), "…")
		if w < 0 {
			return ""
		}
	}
	return s
}

// pad is fit, filled with spaces.
func pad(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", n-ansi.StringWidthWc(s))
}

// wrapTo breaks a text into at most so many lines of n columns, and cuts it visibly.
func wrapTo(s string, n, most int) []string {
	var lines []string
	for line := range strings.SplitSeq(ansi.WrapWc(s, n, ""), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	if len(lines) > most {
		last := strings.Join(lines[most-1:], " ")
		lines = append(lines[:most-1], last)
	}
	for i := range lines {
		lines[i] = fit(lines[i], n) // what has no place to break is cut
	}
	return lines
}
