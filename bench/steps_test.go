package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/store"
)

// TestLayers would fail if a shape had not as many steps as it is said to have: its rate would be wrong.
func TestLayers(t *testing.T) {
	t.Parallel()
	for _, shape := range stepShapes() {
		for _, steps := range []int{stepsFew, stepsSome, stepsMany} {
			plan := shapedPlan(shape, steps)
			if len(plan.SubTasks) != steps {
				t.Errorf("%s of %d has %d steps", shape, steps, len(plan.SubTasks))
			}
			if deps := plan.SubTasks[1].DependsOn; !slices.Equal(deps, []string{"s0"}) {
				t.Errorf("%s of %d: the second step depends on %v", shape, steps, deps)
			}
		}
	}
	if last := shapedPlan(shapeDiamonds, 10).SubTasks[9]; !slices.Equal(last.DependsOn, []string{"s6", "s7", "s8"}) {
		t.Errorf("the last step of two diamonds depends on %v", last.DependsOn)
	}
}

// TestStepOnce runs every kind for real, and would fail if one left its file or did not do its steps.
func TestStepOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{stepLoop, stepMemory, stepSessions, stepUpdate, stepRaw} {
		path := filepath.Join(t.TempDir(), kind)
		var live float64
		took, err := stepOnce(t.Context(), kind, shapeDiamonds, 10, path, &live)
		if err != nil || took <= 0 || (live > 0) != (kind == stepMemory) {
			t.Errorf("%s: %v s, a heap of %v bytes, %v", kind, took, live, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s left its file", kind)
		}
	}
	if err := runSteps(t.Context(), []string{"nonsense", shapeChain, "5", "1", t.TempDir()}); err == nil {
		t.Error("nonsense was run")
	}
}

func TestMountOf(t *testing.T) {
	t.Parallel()
	const mounts = "/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/sdb /tmp/real xfs rw 0 0\n"
	for path, want := range map[string]string{
		"/home/x": "ext4", "/tmp": "tmpfs", "/tmp/x": "tmpfs", "/tmp/real/x": "xfs", "/tmpx": "ext4",
	} {
		if _, kind := mountOf(mounts, path); kind != want {
			t.Errorf("%s is on %s, want %s", path, kind, want)
		}
	}
}

// TestList would fail if the two sides did not read the same boulders.
func TestList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := fillProject(t.Context(), dir, 3); err != nil {
		t.Fatal(err)
	}
	if err := listByManager(dir, 3); err != nil {
		t.Error(err)
	}
	if err := listByBolt(dir, 3); err != nil {
		t.Error(err)
	}
	if listByManager(dir, 4) == nil || listByBolt(dir, 4) == nil {
		t.Error("a boulder that is not there was listed")
	}
	db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all, err := db.List(t.Context())
	if err != nil || len(all) != 3 || !all[0].Status.Terminal() {
		t.Errorf("the list's boulders: %+v, %v", all, err)
	}
}

func TestStepsTable(t *testing.T) {
	t.Parallel()
	m := &stepsMeasure{seconds: map[stepKey][]float64{
		{"manager", shapeChain, 1000}: {2, 1, 4}, {"b", shapeChain, 1000}: {0.5},
	}}
	got := m.table([]stepper{{name: "manager"}, {name: "b"}, {name: "c"}})
	want := "| shape | steps | manager | b | c |\n|---|---|---|---|---|\n| chain | 1,000 | 500 | 2000 | – |\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, strings.TrimSpace(want))
	}
}
