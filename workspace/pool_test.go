package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// prepareOf is prepare for a boulder of that id.
func (l line) prepareOf(id string, slot int, subTask, from string) repo {
	l.Helper()
	c := l.claim(slot, subTask, 1, from)
	c.BoulderID = id
	s, err := l.slots.Prepare(l.Context(), c)
	must(l, err)
	return repo{l.TB, s.Dir()}
}

func (l line) free(id string) {
	l.Helper()
	must(l, l.slots.Free(l.Context(), id, l.base, true, func(string) bool { return true }))
}

// newPool is newLine with a pool and a set-up. Each run of its command is counted.
func newPool(t *testing.T, files ...string) (l line, ran *int) {
	t.Helper()
	l, ran = newLine(t, append(files, ".gitignore", ".env\ndeps/\nbuild/\n", "lock", "1\n")...), new(int)
	l.write(".env", "PORT=1\n")
	l.slots.Pool = 2
	l.slots.SetUp = &workspace.SetUp{
		Copy: []string{".env"}, Commands: []string{"make deps"}, When: []string{"lock"}, Keep: []string{"deps"},
		Run: func(_ context.Context, dir string, _ []string, line string) boulder.Gate {
			*ran++
			repo{t, dir}.write(fmt.Sprintf("deps/%d", *ran), repo{t, dir}.read("lock"))
			repo{t, dir}.write("deps/all", line)
			return boulder.Gate{Command: line}
		},
	}
	return l, ran
}

// writtenAt identifies the version of a file on disk.
func (r repo) writtenAt(name string) string {
	r.Helper()
	info, err := os.Lstat(r.path(name))
	must(r, err)
	return fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino, info.ModTime().UnixNano())
}

// The next boulder finds the slots of the one before: only what differs is written, no set-up runs, and of the ignored files
// only those stay that are to be kept.
func TestSlotsStayWarm(t *testing.T) {
	t.Parallel()
	l, ran := newPool(t, "same.txt", "same\n", "changed.txt", "1\n", "landed.txt", "1\n")
	slots := []int{1, 0}
	work := func(id string) (in []repo) {
		for _, n := range slots {
			in = append(in, l.prepareOf(id, n, map[int]string{1: "x"}[n], l.base))
		}
		return in
	}
	first := work("b1")
	was := map[string]string{}
	for i, in := range first {
		was[fmt.Sprint(i)] = in.writtenAt("same.txt") + in.writtenAt("deps/"+fmt.Sprint(i+1))
		in.write("changed.txt", "by b1\n")
		in.write("new.txt", "by b1\n")
		in.write("build/out", "by b1\n")
		in.write(".env", "PORT=2\n")
	}
	l.free("b1")
	for _, in := range first {
		if got := in.read(".env") + in.read("build/out"); got != "(none)(none)" {
			t.Errorf("in the pool are %q", got)
		}
	}
	l.write("landed.txt", "2\n")
	l.write(".env", "PORT=3\n")
	var err error
	l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	for i, in := range work("b2") {
		if in.dir != first[i].dir {
			t.Fatalf("it works in %s, and there is %s", in.dir, first[i].dir)
		}
		if got := in.writtenAt("same.txt") + in.writtenAt("deps/"+fmt.Sprint(i+1)); got != was[fmt.Sprint(i)] {
			t.Errorf("slot %d: a file that is the same was written again", slots[i])
		}
		got := in.read("changed.txt") + in.read("landed.txt") + in.read("new.txt") + in.read("build/out") + in.read(".env") + in.git("status", "--porcelain")
		if want := "1\n2\n(none)(none)PORT=3\n"; got != want || in.git("rev-parse", "HEAD") != l.base+"\n" {
			t.Errorf("slot %d has %q, not %q", slots[i], got, want)
		}
	}
	if *ran != len(slots) {
		t.Errorf("set-up ran %d times for %d slots", *ran, len(slots))
	}
	if got := l.git("for-each-ref", "--format=%(refname)", "refs/manager/b1", "refs/manager/b2/x"); got != "" {
		t.Errorf("work of b1 was captured as another's, or again: %s", got)
	}
}

// Set-up runs again, without what it made before, if it is not known that it would make the same.
func TestSetUpOfAWarmSlot(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l line, in repo){
		"kept in part":       func(line, repo) {},
		"another lock":       func(l line, _ repo) { l.write("lock", "2\n") },
		"not kept":           func(l line, _ repo) { l.slots.SetUp.Keep = nil },
		"gone":               func(_ line, in repo) { in.remove("deps") },
		"no inputs named":    func(l line, _ repo) { l.slots.SetUp.When = nil },
		"none of them there": func(l line, _ repo) { l.slots.SetUp.When = []string{"lockfile"} },
		"another variable":   func(l line, _ repo) { l.slots.SetUp.Env = []string{"NODE_ENV=production"} },
		"another command":    func(l line, _ repo) { l.slots.SetUp.Commands = []string{"make all deps"} },
		"another one's copy": func(l line, _ repo) { l.slots.SetUp.Copy = nil },
	} {
		l, ran := newPool(t)
		if name == "kept in part" {
			l.slots.SetUp.Keep = []string{"deps/1"}
		}
		in := l.prepareOf("b1", 1, "x", l.base)
		l.free("b1")
		change(l, in)
		var err error
		l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
		must(t, err)
		if got := l.prepareOf("b2", 1, "x", l.base); got.dir != in.dir || *ran != 2 || got.read("deps/1") != "(none)" || got.read("deps/2") == "(none)" {
			t.Errorf("%s: it ran %d times, and there are %q and %q", name, *ran, got.read("deps/1"), got.read("deps/2"))
		}
	}
}

// Boulders that are at work at the same time never share a directory, also if they begin at once, in several processes.
func TestEachBoulderHasItsDirectory(t *testing.T) {
	t.Parallel()
	l, _ := newPool(t)
	l.prepareOf("b0", 1, "x", l.base)
	l.free("b0")
	home, err := l.slots.Home()
	must(t, err)
	var mu sync.Mutex
	var all sync.WaitGroup
	dirs := map[string]string{}
	for i := range 3 {
		slots := open(t, l.dir, home) // as another process
		slots.Pool = 2
		for n := range 2 {
			all.Go(func() {
				c := l.claim(1+n, "x", 1, l.base)
				c.BoulderID = fmt.Sprint("c", i)
				s, err := slots.Prepare(t.Context(), c)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				at := filepath.Dir(s.Dir())
				if was := dirs[c.BoulderID]; was != "" && was != at {
					t.Errorf("%s works in %s and in %s", c.BoulderID, was, at)
				}
				dirs[c.BoulderID] = at
			})
		}
	}
	all.Wait()
	if len(dirs) != 3 || dirs["c0"] == dirs["c1"] || dirs["c1"] == dirs["c2"] || dirs["c0"] == dirs["c2"] {
		t.Errorf("they work in %v", dirs)
	}
}

// A boulder that has landed touches nothing of the boulder that has its directory now.
func TestADirectoryGoesToTheNextBoulder(t *testing.T) {
	t.Parallel()
	l, _ := newPool(t, "a.txt", "a\n")
	was := l.prepareOf("b1", 1, "x", l.base)
	l.free("b1")
	in := l.prepareOf("b2", 1, "x", l.base)
	in.write("a.txt", "by b2\n")
	in.write("deps/more", "by b2\n")
	l.free("b1") // again, as after a crash
	must(t, l.slots.Release(t.Context(), "b1", l.base))
	must(t, l.slots.Discard("b1"))
	must(t, l.slots.EmptyPool())
	if l.slots.Directory("b1") != "" || l.slots.HoldsKept("b1") || !slices.Equal(l.slots.Directories(), []string{"b2"}) {
		t.Errorf("b1 is in %q, all are %q", l.slots.Directory("b1"), l.slots.Directories())
	}
	if again := l.prepareOf("b1", 1, "x", l.base); in.dir != was.dir || again.dir == in.dir || in.read("a.txt")+in.read("deps/more") != "by b2\nby b2\n" {
		t.Errorf("b2 in %s has %q; b1 works in %s", in.dir, in.read("a.txt"), again.dir)
	}
}

// leases reads and writes the leases of a project.
func (l line) leases(change func(map[string]map[string]any)) {
	l.Helper()
	name := filepath.Join(l.slots.Dirs()[0], "pool.json")
	data, err := os.ReadFile(name)
	must(l, err)
	all := map[string]map[string]any{}
	must(l, json.Unmarshal(data, &all))
	change(all)
	data, err = json.Marshal(all)
	must(l, err)
	must(l, os.WriteFile(name, data, 0o600))
}

// What a kill leaves while a directory is taken or given back, and what an agent does to it, is never used as it is, and goes with
// the next run or gc. Links are not followed.
func TestPoolAfterAKill(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(l line, dir, precious string){
		"before the lease": func(_ line, dir, _ string) {
			must(t, os.RemoveAll(dir))
			must(t, os.Mkdir(filepath.Join(filepath.Dir(dir), "2"), 0o700))
		},
		"while it was written": func(_ line, dir, _ string) {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(dir), ".pool.json-X.tmp"), nil, 0o600))
		},
		"before anything was removed": func(_ line, dir, _ string) {
			for _, name := range []string{"1/build/out", "1/.env", "repository/HEAD", ".gone-1-x/f", "like-project/f", "like-project.index"} {
				repo{t, dir}.write(name, "left")
			}
		},
		"while a slot was removed": func(_ line, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "1.index"))) },
		"no marker":                func(_ line, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "1.json"))) },
		"a half filled slot":       func(_ line, dir, _ string) { repo{t, dir}.write("1.json", "{}"); repo{t, dir}.write("1/a.txt", "half") },
		"without a directory":      func(_ line, dir, _ string) { must(t, os.RemoveAll(dir)) },
		"no leases":                func(_ line, dir, _ string) { repo{t, filepath.Dir(dir)}.write("pool.json", "{") },
		"a lease outside": func(l line, _, precious string) {
			l.leases(func(all map[string]map[string]any) {
				all["../"+filepath.Base(precious)] = map[string]any{"used": time.Now()}
			})
		},
		"a link to a directory": func(_ line, dir, precious string) {
			must(t, os.RemoveAll(dir))
			must(t, os.Symlink(precious, dir))
		},
		"a link to a slot": func(_ line, dir, precious string) {
			must(t, os.RemoveAll(filepath.Join(dir, "1")))
			must(t, os.Symlink(filepath.Join(precious, "1"), filepath.Join(dir, "1")))
		},
		"a link to what is kept": func(_ line, dir, precious string) {
			must(t, os.RemoveAll(filepath.Join(dir, "1", "deps")))
			must(t, os.Symlink(precious, filepath.Join(dir, "1", "deps")))
		},
		"a link to what is not": func(_ line, dir, precious string) {
			must(t, os.Symlink(precious, filepath.Join(dir, "1", "build")))
			must(t, os.Symlink(precious, filepath.Join(dir, "kept")))
		},
		"read-only": func(_ line, dir, _ string) {
			repo{t, dir}.write("1/build/sub/out", "left")
			must(t, os.Chmod(filepath.Join(dir, "1", "build", "sub"), 0o500))
		},
		"a repository": func(_ line, dir, _ string) {
			repo{t, dir}.write("1/sub/f", "left")
			repo{t, filepath.Join(dir, "1", "sub")}.git("init", "-q")
			repo{t, filepath.Join(dir, "1", "build")}.write("f", "left")
			repo{t, filepath.Join(dir, "1", "build")}.git("init", "-q")
		},
	} {
		for _, given := range []bool{true, false} { // harmed in the pool, or before it is given back
			l, _ := newPool(t, "a.txt", "a\n")
			precious := repo{t, t.TempDir()}
			for _, file := range []string{"f", "1/f", "deps/f", "1.json", "1/deps/f"} {
				precious.write(file, "precious")
			}
			before := files(t, precious.dir)
			in := l.prepareOf("b1", 1, "", l.base)
			if given {
				l.free("b1")
			}
			harm(l, filepath.Dir(in.dir), precious.dir)
			if !given {
				l.free("b1")
			}
			next := l.prepareOf("b2", 1, "x", l.base)
			got := next.read("a.txt") + next.read("build/out") + next.read("build/sub/out") + next.read("build/f") + next.read("sub/f") + next.read(".env") +
				next.git("status", "--porcelain")
			if want := "a\n(none)(none)(none)(none)PORT=1\n"; got != want {
				t.Errorf("%s, %t: the next boulder finds %q, and not %q", name, given, got, want)
			}
			if made, err := os.Lstat(next.path("deps")); err != nil || !made.IsDir() {
				t.Errorf("%s, %t: set-up made no deps: %v", name, given, err)
			}
			l.free("b2")
			must(t, l.slots.EmptyPool())
			if left := l.slots.Dirs(); len(left) > 0 && name != "no leases" { // what is nobody's stays, and is named
				t.Errorf("%s, %t: left is %v", name, given, files(t, left[0]))
			}
			if after := files(t, precious.dir); !slices.Equal(before, after) {
				t.Errorf("%s, %t: what a link leads to has only %q", name, given, after)
			}
		}
	}
}

// A slot with files that git cannot store does not go to another boulder.
func TestKeptFilesStayTheirBoulders(t *testing.T) {
	t.Parallel()
	l, _ := newPool(t)
	in := l.prepareOf("b1", 1, "x", l.base)
	must(t, syscall.Mkfifo(in.path("pipe"), 0o600))
	kept := filepath.Join(filepath.Dir(in.dir), "kept-1-x-1-z")
	must(t, os.Mkdir(kept, 0o700))
	l.free("b1")
	if next := l.prepareOf("b2", 1, "x", l.base); filepath.Dir(next.dir) == filepath.Dir(in.dir) || !l.slots.HoldsKept("b1") || l.slots.HoldsKept("b2") {
		t.Errorf("b2 works in %s, where b1 has kept files", next.dir)
	}
	if got := l.slots.KeptAside(); !slices.Contains(got, kept) {
		t.Errorf("kept are %q", got)
	}
	must(t, os.RemoveAll(filepath.Dir(in.dir)))
	l.free("b1")
	l.free("b2")
	must(t, l.slots.EmptyPool())
	if left := l.slots.Dirs(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// No more slots stay than the pool is for, the newest, and none for long.
func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	l, _ := newPool(t)
	for _, n := range []int{0, 1, 2, 3} {
		l.prepareOf("b1", n, map[bool]string{true: "x"}[n > 0], l.base)
	}
	l.prepareOf("b2", 1, "x", l.base)
	in := func() (names []string) {
		for _, p := range l.slots.Pooled() {
			found, err := filepath.Glob(filepath.Join(p.Path, "[0-9]"))
			must(t, err)
			for _, path := range found {
				names = append(names, filepath.Join(filepath.Base(p.Path), filepath.Base(path)))
			}
		}
		return names
	}
	for _, step := range []struct {
		frees string
		want  []string
	}{{"b1", []string{"1/0", "1/1", "1/2"}}, {"b2", []string{"2/1", "1/0", "1/1"}}} {
		l.free(step.frees)
		if diff := gocmp.Diff(step.want, in()); diff != "" {
			t.Errorf("after %s: %s", step.frees, diff)
		}
	}
	l.leases(func(all map[string]map[string]any) { all["2"]["used"] = time.Now().Add(-15 * 24 * time.Hour) })
	l.prepareOf("b3", 1, "x", l.base)
	l.free("b3")
	if diff := gocmp.Diff([]string{"1/0", "1/1"}, in()); diff != "" {
		t.Errorf("after two weeks: %s", diff)
	}
	l.slots.Pool = 0
	l.prepareOf("b4", 1, "x", l.base)
	l.free("b4")
	if got := l.slots.Dirs(); len(got) > 0 {
		t.Errorf("without a pool there is %v", in())
	}
}

// A project that was moved has its pool, and a copy of it has none.
func TestPoolOfAProjectThatWasMoved(t *testing.T) {
	t.Parallel()
	l, ran := newPool(t, "a.txt", "a\n")
	was := l.prepareOf("b1", 1, "x", l.base)
	l.free("b1")
	home, err := l.slots.Home()
	must(t, err)
	for _, place := range []string{"copy", "moved"} {
		dir := filepath.Join(t.TempDir(), place)
		if place == "copy" {
			must(t, os.CopyFS(dir, os.DirFS(l.dir)))
		} else {
			must(t, os.Rename(l.dir, dir))
		}
		there := line{repo: repo{t, dir}, slots: open(t, dir, home), base: l.base}
		there.slots.SetUp = l.slots.SetUp
		in := there.prepareOf("b2", 1, "x", l.base)
		if (in.dir == was.dir) != (place == "moved") || in.read("a.txt") != "a\n" || in.git("log", "--format=%s") == "" {
			t.Errorf("the project that was %s works in %s, and was in %s", place, in.dir, was.dir)
		}
	}
	if *ran != 2 {
		t.Errorf("set-up ran %d times", *ran)
	}
}
