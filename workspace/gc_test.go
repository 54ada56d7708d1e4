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
	if got := l.slots.Directories(); !slices.Equal(got, []string{"b"}) || workspace.Size(l.slots.Directory("b")) == 0 {
		t.Errorf("slots of %q", got)
	}
	must(t, l.slots.Release(t.Context(), "b", l.base))
	if got := l.git("show", "refs/manager/b/x/1:a.txt"); got != "work\n" || len(l.slots.Directories()) > 0 {
		t.Errorf("kept is %q, slots of %q", got, l.slots.Directories())
	}
	kept := filepath.Join(l.dir, ".manager", "slots", "c", "kept-1-x-1-z")
	must(t, os.MkdirAll(kept, 0o700))
	must(t, l.slots.Discard("c"))
	if _, err := os.Stat(kept); err != nil || !l.slots.HoldsKept("c") {
		t.Errorf("what git cannot store is gone: %v", err)
	}
	refs, err := l.slots.Refs(t.Context())
	must(t, err)
	if on, err := l.slots.OnBranch(t.Context(), refs["refs/manager/b/x/1"]); on || err != nil {
		t.Errorf("a commit on no branch: %t, %v", on, err)
	}
	if on, err := l.slots.OnBranch(t.Context(), refs["refs/manager/b/base"]); !on || err != nil {
		t.Errorf("HEAD: %t, %v", on, err)
	}
	must(t, l.slots.DropRefs(t.Context(), refs))
	if left, err := l.slots.Refs(t.Context()); len(left) > 0 || err != nil {
		t.Errorf("refs %v, %v", left, err)
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
