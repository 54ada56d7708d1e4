// Package dag checks and layers dependency graphs. It is pure and knows nothing of sub-tasks.
package dag

import "slices"

// Node is a node and the ids that it depends on.
type Node struct {
	ID        string
	DependsOn []string
}

// index maps ids to indexes of nodes, the first one for a repeated id.
func index(nodes []Node) map[string]int {
	places := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if _, taken := places[n.ID]; !taken {
			places[n.ID] = i
		}
	}
	return places
}

// edges returns each node's dependencies and dependents, without unknown ids and self-references.
func edges(nodes []Node) (graph, dependents [][]int) {
	places := index(nodes)
	graph, dependents = make([][]int, len(nodes)), make([][]int, len(nodes))
	for i, n := range nodes {
		for _, id := range n.DependsOn {
			if j, known := places[id]; known && j != i {
				graph[i], dependents[j] = append(graph[i], j), append(dependents[j], i)
			}
		}
	}
	return graph, dependents
}

// Levels groups the indexes of nodes by dependency depth: level 0 depends on nothing, level n on at least one node of
// level n-1 and on none of later levels. Within a level, nodes keep their order. Nodes in a cycle, or depending on one,
// are left out; unknown ids do not count.
func Levels(nodes []Node) [][]int {
	graph, dependents := edges(nodes)
	waits := make([]int, len(nodes)) // number of unmet edges
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
			for _, j := range dependents[i] {
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
