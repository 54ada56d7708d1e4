package dag

import (
	"slices"
	"strings"
)

// Kind says what is wrong with a graph.
type Kind int

const (
	// Duplicate: the node's id is that of an earlier node.
	Duplicate Kind = iota + 1
	// Unknown: the node depends on an id that no node has.
	Unknown
	// Self: the node depends on itself.
	Self
	// Repeated: the node names a dependency that it has named before.
	Repeated
	// Cycle: the node depends on itself by way of others.
	Cycle
)

// Fault is one thing that is wrong.
type Fault[ID ~string] struct {
	Kind Kind
	Node int // place of the node in what was given
	// Edge is the place in the node's DependsOn: of the id that is wrong, or of the first step of the cycle. It is -1 for
	// a [Duplicate].
	Edge int
	// Path is set for a [Cycle]: it begins and ends with the node's id, and each id depends on the next one.
	Path []ID
}

// PathString is the path as people read it: "a → b → a".
func (f Fault[ID]) PathString() string {
	names := make([]string, len(f.Path))
	for i, id := range f.Path {
		names[i] = string(id)
	}
	return strings.Join(names, " → ")
}

// Check gives everything that is wrong, in the order of the nodes, cycles last. Of nodes that hang together in several
// cycles it gives one cycle, a shortest one through the first of them: the others may be gone with it. Nodes that
// repeat an earlier id are not looked at otherwise for cycles, because nobody can say who is meant.
func Check[ID ~string](nodes []Node[ID]) []Fault[ID] {
	var faults []Fault[ID]
	places := index(nodes)
	for i, n := range nodes {
		if places[n.ID] != i {
			faults = append(faults, Fault[ID]{Kind: Duplicate, Node: i, Edge: -1})
		}
		faults = append(faults, edgeFaults(i, n, places)...)
	}
	graph := edges(nodes)
	for _, knot := range knots(graph) {
		cycle := shortestCycle(graph, knot)
		first, next := nodes[cycle[0]], nodes[cycle[1]].ID
		fault := Fault[ID]{Kind: Cycle, Node: cycle[0], Edge: slices.Index(first.DependsOn, next)}
		for _, i := range cycle {
			fault.Path = append(fault.Path, nodes[i].ID)
		}
		faults = append(faults, fault)
	}
	return faults
}

func edgeFaults[ID ~string](i int, n Node[ID], places map[ID]int) []Fault[ID] {
	var faults []Fault[ID]
	named := make(map[ID]bool, len(n.DependsOn))
	for e, id := range n.DependsOn {
		_, known := places[id]
		switch {
		case id == n.ID:
			faults = append(faults, Fault[ID]{Kind: Self, Node: i, Edge: e})
		case named[id]:
			faults = append(faults, Fault[ID]{Kind: Repeated, Node: i, Edge: e})
		case !known:
			faults = append(faults, Fault[ID]{Kind: Unknown, Node: i, Edge: e})
		}
		named[id] = true
	}
	return faults
}

// knots gives the groups of two and more nodes in which each one depends on each other one, directly or not (strongly
// connected components, after Tarjan). Groups and their members are in the order of the nodes.
func knots(graph [][]int) [][]int {
	var groups [][]int
	var stack []int
	entered := make([]int, len(graph)) // when the walk came to a node, from 1
	low := make([]int, len(graph))     // the earliest node on the stack that can be reached
	onStack := make([]bool, len(graph))
	clock := 0
	var walk func(int)
	walk = func(v int) {
		clock++
		entered[v], low[v] = clock, clock
		stack, onStack[v] = append(stack, v), true
		for _, w := range graph[v] {
			switch {
			case entered[w] == 0:
				walk(w)
				low[v] = min(low[v], low[w])
			case onStack[w]:
				low[v] = min(low[v], entered[w])
			}
		}
		if low[v] != entered[v] {
			return
		}
		from := len(stack) - 1
		for stack[from] != v { // from the top: a search from the bottom would be quadratic
			from--
		}
		group := slices.Clone(stack[from:])
		stack = stack[:from]
		for _, w := range group {
			onStack[w] = false
		}
		if len(group) > 1 {
			slices.Sort(group)
			groups = append(groups, group)
		}
	}
	for v := range graph {
		if entered[v] == 0 {
			walk(v)
		}
	}
	slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
	return groups
}

// shortestCycle gives a shortest way from the first node of a knot back to itself.
func shortestCycle(graph [][]int, knot []int) []int {
	start := knot[0]
	from := make(map[int]int, len(knot)) // by which node of the knot the search came here
	for _, v := range knot {
		from[v] = -1
	}
	for queue := []int{start}; ; queue = queue[1:] { // ends: in a knot, every node leads back
		v := queue[0]
		for _, w := range graph[v] {
			if w == start {
				return wayBack(from, start, v)
			}
			if came, inside := from[w]; inside && came < 0 {
				from[w] = v
				queue = append(queue, w)
			}
		}
	}
}

// wayBack follows the search from its last node to its start, and gives the way in walking order, with start at both
// ends.
func wayBack(from map[int]int, start, last int) []int {
	path := []int{start}
	for v := last; v != start; v = from[v] {
		path = append(path, v)
	}
	path = append(path, start)
	slices.Reverse(path)
	return path
}
