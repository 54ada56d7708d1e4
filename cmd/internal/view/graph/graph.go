// Package graph draws dependency graphs as text for a terminal, Mermaid, DOT and SVG. It is pure and deterministic.
// Texts are not trusted, as they may come from a model: every drawing is well-formed in its language, and no text acts
// as markup, a statement or a control sequence.
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

// Node is a node of a graph.
type Node struct {
	ID     string `json:"id"`
	Number int    `json:"position"`         // by which people know it; 0: its place in the list, from 1
	Title  string `json:"subject"`          // shown to people; empty: the id
	Status string `json:"status,omitempty"` // a boulder.SubTaskStatus, as "in_progress"; empty in a plan
	Note   string `json:"-"`                // short addition to the status, as "attempt 2 of 3"
	Spent  string `json:"-"`                // what it cost so far, as "turn 2 · $0.08"; only [Graph.SVG] shows it

	// Not drawn, for --json only.
	Attempt  int    `json:"attempt"` // number of the newest attempt; 0 before the first
	Replaces string `json:"replaces,omitempty"`
}

// Edge says that To depends on From.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Graph is a graph to draw. Make one with [New]. Nodes are identified by their index.
type Graph struct {
	title  string
	nodes  []Node
	before [][]int // the nodes that each node depends on
	levels [][]int // nodes by level, see [dag.Levels]; the last level also has those in or behind a cycle
}

// New makes a graph. If nodes share an id, edges refer to the first. Duplicate edges, and edges to an unknown node or
// from a node to itself, are dropped. Cycles are accepted: drawings with a layout of their own omit the edges that do
// not lead to a later level.
func New(title string, nodes []Node, edges []Edge) *Graph {
	g := &Graph{title: clean(title), before: make([][]int, len(nodes))}
	places, layered := make(map[string]int, len(nodes)), make([]dag.Node, len(nodes))
	for i, n := range nodes {
		layered[i].ID = n.ID
		if _, taken := places[n.ID]; !taken {
			places[n.ID] = i
		}
		n.ID, n.Title, n.Status, n.Note, n.Spent = clean(n.ID), clean(n.Title), clean(n.Status), clean(n.Note), clean(n.Spent)
		n.Title, n.Number = cmp.Or(n.Title, n.ID), cmp.Or(n.Number, i+1)
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

// clean sanitizes a text, and removes the noncharacters of Unicode, which XML forbids.
func clean(s string) string {
	return text.OneLine(strings.Map(func(r rune) rune {
		if r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF {
			return -1
		}
		return r
	}, s))
}

// look is how a status is drawn. A colour is never the only sign of it. Lines have a contrast of at least 3:1 to their
// fill and to the background.
type look struct {
	status                         string
	sign                           string // one column wide
	class                          string // of the colours, in Mermaid and SVG
	fill, line, darkFill, darkLine string
}

// looks has first the look of a node without a status, then the others in the order of a legend.
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

// dropped is the class with dashed boxes.
const dropped = "dropped"

func (n Node) look() look {
	return looks[max(0, slices.IndexFunc(looks, func(l look) bool { return l.status == n.Status }))]
}

func palette() []look {
	return slices.CompactFunc(slices.Clone(looks), func(a, b look) bool { return a.class == b.class })
}

func (l look) word() string { return strings.ReplaceAll(l.status, "_", " ") }

type tally struct {
	look
	count int
}

func (t tally) String() string { return fmt.Sprint(t.word(), " ", t.count) }

// legend counts the nodes by status, in lines of at most room. It is empty if no node has a known status.
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

// state returns the status with the note: "in progress, attempt 2 of 3".
func (n Node) state() string { return text.JoinedBy(", ", n.look().word(), n.Note) }

// label returns the text of a box, in lines separated by sep: sign and title, the id if it differs, and the state.
func (n Node) label(sep string, escape func(string) string) string {
	return text.JoinedBy(sep, escape(strings.TrimSpace(n.look().sign+" "+n.Title)), escape(text.If(n.ID != n.Title, n.ID)),
		escape(n.state()))
}

// wrap breaks a text into at most most lines, and marks a cut with an ellipsis. room has the unit of width: terminal
// columns, or pixels, where the mean width of the text counts as a column.
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
