package cli

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A number acts on the sub-task that screens show with it, also where ids are numbers; what may mean two is refused.
func TestNumbersThatAreIDs(t *testing.T) {
	t.Parallel()
	var d boulder.Snapshot
	for i, id := range []string{"2", "3-1", "3"} {
		d.SubTasks = append(d.SubTasks, &boulder.SubTask{ID: id, Position: i + 1, Subject: "task " + id})
	}
	for ref, want := range map[string]string{"1": "2", "[1]": "2", "[2]": "3-1", "3-1": "3-1", "3": "3", "[3]": "3"} {
		if got, err := findSubTask(d, ref); err != nil || got.ID != want {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	if got, err := findSubTask(d, "2"); err == nil || !strings.Contains(err.Error(), "say '[1]' or '[2]'") {
		t.Errorf("2: %+v, %v", got, err)
	}
}
