package simulate

import (
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// drawEdit draws the user's edit of a boulder's plan in one to three places, some of which may not be, or another model
// for what names none. It gives new sub-tasks lanes.
func drawEdit(d dice, of *boulder.State, lanes map[string]int) boulder.Order {
	o := boulder.Order{Do: boulder.OrderEdit}
	if of.Revision == nil || d.is(0.2) {
		o.Model = boulder.Models(pick(d, models[1:]...))
		return o
	}
	plan := of.Revision.Plan.Clone()
	for range d.from(1, 3) {
		i, on := d.IntN(len(plan.SubTasks)), plan.SubTasks[d.IntN(len(plan.SubTasks))].ID
		if t := of.SubTask(plan.SubTasks[i].ID); t != nil && t.Status.Terminal() {
			i = d.IntN(len(plan.SubTasks)) // the edit of what is over is mostly refused
		}
		switch t := &plan.SubTasks[i]; d.IntN(10) {
		case 9:
			for n := range plan.Facts.Questions {
				q := &plan.Facts.Questions[n]
				q.Answer, q.By = pick(d, q.Default, "edited"), ""
				q.Fill()
			}
		case 0, 1:
			t.Description = fmt.Sprintf("Do all of %s as of %d", t.ID, of.Boulder.Seq)
		case 2, 3:
			s := drawSpec(d, fmt.Sprintf("e%d", len(lanes)), anything)
			lanes[s.ID] = 1_000 + len(lanes)
			if t.DependsOn = append(t.DependsOn, s.ID); d.is(0.5) {
				s.DependsOn, t.DependsOn = []string{on}, t.DependsOn[:len(t.DependsOn)-1]
			}
			plan.SubTasks = append(plan.SubTasks, s)
		case 4, 5:
			if plan = without(plan, t.ID); len(plan.SubTasks) == 0 {
				return boulder.Order{Do: boulder.OrderEdit, Plan: &plan, Hash: of.Revision.Hash}
			}
		case 6:
			t.Model, plan.Model = boulder.Models(pick(d, models...)), pick[boulder.Models](d, "", "", "a/two")
		case 7:
			t.Gates, t.Priority = pick(d, nil, []string{"check " + t.ID}), pick(d, boulder.High, boulder.Low)
		case 8:
			if t.DependsOn = nil; d.is(0.5) {
				t.DependsOn = []string{on}
			}
		}
	}
	o.Plan, o.Hash = &plan, of.Revision.Hash
	return o
}

func without(plan boulder.Plan, id string) boulder.Plan {
	plan.SubTasks = slices.DeleteFunc(plan.SubTasks, func(t boulder.Spec) bool { return t.ID == id })
	for i := range plan.SubTasks {
		t := &plan.SubTasks[i]
		t.DependsOn = slices.DeleteFunc(t.DependsOn, func(on string) bool { return on == id })
	}
	return plan
}
