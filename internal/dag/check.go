package dag

import "slices"

// Kind is the kind of a [Fault].
type Kind int

const (
	Duplicate Kind = iota + 1 // an earlier node has the same id
	Unknown                   // it depends on an id that no node has
	Self                      // it depends on itself
	Repeated                  // it names a dependency twice
	Cycle                     // it depends on itself through others
)

// Fault is one mistake in a graph.
type Fault struct {
	Kind Kind
	Node int // index in the checked nodes
	// Edge is the index in DependsOn of the wrong id, or of the first step of the cycle; -1 for a [Duplicate].
	Edge int
	Path []string // of a [Cycle]: begins and ends with the node's id; each id depends on the next
}

// Check returns all mistakes in node order, cycles last. Of cycles that share nodes it reports one, a shortest one
// through their first node: mending it may break the others. A [Duplicate] is in no cycle, as its id is ambiguous.
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
	graph, dependents := edges(nodes)
	settled := make([]bool, len(nodes))
	for _, level := range Levels(nodes) {
		for _, i := range level {
			settled[i] = true // nodes with a level are in no cycle
		}
	}
	for i, n := range nodes {
		if settled[i] {
			continue
		}
		cameFrom := walk(graph, i)
		last := cameFrom[i]
		if last < 0 {
			continue
		}
		for j, back := range walk(dependents, i) {
			if back >= 0 && cameFrom[j] >= 0 {
				settled[j] = true
			}
		}
		path := []string{n.ID}
		for ; last != i; last = cameFrom[last] {
			path = append(path, nodes[last].ID)
		}
		path = append(path, n.ID)
		slices.Reverse(path)
		faults = append(faults, Fault{Kind: Cycle, Node: i, Edge: slices.Index(n.DependsOn, path[1]), Path: path})
	}
	return faults
}

// walk searches breadth-first from start. It returns the predecessor of each node that it reaches, and -1 for the others.
func walk(graph [][]int, start int) (cameFrom []int) {
	cameFrom = slices.Repeat([]int{-1}, len(graph))
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, w := range graph[queue[0]] {
			if cameFrom[w] < 0 {
				cameFrom[w] = queue[0]
				queue = append(queue, w)
			}
		}
	}
	return cameFrom
}
