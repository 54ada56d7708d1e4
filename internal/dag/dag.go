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

// edges gives for each node the places of those that it depends on, without what [Check] calls a fault of the edge
// itself: unknown ids, self-references and repetitions.
func edges[ID ~string](nodes []Node[ID]) [][]int {
	places := index(nodes)
	last := make([]int, len(nodes)) // 1 + the last node that named this one
	all := make([][]int, len(nodes))
	for i, n := range nodes {
		for _, id := range n.DependsOn {
			if j, ok := places[id]; ok && j != i && last[j] != i+1 {
				last[j] = i + 1
				all[i] = append(all[i], j)
			}
		}
	}
	return all
}
