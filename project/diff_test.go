package project

import (
	"slices"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A change begins at the commit where the previous result on the tip ended, whatever a conflict did to the start of its
// sub-task. Otherwise it would show another sub-task's change, or lose one.
func TestChanges(t *testing.T) {
	t.Parallel()
	one := &boulder.SubTask{ID: "one", SlotState: boulder.SlotState{Work: "w1", Integrated: "c1"}}
	empty := &boulder.SubTask{ID: "empty", SlotState: boulder.SlotState{Work: "w2", Integrated: "c1"}}
	two := &boulder.SubTask{ID: "two", SlotState: boulder.SlotState{Work: "w3", Integrated: "c2", From: "c1"}}
	failed := &boulder.SubTask{ID: "failed", SlotState: boulder.SlotState{Work: "w4", From: "c2"}}
	idle := &boulder.SubTask{ID: "idle"}
	slotted := &boulder.Snapshot{SubTasks: []*boulder.SubTask{two, one, empty, failed, idle}}
	slotted.Boulder.Trunk = boulder.Trunk{Base: "c0", Tip: "c2"}
	var events []boulder.Event
	for _, on := range []*boulder.SubTask{one, empty, two} {
		ref := boulder.AttemptRef{SubTaskID: on.ID}
		events = append(events, boulder.Event{Body: boulder.Integrated{AttemptRef: ref, Commit: on.Integrated}})
	}
	alone := &boulder.SubTask{ID: "alone", Snapshot: "s0", Tree: "s1"}
	beside := &boulder.SubTask{ID: "beside", Snapshot: "s1", Tree: "s2", Shared: true, Files: []string{"f"}}
	nothing := &boulder.SubTask{ID: "nothing", Snapshot: "s1", Tree: "s2", Shared: true}
	inPlace := &boulder.Snapshot{SubTasks: []*boulder.SubTask{alone, beside, nothing, idle}}
	for _, c := range []struct {
		in   *boulder.Snapshot
		only string
		want []Change // empty: an error
	}{
		{slotted, "", []Change{{one, "c0", "c1", nil, true}, {empty, "c1", "c1", nil, true}, {two, "c1", "c2", nil, true}}},
		{slotted, "two", []Change{{two, "c1", "c2", nil, true}}},
		{slotted, "failed", []Change{{failed, "w4^", "w4", nil, false}}},
		{slotted, "idle", nil},
		{inPlace, "", []Change{
			{alone, "s0", "s1", nil, false}, {beside, "s1", "s2", []string{"f"}, false}, {nothing, "s1", "s2", []string{}, false},
		}},
		{inPlace, "alone", []Change{{alone, "s0", "s1", nil, false}}},
		{inPlace, "idle", nil},
	} {
		got, err := Changes(c.in, events, c.only)
		if !slices.EqualFunc(got, c.want, func(a, b Change) bool {
			return a.SubTask == b.SubTask && a.From == b.From && a.To == b.To && a.OnTip == b.OnTip &&
				(a.Files == nil) == (b.Files == nil) && slices.Equal(a.Files, b.Files)
		}) || (err != nil) != (c.want == nil) {
			t.Errorf("of %q: %+v, %v", c.only, got, err)
		}
	}
}
