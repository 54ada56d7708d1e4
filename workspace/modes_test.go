package workspace_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/workspace"
)

// Landing keeps the modes of files, of which git stores only whether they may be executed; the undo brings them back, also those
// of files that had gone, and so does a landing that is put back after a kill. Links stay links.
func TestModesAreKept(t *testing.T) {
	t.Parallel()
	c := newClash(t, func(in repo) {
		in.write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\n8\n")
		for _, name := range []string{"secret", "tool", "own"} {
			in.write(name, in.read(name)+"more\n")
		}
		in.remove("gone")
		in.remove("link")
		must(in, os.Symlink("b.txt", in.path("link")))
		in.remove("becomes")
		must(in, os.Symlink("b.txt", in.path("becomes")))
		must(in, os.Chmod(in.path("on"), 0o755))
		must(in, os.Chmod(in.path("off"), 0o644))
		in.write("new", "new\n")
	}, func(in repo) { in.write("a.txt", "1\n2\nmine\n4\n5\n6\n7\n8\n") },
		func(in repo) {
			for name, mode := range map[string]fs.FileMode{
				"a.txt": 0o640, "secret": 0o600, "tool": 0o755, "own": 0o700, "gone": 0o400, "becomes": 0o600, "on": 0o600, "off": 0o711,
			} {
				if name != "a.txt" {
					in.write(name, name+"\n")
				}
				must(in, os.Chmod(in.path(name), mode))
			}
		})
	names := []string{"a.txt", "secret", "tool", "own", "gone", "link", "becomes", "on", "off", "new"}
	const before = "a.txt 0640, secret 0600, tool 0755, own 0700, gone 0400, link → a.txt, becomes 0600, on 0600, off 0711, new -"
	const after = "a.txt 0640, secret 0600, tool 0755, own 0700, gone -, link → b.txt, becomes → b.txt, on 0700, off 0600, new 0644"
	check := func(what, want string) {
		t.Helper()
		if got := modesIn(t, c.repo, names); got != want {
			t.Errorf("%s:\n%s; want\n%s", what, got, want)
		}
	}
	check("before", before)
	m, err := c.merge()
	must(t, errors.Join(err, c.slots.EndLanding(c.base, c.result)))
	check("merged", after)
	undo := func() error {
		_, err := c.slots.UndoMerge(t.Context(), "b", m.Written, []string{"a.txt"}, false)
		return err
	}
	must(t, undo())
	check("undone", before)
	killedAt := func(n int, do func() error) (killed bool) {
		t.Helper()
		steps := 0
		c.slots.OnStep(func() error {
			if steps++; steps == n {
				return workspace.ErrKilled
			}
			return nil
		})
		defer c.slots.OnStep(nil)
		err := do()
		if err != nil && !errors.Is(err, workspace.ErrKilled) {
			t.Fatal(err)
		}
		return err != nil
	}
	for n := 1; !t.Failed(); n++ {
		killed := killedAt(n, func() error { _, err := c.merge(); return err })
		must(t, c.slots.PutBack(t.Context(), c.base, c.result))
		check(fmt.Sprint("put back after a kill at step ", n), before)
		if !killed {
			break
		}
	}
	for n := 1; !t.Failed(); n++ {
		_, err := c.merge()
		must(t, errors.Join(err, c.slots.EndLanding(c.base, c.result)))
		killed := killedAt(n, undo)
		must(t, undo())
		check(fmt.Sprint("undone after a kill at step ", n), before)
		if !killed {
			break
		}
	}
}

// modesIn describes files.
func modesIn(t *testing.T, in repo, names []string) string {
	t.Helper()
	var all []string
	for _, name := range names {
		info, err := os.Lstat(in.path(name))
		is := "-"
		if err == nil {
			is = fmt.Sprintf("%#o", info.Mode().Perm())
		}
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			is, err = os.Readlink(in.path(name))
			is = "→ " + is
			must(t, err)
		}
		all = append(all, name+" "+is)
	}
	return strings.Join(all, ", ")
}
