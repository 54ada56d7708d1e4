package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// clash is a project whose files the user changes (mine) where a result of the sub-task colours changed them (work).
type clash struct {
	line
	result string
}

func newClash(t *testing.T, work, mine func(in repo), before ...func(in repo)) clash {
	t.Helper()
	l := newLine(t, ".gitignore", "*.log\n", "a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n", "b.txt", "b\n", "d/x", "x\n", "bin", "a\x00b")
	must(t, os.Symlink("a.txt", l.path("link")))
	for _, change := range before {
		change(l.repo)
	}
	l.commit()
	var err error
	l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	s, in := l.prepare(1, "colours", 1, l.base)
	work(in)
	_, tree, err := s.Capture(t.Context(), "")
	must(t, err)
	result, err := l.slots.Commit(t.Context(), tree, l.base, "Colours\n\n"+boulder.SubTaskTrailer+": colours", time.Unix(2, 0))
	must(t, err)
	mine(l.repo)
	return clash{l, result}
}

func (c clash) merge() (workspace.Merged, error) {
	return c.slots.MergeFiles(c.Context(), "b", c.base, c.result, false)
}

// MergeFiles writes what does not conflict, and markers with the names of both sides where they are possible. Where not,
// the user's file stays, and it is said why. Undone, all is as it was, without a trace in the index.
func TestMergeByKind(t *testing.T) {
	t.Parallel()
	write := func(name, content string) func(in repo) { return func(in repo) { in.write(name, content) } }
	remove := func(name string) func(in repo) { return func(in repo) { in.remove(name) } }
	link := func(to string) func(in repo) {
		return func(in repo) { in.remove("link"); must(in, os.Symlink(to, in.path("link"))) }
	}
	const changed = "you deleted or moved it, and the results changed it"
	for name, test := range map[string]struct {
		work, mine func(in repo)
		path, why  string
		file, want string // a file after it
	}{
		"lines": {
			write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\nEIGHT\n"), write("a.txt", "1\n2\nmine\n4\n5\n6\n7\n8\n"), "a.txt", "", "a.txt",
			"1\n2\n<<<<<<< your files\nmine\n=======\ntheirs\n>>>>>>> colours\n4\n5\n6\n7\nEIGHT\n",
		},
		"both added": {
			write("new", "theirs\n"), write("new", "mine\n"), "new", "", "new",
			"<<<<<<< your files\nmine\n=======\ntheirs\n>>>>>>> colours\n",
		},
		"line ends of Windows": {
			write("new", "1\r\ntheirs\r\n2\r\n"), write("new", "1\r\nmine\r\n2\r\n"), "new", "", "new",
			"1\r\n<<<<<<< your files\r\nmine\r\n=======\r\ntheirs\r\n>>>>>>> colours\r\n2\r\n",
		},
		"line ends that git converts": {
			func(in repo) { in.write(".gitattributes", "*.txt text eol=crlf\n"); in.write("b.txt", "theirs\r\n") },
			func(in repo) { in.write(".gitattributes", "*.txt text eol=crlf\n"); in.write("b.txt", "mine\r\n") }, "b.txt", "", "b.txt",
			"<<<<<<< your files\r\nmine\r\n=======\r\ntheirs\r\n>>>>>>> colours\r\n",
		},
		"moved by the user": {
			write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\n8\n"),
			func(in repo) { in.remove("a.txt"); in.write("moved", "1\n2\nmine\n4\n5\n6\n7\n8\n") }, "moved", "", "moved",
			"1\n2\n<<<<<<< your files\nmine\n=======\ntheirs\n>>>>>>> colours\n4\n5\n6\n7\n8\n",
		},
		"may be executed": {
			func(in repo) { in.write("b.txt", "theirs\n"); must(in, os.Chmod(in.path("b.txt"), 0o755)) }, write("b.txt", "mine\n"),
			"b.txt", "", "b.txt", "<<<<<<< your files\nmine\n=======\ntheirs\n>>>>>>> colours\n",
		},
		"binary":                {write("bin", "a\x00theirs"), write("bin", "a\x00mine"), "bin", "it is binary", "bin", "a\x00mine"},
		"links":                 {link("theirs"), link("mine"), "link", "it is a link", "link", "-> mine"},
		"deleted by the user":   {write("a.txt", "theirs\n"), remove("a.txt"), "a.txt", changed, "a.txt", "(none)"},
		"deleted by the result": {remove("b.txt"), write("b.txt", "mine\n"), "b.txt", "the results delete or move it, and you changed it", "b.txt", "mine\n"},
		"moved by both": {
			func(in repo) { in.git("mv", "a.txt", "theirs") }, func(in repo) { in.git("mv", "a.txt", "mine"); in.git("reset", "-q") },
			"theirs", "both sides moved the same file", "theirs", "(none)",
		},
		"moved and deleted": {func(in repo) { in.git("mv", "a.txt", "theirs") }, remove("a.txt"), "theirs", changed, "theirs", "(none)"},
		"a directory in place of a file": {
			func(in repo) { in.remove("b.txt"); in.write("b.txt/x", "theirs") }, write("b.txt", "mine\n"), "b.txt",
			"one side has a file where the other has a directory or a link", "b.txt", "mine\n",
		},
		"a file in place of a directory": {
			func(in repo) { in.remove("d"); in.write("d", "theirs") }, write("d/x", "mine\n"), "d",
			"one side has a file where the other has a directory or a link", "d/x", "mine\n",
		},
		"a link in place of a file": {
			func(in repo) { in.remove("b.txt"); must(in, os.Symlink("x", in.path("b.txt"))) }, write("b.txt", "mine\n"), "b.txt",
			"one side has a file where the other has a directory or a link", "b.txt", "mine\n",
		},
		"an ignored file of the user": {
			func(in repo) { in.write(".gitignore", ""); in.write("my.log", "theirs") }, write("my.log", "mine"), "my.log",
			"a file of yours is there, which git ignores", "my.log", "mine",
		},
		"a filter": {
			write("b.txt", "theirs\n"), func(in repo) { in.write(".gitattributes", "*.txt filter=f\n"); in.write("b.txt", "mine\n") }, "b.txt",
			"the filter f of .gitattributes converts it", "b.txt", "mine\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClash(t, func(in repo) { test.work(in); in.write("clean", "landed\n") }, test.mine)
			before, index := c.files(), c.git("ls-files", "--stage")
			refused, isConflict := errors.AsType[*workspace.ConflictError](func() error {
				_, err := c.slots.LandFiles(t.Context(), c.base, c.result, false)
				return err
			}())
			if !isConflict || refused.Conflicts[0].Path == "" {
				t.Errorf("without markers: %v", refused)
			}
			if diff := gocmp.Diff(before, c.files()); diff != "" {
				t.Fatalf("refused (-before +now):\n%s", diff)
			}
			m, err := c.merge()
			must(t, err)
			must(t, c.slots.EndLanding(c.base, c.result))
			said := map[string]string{}
			for _, conflict := range m.Conflicts {
				said[conflict.Path] = conflict.Why
				if strings.Join(conflict.By, " ") == "" || conflict.Why == "" && len(conflict.Hunks) == 0 {
					t.Errorf("%+v", conflict)
				}
			}
			if why, there := said[test.path]; !there || why != test.why {
				t.Errorf("conflicts: %q", said)
			}
			after := c.files()
			if got := strings.TrimPrefix(after[test.file], "false "); strings.TrimPrefix(got, "true ") != strings.TrimPrefix(test.want, "(none)") {
				t.Errorf("%s is %q, want %q", test.file, got, test.want)
			}
			if after["clean"] != "false landed\n" {
				t.Error("what does not conflict was not written")
			}
			if got := c.git("ls-files", "--stage"); got != index {
				t.Errorf("the index was\n%s, and is\n%s", index, got)
			}
			for name := range after {
				if strings.Contains(name, "~") {
					t.Errorf("%s was made", name)
				}
			}
			_, err = c.slots.UndoMerge(t.Context(), "b", m.Written, []string{test.path}, false)
			must(t, err)
			if diff := gocmp.Diff(before, c.files()); diff != "" {
				t.Errorf("undone (-before +now):\n%s", diff)
			}
		})
	}
}

// The excerpt of a conflict has its line in the user's file.
func TestConflictLines(t *testing.T) {
	t.Parallel()
	c := newClash(t, func(in repo) { in.write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\nEIGHT\n") },
		func(in repo) { in.write("a.txt", "1\n2\nmine\nmore\n4\n5\n6\n7\neight\n") })
	_, err := c.slots.LandFiles(t.Context(), c.base, c.result, false)
	refused, _ := errors.AsType[*workspace.ConflictError](err)
	if refused == nil {
		t.Fatal(err)
	}
	want := []workspace.Hunk{
		{Line: 3, Lines: []string{"<<<<<<< your files", "mine", "more", "=======", "theirs", ">>>>>>> colours"}},
		{Line: 9, Lines: []string{"<<<<<<< your files", "eight", "=======", "EIGHT", ">>>>>>> colours"}},
	}
	if diff := gocmp.Diff(want, refused.Conflicts[0].Hunks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// If nothing but what conflicts without markers is left, nothing is written and nothing has landed.
func TestMergeOfNothing(t *testing.T) {
	t.Parallel()
	c := newClash(t, func(in repo) { in.write("bin", "a\x00theirs") }, func(in repo) { in.write("bin", "a\x00mine") })
	_, err := c.merge()
	if _, refused := errors.AsType[*workspace.ConflictError](err); !refused || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("got %v", err)
	}
}

// What the user has edited since is not lost by an undo: other lines stay, and a file that is put back is in a commit as it
// was. An edit of what had no markers refuses the undo.
func TestUndoKeepsEdits(t *testing.T) {
	t.Parallel()
	written := func() (clash, workspace.Merged) {
		c := newClash(t, func(in repo) { in.write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\n8\n"); in.write("b.txt", "landed\n") },
			func(in repo) { in.write("a.txt", "1\n2\nmine\n4\n5\n6\n7\n8\n") })
		m, err := c.merge()
		must(t, err)
		must(t, c.slots.EndLanding(c.base, c.result))
		return c, m
	}
	undo := func(c clash, m workspace.Merged) (workspace.Merged, error) {
		return c.slots.UndoMerge(t.Context(), "b", m.Written, []string{"a.txt"}, false)
	}
	c, m := written()
	c.write("a.txt", c.read("a.txt")+"mine, too\n")
	_, err := undo(c, m)
	must(t, err)
	if got := c.read("a.txt") + c.read("b.txt"); got != "1\n2\nmine\n4\n5\n6\n7\n8\nmine, too\nb\n" {
		t.Errorf("after an edit elsewhere: %q", got)
	}

	c, m = written()
	c.write("a.txt", "1\n2\nresolved\n4\n5\n6\n7\n8\n")
	undone, err := undo(c, m)
	must(t, err)
	if got := c.read("a.txt"); got != "1\n2\nmine\n4\n5\n6\n7\n8\n" || len(undone.Conflicts) != 1 {
		t.Errorf("after a resolution: %q, %+v", got, undone.Conflicts)
	}
	if got := c.git("show", undone.Written+":a.txt"); got != "1\n2\nresolved\n4\n5\n6\n7\n8\n" {
		t.Errorf("kept is %q", got)
	}
	if got := c.git("rev-parse", "refs/manager/dropped/b/tip.edited"); strings.TrimSpace(got) != undone.Written {
		t.Errorf("the ref of what is kept is at %s", got)
	}

	c, m = written()
	c.write("b.txt", "mine\n")
	before := c.files()
	if _, err = undo(c, m); !errors.Is(err, workspace.ErrConflict) || !strings.Contains(err.Error(), "b.txt; nothing was written") {
		t.Errorf("after an edit of what has no markers: %v", err)
	}
	if diff := gocmp.Diff(before, c.files()); diff != "" {
		t.Errorf("refused (-before +now):\n%s", diff)
	}
}

// TestMergeIsAllOrNothing kills MergeFiles, and its undo, before changes of files, and lets changes fail. Repeated, either
// completes. Landing without markers after a kill puts back what was written, and is refused.
func TestMergeIsAllOrNothing(t *testing.T) {
	t.Parallel()
	c := newClash(t, func(in repo) {
		in.write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\n8\n")
		in.remove("b.txt")
		in.write("b.txt/x", "x\n")
		in.write("z/deep", "z\n")
		in.remove("d")
		must(in, os.Symlink("a.txt", in.path("d")))
		in.write("bin", "a\x00theirs")
	}, func(in repo) { in.write("a.txt", "1\n2\nmine\n4\n5\n6\n7\n8\n"); in.write("bin", "a\x00mine") })
	before := c.files()
	// interrupted calls do with a failure at each step, then check; it returns what do needs of a whole call.
	interrupted := func(what string, start func(), do func() error, failed, check func(what string)) {
		t.Helper()
		for step, more := 1, true; more; step++ {
			for _, failure := range []error{syscall.EACCES, workspace.ErrKilled} {
				start()
				n := 0
				c.slots.OnStep(func() error {
					if n++; n == step {
						return failure
					}
					return nil
				})
				err := do()
				c.slots.OnStep(nil)
				if more = n >= step; !more {
					must(t, err)
					break
				}
				what := fmt.Sprintf("%s, %v at step %d", what, failure, step)
				if !errors.Is(err, failure) {
					t.Fatalf("%s: %v", what, err)
				}
				if errors.Is(failure, syscall.EACCES) {
					failed(what)
				} else {
					check(what)
				}
			}
		}
	}
	same := func(what string, want map[string]string) {
		t.Helper()
		if diff := gocmp.Diff(want, c.files()); diff != "" {
			t.Fatalf("%s (-want +now):\n%s", what, diff)
		}
	}
	var m workspace.Merged
	var err error
	merge := func() error { m, err = c.merge(); return err }
	undo := func() error {
		_, err = c.slots.UndoMerge(t.Context(), "b", m.Written, []string{"a.txt"}, false)
		return err
	}
	must(t, merge())
	whole, after := m, c.files()
	putBack := func() { must(t, c.slots.PutBack(t.Context(), c.base, c.result)); same("put back", before) }
	interrupted("merge", putBack, merge, func(what string) { same(what, before) }, func(what string) {
		must(t, merge())
		same(what+", merged again", after)
		if diff := gocmp.Diff(whole.Written, m.Written); diff != "" || len(m.Conflicts) != len(whole.Conflicts) || len(m.Changes) != len(whole.Changes) {
			t.Fatalf("%s, merged again: %+v", what, m)
		}
	})
	interrupted("merge", putBack, merge, func(string) {}, func(what string) {
		if _, err := c.slots.LandFiles(t.Context(), c.base, c.result, false); !errors.Is(err, workspace.ErrConflict) {
			t.Fatalf("%s, then without markers: %v", what, err)
		}
		same(what+", then without markers", before)
	})
	must(t, merge())
	must(t, c.slots.EndLanding(c.base, c.result))
	landed := func() {
		if diff := gocmp.Diff(before, c.files()); diff == "" {
			must(t, merge())
			must(t, c.slots.EndLanding(c.base, c.result))
		}
		same("landed", after)
	}
	interrupted("undo", landed, undo, func(what string) { same(what, after) }, func(what string) {
		must(t, undo())
		same(what+", undone again", before)
	})
	if left, err := filepath.Glob(filepath.Join(c.dir, ".manager", "land*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// killed lets MergeFiles or its undo be killed at a step, and reports whether it came to that.
func (c clash) killed(step int, do func() error) bool {
	c.Helper()
	n := 0
	c.slots.OnStep(func() error {
		if n++; n == step {
			return workspace.ErrKilled
		}
		return nil
	})
	defer c.slots.OnStep(nil)
	err := do()
	if n < step {
		must(c, err)
	} else if !errors.Is(err, workspace.ErrKilled) {
		c.Fatal(err)
	}
	return n >= step
}

// threeFiles is a clash in the first of three files.
func threeFiles(t *testing.T) clash {
	return newClash(t, func(in repo) {
		in.write("a.txt", "1\n2\ntheirs\n4\n5\n6\n7\n8\n")
		in.write("b.txt", "b\nlanded\n")
		in.write("z.txt", "z landed\n")
	}, func(in repo) { in.write("a.txt", "1\n2\nmine\n4\n5\n6\n7\n8\n") })
}

const threeMarked = "1\n2\n<<<<<<< your files\nmine\n=======\ntheirs\n>>>>>>> colours\n4\n5\n6\n7\n8\n"

// What the user edits after a kill, before the file is written, is merged with when the landing is repeated. Markers never
// nest: where a file has them and another was edited, the repeat is refused until they are out.
func TestMergeAfterAKillAndAnEdit(t *testing.T) {
	t.Parallel()
	nested := 0
	for step, more := 1, true; more; step++ {
		c := threeFiles(t)
		more = c.killed(step, func() error { _, err := c.merge(); return err })
		if c.read("b.txt") != "b\n" {
			continue
		}
		c.write("b.txt", "top\nb\n")
		marked := c.read("a.txt") == threeMarked
		if marked {
			nested++
			c.write("a.txt", threeMarked+"more\n")
			if _, err := c.merge(); err == nil || !strings.Contains(err.Error(), "take its conflict markers out of a.txt") {
				t.Fatalf("step %d: %v", step, err)
			}
			if got := c.read("a.txt") + c.read("b.txt"); got != threeMarked+"more\ntop\nb\n" {
				t.Fatalf("step %d, refused: %q", step, got)
			}
			c.write("a.txt", threeMarked)
		}
		m, err := c.merge()
		must(t, err)
		if got := c.read("a.txt") + c.read("b.txt") + c.read("z.txt"); got != threeMarked+"top\nb\nlanded\nz landed\n" || len(m.Changes) != 3 {
			t.Errorf("step %d, merged again: %q, %+v", step, got, m.Changes)
		}
	}
	if nested == 0 {
		t.Error("no kill came between the files")
	}
}

// An undo that was killed is repeated with the edits that came between: all goes back, or nothing and the file is named.
func TestUndoAfterAKillAndAnEdit(t *testing.T) {
	t.Parallel()
	for _, edit := range []string{"top\nb\nlanded\n", "b\nmine\n"} {
		for step, more := 1, true; more; step++ {
			c := threeFiles(t)
			m, err := c.merge()
			must(t, err)
			must(t, c.slots.EndLanding(c.base, c.result))
			undo := func() error {
				_, err := c.slots.UndoMerge(t.Context(), "b", m.Written, []string{"a.txt"}, false)
				return err
			}
			more = c.killed(step, undo)
			if c.read("b.txt") != "b\nlanded\n" {
				continue
			}
			c.write("a.txt", c.read("a.txt")+"more\n")
			c.write("b.txt", edit)
			err = undo()
			got := c.read("a.txt") + c.read("b.txt") + c.read("z.txt")
			switch undone := "1\n2\nmine\n4\n5\n6\n7\n8\nmore\ntop\nb\n(none)"; {
			case edit != "b\nmine\n":
				if err != nil || got != undone {
					t.Errorf("step %d: %v, %q", step, err, got)
				}
			case !errors.Is(err, workspace.ErrConflict) || !strings.Contains(err.Error(), "b.txt") || !strings.HasSuffix(got, "more\nb\nmine\nz landed\n"):
				t.Errorf("step %d, edited where results landed: %v, %q", step, err, got)
			}
		}
	}
}

// A landing with conflicts that was killed before its record is not forgotten for other results, which would nest markers.
func TestMergeThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	c := threeFiles(t)
	_, err := c.merge()
	must(t, err)
	s, in := c.prepare(2, "other", 1, c.base)
	in.write("other.txt", "o\n")
	other, _, err := s.Capture(t.Context(), "")
	must(t, err)
	if _, err = c.slots.LandFiles(t.Context(), c.base, other, false); err == nil || !strings.Contains(err.Error(), "`manager land --files --merge b`") {
		t.Errorf("another lands: %v", err)
	}
	must(t, c.slots.PutBack(t.Context(), c.base, other)) // a branch of the other
	_, err = c.merge()
	must(t, err)
	if got := c.read("a.txt") + c.read("other.txt"); got != threeMarked+"(none)" {
		t.Errorf("merged again: %q", got)
	}
	must(t, c.slots.EndLanding(c.base, c.result))
	_, err = c.slots.LandFiles(t.Context(), c.base, other, false)
	must(t, err)
}

// An undo is refused, and writes nothing, where the user has put something else in place of a marked file, or where git
// ignores by now what landed.
func TestUndoRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mine  func(c clash)
		named string
	}{
		"a link":      {func(c clash) { c.remove("a.txt"); must(t, os.Symlink("b.txt", c.path("a.txt"))) }, "a.txt"},
		"a directory": {func(c clash) { c.remove("a.txt"); c.write("a.txt/x", "precious\n") }, "a.txt"},
		"ignored":     {func(c clash) { c.write(".gitignore", "*.log\nz.txt\n") }, "z.txt"},
	} {
		c := threeFiles(t)
		m, err := c.merge()
		must(t, err)
		must(t, c.slots.EndLanding(c.base, c.result))
		test.mine(c)
		before := c.files()
		_, err = c.slots.UndoMerge(t.Context(), "b", m.Written, []string{"a.txt"}, false)
		if !errors.Is(err, workspace.ErrConflict) || !strings.HasSuffix(err.Error(), ": "+test.named+"; nothing was written") {
			t.Errorf("%s: %v", name, err)
		}
		if diff := gocmp.Diff(before, c.files()); diff != "" {
			t.Errorf("%s (-before +now):\n%s", name, diff)
		}
	}
}
