package workspace_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// Slots are abandoned if their project is gone, or does not know them any more. In doubt they are not.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		is     bool
		become func(t *testing.T, project, slots string)
	}{
		"there":         {false, func(*testing.T, string, string) {}},
		"gone":          {true, func(t *testing.T, project, _ string) { must(t, os.RemoveAll(project)) }},
		"without state": {true, func(t *testing.T, project, _ string) { must(t, os.RemoveAll(filepath.Join(project, ".manager"))) }},
		"a file now": {true, func(t *testing.T, project, _ string) {
			must(t, os.RemoveAll(project))
			must(t, os.WriteFile(project, nil, 0o600))
		}},
		"cannot be read": {false, func(t *testing.T, project, _ string) {
			list := filepath.Join(project, ".manager", "slots.json")
			must(t, os.Remove(list))
			must(t, os.Symlink(list, list)) // too many links: root can read all files
		}},
		"its disk is not mounted": {false, func(t *testing.T, project, slots string) {
			must(t, os.RemoveAll(project))
			changeOwner(t, slots, "mount", filepath.Dir(project))
		}},
		"another user's": {false, func(t *testing.T, project, slots string) {
			must(t, os.RemoveAll(project))
			if os.Chown(slots, 65534, 65534) != nil {
				t.Skip("needs root")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, project, slots := projectWithSlots(t)
			test.become(t, project, slots)
			found := open(t, newRepo(t).dir, home).Abandoned(home)[project]
			if is := len(found) == 1; is != test.is {
				t.Errorf("found %q", found)
			}
			if err := workspace.RemoveAbandoned(slots); (err == nil) != test.is {
				t.Errorf("removing it: %v", err)
			}
			if _, err := os.Stat(slots); (err != nil) != test.is {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A project that was moved does not find its own slots abandoned, although they name the place where it was.
func TestSlotsOfAMovedProjectAreNotAbandoned(t *testing.T) {
	t.Parallel()
	home, project, _ := projectWithSlots(t)
	must(t, os.Rename(project, project+"-moved"))
	if found := open(t, project+"-moved", home).Abandoned(home); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}

func TestUsedLately(t *testing.T) {
	t.Parallel()
	r := repo{t, t.TempDir()}
	r.write("1/d/file", "")
	if now := time.Now(); !workspace.UsedLately(r.dir, now) || workspace.UsedLately(r.dir, now.Add(25*time.Hour)) {
		t.Error("a file counts for a day")
	}
}

// projectWithSlots makes a project that has a slot below home.
func projectWithSlots(t *testing.T) (home, project, slots string) {
	t.Helper()
	home, project = t.TempDir(), filepath.Join(t.TempDir(), "shop")
	must(t, os.CopyFS(project, os.DirFS(newRepo(t, "a", "1\n").dir)))
	s := open(t, project, home)
	base, err := s.Base(t.Context(), true, time.Unix(1, 0))
	must(t, err)
	_, err = s.Prepare(t.Context(), boulder.SlotClaim{
		BoulderID: "01m8qb3yqvxwbjwwvha57gnsqc", Slot: 1, SubTaskID: "x", Attempt: 1, Base: base, From: base,
	})
	must(t, err)
	return home, project, s.Dirs()[0]
}

// changeOwner changes what a directory of slots says of its project.
func changeOwner(t *testing.T, slots, key, value string) {
	t.Helper()
	path, says := filepath.Join(slots, "project.json"), map[string]any{}
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(data, &says))
	says[key] = value
	data, err = json.Marshal(says)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}
