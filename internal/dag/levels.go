package dag

import "slices"

// Levels groups nodes by how many steps must come before them: the nodes of level 0 depend on nothing, those of level n
// on at least one of level n-1 and on none of later levels. Within a level, nodes keep their order. The result holds
// places in nodes. Nodes that are part of a cycle, or depend on one, are left out; unknown ids do not count.
func Levels[ID ~string](nodes []Node[ID]) [][]int {
	graph := edges(nodes)
	dependents := make([][]int, len(nodes))
	waiting := make([]int, len(nodes))
	var level []int
	for i, dependencies := range graph {
		waiting[i] = len(dependencies)
		if waiting[i] == 0 {
			level = append(level, i)
		}
		for _, j := range dependencies {
			dependents[j] = append(dependents[j], i)
		}
	}
	levels := [][]int{}
	for len(level) > 0 {
		slices.Sort(level)
		levels = append(levels, level)
		var next []int
		for _, i := range level {
			for _, d := range dependents[i] {
				if waiting[d]--; waiting[d] == 0 {
					next = append(next, d)
				}
			}
		}
		level = next
	}
	return levels
}
