// Package dag checks and layers graphs of things that depend on each other. It is pure and knows nothing of
// sub-tasks.
package dag

// Node is one node and the ids of those that it depends on. Nodes have the order in which they are given.
type Node[ID ~string] struct {
	ID        ID
	DependsOn []ID
}

// index maps ids to places; of several nodes with the same id it keeps the first.
func index[ID ~string](nodes []Node[ID]) map[ID]int {
	places := make(map[ID]int, len(nodes))
	for i, n := range nodes {
		if _, taken := places[n.ID]; !taken {
			places[n.ID] = i
		}
	}
	return places
}

// edges gives for each node the places of those that it depends on, without unknown ids and self-references.
func edges[ID ~string](nodes []Node[ID]) [][]int {
	places, all := index(nodes), make([][]int, len(nodes))
	for i, n := range nodes {
		for _, id := range n.DependsOn {
			if j, known := places[id]; known && j != i {
				all[i] = append(all[i], j)
			}
		}
	}
	return all
}

// Levels groups nodes by how many steps must come before them: the nodes of level 0 depend on nothing, those of level n
// on at least one of level n-1 and on none of later levels. Within a level, nodes keep their order. The result holds
// places in nodes. Nodes that are part of a cycle, or depend on one, are left out; unknown ids do not count.
func Levels[ID ~string](nodes []Node[ID]) [][]int {
	graph, levels := edges(nodes), [][]int{}
	steps := make([]int, len(nodes)) // from 1; 0: not looked at, -1: being looked at, or a cycle is in the way
	var look func(i int) int
	look = func(i int) int {
		if steps[i] != 0 {
			return steps[i]
		}
		steps[i] = -1
		most := 0
		for _, j := range graph[i] {
			before := look(j)
			if before < 0 {
				return before
			}
			most = max(most, before)
		}
		steps[i] = most + 1
		return steps[i]
	}
	for i := range nodes {
		for look(i) > len(levels) {
			levels = append(levels, nil)
		}
	}
	for i, n := range steps {
		if n > 0 {
			levels[n-1] = append(levels[n-1], i)
		}
	}
	return levels
}
