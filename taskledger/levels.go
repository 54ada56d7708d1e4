package taskledger

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
)

// Levels groups the sub-tasks of a valid plan, by their places in it, for a view of what runs side by side: those of
// the first level depend on nothing, those of each further one on at least one sub-task of the level before.
func Levels(plan *boulder.Plan) [][]int { return dag.Levels(graph(plan)) }
