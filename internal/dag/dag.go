// Package dag checks and layers graphs of things that depend on each other. It is pure and knows nothing of
// sub-tasks.
package dag

import "slices"

// Node is one node and the ids of those that it depends on. Nodes have the order in which they are given.
type Node struct {
	ID        string
	DependsOn []string
}

// index maps ids to places; of several nodes with the same id it keeps the first.
func index(nodes []Node) map[string]int {
	places := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if _, taken := places[n.ID]; !taken {
			places[n.ID] = i
		}
	}
	return places
}

// edges gives for each node the places of those that it depends on, without unknown ids and self-references, and back those
// that depend on it.
func edges(nodes []Node) (graph, back [][]int) {
	places := index(nodes)
	graph, back = make([][]int, len(nodes)), make([][]int, len(nodes))
	for i, n := range nodes {
		for _, id := range n.DependsOn {
			if j, known := places[id]; known && j != i {
				graph[i], back[j] = append(graph[i], j), append(back[j], i)
			}
		}
	}
	return graph, back
}

// Levels groups nodes by how many steps must come before them: the nodes of level 0 depend on nothing, those of level n
// on at least one of level n-1 and on none of later levels. Within a level, nodes keep their order. The result holds
// places in nodes. Nodes that are part of a cycle, or depend on one, are left out; unknown ids do not count.
func Levels(nodes []Node) [][]int {
	graph, back := edges(nodes)
	waits := make([]int, len(nodes)) // for how many edges
	var levels [][]int
	var level []int
	for i, dependencies := range graph {
		if waits[i] = len(dependencies); waits[i] == 0 {
			level = append(level, i)
		}
	}
	for len(level) > 0 {
		levels = append(levels, level)
		var next []int
		for _, i := range level {
			for _, j := range back[i] {
				if waits[j]--; waits[j] == 0 {
					next = append(next, j)
				}
			}
		}
		slices.Sort(next)
		level = next
	}
	return levels
}
