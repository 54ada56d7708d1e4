package dag

import "slices"

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
type Fault struct {
	Kind Kind
	Node int // place of the node in what was given
	// Edge is the place in the node's DependsOn: of the id that is wrong, or of the first step of the cycle. It is -1 for
	// a [Duplicate].
	Edge int
	// Path is set for a [Cycle]: it begins and ends with the node's id, and each id depends on the next one.
	Path []string
}

// Check gives everything that is wrong, in the order of the nodes, cycles last. Of nodes that hang together in several
// cycles it gives one cycle, a shortest one through the first of them: the others may be gone with it. Nodes that
// repeat an earlier id are not looked at otherwise for cycles, because nobody can say who is meant.
func Check(nodes []Node) []Fault {
	var faults []Fault
	places := index(nodes)
	for i, n := range nodes {
		if places[n.ID] != i {
			faults = append(faults, Fault{Kind: Duplicate, Node: i, Edge: -1})
		}
		for e, id := range n.DependsOn {
			_, known := places[id]
			switch {
			case id == n.ID:
				faults = append(faults, Fault{Kind: Self, Node: i, Edge: e})
			case slices.Index(n.DependsOn, id) < e:
				faults = append(faults, Fault{Kind: Repeated, Node: i, Edge: e})
			case !known:
				faults = append(faults, Fault{Kind: Unknown, Node: i, Edge: e})
			}
		}
	}
	graph, back := edges(nodes)
	looked := make([]bool, len(nodes))
	for _, level := range Levels(nodes) {
		for _, i := range level {
			looked[i] = true // it has a level, so it is in no cycle
		}
	}
	for i, n := range nodes {
		if looked[i] {
			continue
		}
		came := walk(graph, i)
		last, cyclic := came[i]
		if !cyclic {
			continue
		}
		for j := range walk(back, i) {
			if _, there := came[j]; there {
				looked[j] = true
			}
		}
		path := []string{n.ID}
		for ; last != i; last = came[last] {
			path = append(path, nodes[last].ID)
		}
		path = append(path, n.ID)
		slices.Reverse(path)
		faults = append(faults, Fault{Kind: Cycle, Node: i, Edge: slices.Index(n.DependsOn, path[1]), Path: path})
	}
	return faults
}

// walk goes from a node wherever edges lead, nearest first, and says of each node that it came to from which one.
func walk(graph [][]int, start int) map[int]int {
	came := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, w := range graph[queue[0]] {
			if _, there := came[w]; !there {
				came[w] = queue[0]
				queue = append(queue, w)
			}
		}
	}
	return came
}
