package view

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

func TestPlanChanges(t *testing.T) {
	t.Parallel()
	was := &boulder.Plan{
		Task: "Add dark mode", Goal: "The app has a dark mode", Constraints: []string{"never touch vendor/"},
		SubTasks: []boulder.Spec{
			{ID: "toggle", Subject: "Add the toggle", Description: "Add a toggle.\nSave it.\nTest it.", Gates: []string{"sh test.sh"}},
			{ID: "colours", Subject: "Define the colours", Description: "In style.css.", Model: "p/small"},
			{ID: "docs", Subject: "Write about it", Description: "In docs/."},
		},
		Request: []boulder.Obligation{{ID: "r1", Text: "a toggle", Owner: "toggle"}, {ID: "r2", Text: "a page about it", Owner: "docs"}},
	}
	now := new(was.Clone())
	now.Goal, now.Constraints = "The app has a dark mode\x1b[2J, tested", append(now.Constraints, "no new dependency")
	now.SubTasks[0].Description = "Add a toggle.\nSave it\u202e with the others.\nTest it."
	now.SubTasks[0].Gates = []string{"sh test.sh", "sh toggle.sh"}
	now.SubTasks[1].Model = ""
	now.SubTasks[2] = boulder.Spec{
		ID: "verify", Subject: "Verify the whole", Description: "Run all tests.", DependsOn: []string{"toggle", "colours"}, Gates: []string{"npm test"},
	}
	now.Request[1].Owner = ""
	compare(t, "plan_changes.txt", shown(t, 80, func(o page.Out) { PlanChanges(o, was, now) }))
	if got := shown(t, 80, func(o page.Out) { PlanChanges(o, now, now) }); got != "" {
		t.Errorf("a plan differs from itself:\n%s", got)
	}
}

// What is gone and what is new add up to the two lists, and what stays is in both in order.
func TestEdits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 8)
		was, now := items.Draw(t, "was"), items.Draw(t, "now")
		gone, added := edits(was, now)
		without := func(all, some []string) string {
			count := map[string]int{}
			for _, s := range all {
				count[s]++
			}
			for _, s := range some {
				count[s]--
			}
			return fmt.Sprint(count["a"], count["b"], count["c"], count["d"])
		}
		if without(was, gone) != without(now, added) || strings.Contains(without(was, gone), "-") {
			t.Fatalf("%v to %v: - %v + %v", was, now, gone, added)
		}
		if rev, _ := edits(now, was); len(rev) != len(added) {
			t.Fatalf("%v to %v adds %v, and back %v go", was, now, added, rev)
		}
	})
}
