package schedule

import (
	"math/big"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
)

// Try says that the gates should be being tried in a slot, which ends with [boulder.Isolated].
type Try struct{}

// isolate is what comes before the first attempt of a boulder whose sub-tasks may work in slots.
func (c *computing) isolate() Action {
	if c.s.Boulder.Isolation == boulder.IsolationAuto && !parallel(c.s, c.l) {
		return boulder.Isolated{InPlace: true, Reason: "no two sub-tasks can be at work at once", Gates: []boulder.TreeGate{}}
	}
	return Try{}
}

// parallel reports whether two of the sub-tasks that have to run can be at work at once.
func parallel(s *boulder.State, l Limits) bool {
	var open []*boulder.SubTask
	var nodes []dag.Node
	places := map[string]int{}
	for _, t := range s.SubTasks {
		if t.Unfinished() {
			places[t.ID] = len(open)
			open, nodes = append(open, t), append(nodes, dag.Node{ID: t.ID, DependsOn: t.DependsOn})
		}
	}
	before := make([]big.Int, len(open)) // by place: the places of all that it waits for
	for _, level := range dag.Levels(nodes) {
		for _, i := range level {
			for _, id := range open[i].DependsOn {
				if j, unfinished := places[id]; unfinished {
					before[i].Or(&before[i], &before[j]).SetBit(&before[i], j, 1)
				}
			}
		}
	}
	for i, a := range open {
		for j, b := range open[:i] {
			if before[i].Bit(j) == 1 || before[j].Bit(i) == 1 || claimed(a, []*boulder.Open{{SubTask: b}}) != "" {
				continue
			}
			taken := slotsOf(nil, l, time.Time{})
			taken.held[b.Model]++
			if taken.full(a.Model) == "" {
				return true
			}
		}
	}
	return false
}
