package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bouldermgr/manager/workspace"
)

// Release keeps all refs and adds what was in none; a slot with files that git cannot store is not touched by Discard.
func TestReleaseKeepsResults(t *testing.T) {
	l := newLine(t, "a.txt", "a\n")
	_, in := l.prepare(1, "x", 1, l.base)
	in.write("a.txt", "work\n")
	if dir := l.slots.Directory("b"); dir == "" || workspace.Size(dir) == 0 {
		t.Errorf("slots in %q", dir)
	}
	must(t, l.slots.Release(t.Context(), "b", l.base))
	if got := l.git("show", "refs/manager/b/x/1:a.txt"); got != "work\n" || l.slots.Directory("b") != "" {
		t.Errorf("kept is %q, slots in %q", got, l.slots.Directory("b"))
	}
	kept := filepath.Join(l.dir, ".manager", "slots", "c", "kept-1-x-1-z")
	must(t, os.MkdirAll(kept, 0o700))
	must(t, l.slots.Discard("c"))
	if _, err := os.Stat(kept); err != nil || !l.slots.HoldsKept("c") {
		t.Errorf("what git cannot store is gone: %v", err)
	}
	refs, err := l.slots.Refs(t.Context())
	must(t, err)
	must(t, l.slots.DropRefs(t.Context(), refs))
	if left, err := l.slots.Refs(t.Context()); len(left) > 0 || err != nil {
		t.Errorf("refs %v, %v", left, err)
	}
}

// What a repository brings along or the user has put there is not taken for slots: links, directories that say nothing of
// this project, and other names in one of its own.
func TestOnlySlotsAreRemoved(t *testing.T) {
	t.Parallel()
	const id, other = "01k0000000000000000000000a", "01k0000000000000000000000b"
	precious := func(dir string) []string {
		files := []string{filepath.Join(dir, "src", "f"), filepath.Join(dir, "land-registry", "f"), filepath.Join(dir, other, "f")}
		past := time.Now().Add(-48 * time.Hour)
		for _, file := range files {
			must(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must(t, os.WriteFile(file, []byte("x"), 0o600))
			must(t, os.Chtimes(filepath.Dir(file), past, past))
		}
		return files
	}
	for name, plant := range map[string]func(l line) (files []string){
		"a link": func(l line) []string {
			dir := t.TempDir()
			must(t, os.MkdirAll(l.path(".manager"), 0o700))
			must(t, os.Symlink(dir, l.path(".manager/slots")))
			return precious(dir)
		},
		"a link of a boulder's": func(l line) []string {
			dir := t.TempDir()
			must(t, os.MkdirAll(l.path(".manager/slots"), 0o700))
			must(t, os.Symlink(filepath.Join(dir, other), l.path(".manager/slots/"+other)))
			return precious(dir)
		},
		"another program's directory": func(l line) []string {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "project.json"), []byte(`{"project": "my-cloud-project"}`), 0o600))
			l.write(".manager/slots.json", `{"dirs": ["`+dir+`"]}`)
			return precious(dir)
		},
		"the user's files among slots": func(l line) []string {
			must(t, os.MkdirAll(l.path(".manager/slots/"+id+"/1"), 0o700))
			return precious(l.path(".manager/slots"))[:2]
		},
	} {
		l := newLine(t, "a.txt", "a\n")
		files := plant(l)
		for _, id := range l.slots.Directories() {
			must(t, l.slots.Discard(id))
		}
		must(t, l.slots.Clear())
		if got := l.slots.Temporary(time.Now()); slices.ContainsFunc(got, func(p string) bool { return filepath.Base(p) == "land-registry" }) {
			t.Errorf("%s: %q count as a killed process's", name, got)
		}
		must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := os.Stat(l.path(".manager/slots/" + id)); err == nil {
			t.Errorf("%s: the slots are still there", name)
		}
	}
}

// Only what was abandoned for a day counts as left by a killed process.
func TestTemporaryDirectories(t *testing.T) {
	l := newLine(t, "a.txt", "a\n")
	t.Setenv("TMPDIR", t.TempDir())
	old := filepath.Join(os.TempDir(), "manager-index-1")
	for _, dir := range []string{old, filepath.Join(os.TempDir(), "manager-index-2"), filepath.Join(os.TempDir(), "other-1")} {
		must(t, os.Mkdir(dir, 0o700))
	}
	past := time.Now().Add(-25 * time.Hour)
	must(t, os.Chtimes(old, past, past))
	if got := l.slots.Temporary(time.Now()); !slices.Equal(got, []string{old}) {
		t.Errorf("found %q", got)
	}
}
