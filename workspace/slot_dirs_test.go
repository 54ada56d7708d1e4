package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// open returns the slots of a project, which are made below home.
func open(t *testing.T, dir, home string) *workspace.Slots {
	t.Helper()
	w, err := workspace.Open(t.Context(), dir)
	must(t, err)
	s := w.Slots()
	s.Home = func() (string, error) { return home, nil }
	return s
}

// What is copied for slots and landing is outside of the project, and nothing of it is left there or in the project.
func TestSlotsAreOutsideOfTheProject(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.test.js", "one\n", "d/b.test.js", "two\n", ".gitignore", "deps\n")
	l.write("deps/x.test.js", "ignored")
	inProject := func() {
		t.Helper()
		var found []string
		must(t, filepath.WalkDir(l.dir, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".test.js") {
				found = append(found, strings.TrimPrefix(path, l.dir))
			}
			return err
		}))
		if slices.Sort(found); strings.Join(found, " ") != "/a.test.js /d/b.test.js /deps/x.test.js" {
			t.Errorf("in the project: %q", found)
		}
	}
	s, in := l.prepare(1, "x", 1, l.base)
	if outside, err := filepath.Rel(l.dir, s.Dir()); err != nil || filepath.IsLocal(outside) || s.Root() != s.Dir() {
		t.Errorf("the slot is %s", s.Dir())
	}
	inProject()
	_, remove, _, err := l.slots.LikeProject(t.Context(), l.claim(1, "x", 1, l.base))
	must(t, err)
	inProject()
	must(t, remove())
	in.write("a.test.js", "1\n")
	in.write("d/b.test.js", "2\n")
	result, _, err := s.Capture(t.Context(), "")
	must(t, err)
	l.slots.OnStep(func() error { inProject(); return nil })
	_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
	must(t, errors.Join(err, l.slots.EndLanding(l.base, result)))
	dirs := l.slots.Dirs()
	must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
	left, err := os.ReadDir(filepath.Dir(dirs[0]))
	must(t, err)
	state, err := os.ReadDir(l.path(".manager"))
	if err != nil || len(left)+len(state) > 0 || len(l.slots.Dirs()) > 0 {
		t.Errorf("left: %v, %v, %v", left, state, err)
	}
}

// A boulder stays where its slots are: in the project, where they were before, and below another home.
func TestSlotsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	homes := []string{t.TempDir(), t.TempDir()}
	r := newRepo(t, "a", "1\n")
	old, err := workspace.Open(t.Context(), r.dir)
	must(t, err)
	base, err := old.Head(t.Context())
	must(t, err)
	claim := func(id string) boulder.SlotClaim {
		return boulder.SlotClaim{BoulderID: id, Slot: 1, SubTaskID: "x", Attempt: 1, Base: base, From: base}
	}
	at := map[string]string{}
	for id, slots := range map[string]*workspace.Slots{"b0": old.Slots(), "b1": open(t, r.dir, homes[0])} {
		s, err := slots.Prepare(t.Context(), claim(id))
		must(t, err)
		at[id] = s.Dir()
		repo{t, s.Dir()}.write("a", id)
	}
	later := open(t, r.dir, homes[1])
	for id := range at {
		s, err := later.Prepare(t.Context(), claim(id))
		must(t, err)
		if got := (repo{t, s.Dir()}).read("a"); s.Dir() != at[id] || got != id {
			t.Errorf("%s continues in %s with %q, and was in %s", id, s.Dir(), got, at[id])
		}
	}
	s, err := later.Prepare(t.Context(), claim("b2"))
	must(t, err)
	if !strings.HasPrefix(s.Dir(), homes[1]) || len(later.Dirs()) != 3 {
		t.Errorf("a new one works in %s, all are %q", s.Dir(), later.Dirs())
	}
	for _, id := range []string{"b0", "b1", "b2"} {
		must(t, later.Free(t.Context(), id, base, true, func(string) bool { return true }))
	}
	if left := later.Dirs(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A project that was moved finds its slots, with repositories that work; a copy of it, another one of the same name, and a
// new one in its former place have their own.
func TestSlotsOfAProjectThatWasMoved(t *testing.T) {
	t.Parallel()
	home, places := t.TempDir(), t.TempDir()
	project := func(dir string) string { return filepath.Join(places, dir, "shop") }
	made := newRepo(t, "a", "1\n")
	must(t, os.MkdirAll(project("one"), 0o700))
	must(t, os.CopyFS(project("one"), os.DirFS(made.dir)))
	prepare := func(dir string) repo {
		t.Helper()
		slots := open(t, project(dir), home)
		base, err := slots.Base(t.Context(), true, time.Unix(1, 0))
		must(t, err)
		s, err := slots.Prepare(t.Context(), boulder.SlotClaim{BoulderID: "b", Slot: 1, SubTaskID: "x", Attempt: 1, Base: base, From: base})
		must(t, err)
		return repo{t, s.Dir()}
	}
	first := prepare("one")
	first.write("a", "work in progress")
	for _, dir := range []string{"two", "three"} {
		must(t, os.MkdirAll(project(dir), 0o700))
		must(t, os.CopyFS(project(dir), os.DirFS(project("one"))))
	}
	if in := prepare("two"); in.dir == first.dir || in.read("a") != "1\n" {
		t.Errorf("a copy works in %s, which has %q", in.dir, in.read("a"))
	}
	must(t, os.RemoveAll(project("three")))
	must(t, os.Rename(project("one"), project("three")))
	in := prepare("three")
	if in.dir != first.dir || in.read("a") != "work in progress" || in.git("log", "--format=%s") == "" {
		t.Errorf("moved, it works in %s, which has %q", in.dir, in.read("a"))
	}
	must(t, os.MkdirAll(project("one"), 0o700))
	must(t, os.CopyFS(project("one"), os.DirFS(made.dir)))
	if in := prepare("one"); in.dir == first.dir || in.read("a") != "1\n" {
		t.Errorf("a new one in its place works in %s, which has %q", in.dir, in.read("a"))
	}
	if all, err := os.ReadDir(home); err != nil || len(all) != 3 {
		t.Errorf("below home: %v, %v", all, err)
	}
}

// Where no slots can be made outside, they are in the project, and it is told why; or it is an error.
func TestNoHomeForSlots(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for want, home := range map[string]func(dir string) (string, error){
		"HOME is not set":           func(string) (string, error) { return "", errors.New("HOME is not set") },
		"not a directory":           func(string) (string, error) { return filepath.Join(file, "slots"), nil },
		"is in the project itself":  func(dir string) (string, error) { return filepath.Join(dir, "cache"), nil },
		"is in the project itself ": func(dir string) (string, error) { return dir, nil },
	} {
		l := newLine(t, "a", "1\n")
		l.slots.Home = func() (string, error) { return home(l.dir) }
		_, err := l.slots.Prepare(t.Context(), l.claim(1, "x", 1, l.base))
		if !errors.Is(err, boulder.ErrSlots) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: %v", want, err)
		}
		said := ""
		l.slots.Instead = func(why error) { said = why.Error() }
		if s, _ := l.prepare(1, "x", 1, l.base); s.Dir() != l.path(".manager/slots/b/1") || !strings.Contains(said, strings.TrimSpace(want)) {
			t.Errorf("%s: %s, %q", want, s.Dir(), said)
		}
	}
}

// A repository may bring a list of directories along. Only what manager made for this project counts.
func TestForeignListOfSlots(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("A", 26)
	list := func(dir string) string {
		return `{"id": "` + id + `", "dirs": ["` + dir + `", "../b", "` + dir + `/none"]}`
	}
	for name, says := range map[string]string{
		"nothing": "", "of another program": `{"id": "` + id + `", "project": "my-project"}`, "relative": `{"project": "x/y"}`,
		"without an id": `{"project": "/gone"}`, "another id": `{"project": "/gone", "manager_slots": "` + strings.Repeat("B", 26) + `"}`,
		"relative with the id": `{"project": "gone", "manager_slots": "` + id + `"}`,
	} {
		l, precious := newLine(t, "a", "1\n"), repo{t, t.TempDir()}
		precious.write("b/file", "precious")
		precious.write("land-registry/file", "precious")
		if says != "" {
			precious.write("project.json", says)
		}
		before := len(files(t, precious.dir))
		for range 2 { // before anything of its own is there, and after
			l.write(".manager/slots.json", list(precious.dir))
			must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
			for _, id := range l.slots.Directories() {
				must(t, l.slots.Discard(id))
			}
			s, _ := l.prepare(1, "x", 1, l.base)
			must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
			if left := files(t, precious.dir); len(left) != before || strings.HasPrefix(s.Dir(), precious.dir) {
				t.Errorf("%s: %s was used, and has %q", name, precious.dir, left)
			}
		}
	}
}

// A project that was moved keeps its slots when a new one at its former place, or a copy of it, runs and is uninstalled first.
func TestSlotsOfAProjectThatWasMovedAreNotAnothers(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]func(former, moved string) string{
		"new at its place": func(former, _ string) string { return former },
		"copied":           func(_, moved string) string { return moved + "-copy" },
	} {
		home, places := t.TempDir(), t.TempDir()
		former, moved := filepath.Join(places, "shop"), filepath.Join(places, "moved")
		prepare := func(dir, id string) repo {
			t.Helper()
			slots := open(t, dir, home)
			base, err := slots.Base(t.Context(), true, time.Unix(1, 0))
			must(t, err)
			s, err := slots.Prepare(t.Context(), boulder.SlotClaim{BoulderID: id, Slot: 1, SubTaskID: "x", Attempt: 1, Base: base, From: base})
			must(t, err)
			return repo{t, s.Dir()}
		}
		made := newRepo(t, "a", "1\n")
		must(t, os.CopyFS(former, os.DirFS(made.dir)))
		first := prepare(former, "b")
		first.write("a", "work in progress")
		must(t, os.Rename(former, moved))
		other := another(former, moved)
		source := moved
		if other == former {
			source = made.dir
		}
		must(t, os.CopyFS(other, os.DirFS(source)))
		must(t, open(t, other, home).Discard("b"))
		prepare(other, "c")
		must(t, open(t, other, home).Discard("b"))
		if in := prepare(moved, "b"); in.dir != first.dir || in.read("a") != "work in progress" {
			t.Errorf("%s: moved, it works in %s, which has %q; before in %s", name, in.dir, in.read("a"), first.dir)
		}
	}
}

// A directory that has files, or is another user's, is not taken as a new one.
func TestSlotsInNobodysDirectory(t *testing.T) {
	t.Parallel()
	l, home := newLine(t, "a", "1\n"), t.TempDir()
	l.slots.Home = func() (string, error) { return home, nil }
	l.prepare(1, "x", 1, l.base)
	dir := l.slots.Dirs()[0]
	must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
	must(t, os.MkdirAll(filepath.Join(dir, "b"), 0o700))
	if s, _ := l.prepare(1, "x", 1, l.base); filepath.Dir(filepath.Dir(s.Dir())) != dir+"-2" {
		t.Errorf("beside files of nobody's, it works in %s", s.Dir())
	}
	must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
	must(t, os.Remove(filepath.Join(dir, "b")))
	if os.Chown(dir, 65534, 65534) != nil {
		t.Skip("needs root")
	}
	if s, _ := l.prepare(1, "x", 1, l.base); filepath.Dir(filepath.Dir(s.Dir())) != dir+"-2" {
		t.Errorf("beside another user's directory, it works in %s", s.Dir())
	}
}

// An agent can put links in the place of its slot, of its boulder's directory, or of all slots. Landing removes the link at most.
func TestFreeFollowsNoLinks(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]string{"slot": "1/1", "boulder": "1", "staged": "land-1", "all": "", "in the project": ""} {
		l, precious := newLine(t, "a", "1\n"), repo{t, t.TempDir()}
		precious.write("b/1/file", "precious")
		precious.write("land-registry/file", "precious")
		precious.write("1/file", "precious")
		inside := name == "in the project"
		if inside {
			l.slots.Home = nil
		}
		l.prepare(1, "x", 1, l.base)
		link := filepath.Join(l.slots.Dirs()[0], place)
		must(t, os.RemoveAll(link))
		must(t, os.Symlink(precious.dir, link))
		before := len(files(t, precious.dir))
		if err := l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must(t, l.slots.Discard("b"))
		if left := files(t, precious.dir); len(left) != before {
			t.Errorf("%s: what the link leads to has only %q", name, left)
		}
		if _, err := os.Lstat(link); place != "" && err == nil {
			t.Errorf("%s: the link is left", name)
		}
	}
}

// files returns the files below a directory.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, path)
		}
		return err
	}))
	return all
}
