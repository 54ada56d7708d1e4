package graph

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/text"
)

// Measures of an SVG, in pixels.
const (
	svgBox    = 224 // width of a box
	svgPad    = 11  // between a box and its text
	svgSign   = 24  // room for the sign, left of the title
	svgTitle  = 13  // font size of titles
	svgSmall  = 11  // font size of the lines below
	svgLead   = 17  // height of a line of a title
	svgLine   = 15  // height of a small line
	svgGap    = 22  // between boxes of a level
	svgLane   = 8   // width of the lane of an edge that passes a level
	svgPass   = 14  // between such a lane and its neighbours
	svgLevel  = 46  // between levels, at least
	svgEdge   = 3   // added between levels per edge between them, for at most svgEdges; doubled if horizontal
	svgEdges  = 20
	svgMargin = 24
	svgHead   = 15 // font size of the graph's title
	svgLegend = 34
	svgNarrow = 420 // minimum width of a picture: the title needs room
	svgAcross = 5   // maximum of boxes in a row, if time flows to the bottom
	svgLevels = 6   // maximum of levels for which time flows to the right on a page, which is wide
)

type svg struct {
	*Graph
	strings.Builder
	horizontal  bool      // time flows to the right, else to the bottom
	boxes       []boxText // by node
	starts      []int     // of each level, along the flow of time; so are ends
	ends        []int
	left, above int                    // origin of the graph on the page
	link        func(id string) string // see [Graph.SVG]; not nil: the picture is a part of a page
}

type boxText struct{ title, id, state, spent []string }

func (n Node) box() boxText {
	room := svgBox - 2*svgPad
	if n.Status != "" {
		room -= svgSign
	}
	small := func(s string, most int) []string { return wrap(s, room, most, font(svgSmall)) }
	t := boxText{wrap(n.Title, room, 3, font(svgTitle)), small(text.If(n.ID != n.Title, n.ID), 1), small(n.state(), 2), small(n.Spent, 1)}
	if word := n.look().word(); len(t.state) > 1 && word != "" && n.Note != "" { // put the word on a line of its own
		t.state = slices.Concat(small(word, 1), small(n.Note, 2))
	}
	return t
}

func (t boxText) height() int {
	return 2*svgPad + len(t.title)*svgLead + (len(t.id)+len(t.state)+len(t.spent))*svgLine - 2
}

// SVG returns the graph as a picture without scripts or external resources, in light and dark colours. Time flows to
// the bottom, or to the right if the graph is wide. If link is not nil, the picture is a part of a page with [Styles]
// in its stylesheet: it has no title and no legend, time flows to the right if there is room, and nodes link to the addresses that link returns (empty: no link).
func (g *Graph) SVG(link func(id string) string) string {
	widest := 0
	for _, level := range g.levels {
		widest = max(widest, len(level))
	}
	p := &svg{Graph: g, link: link, horizontal: widest > max(svgAcross, len(g.levels)) || link != nil && len(g.levels) <= svgLevels}
	for _, n := range g.nodes {
		p.boxes = append(p.boxes, n.box())
	}
	l := newLayout(g, func(node int) int {
		across, _ := p.turn(svgBox, p.boxes[node].height())
		return across
	})
	wide, high := p.turn(l.width, p.stack(l))
	p.document(l, wide, high)
	return p.String()
}

// turn converts between (x, y) on the page and (across a level, along the flow of time). It is its own inverse.
func (p *svg) turn(a, b int) (int, int) {
	if p.horizontal {
		return b, a
	}
	return a, b
}

// stack positions the levels along the flow of time, and returns the end of the last.
func (p *svg) stack(l *layout) int {
	at, end := 0, 0
	for _, level := range l.levels {
		size, edges := 0, 0
		for _, it := range level {
			if !it.lane() {
				_, along := p.turn(svgBox, p.boxes[it.node].height())
				size = max(size, along)
			}
			edges += len(it.down)
		}
		end = at + size
		p.starts, p.ends = append(p.starts, at), append(p.ends, end)
		at = end + svgLevel + svgEdge*min(edges, svgEdges)
		if p.horizontal {
			at += svgEdge * min(edges, svgEdges)
		}
	}
	return end
}

func (p *svg) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// page formats a position across a level and along the flow of time as "x y" on the page.
func (p *svg) page(across float64, along int) string {
	x, y := across, float64(along)
	if p.horizontal {
		x, y = y, x
	}
	return fmt.Sprintf("%g %g", float64(p.left)+x, float64(p.above)+y)
}

func (p *svg) document(l *layout, wide, high int) {
	width := max(wide, svgNarrow)
	head, class := wrap(p.title, width, 2, font(svgHead)), ""
	if p.link != nil {
		width, head, class = wide, nil, ` class="graph"`
	}
	p.left, p.above = svgMargin+(width-wide)/2, svgMargin+len(head)*(svgHead+5)+10*min(len(head), 1)
	var legend [][]tally
	if p.link == nil { // a page says beside it how many are in which state
		legend = p.legend(width, legendWidth)
	}
	bottom := p.above + high + svgMargin
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg"%[3]s width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="%[4]s">`+"\n",
		width+2*svgMargin, bottom+len(legend)*svgLegend, class, cmp.Or(text.If(p.link != nil, "group"), "img"))
	p.printf("<title>%s</title>\n", html.EscapeString(p.title))
	if p.link == nil {
		p.printf("<style>\n%s</style>\n", styles())
	}
	p.printf(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8"` +
		` markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0.5 8 4 0 7.5Z"/></marker></defs>` + "\n")
	p.printf(`<rect class="page" width="%d" height="%d"/>`+"\n", width+2*svgMargin, bottom+len(legend)*svgLegend)
	p.text("head", svgMargin, svgMargin+svgHead, svgHead+5, head)
	p.printf("\n")
	for _, level := range l.levels {
		for _, from := range level {
			for _, to := range from.down {
				p.line(from, to)
			}
		}
	}
	for _, it := range l.nodes {
		p.box(it)
	}
	for i, line := range legend {
		x, y := svgMargin, bottom+i*svgLegend+svgLegend/2-8
		for _, t := range line {
			p.printf(`<g class="%s">`, t.class)
			p.sign(t.look, x+8, y)
			p.text("count", x+svgSign, y+4, 0, []string{t.String()})
			p.printf("</g>\n")
			x += legendWidth(t)
		}
	}
	p.printf("</svg>\n")
}

func legendWidth(t tally) int { return svgSign + font(svgSmall)(t.String()) + 18 }

// Styles returns the style rules for pictures that are a part of a page, see [Graph.SVG].
func Styles() string { return ".graph{\n" + styles() + "}\n" }

// styles returns fonts and colours. Attributes would be simpler, but cannot follow the viewer's colour scheme.
func styles() string {
	var s strings.Builder
	s.WriteString(`text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC","DejaVu Sans",Helvetica,` +
		`Arial,sans-serif;fill:#1f2328;font-size:11px}
.head{font-size:15px;font-weight:600}.name{font-size:13px;font-weight:600}.id,.count{fill:#57606a}.box{stroke-width:1.5}` +
		`.sign{fill:none;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}
.page{fill:#ffffff}.edge{fill:none;stroke:#8c959f;stroke-width:1.4}.tip{fill:#8c959f}.dropped .box{stroke-dasharray:5 3}
`)
	const colours = ".%[1]s .box{fill:%[2]s;stroke:%[3]s}.%[1]s .sign{stroke:%[3]s}.%[1]s .state{fill:%[3]s}\n"
	for _, c := range palette() {
		fmt.Fprintf(&s, colours, c.class, c.fill, c.line)
	}
	s.WriteString("@media (prefers-color-scheme:dark){text{fill:#e6edf3}.id,.count{fill:#9198a1}.page{fill:#0d1117}" +
		".edge{stroke:#6e7681}.tip{fill:#6e7681}\n")
	for _, c := range palette() {
		fmt.Fprintf(&s, colours, c.class, c.darkFill, c.darkLine)
	}
	s.WriteString("}\n")
	return s.String()
}

func (p *svg) line(from, to *item) {
	tip, lane := ` marker-end="url(#tip)"`, ""
	if to.lane() {
		tip, lane = "", "L"+p.page(to.middle(), p.ends[to.level])
	}
	start, end := p.ends[from.level], p.starts[to.level]
	p.printf(`<path class="edge"%s d="M%sC%s %s %s%s"/>`+"\n", tip, p.page(from.middle(), start),
		p.page(from.middle(), (start+end)/2), p.page(to.middle(), (start+end)/2), p.page(to.middle(), end), lane)
}

// box draws a node. All boxes of a level have the same size along the flow of time.
func (p *svg) box(it *item) {
	n, t := p.nodes[it.node], p.boxes[it.node]
	x, y := p.turn(it.left, p.starts[it.level])
	x, y = p.left+x, p.above+y
	width, height := p.turn(it.size, p.ends[it.level]-p.starts[it.level])
	look, link := n.look(), ""
	if p.link != nil {
		link = p.link(n.ID)
	}
	if link != "" {
		p.printf(`<a href="%s">`, html.EscapeString(link))
	}
	p.printf(`<g class="%s"><title>%s</title>`, look.class, n.label("\n", html.EscapeString))
	p.printf(`<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, x, y, width, height)
	x, y = x+svgPad, y+svgPad+svgTitle-1
	if n.Status != "" {
		p.sign(look, x+8, y-5)
		x += svgSign
	}
	y = p.text("name", x, y, svgLead, t.title) - 1
	y = p.text("id", x, y, svgLine, t.id)
	y = p.text("state", x, y, svgLine, t.state)
	p.text("id", x, y, svgLine, t.spent)
	p.printf("</g>%s\n", text.If(link != "", "</a>"))
}

// text writes lines, and returns the y of the next one.
func (p *svg) text(class string, x, y, lead int, lines []string) int {
	for _, line := range lines {
		p.printf(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, html.EscapeString(line))
		y += lead
	}
	return y
}

// signs are centred on 0,0. They are drawn because not every font has them.
var signs = map[string]string{
	"✓": `<circle r="7"/><path d="M-3.2 0.2-1 2.6 3.4-2.4"/>`,
	"✗": `<circle r="7"/><path d="M-2.6-2.6 2.6 2.6M2.6-2.6-2.6 2.6"/>`,
	"!": `<path d="M0-7.4 7.6 6.2H-7.6ZM0-2.6V1.6M0 4V4.1"/>`,
	"●": `<circle r="7"/><path d="M-2.2-3.2 3.4 0-2.2 3.2Z"/>`,
	"○": `<circle r="7"/>`,
	"-": `<circle r="7"/><path d="M-3 0H3"/>`,
}

func (p *svg) sign(l look, x, y int) {
	p.printf(`<g class="sign" transform="translate(%d %d)">%s</g>`, x, y, signs[l.sign])
}

// font returns a function that estimates the width of a text at a font size. The viewer's fonts are unknown, so it uses
// rough widths of DejaVu Sans, the widest of the usual ones, in hundredths of the size.
func font(size int) func(string) int {
	return func(s string) int {
		width := 0
		for s != "" {
			part, columns := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
			s = s[len(part):]
			r := []rune(part)[0]
			switch {
			case columns == 0:
			case columns > 1, strings.ContainsRune("mwMW@%—", r), r > 0x2FF && !unicode.IsLetter(r):
				width += 102
			case strings.ContainsRune("iljtfrI.,:;'|!()[] ", r):
				width += 38
			case unicode.IsUpper(r):
				width += 78
			default:
				width += 66
			}
		}
		return (width*size + 99) / 100
	}
}
