package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// A slot that a boulder does not use is as warm for the next one as it was before.
func TestSlotThatIsNotUsedStaysWarm(t *testing.T) {
	t.Parallel()
	l, ran := newPool(t, "a.txt", "a\n")
	l.prepareOf("b1", 1, "x", l.base)
	was := l.prepareOf("b1", 2, "y", l.base)
	files := was.writtenAt("a.txt") + was.writtenAt("deps/2")
	l.free("b1")
	l.prepareOf("b2", 1, "x", l.base)
	l.free("b2")
	if in := l.prepareOf("b3", 2, "x", l.base); in.dir != was.dir || *ran != 2 || in.writtenAt("a.txt")+in.writtenAt("deps/2") != files {
		t.Errorf("set-up ran %d times for the slots in %s and %s", *ran, was.dir, in.dir)
	}
}

// Set-up runs for each boulder if it did more than to make what is kept, or if that is not known.
func TestSetUpThatDoesMore(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(in repo){
		"nothing":                       func(in repo) { in.remove("deps") },
		"a change of a tracked file":    func(in repo) { in.write("a.txt", "by set-up\n") },
		"a file that is not ignored":    func(in repo) { in.write("generated.txt", "by set-up\n") },
		"an ignored file beside others": func(in repo) { in.write("build/out", "by set-up\n") },
	} {
		l, ran := newPool(t, "a.txt", "a\n")
		usual := l.slots.SetUp.Run
		l.slots.SetUp.Run = func(ctx context.Context, dir string, env []string, line string) boulder.Gate {
			defer does(repo{t, dir})
			return usual(ctx, dir, env, line)
		}
		l.prepareOf("b1", 1, "x", l.base)
		l.free("b1")
		if l.prepareOf("b2", 1, "x", l.base); *ran != 2 {
			t.Errorf("%s: set-up ran %d times", name, *ran)
		}
	}
}

// What set-up wrote into a directory that was kept before it was configured is its own, too: without it, it runs.
func TestSetUpWritesIntoWhatWasKept(t *testing.T) {
	t.Parallel()
	l, ran := newPool(t)
	var commands []string
	commands, l.slots.SetUp.Commands = l.slots.SetUp.Commands, nil
	l.prepareOf("b1", 1, "x", l.base).write("deps/mine", "by an agent\n")
	l.free("b1")
	l.slots.SetUp.Commands = commands
	l.prepareOf("b2", 1, "x", l.base).remove("deps")
	l.free("b2")
	if in := l.prepareOf("b3", 1, "x", l.base); *ran != 2 || in.read("deps/all") == "(none)" {
		t.Errorf("set-up ran %d times; deps/all is %q", *ran, in.read("deps/all"))
	}
}

// An agent may put a link in the place of a directory that is kept, to one outside or in another slot. It is not taken for what
// set-up or a copy brought, and nothing is written or removed through it.
func TestLinkInPlaceOfWhatIsKept(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"outside", "another slot"} {
		for _, given := range []bool{true, false} { // planted in the pool, or before it is given back
			l, ran := newPool(t)
			l.write(".gitignore", ".env\ndeps\nbuild/\n") // also links of these names
			l.write("deps/local", "of the project\n")
			l.slots.SetUp.Copy = []string{".env", "deps/local"}
			var err error
			l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
			must(t, err)
			in := l.prepareOf("b1", 1, "x", l.base)
			other := l.prepareOf("b1", 2, "y", l.base)
			precious := repo{t, t.TempDir()}
			for _, file := range []string{"all", "local", "1", "2"} {
				precious.write(file, "precious")
			}
			if given {
				l.free("b1")
			}
			in.remove("deps")
			must(t, os.Symlink(map[string]string{"outside": precious.dir, "another slot": "../2/deps"}[to], in.path("deps")))
			if !given {
				l.free("b1")
			}
			l.prepareOf("b2", 2, "y", l.base)
			l.prepareOf("b2", 1, "x", l.base)
			if info, err := os.Lstat(in.path("deps")); err != nil || !info.IsDir() || *ran != 3 || in.read("deps/local") != "of the project\n" {
				t.Errorf("%s, %t: deps is %v; set-up ran %d times", to, given, info, *ran)
			}
			if other.read("deps/2") == "(none)" || other.read("deps/local") != "of the project\n" || len(files(t, precious.dir)) != 4 {
				t.Errorf("%s, %t: the link was followed: %v, %v", to, given, files(t, other.dir), files(t, precious.dir))
			}
		}
	}
}

// Without a pool, what was kept before goes, too.
func TestPoolThatIsSwitchedOff(t *testing.T) {
	t.Parallel()
	l, _ := newPool(t)
	for _, id := range []string{"b1", "b2"} {
		l.prepareOf(id, 1, "x", l.base)
	}
	l.free("b1")
	l.free("b2")
	l.slots.Pool = 0
	l.prepareOf("b3", 1, "x", l.base)
	l.free("b3")
	if got := l.slots.Dirs(); len(got) > 0 {
		t.Errorf("without a pool there is %v", l.slots.Pooled())
	}
}

// What agents plant beside slots stops no boulder, nor that its results land.
func TestPlantedBesideSlots(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(dir string) error{
		"a pipe as the leases":    func(dir string) error { return pipe(filepath.Join(dir, "pool.json")) },
		"a pipe as the owner":     func(dir string) error { return pipe(filepath.Join(dir, "project.json")) },
		"a pipe as a marker":      func(dir string) error { return pipe(filepath.Join(dir, "1", "1.json")) },
		"a directory as a marker": func(dir string) error { return os.Mkdir(filepath.Join(dir, "1", "2.json"), 0o700) },
		"another's file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "1", "package.json"), []byte("{}"), 0o600)
		},
	} {
		for _, given := range []bool{true, false} {
			l, _ := newPool(t, "a.txt", "a\n")
			l.prepareOf("b1", 1, "x", l.base)
			if given {
				l.free("b1")
			}
			must(t, plant(l.slots.Dirs()[0]))
			ended := make(chan bool)
			go func() {
				defer close(ended)
				if !given {
					l.free("b1")
				}
				if got := l.prepareOf("b2", 1, "x", l.base).read("a.txt"); got != "a\n" {
					t.Errorf("%s, %t: a.txt is %q", name, given, got)
				}
				l.free("b2")
			}()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatalf("%s, %t: it waits", name, given)
			}
		}
	}
}

func pipe(name string) error {
	_ = os.Remove(name)
	return syscall.Mkfifo(name, 0o600)
}
