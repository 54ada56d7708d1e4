package top

import (
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// leaf is a sub-task in a tree: its place in the plan, and the branch that is drawn before it.
type leaf struct {
	index  int
	branch string
}

// tree puts each sub-task below the last of those that it depends on. What is deeper than deepest stands no further to the right.
func tree(tasks []*boulder.SubTask, deepest int) (all []leaf) {
	below := map[int][]int{} // by the place of the one above; -1: there is none
	for i, t := range tasks {
		above := -1
		for j, other := range tasks {
			if j != i && slices.Contains(t.DependsOn, other.ID) {
				above = j
			}
		}
		below[above] = append(below[above], i)
	}
	seen := make([]bool, len(tasks))
	var grow func(i int, before, branch string, depth int)
	grow = func(i int, before, branch string, depth int) {
		if seen[i] {
			return
		}
		seen[i] = true
		all = append(all, leaf{i, before + branch})
		switch {
		case depth >= deepest:
		case branch == "├ ":
			before += "│ "
		case branch == "└ ":
			before += "  "
		}
		for n, child := range below[i] {
			switch last := n == len(below[i])-1; {
			case depth >= deepest:
				grow(child, before, branch, depth)
			case last:
				grow(child, before, "└ ", depth+1)
			default:
				grow(child, before, "├ ", depth+1)
			}
		}
	}
	for _, i := range below[-1] {
		grow(i, "", "", 0)
	}
	for i := range tasks { // of a plan that contradicts itself
		grow(i, "", "", 0)
	}
	return all
}
