// Package graph draws things that depend on each other: as text for a terminal, as Mermaid, as DOT and as SVG. It is
// pure, and the same graph gives the same bytes. Texts may come from anywhere, a model included: whatever they hold,
// each drawing is well-formed in its language, and nothing in them is taken for markup, a statement or a control
// sequence.
package graph

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/dag"
)

// Node is one thing that is drawn.
type Node struct {
	ID     string
	Title  string // what people read; empty: the id
	Status string // a status of a sub-task ("in_progress"), or empty when nothing is known to happen, as in a plan
	Note   string // a few more words, such as "attempt 2 of 3"
}

// Edge says that To waits for From.
type Edge struct{ From, To string }

// Graph is what is drawn. Make one with [New].
type Graph struct {
	title string
	nodes []Node
	edges []edge
	level []int // of each node, from 0: one more than the deepest of those that it waits for
	deep  int   // number of levels
}

// edge is an [Edge] between places in nodes.
type edge struct{ from, to int }

// New makes a graph. Of nodes with the same id, edges mean the first. An edge that names no node or a node twice, and
// one that is given again, is left out. A circle is not refused: those in it and behind it share the last level, and
// the drawings with a layout of their own leave out the edges that do not lead to a later level.
func New(title string, nodes []Node, edges []Edge) *Graph {
	g := &Graph{title: clean(title)}
	places := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if _, taken := places[n.ID]; !taken {
			places[n.ID] = i
		}
		n.ID, n.Title, n.Status, n.Note = clean(n.ID), clean(n.Title), clean(n.Status), clean(n.Note)
		if n.Title == "" {
			n.Title = n.ID
		}
		g.nodes = append(g.nodes, n)
	}
	given := make(map[edge]bool, len(edges))
	for _, e := range edges {
		from, fromOK := places[e.From]
		to, toOK := places[e.To]
		if pair := (edge{from, to}); fromOK && toOK && from != to && !given[pair] {
			given[pair] = true
			g.edges = append(g.edges, pair)
		}
	}
	g.setLevels()
	return g
}

func (g *Graph) setLevels() {
	nodes := make([]dag.Node[place], len(g.nodes))
	for i := range nodes {
		nodes[i].ID = placeOf(i)
	}
	for _, e := range g.edges {
		nodes[e.to].DependsOn = append(nodes[e.to].DependsOn, placeOf(e.from))
	}
	levels := dag.Levels(nodes)
	g.level, g.deep = make([]int, len(g.nodes)), len(levels)
	for i := range g.level {
		g.level[i] = -1
	}
	for depth, level := range levels {
		for _, i := range level {
			g.level[i] = depth
		}
	}
	for i := range g.level {
		if g.level[i] < 0 { // in a circle, or behind one
			g.level[i], g.deep = len(levels), len(levels)+1
		}
	}
}

// place is a node's place as an id: ids of nodes need not be unique.
type place string

func placeOf(i int) place { return place(strconv.Itoa(i)) }

// clean puts a text on one line and takes out what is no plain writing: control characters and sequences, marks that
// turn the direction of writing, and what XML cannot hold.
func clean(s string) string {
	s = ansi.Strip(strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r): // the separators of lines and paragraphs included
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r&0xFFFE == 0xFFFE, r >= 0xFDD0 && r <= 0xFDEF:
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
