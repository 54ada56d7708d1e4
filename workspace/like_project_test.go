package workspace_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A command sees in the copy what it would see in the project, and what it writes there, also through links, stays
// there. It would fail if links into the project were copied as they are.
func TestLikeProject(t *testing.T) {
	l := newLine(t, ".gitignore", ".env\ndeps/\n", "sub/a.txt", "a\n")
	l.write("sub/a.txt", "later\n") // after the base
	l.write(".env", "secret\n")
	l.write("deps/real/tool", "tool\n")
	l.write("deps/closed/lib", "lib\n")
	must(t, os.Symlink(filepath.Join("..", "real", "tool"), filepath.Join(l.dir, "deps", "closed", "near")))
	must(t, os.Symlink(l.path("deps/real"), l.path("deps/far")))
	must(t, os.Symlink(l.path("sub/a.txt"), l.path("deps/tracked")))
	must(t, os.Chmod(l.path("deps/closed"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(l.path("deps/closed"), 0o700) })
	l.prepare(1, "x", 1, l.base)
	bare := newLine(t, "a.txt", "a\n")
	if like, _, why, err := bare.slots.LikeProject(t.Context(), bare.claim(1, "", 0, bare.base)); like != nil || why != "" || err != nil {
		t.Errorf("there is nothing to copy: %v, %q, %v", like, why, err)
	}
	for range 2 { // the second finds what a killed manager left
		like, _, why, err := l.slots.LikeProject(t.Context(), l.claim(1, "", 0, l.base))
		must(t, err)
		in := repo{t, like.Dir()}
		got := in.read(".env") + in.read("sub/a.txt") + in.read("deps/far/tool") + in.read("deps/closed/lib") + in.read("deps/closed/near")
		if why != "" || got != "secret\na\ntool\nlib\ntool\n" {
			t.Errorf("the copy has %q (%s)", got, why)
		}
		for _, name := range []string{".env", "deps/far/tool", "deps/far/new", "deps/closed/lib", "deps/closed/near", "deps/tracked"} {
			must(t, os.WriteFile(in.path(name), []byte("written"), 0o600))
		}
		got = l.read(".env") + l.read("sub/a.txt") + l.read("deps/real/tool") + l.read("deps/real/new") + l.read("deps/closed/lib")
		if got != "secret\nlater\ntool\n(none)lib\n" {
			t.Errorf("the project has %q", got)
		}
	}
	like, remove, _, err := l.slots.LikeProject(t.Context(), l.claim(1, "", 0, l.base))
	must(t, err)
	must(t, remove())
	if left, err := filepath.Glob(like.Dir() + "*"); err != nil || len(left) > 0 {
		t.Errorf("the copy is not removed: %v, %v", left, err)
	}
}
