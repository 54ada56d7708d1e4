package workspace_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/workspace"
)

var everyStep = flag.Bool("every-step", false, "interrupt landing before each change of a file, not before a few")

func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// files returns what is in the project: contents, links and modes.
func (r repo) files() map[string]string {
	r.Helper()
	all := map[string]string{}
	must(r, filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.dir, path)
		if err != nil || rel == ".git" || rel == ".manager" {
			return cmp.Or(err, fs.SkipDir)
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			all[rel] = "directory"
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			all[rel] = "-> " + target
		default:
			data, err := os.ReadFile(path)
			all[rel] = fmt.Sprintf("%v %s", info.Mode()&0o100 != 0, data)
			return err
		}
		return nil
	}))
	return all
}

// shapes are what results do to the files d/one, d/two, f, run.sh and link.
func shapes() map[string]func(in repo) {
	return map[string]func(in repo){
		"changed":           func(in repo) { in.write("f", "2\n"); in.write("d/one", "2\n"); in.write("new/deep/x", "x") },
		"directory to file": func(in repo) { in.remove("d"); in.write("d", "file\n") },
		"directory to link": func(in repo) { in.remove("d"); must(in, os.Symlink("f", in.path("d"))) },
		"file to directory": func(in repo) { in.remove("f"); in.write("f/x", "1"); in.write("f/y/z", "2") },
		"file to link":      func(in repo) { in.remove("f"); must(in, os.Symlink("d/one", in.path("f"))) },
		"link to file":      func(in repo) { in.remove("link"); in.write("link", "file\n") },
		"link to directory": func(in repo) { in.remove("link"); in.write("link/x", "x\n") },
		"link on the way":   func(in repo) { in.remove("way"); in.write("way/one", "x\n"); in.write("way/three", "x\n") },
		"modes":             func(in repo) { must(in, os.Chmod(in.path("f"), 0o755)); must(in, os.Chmod(in.path("run.sh"), 0o644)) },
		"moved": func(in repo) {
			in.git("mv", "d/one", "moved")
			in.git("mv", "f", "d/f")
			in.write("d/f", "1\nand more\n")
		},
		"swapped":  func(in repo) { in.git("mv", "d", "e"); in.git("mv", "f", "d") },
		"all gone": func(in repo) { in.remove("d"); in.remove("f"); in.remove("run.sh"); in.remove("link") },
	}
}

// landing makes a project and a result of a shape.
func landing(t *testing.T, work func(in repo)) (l line, result string) {
	l = newLine(t, "d/one", "1\n", "d/two", "2\n", "f", "1\n", "run.sh", "#!/bin/sh\n")
	must(t, os.Chmod(l.path("run.sh"), 0o755))
	must(t, os.Symlink("f", l.path("link")))
	must(t, os.Symlink("d", l.path("way")))
	l.commit()
	l.write("mine", "not committed")
	base, err := l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	l.base = base
	s, in := l.prepare(1, "x", 1, l.base)
	work(in)
	result, _, err = s.Capture(t.Context(), "")
	must(t, err)
	return l, result
}

// TestLandingIsAllOrNothing kills a landing before changes of files, and lets changes fail. After a kill landing again
// completes it; a failure is undone.
func TestLandingIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for name, work := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, result := landing(t, work)
			before, saved, steps := l.files(), t.TempDir(), 0
			for name := range before {
				if !strings.Contains(name, "/") && name != "." {
					must(t, exec.Command("cp", "-a", l.path(name), saved).Run())
				}
			}
			l.slots.OnStep(func() error { steps++; return nil })
			_, err := l.slots.LandFiles(t.Context(), l.base, result, false)
			must(t, err)
			must(t, l.slots.EndLanding(l.base, result))
			after := l.files()
			if steps == 0 || gocmp.Equal(before, after) {
				t.Fatal("nothing was landed")
			}
			for kill := range steps {
				if kill != steps/2 && !*everyStep {
					continue
				}
				for _, failure := range []error{syscall.EACCES, workspace.ErrKilled} {
					l.restore(saved)
					n := 0
					l.slots.OnStep(func() error {
						if n++; n == kill+1 {
							return failure
						}
						return nil
					})
					if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); !errors.Is(err, failure) {
						t.Fatalf("step %d: %v", kill, err)
					} else if diff := gocmp.Diff(before, l.files()); errors.Is(failure, syscall.EACCES) && (diff != "" || !strings.Contains(err.Error(), "nothing was written")) {
						t.Fatalf("step %d failed, %v (-before +now):\n%s", kill, err, diff)
					}
				}
				l.slots.OnStep(nil)
				if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); err != nil {
					t.Fatalf("killed at step %d, landed again: %v", kill, err)
				}
				if diff := gocmp.Diff(after, l.files()); diff != "" {
					t.Fatalf("killed at step %d, landed again (-landed +now):\n%s", kill, diff)
				}
				must(t, l.slots.EndLanding(l.base, result))
			}
			for _, dir := range append(l.slots.Dirs(), filepath.Join(l.dir, ".manager")) {
				if left, err := filepath.Glob(filepath.Join(dir, "land*")); err != nil || len(left) > 0 {
					t.Errorf("left: %q, %v", left, err)
				}
			}
		})
	}
}

// restore makes the files those of a saved directory.
func (r repo) restore(saved string) {
	r.Helper()
	all, err := os.ReadDir(r.dir)
	must(r, err)
	for _, d := range all {
		if d.Name() != ".git" && d.Name() != ".manager" {
			must(r, os.RemoveAll(r.path(d.Name())))
		}
	}
	must(r, os.CopyFS(r.dir, os.DirFS(saved)))
}

// What the user did to a file after a kill is merged with, not overwritten.
func TestLandingAfterAKillAndAnEdit(t *testing.T) {
	t.Parallel()
	l, result := landing(t, func(in repo) { in.write("d/one", "1\n2\n3\n4\nfive\n"); in.write("f", "landed\n"); in.remove("d/two") })
	n := 0
	l.slots.OnStep(func() error {
		if n++; n == 4 {
			return workspace.ErrKilled
		}
		return nil
	})
	if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); !errors.Is(err, workspace.ErrKilled) {
		t.Fatal(err)
	}
	l.slots.OnStep(nil)
	l.write("d/one", "mine\n1\n2\n3\n4\nfive\n")
	_, err := l.slots.LandFiles(t.Context(), l.base, result, false)
	must(t, err)
	if got := l.read("d/one") + l.read("f") + l.read("d/two"); got != "mine\n1\n2\n3\n4\nfive\nlanded\n(none)" {
		t.Errorf("landed is %q", got)
	}
}

// A landing that was killed is no part of the next one of other results: what it wrote is put back. What results bring
// along does not hide what was written: ignore rules, attributes, large files.
func TestLandingAfterAKillOfAnother(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(in repo){
		"changed": func(in repo) { in.write("f", "2\n"); in.write("new", "x"); in.remove("d") },
		"its own rules": func(in repo) {
			in.write(".gitignore", "out\n")
			in.write("out", "x")
			in.git("add", "-f", "out")
			in.write("zz", "z")
		},
		"its own attributes": func(in repo) {
			in.write(".gitattributes", "*.txt text eol=crlf\n")
			in.write("a.txt", "1\r\n2\r\n")
			in.write("zz", "z")
		},
		"a large file": func(in repo) { in.write("large", strings.Repeat("x", 65<<20)); in.write("zz", "z") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a large file" && !*everyStep {
				t.Skip("takes seconds: only with -every-step")
			}
			l, result := landing(t, work)
			before := l.files()
			for failed, failure := range map[bool]error{true: syscall.EACCES, false: workspace.ErrKilled} {
				n := 0
				l.slots.OnStep(func() error {
					if n++; n == 4 {
						return failure
					}
					return nil
				})
				if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); !errors.Is(err, failure) {
					t.Fatal(err)
				}
				l.slots.OnStep(nil)
				if !failed {
					must(t, l.slots.PutBack(t.Context(), "", ""))
				}
				now := l.files()
				if diff := gocmp.Diff(before, now); diff != "" {
					t.Errorf("put back after %v (-before +now):\n%.1000s", failure, diff)
				}
			}
			if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); err != nil {
				t.Errorf("landed in the end: %v", err)
			}
		})
	}
}

// Ignored files of the user are never removed or overwritten, whatever is in their place.
func TestLandingSparesIgnoredFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mine func(r repo)
		work func(in repo)
		says string
	}{
		"in a directory that becomes a file": {func(r repo) { r.write("d/ignored", "mine") }, func(in repo) { in.remove("d"); in.write("d", "x") }, "d/ignored"},
		"in place of a new file":             {func(r repo) { r.write("ignored", "mine") }, func(in repo) { in.write("ignored", "x"); in.git("add", "-f", "ignored"); in.write(".gitignore", "") }, "ignored"},
		"in place of a new directory":        {func(r repo) { r.write("ignored", "mine") }, func(in repo) { in.write("ignored/x", "x"); in.write(".gitignore", "") }, "ignored"},
		"a pipe in place of a new file":      {func(r repo) { must(r, syscall.Mkfifo(r.path("pipe"), 0o600)) }, func(in repo) { in.write("pipe", "x") }, "pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, ".gitignore", "ignored\n", "d/one", "1\n")
			s, in := l.prepare(1, "x", 1, l.base)
			test.work(in)
			result, _, err := s.Capture(t.Context(), "")
			must(t, err)
			test.mine(l.repo)
			_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
			if !errors.Is(err, workspace.ErrConflict) || !strings.HasSuffix(err.Error(), ": "+test.says+"; nothing was written") {
				t.Errorf("got %v", err)
			}
			if l.read("d/one") != "1\n" {
				t.Error("a file was written")
			}
		})
	}
}

// What the user writes into a file while a landing is at work is not lost: all is landed but for it, or nothing is.
func TestLandingSparesAnEditMeanwhile(t *testing.T) {
	t.Parallel()
	l, result := landing(t, func(in repo) {
		in.write("a", "new")
		in.write("f", "landed\n")
		in.remove("run.sh")
		in.write("z/z", "new")
	})
	before, saved := l.files(), t.TempDir()
	must(t, exec.Command("cp", "-a", l.path("d"), l.path("f"), l.path("run.sh"), l.path("link"), l.path("way"), l.path("mine"), saved).Run())
	refused := 0
	for edited, mine := range map[string]string{"f": "mine\n", "a": "mine", "run.sh": "mine", "z/z": "mine"} {
		if (edited == "a" || edited == "z/z") && !*everyStep {
			continue
		}
		for step, more := 1, true; more; step++ {
			l.restore(saved)
			n := 0
			l.slots.OnStep(func() error {
				if n++; n == step {
					l.write(edited, mine)
				}
				return nil
			})
			_, err := l.slots.LandFiles(t.Context(), l.base, result, false)
			if err == nil {
				must(t, l.slots.EndLanding(l.base, result))
			}
			if more = n >= step; !more {
				break
			}
			want := map[string]string{"f": "landed\n", "a": "new", "run.sh": "(none)", "z/z": "new"}
			if err != nil {
				refused++
				want = map[string]string{"f": "1\n", "a": "(none)", "run.sh": "#!/bin/sh\n", "z/z": "(none)"}
				if !strings.Contains(err.Error(), edited+" was changed meanwhile: land once more; nothing was written") {
					t.Errorf("%s edited at step %d: %v", edited, step, err)
				}
			}
			want[edited] = mine
			for name, content := range want {
				if got := l.read(name); got != content {
					t.Errorf("%s edited at step %d, %v: %s is %q, want %q", edited, step, err, name, got, content)
				}
			}
		}
	}
	if refused < 2 {
		t.Errorf("%d edits were in time", refused)
	}
	l.restore(saved)
	if diff := gocmp.Diff(before, l.files()); diff != "" {
		t.Errorf("restored (-before +now):\n%s", diff)
	}
}

// A file that the user has made meanwhile in a directory that the results move stays where it is.
func TestLandingMovesNoFileOfTheUser(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"conflict", "true"} { // git's default is the first
		l, result := landing(t, func(in repo) { in.git("mv", "d", "e") })
		l.git("config", "merge.directoryRenames", setting)
		l.write("d/mine", "mine")
		if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); err != nil {
			t.Errorf("%s: %v", setting, err)
		}
		if mine, moved := l.read("d/mine"), l.read("e/one"); mine != "mine" || moved != "1\n" || l.read("e/mine") != "(none)" {
			t.Errorf("%s: d/mine is %q, e/one %q", setting, mine, moved)
		}
	}
}

// An interrupted landing is completed with the same care as a new one, and it is said what it had written. It can still
// be put back then, but for what the user has edited.
func TestLandingAfterAKillAndAnObstacle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mine, says string
	}{
		"an ignored file": {"ignored", "conflicts with ignored files of yours: ignored; "},
		"an edit":         {"z", "conflicts with your files: z; files of an earlier, interrupted landing are written, and nothing else was written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, ".gitignore", "ignored\n", "a", "1\n", "z", "1\n")
			s, in := l.prepare(1, "x", 1, l.base)
			in.write("ignored/x", "x")
			in.write(".gitignore", "")
			in.write("a", "2\n")
			in.write("z", "2\n")
			result, _, err := s.Capture(t.Context(), "")
			must(t, err)
			before := l.files()
			n := 0
			l.slots.OnStep(func() error {
				if n++; n == 5 {
					return workspace.ErrKilled
				}
				return nil
			})
			if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); !errors.Is(err, workspace.ErrKilled) {
				t.Fatal(err)
			}
			l.slots.OnStep(nil)
			l.write(test.mine, "mine\n")
			for range 2 {
				_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
				if !errors.Is(err, workspace.ErrConflict) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v", err)
				}
			}
			must(t, l.slots.PutBack(t.Context(), l.base, result))
			before[test.mine] = "false mine\n"
			if diff := gocmp.Diff(before, l.files()); diff != "" {
				t.Errorf("put back (-before +now):\n%s", diff)
			}
		})
	}
}

// Between the last file and the record that results have landed, a crash loses nothing: a repeat finds that all is
// there, and other results land on top. Only what the user does with the same results puts them back.
func TestLandingThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	l, result := landing(t, func(in repo) { in.write("f", "landed\n") })
	s, in := l.prepare(2, "y", 1, l.base)
	in.write("d/one", "other\n")
	other, _, err := s.Capture(t.Context(), "")
	must(t, err)
	check := func(did string, want ...string) {
		t.Helper()
		if got := []string{l.read("f"), l.read("d/one")}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", did, got, want)
		}
	}
	_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
	must(t, err)
	l.write("f", "landed\nand edited\n")
	_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
	check(fmt.Sprint("landed again with an edit: ", err), "landed\nand edited\n", "1\n")
	l.write("f", "landed\n")
	_, err = l.slots.LandFiles(t.Context(), l.base, other, false)
	must(t, err)
	check("another landed", "landed\n", "other\n")
	must(t, l.slots.PutBack(t.Context(), l.base, other))
	check("the other put back", "landed\n", "1\n")
}

// Where the file system takes names in upper and lower case for one, results with both are refused with both names.
func TestLandingWithoutCase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work func(in repo)
		says string
	}{
		"two new files":       {func(in repo) { in.write("new/x.txt", ""); in.write("new/X.txt", "") }, "new/X.txt and new/x.txt"},
		"two new directories": {func(in repo) { in.write("new/a", ""); in.write("NEW/b", "") }, "NEW and new"},
		"an ignored file":     {func(in repo) { in.write("Mine.log", ""); in.write(".gitignore", "") }, "mine.log and Mine.log"},
		"a directory":         {func(in repo) { in.write("D/new", "") }, "d and D"},
		"a file that goes":    {func(in repo) { in.git("mv", "readme", "README") }, "readme and README"},
		"all else":            {func(in repo) { in.write("d/one", "x"); in.write("d/three", ""); in.remove("readme") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, ".gitignore", "*.log\n", "d/one", "1\n", "readme", "1\n")
			l.write("mine.log", "mine")
			s, in := l.prepare(1, "x", 1, l.base)
			test.work(in)
			result, _, err := s.Capture(t.Context(), "")
			must(t, err)
			before := l.files()
			l.slots.IgnoreCase()
			_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
			if test.says == "" {
				must(t, err)
				return
			}
			if !errors.Is(err, workspace.ErrConflict) || !strings.HasSuffix(err.Error(), ": "+test.says+"; nothing was written") {
				t.Errorf("got %v", err)
			}
			if diff := gocmp.Diff(before, l.files()); diff != "" {
				t.Errorf("refused (-before +now):\n%s", diff)
			}
		})
	}
}

// Landing writes to other file systems below the project, and tells a read-only one before it writes anything. What a kill
// leaves beside a file goes.
func TestLandingOnOtherFileSystems(t *testing.T) {
	t.Parallel()
	l := newLine(t, "data/x.txt", "x\n", "a", "a\n")
	s, in := l.prepare(1, "x", 1, l.base)
	in.git("mv", "data/x.txt", "y.txt")
	long := "data/" + strings.Repeat("n", 255)
	in.write(long, "z\n")
	in.write("a", "b\n")
	must(t, os.Symlink("x.txt", in.path("data/link")))
	result, _, err := s.Capture(t.Context(), "")
	must(t, err)
	mount := func(source, flags string) {
		if out, err := command("mount", "-t", "tmpfs", "-o", flags, source, l.path("data")); err != nil {
			t.Skipf("needs the right to mount: %v: %s", err, out)
		}
	}
	mount("landing", "size=1m")
	t.Cleanup(func() { _, _ = command("umount", l.path("data")) })
	l.write("data/x.txt", "x\n")
	before := l.files()
	_, err = command("mount", "-o", "remount,ro", l.path("data"))
	must(t, err)
	if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); err == nil || !strings.Contains(err.Error(), "files of data cannot be changed: read-only file system; nothing was written") {
		t.Errorf("read-only: %v", err)
	}
	if diff := gocmp.Diff(before, l.files()); diff != "" {
		t.Errorf("read-only (-before +now):\n%s", diff)
	}
	_, err = command("mount", "-o", "remount,rw", l.path("data"))
	must(t, err)
	want := map[string]string{".": "directory", "a": "false b\n", "data": "directory", "data/link": "-> x.txt", long: "false z\n", "y.txt": "false x\n"}
	left, each := 0, 3
	if *everyStep {
		each = 1
	}
	for kill, killed := each, true; killed; kill += each {
		n := 0
		l.slots.OnStep(func() error {
			if n++; n == kill {
				return workspace.ErrKilled
			}
			return nil
		})
		_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
		l.slots.OnStep(nil)
		if killed = errors.Is(err, workspace.ErrKilled); killed {
			beside, globErr := filepath.Glob(l.path("data/.manager-*"))
			must(t, globErr)
			left += len(beside)
			if len(beside) > 0 {
				must(t, l.slots.PutBack(t.Context(), l.base, result))
				if diff := gocmp.Diff(before, l.files()); diff != "" {
					t.Errorf("killed at step %d, put back (-before +now):\n%s", kill, diff)
				}
				continue
			}
			_, err = command("mount", "-o", "remount,ro", l.path("data"))
			must(t, err)
			if _, err := l.slots.LandFiles(t.Context(), l.base, result, false); err == nil || !strings.Contains(err.Error(), "files of data cannot be changed") {
				t.Errorf("killed at step %d, then read-only: %v", kill, err)
			}
			_, err = command("mount", "-o", "remount,rw", l.path("data"))
			must(t, err)
			_, err = l.slots.LandFiles(t.Context(), l.base, result, false)
		}
		must(t, err)
		if diff := gocmp.Diff(want, l.files()); diff != "" {
			t.Errorf("killed at step %d, landed again (-want +got):\n%s", kill, diff)
		}
		must(t, l.slots.PutBack(t.Context(), l.base, result))
		if diff := gocmp.Diff(before, l.files()); diff != "" {
			t.Errorf("killed at step %d, put back (-before +now):\n%s", kill, diff)
		}
	}
	if left == 0 {
		t.Error("no kill left a file beside another")
	}
}
