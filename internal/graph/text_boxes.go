package graph

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Measures of boxes in a terminal, in columns.
const (
	boxWidest   = 36 // with its frame
	boxNarrowed = 4  // steps in which boxes become narrower until they fit
	boxLeast    = 17
	boxLines    = 3 // of a title
	boxGap      = 2
)

// textBoxes is a drawing with boxes.
type textBoxes struct {
	*Graph
	size   int        // width of every box
	lines  [][]string // inside of each box
	state  []int      // which of the lines tells the status; -1: none
	layout *layout
	canvas canvas
	row    int // where the next level or channel begins
	nets   int // names given to nets so far
}

// boxes draws the graph as boxes, if there are not too many, they fit and the lines find their way.
func (g *Graph) boxes(o TextOptions) (string, bool) {
	if len(g.nodes) == 0 || len(g.nodes) > maxBoxes {
		return "", false
	}
	for size := min(boxWidest, g.natural()); size > boxLeast; size -= boxNarrowed {
		if picture, ok := g.boxesOf(size, o); ok {
			return picture, true
		}
	}
	return g.boxesOf(boxLeast, o)
}

// boxesOf draws the graph as boxes of one width.
func (g *Graph) boxesOf(size int, o TextOptions) (string, bool) {
	if g.widest()*(size+boxGap)-boxGap > o.Width {
		return "", false
	}
	b := &textBoxes{Graph: g, size: size}
	b.layout = newLayout(g, spacing{size: func(int) int { return size }, gap: boxGap, lane: 1, pass: 2})
	b.canvas.width = b.layout.width
	if b.layout.width > o.Width || !b.draw() {
		return "", false
	}
	return b.canvas.string(o.Paint), true
}

// natural is how wide boxes would be if each text had one line.
func (g *Graph) natural() int {
	most := boxLeast
	for _, n := range g.nodes {
		most = max(most, ansi.StringWidthWc(lookOf(n.Status).sign+" "+n.Title)+4, ansi.StringWidthWc(n.ID)+6,
			ansi.StringWidthWc(n.state())+6)
	}
	return most
}

func (b *textBoxes) draw() bool {
	b.fill()
	for i := range b.layout.levels {
		height := b.level(i)
		b.row += height
		if i+1 < len(b.layout.levels) && !b.channel(i) {
			return false
		}
	}
	return true
}

// fill breaks the texts of the boxes into lines.
func (b *textBoxes) fill() {
	b.lines, b.state = make([][]string, len(b.nodes)), make([]int, len(b.nodes))
	inner := b.size - 4
	for i, n := range b.nodes {
		indent := ""
		if n.Status != "" {
			indent = "  "
		}
		for _, line := range wrapTo(n.Title, inner-len(indent), boxLines) {
			b.lines[i] = append(b.lines[i], indent+line)
		}
		if n.ID != n.Title {
			b.lines[i] = append(b.lines[i], indent+fit(n.ID, inner-len(indent)))
		}
		b.state[i] = len(b.lines[i])
		for _, line := range n.stateLines(inner - len(indent)) {
			b.lines[i] = append(b.lines[i], indent+line)
		}
	}
}

// stateLines is the state of a node on lines of n columns: on one, or the word and then the note.
func (n Node) stateLines(columns int) []string {
	word := lookOf(n.Status).word
	switch {
	case n.state() == "":
		return nil
	case ansi.StringWidthWc(n.state()) <= columns || word == "" || n.Note == "":
		return wrapTo(n.state(), columns, 2)
	}
	return append(wrapTo(word, columns, 1), wrapTo(n.Note, columns, 2)...)
}

// level draws the boxes and lanes of a level, all boxes of one height, and returns that.
func (b *textBoxes) level(depth int) int {
	height := 0
	for _, i := range b.layout.levels[depth] {
		if it := b.layout.items[i]; !it.lane {
			height = max(height, len(b.lines[it.node])+2)
		}
	}
	for _, i := range b.layout.levels[depth] {
		it := &b.layout.items[i]
		if it.lane {
			for row := range height {
				b.canvas.line(b.row+row, it.left, 0, up|down)
			}
			continue
		}
		b.box(it, height)
	}
	return height
}

func (b *textBoxes) box(it *item, height int) {
	rule := strings.Repeat("─", b.size-2)
	b.canvas.text(b.row, it.left, "┌"+rule+"┐", "")
	for row := 1; row < height-1; row++ {
		b.canvas.text(b.row+row, it.left, "│", "")
		b.canvas.text(b.row+row, it.left+b.size-1, "│", "")
	}
	b.canvas.text(b.row+height-1, it.left, "└"+rule+"┘", "")
	n := b.nodes[it.node]
	for i, line := range b.lines[it.node] {
		status := ""
		if i >= b.state[it.node] {
			status = n.Status
		}
		text := strings.TrimLeft(line, " ")
		b.canvas.text(b.row+1+i, it.left+2+len(line)-len(text), text, status)
	}
	if n.Status != "" {
		b.canvas.text(b.row+1, it.left+2, lookOf(n.Status).sign, n.Status)
	}
	if len(it.down) > 0 {
		b.canvas.text(b.row+height-1, b.exit(it), "┬", "")
	}
}

// exit is the column at which an item's edges leave it.
func (b *textBoxes) exit(it *item) int { return it.left + it.size/2 }

// channel draws the lines between a level and the next. It reports whether they found their way.
func (b *textBoxes) channel(depth int) bool {
	nets := b.netsOf(depth)
	if !b.enter(depth, nets) {
		return false
	}
	tracks, ok := route(nets)
	if !ok {
		return false
	}
	for _, n := range nets { // the horizontal lines first: vertical ones cross them
		if n.track >= 0 {
			for column := n.low(); column <= n.high(); column++ {
				b.canvas.line(b.row+n.track, column, n.name, n.sides(column))
			}
		}
	}
	for _, n := range nets {
		for _, column := range n.exits {
			end := n.track
			if n.track < 0 {
				end = tracks + 1
			}
			for row := range end {
				b.canvas.line(b.row+row, column, n.name, up|down)
			}
		}
		for _, p := range n.entries {
			for row := n.track + 1; row <= tracks; row++ {
				b.canvas.line(b.row+row, p.column, n.name, up|down)
			}
			if !b.layout.items[p.item].lane {
				b.canvas.text(b.row+tracks, p.column, "▼", "")
			}
		}
	}
	b.row += tracks + 1
	return true
}

// netsOf gathers the edges below a level into nets. Items with the same targets share one: their lines join.
func (b *textBoxes) netsOf(depth int) []*net {
	var nets []*net
	for _, i := range b.layout.levels[depth] {
		it := &b.layout.items[i]
		if len(it.down) == 0 {
			continue
		}
		to := slices.Sorted(slices.Values(it.down))
		at := slices.IndexFunc(nets, func(n *net) bool { return slices.Equal(n.to, to) })
		if at < 0 {
			b.nets++
			at, nets = len(nets), append(nets, &net{name: b.nets, to: to, track: -1})
		}
		nets[at].exits = append(nets[at].exits, b.exit(it))
	}
	return nets
}

// enter chooses the columns at which the nets come to the items of the level below.
func (b *textBoxes) enter(depth int, nets []*net) bool {
	owner := map[int]*net{} // of the columns that are taken
	for _, n := range nets {
		for _, column := range n.exits {
			owner[column] = n
		}
	}
	entered := map[int]bool{}
	for _, i := range b.layout.levels[depth+1] { // a lane has no choice
		if it := &b.layout.items[i]; it.lane {
			entered[it.left] = true
		}
	}
	for _, i := range b.layout.levels[depth+1] {
		it := &b.layout.items[i]
		var in []*net
		for _, n := range nets {
			if slices.Contains(n.to, i) {
				in = append(in, n)
			}
		}
		slices.SortStableFunc(in, func(a, b *net) int { return a.center() - b.center() })
		for k, n := range in {
			column, ok := it.left, true
			if !it.lane {
				column, ok = n.port(it, k, len(in), func(column int) bool {
					return !entered[column] && (owner[column] == nil || owner[column] == n)
				})
			}
			if !ok {
				return false
			}
			entered[column] = true
			n.entries = append(n.entries, port{i, column})
		}
	}
	return true
}
