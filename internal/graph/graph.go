// Package graph draws things that depend on each other: as text for a terminal, as Mermaid, as DOT and as SVG. It is
// pure, and the same graph gives the same bytes. Texts may come from anywhere, a model included: whatever they hold,
// each drawing is well-formed in its language, and nothing in them is taken for markup, a statement or a control
// sequence.
package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
)

// Node is one thing that is drawn.
type Node struct {
	ID     string `json:"id"`
	Title  string `json:"subject"`          // what people read; empty: the id
	Status string `json:"status,omitempty"` // of a sub-task ("in_progress"), one of boulder's; empty: of a plan
	Note   string `json:"-"`                // a few more words, such as "attempt 2 of 3"

	// For programs, and not drawn.
	Attempt  int    `json:"attempt"` // number of the newest; 0 before the first
	Replaces string `json:"replaces,omitempty"`
}

// Edge says that To waits for From.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Graph is what is drawn. Make one with [New]. Nodes are known by their place in the list.
type Graph struct {
	title  string
	nodes  []Node
	before [][]int // for which others each node waits
	levels [][]int // the nodes of each level, see [dag.Levels]; the last one has those that are in a cycle or behind one
}

// New makes a graph. Of nodes with the same id, edges mean the first. An edge that names no node or a node twice, and
// one that is given again, is left out. A cycle is not refused: the drawings with a layout of their own leave out the
// edges that do not lead to a later level.
func New(title string, nodes []Node, edges []Edge) *Graph {
	g := &Graph{title: clean(title), before: make([][]int, len(nodes))}
	places, layered := make(map[string]int, len(nodes)), make([]dag.Node, len(nodes))
	for i, n := range nodes {
		layered[i].ID = n.ID
		if _, taken := places[n.ID]; !taken {
			places[n.ID] = i
		}
		n.ID, n.Title, n.Status, n.Note = clean(n.ID), clean(n.Title), clean(n.Status), clean(n.Note)
		n.Title = cmp.Or(n.Title, n.ID)
		g.nodes = append(g.nodes, n)
	}
	for _, e := range edges {
		from, fromOK := places[e.From]
		to, toOK := places[e.To]
		if fromOK && toOK && from != to && !slices.Contains(g.before[to], from) {
			g.before[to] = append(g.before[to], from)
			layered[to].DependsOn = append(layered[to].DependsOn, e.From)
		}
	}
	g.levels = dag.Levels(layered)
	if placed := slices.Concat(g.levels...); len(placed) < len(nodes) {
		var rest []int
		for i := range nodes {
			if !slices.Contains(placed, i) {
				rest = append(rest, i)
			}
		}
		g.levels = append(g.levels, rest)
	}
	return g
}

// clean makes a text harmless and takes out what XML cannot hold.
func clean(s string) string {
	return text.OneLine(strings.Map(func(r rune) rune {
		if r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF {
			return -1
		}
		return r
	}, s))
}

// look is how a status is drawn. Colours never stand alone: with each goes its sign, and the word. The lines keep a
// contrast of 3:1 and more with their fill and with the background.
type look struct {
	status                         string
	sign                           string // one column of a terminal
	class                          string // of the colours, in Mermaid and SVG
	fill, line, darkFill, darkLine string
}

// looks are in the order of a legend, after the one of a node without a status.
var looks = []look{
	{"", "", "plain", "#f6f8fa", "#57606a", "#1c2128", "#8b949e"},
	{"completed", "✓", "completed", "#e6f6ec", "#1a7f37", "#12281a", "#3fb950"},
	{"in_progress", "●", "active", "#e3f0fe", "#0969da", "#0f243d", "#58a6ff"},
	{"pending", "○", "pending", "#f6f8fa", "#57606a", "#1c2128", "#8b949e"},
	{"blocked", "!", "blocked", "#fff5d6", "#9a6700", "#2d2409", "#d29922"},
	{"failed", "✗", "failed", "#ffebe9", "#cf222e", "#341418", "#ff7b72"},
	{"skipped", "-", dropped, "#ffffff", "#57606a", "#0d1117", "#8b949e"},
	{"cancelled", "-", dropped, "#ffffff", "#57606a", "#0d1117", "#8b949e"},
	{"superseded", "-", dropped, "#ffffff", "#57606a", "#0d1117", "#8b949e"},
}

// dropped is the class whose boxes are dashed.
const dropped = "dropped"

// look is that of the node's status.
func (n Node) look() look {
	return looks[max(0, slices.IndexFunc(looks, func(l look) bool { return l.status == n.Status }))]
}

// palette has a look of each class.
func palette() []look {
	return slices.CompactFunc(slices.Clone(looks), func(a, b look) bool { return a.class == b.class })
}

func (l look) word() string { return strings.ReplaceAll(l.status, "_", " ") }

// tally is an entry of a legend.
type tally struct {
	look
	count int
}

func (t tally) String() string { return fmt.Sprint(t.word(), " ", t.count) }

// legend counts the statuses that the graph has, on lines that have so much room; it is empty when no status is known.
func (g *Graph) legend(room int, width func(tally) int) [][]tally {
	count := map[string]int{}
	for _, n := range g.nodes {
		count[n.Status]++
	}
	var lines [][]tally
	at := room
	for _, l := range looks[1:] {
		t := tally{l, count[l.status]}
		if t.count == 0 {
			continue
		}
		if at += width(t); at > room || len(lines) == 0 {
			lines, at = append(lines, nil), width(t)
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], t)
	}
	return lines
}

// state is the word for a node's status with its note: "in progress, attempt 2 of 3".
func (n Node) state() string { return text.JoinedBy(", ", n.look().word(), n.Note) }

// label is what stands in a box, in lines that sep separates: the sign with the title, the id if it is another one, and
// the state.
func (n Node) label(sep string, escape func(string) string) string {
	return text.JoinedBy(sep, escape(strings.TrimSpace(n.look().sign+" "+n.Title)), escape(text.If(n.ID != n.Title, n.ID)),
		escape(n.state()))
}

// wrap breaks a text into at most so many lines, and cuts it visibly. Room is in the unit of width: columns of a terminal,
// or parts of a font, of which the mean of the text is taken for a column.
func wrap(s string, room, most int, width func(string) int) []string {
	if s == "" {
		return nil
	}
	columns := max(1, room*ansi.StringWidthWc(s)/max(1, width(s)))
	lines := strings.Split(ansi.WrapWc(s, columns, "/"), "\n")
	if len(lines) > most {
		lines = append(lines[:most-1], strings.Join(lines[most-1:], " "))
	}
	for i, line := range lines {
		lines[i] = text.Clip(line, columns)
	}
	return lines
}
