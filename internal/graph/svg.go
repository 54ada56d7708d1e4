package graph

import (
	"fmt"
	"html"
	"strings"
)

// Measures of an SVG, in its pixels.
const (
	svgBox     = 224 // width of a box
	svgPad     = 11  // between a box and its text
	svgSign    = 24  // from the left of a box's text to the title: the sign stands there
	svgTitle   = 13  // font of titles
	svgSmall   = 11  // font of the lines below
	svgLead    = 17  // height of a line of a title
	svgLine    = 15  // height of a small line
	svgLines   = 3   // of a title, at most
	svgGap     = 22  // between boxes of a level
	svgLevel   = 46  // between levels, at least
	svgMargin  = 24
	svgHead    = 15 // font of the title of all
	svgLegend  = 34
	svgNarrow  = 420 // width of a picture, at least: the title needs room
	svgAcross  = 5   // boxes side by side, at most, if the picture grows to the bottom
	svgEdgeGap = 3   // more between levels for each edge between them, up to svgEdges of them; double to the right
	svgEdges   = 20
)

// SVG gives the graph as a picture on its own: it runs no script and loads nothing. It follows the viewer's choice of
// light or dark. Time flows to the bottom, or to the right where that keeps a wide graph on the page.
func (g *Graph) SVG() string {
	p := &svg{Graph: g, beside: g.widest() > svgAcross && g.widest() > g.deep}
	p.measure()
	p.layout = newLayout(g, spacing{size: p.across, gap: svgGap, lane: 8, pass: 14})
	p.place()
	p.document()
	return p.out.String()
}

// widest is the size of the largest level.
func (g *Graph) widest() int {
	sizes, most := make([]int, g.deep), 0
	for _, level := range g.level {
		sizes[level]++
		most = max(most, sizes[level])
	}
	return most
}

// svg is a picture that is being drawn.
type svg struct {
	*Graph
	beside bool // levels stand beside each other, time flows to the right

	boxes  []svgNode
	layout *layout
	levels []svgSpan // where each level is, along the flow of time
	head   []string  // lines of the title
	top    int       // where the graph begins
	width  int
	height int // of the graph
	out    strings.Builder
}

type svgNode struct {
	title  []string
	state  []string // lines
	id     string
	height int
	x, y   int // of its corner
}

type svgSpan struct{ from, to int }

// measure breaks the texts of the boxes into lines.
func (p *svg) measure() {
	p.boxes = make([]svgNode, len(p.nodes))
	for i, n := range p.nodes {
		b := &p.boxes[i]
		room := float64(svgBox - 2*svgPad)
		indent := 0
		if n.Status != "" {
			indent = svgSign
		}
		b.title = breakLines(n.Title, (room-float64(indent))/svgTitle, svgLines)
		if n.ID != n.Title {
			b.id = cutTo(n.ID, (room-float64(indent))/svgSmall)
		}
		if state := n.state(); state != "" {
			b.state = breakLines(state, (room-float64(indent))/svgSmall, 2)
		}
		b.height = 2*svgPad + len(b.title)*svgLead + len(b.state)*svgLine - 2
		if b.id != "" {
			b.height += svgLine
		}
	}
}

// across is a node's size across the flow of time.
func (p *svg) across(node int) int {
	if p.beside {
		return p.boxes[node].height
	}
	return svgBox
}

// along is its size along it.
func (p *svg) along(node int) int {
	if p.beside {
		return svgBox
	}
	return p.boxes[node].height
}

// place gives levels and boxes their places on the page.
func (p *svg) place() {
	p.levels = make([]svgSpan, len(p.layout.levels))
	at := 0
	for i, level := range p.layout.levels {
		size, edges := 0, 0
		for _, it := range level {
			if it := p.layout.items[it]; !it.lane {
				size = max(size, p.along(it.node))
			}
			edges += len(p.layout.items[it].down)
		}
		p.levels[i] = svgSpan{at, at + size}
		at += size + svgLevel + svgEdgeGap*min(edges, svgEdges)
		if p.beside {
			at += svgEdgeGap * min(edges, svgEdges)
		}
	}
	depth := 0
	if n := len(p.levels); n > 0 {
		depth = p.levels[n-1].to
	}
	wide, high := p.layout.width, depth
	if p.beside {
		wide, high = high, wide
	}
	p.width, p.height = max(wide, svgNarrow), high
	p.head = breakLines(p.title, float64(p.width)/svgHead, 2)
	p.top = svgMargin + len(p.head)*(svgHead+5) + 10*min(len(p.head), 1)
	left := svgMargin + (p.width-wide)/2
	for i := range p.boxes {
		it := p.layout.items[p.layout.node[i]]
		span := p.levels[it.level]
		middle := span.from + (span.to-span.from-p.along(i))/2
		b := &p.boxes[i]
		if p.beside {
			b.x, b.y = left+middle, p.top+it.left
		} else {
			b.x, b.y = left+it.left, p.top+middle
		}
	}
	for i := range p.levels { // from here on in places on the page
		start := p.top
		if p.beside {
			start = left
		}
		p.levels[i].from += start
		p.levels[i].to += start
	}
	if p.beside {
		left = p.top
	}
	for i := range p.layout.items {
		p.layout.items[i].left += left
	}
}

func (p *svg) printf(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *svg) document() {
	legend := p.legendLines()
	width := p.width + 2*svgMargin
	height := p.top + p.height + svgMargin + len(legend)*svgLegend
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n",
		width, height, width, height)
	p.printf("<title>%s</title>\n", escape(p.title))
	p.style()
	p.printf(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8"` +
		` markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0.5 8 4 0 7.5Z"/></marker></defs>` + "\n")
	p.printf(`<rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	for i, line := range p.head {
		p.printf(`<text class="head" x="%d" y="%d">%s</text>`+"\n", svgMargin, svgMargin+svgHead+i*(svgHead+5), escape(line))
	}
	p.lines()
	for i := range p.nodes {
		p.box(i)
	}
	for i, line := range legend {
		p.legendLine(line, p.top+p.height+svgMargin+i*svgLegend+svgLegend/2-8)
	}
	p.printf("</svg>\n")
}

// style writes the colours. Attributes would be simpler, but they cannot follow the viewer's choice.
func (p *svg) style() {
	p.printf("<style>\n")
	p.printf("text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",\"Noto Sans CJK SC\"," +
		"\"DejaVu Sans\",Helvetica,Arial,sans-serif;fill:#1f2328;font-size:11px}\n")
	p.printf(".head{font-size:15px;font-weight:600}.name{font-size:13px;font-weight:600}.id,.count{fill:#57606a}" +
		".box{stroke-width:1.5}.sign{fill:none;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}\n")
	p.printf(".page{fill:#ffffff}.edge{fill:none;stroke:#8c959f;stroke-width:1.4}.tip{fill:#8c959f}.dropped .box{" +
		"stroke-dasharray:5 3}\n")
	for _, l := range classes() {
		p.colours(l.class, l.light)
	}
	p.printf("@media (prefers-color-scheme:dark){text{fill:#e6edf3}.id,.count{fill:#9198a1}.page{fill:#0d1117}" +
		".edge{stroke:#6e7681}.tip{fill:#6e7681}\n")
	for _, l := range classes() {
		p.colours(l.class, l.dark)
	}
	p.printf("}\n</style>\n")
}

func (p *svg) colours(class string, c colours) {
	p.printf(".%s .box{fill:%s;stroke:%s}.%s .sign{stroke:%s}.%s .state{fill:%s}\n", class, c.fill, c.line, class, c.line,
		class, c.line)
}

// box draws a node.
func (p *svg) box(i int) {
	n, b, l := p.nodes[i], p.boxes[i], lookOf(p.nodes[i].Status)
	told := n.Title
	if n.ID != n.Title {
		told = n.ID + ": " + told
	}
	if state := n.state(); state != "" {
		told += " (" + state + ")"
	}
	p.printf(`<g class="%s"><title>%s</title>`, l.class, escape(told))
	p.printf(`<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, b.x, b.y, svgBox, b.height)
	x, y := b.x+svgPad, b.y+svgPad+svgTitle-1
	if n.Status != "" {
		p.sign(l, x+8, y-5)
		x += svgSign
	}
	for _, line := range b.title {
		p.printf(`<text class="name" x="%d" y="%d">%s</text>`, x, y, escape(line))
		y += svgLead
	}
	y--
	if b.id != "" {
		p.printf(`<text class="id" x="%d" y="%d">%s</text>`, x, y, escape(b.id))
		y += svgLine
	}
	for _, line := range b.state {
		p.printf(`<text class="state" x="%d" y="%d">%s</text>`, x, y, escape(line))
		y += svgLine
	}
	p.printf("</g>\n")
}

// signs are drawn around 0,0, because not every font has them.
var signs = map[string]string{
	"✓": `<circle r="7"/><path d="M-3.2 0.2-1 2.6 3.4-2.4"/>`,
	"✗": `<circle r="7"/><path d="M-2.6-2.6 2.6 2.6M2.6-2.6-2.6 2.6"/>`,
	"!": `<path d="M0-7.4 7.6 6.2H-7.6ZM0-2.6V1.6M0 4V4.1"/>`,
	"●": `<circle r="7"/><path d="M-2.2-3.2 3.4 0-2.2 3.2Z"/>`,
	"○": `<circle r="7"/>`,
	"-": `<circle r="7"/><path d="M-3 0H3"/>`,
	"?": `<circle r="7"/><path d="M-2-1.6A2 2 0 1 1 0.6 0.4Q0 0.7 0 1.4M0 4V4.1"/>`,
}

func (p *svg) sign(l look, x, y int) {
	p.printf(`<g class="sign" transform="translate(%d %d)">%s</g>`, x, y, signs[l.sign])
}

// lines draws the edges, each piece between two levels once: long edges of a node share theirs.
func (p *svg) lines() {
	for i := range p.layout.items {
		for _, d := range p.layout.items[i].down {
			p.line(&p.layout.items[i], &p.layout.items[d])
		}
	}
	for _, e := range p.layout.loose {
		p.line(&p.layout.items[p.layout.node[e.from]], &p.layout.items[p.layout.node[e.to]])
	}
}

// line draws a piece of an edge, and if it leads to a lane, that too.
func (p *svg) line(from, to *item) {
	tip := ` marker-end="url(#tip)"`
	if to.lane {
		tip = ""
	}
	x, y := from.middle(), float64(p.levels[from.level].to)
	if !from.lane {
		y = p.leaves(from.node)
	}
	p.printf(`<path class="edge"%s d="M%s`, tip, p.point(x, y))
	y = p.step(y, p.levels[from.level].to)
	span := p.levels[to.level]
	p.curve(x, y, to.middle(), float64(span.from))
	if to.lane {
		p.step(float64(span.from), span.to)
	} else {
		p.step(float64(span.from), p.enters(to.node))
	}
	p.printf("\"/>\n")
}

// leaves is where a node's edges begin, along the flow of time.
func (p *svg) leaves(node int) float64 {
	if p.beside {
		return float64(p.boxes[node].x + svgBox)
	}
	return float64(p.boxes[node].y + p.boxes[node].height)
}

// enters is where they end, along the flow of time.
func (p *svg) enters(node int) int {
	if p.beside {
		return p.boxes[node].x
	}
	return p.boxes[node].y
}

// point turns a place across and along into one on the page.
func (p *svg) point(across, along float64) string {
	if p.beside {
		across, along = along, across
	}
	return fmt.Sprintf("%g %g", across, along)
}

// step goes straight on along the flow of time.
func (p *svg) step(from float64, to int) float64 {
	if from != float64(to) {
		command := "V"
		if p.beside {
			command = "H"
		}
		p.printf("%s%d", command, to)
	}
	return float64(to)
}

// curve goes from one level to the next.
func (p *svg) curve(x, y, toX, toY float64) {
	if x == toX {
		p.step(y, int(toY))
		return
	}
	half := (y + toY) / 2
	p.printf("C%s %s %s", p.point(x, half), p.point(toX, half), p.point(toX, toY))
}

// legendLines breaks the legend into lines.
func (p *svg) legendLines() [][]tally {
	var lines [][]tally
	at := 0
	for _, t := range p.legend() {
		if w := legendWidth(t); len(lines) == 0 || at+w > p.width {
			lines, at = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], t)
		at += legendWidth(t)
	}
	return lines
}

func legendText(t tally) string { return fmt.Sprintf("%s %d", t.word, t.count) }

func legendWidth(t tally) int { return 24 + int(textWidth(legendText(t))*svgSmall) + 18 }

func (p *svg) legendLine(line []tally, y int) {
	x := svgMargin
	for _, t := range line {
		p.printf(`<g class="%s">`, t.class)
		p.sign(t.look, x+8, y)
		p.printf(`<text class="count" x="%d" y="%d">%s</text></g>`+"\n", x+svgSign, y+4, escape(legendText(t)))
		x += legendWidth(t)
	}
}

// escape writes a text for XML: what HTML escapes is all that XML wants, and control characters are gone.
func escape(s string) string { return html.EscapeString(s) }
