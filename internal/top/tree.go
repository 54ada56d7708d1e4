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

// tree puts each sub-task below the last one before it that it depends on. What is deeper than deepest stands no further to the
// right.
func tree(tasks []*boulder.SubTask, deepest int) (all []leaf) {
	below := map[int][]int{} // by the place of the one above; -1: there is none
	for i, t := range tasks {
		above := i - 1
		for above >= 0 && !slices.Contains(t.DependsOn, tasks[above].ID) {
			above--
		}
		below[above] = append(below[above], i)
	}
	var grow func(above, depth int, before string)
	grow = func(above, depth int, before string) {
		for n, i := range below[above] {
			branch, next := "├ ", "│ "
			if n == len(below[above])-1 {
				branch, next = "└ ", "  "
			}
			if depth == 0 {
				branch = ""
			}
			if depth == 0 || depth >= deepest {
				next = ""
			}
			all = append(all, leaf{i, before + branch})
			grow(i, depth+1, before+next)
		}
	}
	grow(-1, 0, "")
	return all
}
