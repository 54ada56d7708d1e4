package workspace_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// userState hashes what is the user's: all but .manager, objects and refs/manager.
func (r repo) userState() string {
	r.Helper()
	sum := sha256.New()
	must(r, filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.dir, path)
		switch {
		case err != nil:
			return err
		case rel == ".manager", rel == filepath.Join(".git", "objects"), rel == filepath.Join(".git", "refs", "manager"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s\x00%s\x00", rel, data)
		return err
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}

type line struct {
	repo
	slots *workspace.Slots
	base  string
}

func newLine(t *testing.T, files ...string) line {
	t.Helper()
	r := newRepo(t, files...)
	w, err := workspace.Open(t.Context(), r.dir)
	must(t, err)
	l := line{repo: r, slots: w.Slots()}
	home := t.TempDir()
	l.slots.Home = func() (string, error) { return home, nil }
	l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	return l
}

func (l line) claim(slot int, subTask string, attempt int, from string) boulder.SlotClaim {
	return boulder.SlotClaim{BoulderID: "b", Slot: slot, SubTaskID: subTask, Attempt: attempt, Base: l.base, From: from}
}

// prepare prepares a slot, and returns it with a repo to write into it.
func (l line) prepare(slot int, subTask string, attempt int, from string) (*workspace.Slot, repo) {
	l.Helper()
	s, err := l.slots.Prepare(l.Context(), l.claim(slot, subTask, attempt, from))
	must(l, err)
	return s, repo{l.TB, s.Dir()}
}

func (r repo) path(path string) string { return filepath.Join(r.dir, filepath.FromSlash(path)) }

func (r repo) read(path string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	must(r, err)
	return string(data)
}

// A slot begins with the user's files and leaves the project alone. Its work is in a ref before it is used again.
func TestSlotsKeepTheProjectAsItIs(t *testing.T) {
	l := newLine(t, "a.txt", "one\n", "b.txt", "two\n", ".gitignore", "deps/\n")
	l.git("tag", "v1")
	l.git("remote", "add", "origin", "https://example.com/x.git")
	l.write("stashed.txt", "the user's")
	l.git("stash", "-u", "-q")
	l.write("a.txt", "one, not committed\n")
	l.write("new.txt", "untracked\n")
	var err error
	l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	before := l.userState()

	_, in := l.prepare(1, "x", 1, l.base)
	if got := in.read("a.txt") + in.read("new.txt"); got != "one, not committed\nuntracked\n" {
		t.Errorf("the slot begins with %q", got)
	}
	if got := in.git("tag") + in.git("branch", "--list", "main") + in.git("remote", "get-url", "--push", "origin") +
		in.git("stash", "list"); got != "v1\n  main\nslots-do-not-push\n" {
		t.Errorf("tags, branches, where a push goes, stashes: %q", got)
	}
	in.write("x.txt", "by x\n")
	in.write("deps/cache", "warm")
	in.write("s.txt", "s")
	in.git("stash", "-u", "-q")
	in.git("checkout", "-q", "-b", "mine")
	in.write("x.txt", "by x\n")
	in.git("add", "-A")
	in.git("commit", "-q", "-m", "x")
	in.write("a.txt", "two of x\n")

	_, in = l.prepare(1, "y", 1, l.base) // without a Capture before
	if got := in.read("x.txt") + in.read("a.txt") + in.read("deps/cache") + in.git("stash", "list"); got !=
		"(none)one, not committed\nwarm" {
		t.Errorf("the next sub-task finds %q", got)
	}
	if got := l.git("show", "refs/manager/b/x/1:x.txt", "refs/manager/b/x/1:a.txt"); got != "by x\ntwo of x\n" {
		t.Errorf("what was captured is %q", got)
	}
	_, in = l.prepare(2, "x", 2, l.base) // continues in another slot
	if got := in.read("x.txt") + in.read("a.txt"); got != "by x\ntwo of x\n" {
		t.Errorf("the next attempt finds %q", got)
	}
	in.write("more.txt", "m")
	if _, in = l.prepare(2, "x", 2, l.base); in.read("more.txt") != "m" {
		t.Error("what is prepared already does not stay as it is")
	}
	if l.userState() != before {
		t.Error("something of the user's has changed")
	}
	l.git("fsck", "--strict")
}

// A conflict is merged into the slot with markers, and its resolution integrates onto the new tip.
func TestSlotIsRebasedOntoTheTip(t *testing.T) {
	l := newLine(t, "a.txt", "1\n2\n3\n", "b.txt", "b\n")
	s, in := l.prepare(1, "x", 1, l.base)
	in.write("a.txt", "1\nX\n3\n")
	x, _, err := s.Capture(t.Context(), "")
	must(t, err)
	s, in = l.prepare(2, "y", 1, l.base)
	in.write("a.txt", "1\nY\n3\n")
	in.write("b.txt", "B\n")
	y, _, err := s.Capture(t.Context(), "")
	must(t, err)

	tip, _, conflicts, err := l.slots.Integrate(t.Context(), l.base, x, "x", time.Unix(2, 0))
	must(t, err)
	again, _, _, err := l.slots.Integrate(t.Context(), l.base, x, "x", time.Unix(2, 0))
	must(t, err)
	if len(conflicts) > 0 || tip != again {
		t.Fatalf("a fast-forward came to %v, %s and %s", conflicts, tip, again)
	}
	must(t, l.slots.MoveTip(t.Context(), "b", l.base, tip))
	must(t, l.slots.MoveTip(t.Context(), "b", l.base, tip)) // again, as after a crash
	if err := l.slots.MoveTip(t.Context(), "b", l.base, y); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("a ref that is elsewhere: %v", err)
	}
	_, _, conflicts, err = l.slots.Integrate(t.Context(), tip, y, "y", time.Unix(3, 0))
	must(t, err)
	if diff := gocmp.Diff([]string{"a.txt"}, conflicts); diff != "" {
		t.Fatal(diff)
	}

	s, in = l.prepare(2, "y", 1, tip)
	if got := in.read("a.txt"); !strings.Contains(got, "<<<<<<<") || !strings.Contains(got, "X") || in.read("b.txt") != "B\n" {
		t.Errorf("the slot has %q", got)
	}
	_, tree, err := s.Capture(t.Context(), "")
	must(t, err)
	marked, err := l.slots.Marked(t.Context(), tree, []string{"a.txt", "b.txt"})
	must(t, err)
	if diff := gocmp.Diff([]string{"a.txt"}, marked); diff != "" {
		t.Error(diff)
	}
	in.write("a.txt", "1\nX and Y\n3\n")
	y, tree, err = s.Capture(t.Context(), "")
	must(t, err)
	_, combined, conflicts, err := l.slots.Integrate(t.Context(), tip, y, "y", time.Unix(3, 0))
	must(t, err)
	if len(conflicts) > 0 || combined != tree {
		t.Errorf("what was resolved came to %v, %s and not to the tree %s", conflicts, combined, tree)
	}
}

// A slot that a sub-task used before gets its latest attempt's work, even if that was done in another slot.
func TestSlotOfAnOlderAttempt(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.txt", "a\n")
	for attempt, slot := range []int{1, 2, 1} {
		s, in := l.prepare(slot, "x", attempt+1, l.base)
		if got, want := in.read("a.txt"), []string{"a\n", "1\n", "2\n"}[attempt]; got != want {
			t.Errorf("attempt %d begins with %q, and not with %q", attempt+1, got, want)
		}
		in.write("a.txt", fmt.Sprintf("%d\n", attempt+1))
		_, _, err := s.Capture(t.Context(), "")
		must(t, err)
	}
}

// A half-made or half-filled slot is made again. What an agent does to its repository, its index or the slot itself reaches
// neither the project nor the next attempt, and none of its files is lost.
func TestBrokenSlots(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.txt", "a\n", "sub/b.txt", "b\n")
	before := l.userState()
	l.prepare(2, "x", 1, l.base)
	state := l.slots.Directory("b")
	must(t, os.MkdirAll(filepath.Join(state, "1", ".git"), 0o700))
	must(t, os.WriteFile(filepath.Join(state, "1", "a.txt"), []byte("half"), 0o600))
	_, in := l.prepare(1, "x", 1, l.base)
	if got := in.read("a.txt") + in.read("sub/b.txt"); got != "a\nb\n" {
		t.Errorf("the slot has %q", got)
	}
	must(t, os.WriteFile(filepath.Join(state, "1.json"), []byte("{}"), 0o600)) // killed while it was being filled
	in.write("a.txt", "half")
	if _, in = l.prepare(1, "x", 1, l.base); in.read("a.txt") != "a\n" {
		t.Error("a half filled slot was used")
	}
	for name, harm := range map[string]func(in repo){
		"no .git":        func(in repo) { in.remove(".git") },
		"another .git":   func(in repo) { in.remove(".git"); in.git("init", "-q") },
		"init over it":   func(in repo) { in.git("init", "-q") },
		"a link as .git": func(in repo) { in.remove(".git"); must(in, os.Symlink(filepath.Join(l.dir, ".git"), in.path(".git"))) },
		"a file as .git": func(in repo) { in.remove(".git"); in.write(".git", "gitdir: "+filepath.Join(l.dir, ".git")+"\n") },
		"core.worktree":  func(in repo) { in.git("config", "core.worktree", l.dir) },
		"worktree config": func(in repo) {
			in.git("config", "extensions.worktreeConfig", "true")
			in.git("config", "--worktree", "core.worktree", l.dir)
		},
		"bare": func(in repo) { in.git("config", "core.bare", "true") },
		"locks": func(in repo) {
			in.write(".git/index.lock", "")
			in.write(".git/HEAD.lock", "")
			in.write(".git/config.lock", "")
		},
		"hidden changes": func(in repo) {
			in.git("update-index", "--skip-worktree", "a.txt")
			in.git("update-index", "--assume-unchanged", "sub/b.txt")
		},
		"excluded": func(in repo) { in.write(".git/info/exclude", "*\n") },
		"a branch": func(in repo) {
			in.git("checkout", "-q", "--orphan", "other")
			in.git("rm", "-q", "-f", "--cached", "-r", ".")
		},
		"broken objects": func(in repo) {
			in.write(".git/objects/info/alternates", "/nowhere\n")
			in.write(".git/HEAD", "ref: refs/heads/none\n")
		},
	} {
		s, in := l.prepare(1, strings.ReplaceAll(name, " ", "-"), 1, l.base)
		in.write("a.txt", name)
		in.write("sub/b.txt", name)
		in.write("new.txt", name)
		harm(in)
		commit, _, err := s.Capture(t.Context(), "")
		must(t, err)
		if got := l.git("show", commit+":a.txt") + l.git("show", commit+":sub/b.txt") + l.git("show", commit+":new.txt"); got != name+name+name {
			t.Errorf("%s: captured is %q", name, got)
		}
		_, next := l.prepare(1, "next", 1, l.base)
		if got := next.read("a.txt") + next.read("new.txt") + next.git("status", "--porcelain") + next.git("rev-parse", "HEAD"); got != "a\n(none)"+l.base+"\n" {
			t.Errorf("after %s the next attempt has %q", name, got)
		}
		if l.userState() != before {
			t.Fatalf("%s: something of the user's has changed", name)
		}
	}
	slot := filepath.Join(state, "1")
	for name, harm := range map[string]func(){
		"gone": func() {}, "a link to the project": func() { must(t, os.Symlink(l.dir, slot)) },
		"a file": func() { must(t, os.WriteFile(slot, nil, 0o600)) },
	} {
		must(t, os.RemoveAll(slot))
		harm()
		if _, in := l.prepare(1, "again", 1, l.base); in.read("a.txt") != "a\n" || l.userState() != before {
			t.Errorf("the slot was %s", name)
		}
	}
}

// Every file that an agent writes below its slot is captured, also in repositories that it makes there.
func TestRepositoriesInASlot(t *testing.T) {
	t.Parallel()
	l := newLine(t, ".gitignore", "node_modules/\n", "a.txt", "a\n")
	other := newRepo(t, "lib.c", "lib\n", "deep/x", "x\n")
	for name, work := range map[string]func(app repo){
		"without a commit": func(app repo) { app.git("init", "-q") },
		"with a commit":    func(app repo) { app.git("init", "-q"); app.commit() },
		"staged in the slot": func(app repo) {
			app.git("init", "-q")
			app.commit()
			repo{t, filepath.Dir(app.dir)}.git("-c", "advice.addEmbeddedRepo=false", "add", "-A")
		},
		"a clone": func(app repo) { app.git("clone", "-q", other.dir, "vendor"); app.git("init", "-q") },
		"in one another": func(app repo) {
			app.git("init", "-q")
			app.write("in/deep", "deep")
			repo{t, app.path("in")}.git("init", "-q")
		},
		"only in another":               func(app repo) { app.write("in/deep", "deep"); repo{t, app.path("in")}.git("init", "-q") },
		"with a separate git directory": func(app repo) { app.git("init", "-q", "--separate-git-dir", filepath.Join(t.TempDir(), "git")) },
		"with a dangling .git":          func(app repo) { app.write(".git", "gitdir: /nowhere\n") },
		"bare":                          func(app repo) { app.git("init", "-q", "--bare", "store.git") },
		"hostile": func(app repo) {
			app.git("init", "-q")
			app.git("config", "core.worktree", l.dir)
			app.git("config", "core.fsmonitor", "touch "+filepath.Join(l.dir, "touched"))
		},
	} {
		before := l.userState()
		s, in := l.prepare(1, strings.ReplaceAll(name, " ", "-"), 1, l.base)
		in.write("app/main.go", "package main\n")
		in.write("app/node_modules/x", "ignored outside")
		in.write("app/secret", "ignored inside")
		in.write("app/.gitignore", "secret\n")
		work(repo{t, in.path("app")})
		must(t, os.MkdirAll(in.path("nothing"), 0o700))
		repo{t, in.path("nothing")}.git("init", "-q")
		commit, tree, err := s.Capture(t.Context(), "")
		must(t, err)
		var written []string
		must(t, filepath.WalkDir(in.dir, func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(in.dir, path)
			switch {
			case err != nil || d.Name() == ".git" && d.IsDir() || d.Name() == "node_modules":
				return cmp.Or(err, fs.SkipDir)
			case !d.IsDir() && d.Name() != "secret" && d.Name() != ".git":
				written = append(written, rel)
			}
			return nil
		}))
		captured := strings.Fields(l.git("ls-tree", "-r", "--name-only", commit))
		if strings.Contains(l.git("ls-tree", "-r", commit), "160000") {
			t.Errorf("%s: a repository was captured as a commit", name)
		}
		slices.Sort(written)
		slices.Sort(captured)
		if diff := gocmp.Diff(written, captured); diff != "" {
			t.Errorf("%s: (-written +captured)\n%s", name, diff)
		}
		if again, err := s.Snapshot(t.Context()); err != nil || again != tree {
			t.Errorf("%s: captured again is %s, %v, not %s", name, again, err, tree)
		}
		_, next := l.prepare(1, "next", 1, commit)
		if got := next.read("app/main.go") + next.git("status", "--porcelain"); got != "package main\n" {
			t.Errorf("%s: a sub-task after it has %q", name, got)
		}
		if l.userState() != before {
			t.Fatalf("%s: something of the user's has changed", name)
		}
	}
}

// An imported boulder's commits are elsewhere.
func TestSlotFromAMissingCommit(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.txt", "a\n")
	_, err := l.slots.Prepare(t.Context(), l.claim(1, "x", 1, strings.Repeat("1", 40)))
	if !errors.Is(err, boulder.ErrSlots) || !strings.Contains(err.Error(), "continue it where it ran") {
		t.Error(err)
	}
}

func TestNoSlotsWhere(t *testing.T) {
	for reason, make := range map[string]func(repo){
		"it is a sparse checkout": func(r repo) { r.git("sparse-checkout", "set", "x") },
		"it is a partial clone": func(r repo) {
			r.git("config", "remote.a.promisor", "true")
			r.git("config", "remote.b.promisor", "false")
		},
		"it has a repository inside, which copies would lack: vendor/lib (if git ignores it, it does not count)": func(r repo) {
			r.write("vendor/lib/x.c", "broken")
			repo{t, r.path("vendor/lib")}.git("init", "-q")
		},
		"the filter lfs is required for a and does not run (git-lfs-that-is-absent clean: not found): install it, or add it to PATH": func(r repo) {
			r.write(".git/info/attributes", "a filter=lfs\n")
			r.git("config", "filter.lfs.clean", "echo 'git-lfs-that-is-absent clean: not found' >&2; exit 127")
			r.git("config", "filter.lfs.required", "true")
		},
		"it has submodules": func(r repo) {
			r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", newRepo(r, "s", "s").dir, "sub")
		},
		"it is a shallow clone": func(r repo) {
			r.commit()
			must(r, os.WriteFile(filepath.Join(r.dir, ".git", "shallow"), []byte(r.git("rev-parse", "HEAD")), 0o600))
		},
		"the repository has no commit yet": func(r repo) { r.git("update-ref", "-d", "HEAD") },
		"": func(r repo) {
			r.git("config", "core.sparseCheckout", "no")
			r.git("config", "remote.b.promisor", "off")
			r.write(".git/info/exclude", "ignored/\n")
			r.write("ignored/x", "x")
			repo{t, r.path("ignored")}.git("init", "-q")
		},
	} {
		r := newRepo(t, "a", "a")
		make(r)
		w, err := workspace.Open(t.Context(), r.dir)
		must(t, err)
		if got, err := w.Slots().Unsupported(t.Context()); got != reason || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, reason)
		}
	}
}

func TestNoSlotsWithAnOldGit(t *testing.T) {
	r := newRepo(t, "a", "a")
	git, err := exec.LookPath("git")
	must(t, err)
	script := "#!/bin/sh\ncase \"$*\" in *version) echo \"git version $VERSION\";; *) exec " + git + " \"$@\";; esac\n"
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	w, err := workspace.Open(t.Context(), r.dir)
	must(t, err)
	for version, old := range map[string]bool{"1.9.1": true, "2.34.1": true, "2.38.0": false, "2.39.5 (Apple Git-154)": false, "3.0.rc1": false} {
		t.Setenv("VERSION", version)
		reason, err := w.Slots().Unsupported(t.Context())
		if (reason != "") != old || old && !strings.Contains(reason, "slots need git 2.38 or later, and this is git version "+version) || err != nil {
			t.Errorf("git %s: %q, %v", version, reason, err)
		}
	}
}

// Free keeps uncaptured work in a ref, also if the project's path looks like a pattern.
func TestFreeKeepsWhatIsInNoRef(t *testing.T) {
	made := newRepo(t, "a.txt", "a\n")
	l := line{repo: repo{t, filepath.Join(t.TempDir(), "a[b]")}}
	must(t, os.Rename(made.dir, l.dir))
	w, err := workspace.Open(t.Context(), l.dir)
	must(t, err)
	l.slots = w.Slots()
	l.base, err = l.slots.Base(t.Context(), true, time.Unix(1, 0))
	must(t, err)
	_, in := l.prepare(1, "x", 1, l.base)
	in.write("a.txt", "work\n")
	must(t, l.slots.Free(t.Context(), "b", l.base, false, func(string) bool { return false }))
	if got := l.git("show", "refs/manager/dropped/b/x/1:a.txt"); got != "work\n" {
		t.Errorf("kept is %q", got)
	}
}

// Patterns select the ignored files to copy. Commands run once per slot, and again if interrupted or their input
// changed.
func TestSlotsAreSetUp(t *testing.T) {
	l := newLine(t, ".gitignore", ".env\nsecret\nlink\ndeps/\n*.key\n", "lock", "1\n", "a.txt", "a\n")
	l.write(".worktreeinclude", "# what copies need\n.env\n*.key\nlink\nnew.txt\na.txt\n")
	l.write(".env", "PORT=1\n")
	l.write("secret", "s")
	l.write("sub/x.key", "k")
	l.write("new.txt", "not committed, not ignored")
	must(t, os.Symlink(".env", filepath.Join(l.dir, "link")))
	must(t, os.Chmod(filepath.Join(l.dir, ".env"), 0o640))
	var ran []string
	var fails error
	t.Setenv("TMPDIR", t.TempDir())
	l.slots.SetUp = &workspace.SetUp{
		Commands: []string{"make deps"}, When: []string{"*lock"}, Env: []string{"MODE=slot"},
		Run: func(_ context.Context, dir string, env []string, line string) boulder.Gate {
			g := boulder.Gate{Command: line}
			for _, name := range []string{"MODE=", "TMPDIR="} {
				if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }); i < 0 {
					t.Errorf("the environment has no %s: %q", name, env)
				} else if _, value, _ := strings.Cut(env[i], "="); name == "TMPDIR=" {
					must(t, os.WriteFile(filepath.Join(value, "x"), nil, 0o600))
				}
			}
			if repo := (repo{t, dir}); repo.read("deps/half") != "(none)" {
				t.Error("the command finds what one left that was cut short")
			}
			if fails != nil {
				must(t, os.MkdirAll(filepath.Join(dir, "deps"), 0o700))
				must(t, os.WriteFile(filepath.Join(dir, "deps", "half"), nil, 0o600))
				g.ExitCode, g.Output = 1, fails.Error()
			}
			ran = append(ran, filepath.Base(dir))
			return g
		},
	}
	fails = errors.New("no network")
	_, err := l.slots.Prepare(t.Context(), l.claim(1, "x", 1, l.base))
	if failed, ok := errors.AsType[*boulder.SetUpError](err); !ok || failed.Gate.Output != "no network" || !errors.Is(err, boulder.ErrSlots) {
		t.Errorf("a command failed: %v", err)
	}
	fails = nil
	_, in := l.prepare(1, "x", 1, l.base)
	if got := in.read(".env") + in.read("sub/x.key") + in.read("secret") + in.read("link") + in.read("new.txt"); got !=
		"PORT=1\nk(none)(none)(none)" {
		t.Errorf("the slot has %q", got)
	}
	if info, err := os.Stat(filepath.Join(in.dir, ".env")); err != nil || info.Mode() != 0o640 {
		t.Errorf("the copy has other permissions: %v, %v", info.Mode(), err)
	}
	in.write(".env", "PORT=2\n")
	in.write("lock", "of x\n")
	l.prepare(1, "x", 1, l.base)         // continues
	_, in = l.prepare(1, "y", 1, l.base) // set up already
	if in.read(".env") != "PORT=2\n" {
		t.Error("a file was overwritten")
	}
	l.prepare(2, "x", 2, l.base) // another lock file
	l.write("lock", "2\n")
	l.git("rm", "-q", "--cached", "a.txt")
	next, err := l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	l.prepare(1, "z", 1, next)
	if diff := gocmp.Diff([]string{"1", "1", "2", "1"}, ran); diff != "" {
		t.Error(diff)
	}
	must(t, l.slots.Free(t.Context(), "b", l.base, true, func(string) bool { return true }))
	if len(ran) != 4 {
		t.Error("a slot was set up to be removed")
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "manager-????????????")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// A linked worktree, whose objects and index are in two places, has slots and a landing like any other. The repository, and
// its other worktree, stay as they are.
func TestSlotsOfALinkedWorktree(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "a.txt", "one\n")
	dir := filepath.Join(t.TempDir(), "linked")
	r.git("worktree", "add", "-q", dir, "-b", "tree")
	linked := repo{t, dir}
	linked.write("a.txt", "not committed\n")
	before := r.userState()
	w, err := workspace.Open(t.Context(), dir)
	must(t, err)
	l := line{repo: linked, slots: w.Slots()}
	if why, err := l.slots.Unsupported(t.Context()); why != "" || err != nil {
		t.Fatalf("no slots: %s, %v", why, err)
	}
	l.base, err = l.slots.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	s, in := l.prepare(1, "x", 1, l.base)
	if got := in.read("a.txt"); got != "not committed\n" {
		t.Errorf("the slot begins with %q", got)
	}
	in.write("a.txt", "not committed\nby x\n")
	in.git("commit", "-q", "-a", "-m", "x") // its objects are found
	commit, _, err := s.Capture(t.Context(), "")
	must(t, err)
	_, err = l.slots.LandFiles(t.Context(), l.base, commit, false)
	must(t, err)
	if got := linked.read("a.txt") + r.read("a.txt"); got != "not committed\nby x\none\n" {
		t.Errorf("landed: %q", got)
	}
	if r.userState() != before {
		t.Error("something of the user's has changed")
	}
}

// What the user hid from git is merged with, and never overwritten.
func TestLandOverHiddenEdits(t *testing.T) {
	t.Parallel()
	l := newLine(t, "conf.yml", "1\n2\n3\n4\n5\n")
	l.git("update-index", "--skip-worktree", "conf.yml")
	l.write("conf.yml", "MINE\n2\n3\n4\n5\n")
	for last, want := range map[string]string{"1\n2\n3\n4\nfive\n": "MINE\n2\n3\n4\nfive\n", "one\n2\n3\n4\n5\n": ""} {
		s, in := l.prepare(1, "x", 1, l.base)
		in.write("conf.yml", last)
		commit, _, err := s.Capture(t.Context(), "")
		must(t, err)
		_, err = l.slots.LandFiles(t.Context(), l.base, commit, false)
		switch got := l.read("conf.yml"); {
		case want != "" && (err != nil || got != want):
			t.Errorf("landed is %q, %v, not %q", got, err, want)
		case want == "" && (!errors.Is(err, workspace.ErrConflict) || !strings.HasPrefix(got, "MINE\n")):
			t.Errorf("a conflict is %q, %v", got, err)
		}
		l.write("conf.yml", "MINE\n2\n3\n4\n5\n")
	}
}

// A change made on top of another integrates onto a line without that one, and the abandoned line is kept.
func TestAnotherLine(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.txt", "a\n", "b.txt", "b\n")
	results, from := map[string]string{}, l.base
	for i, name := range []string{"a", "b"} {
		s, slot := l.prepare(1, name, i+1, from)
		slot.write(name+".txt", name+"\nmore\n")
		var err error
		results[name], _, err = s.Capture(t.Context(), "")
		must(t, err)
		from = results[name]
	}
	must(t, l.slots.MoveTip(t.Context(), "b", l.base, from))
	commit, _, conflicts, err := l.slots.Integrate(t.Context(), l.base, results["b"], "b alone", time.Unix(2, 0))
	must(t, err)
	if got := l.git("show", commit+":a.txt", commit+":b.txt"); got != "a\nb\nmore\n" || len(conflicts) > 0 {
		t.Errorf("on the new line are %q, conflicts %v", got, conflicts)
	}
	must(t, l.slots.MoveTip(t.Context(), "b", from, commit))
	if got := l.git("rev-parse", "refs/manager/b/tip", "refs/manager/b/tip."+from[:10]); got != commit+"\n"+from+"\n" {
		t.Errorf("the refs are at %q", got)
	}
	_, old := l.prepare(2, "c", 1, l.base)
	old.write("a.txt", "of before\n")
	claim := l.claim(2, "c", 2, l.base)
	claim.Since = 1
	s, err := l.slots.Prepare(t.Context(), claim)
	must(t, err)
	if got := (repo{t, s.Dir()}).read("a.txt"); got != "a\n" {
		t.Errorf("a session that begins again finds %q", got)
	}
}

// TakeBack reverts what a sub-task changed in place and keeps later changes. On a conflict it changes nothing.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	l := newLine(t, "a.txt", "1\n2\n3\n4\n5\n6\n7\n")
	w, err := workspace.Open(t.Context(), l.dir)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(l.dir, ".manager"), 0o700))
	l.write(".manager/.gitignore", "*\n")
	before, err := w.Snapshot(t.Context())
	must(t, err)
	l.write("a.txt", "one\n2\n3\n4\n5\n6\n7\n")
	l.write("new.txt", "new\n")
	after, err := w.Snapshot(t.Context())
	must(t, err)
	l.write("a.txt", "one\n2\n3\n4\n5\n6\nseven\n")
	index := l.read(".git/index")
	for range 2 { // again after a crash
		_, err = l.slots.TakeBack(t.Context(), before, after, false)
		must(t, err)
		if got := l.read("a.txt") + l.read("new.txt"); got != "1\n2\n3\n4\n5\n6\nseven\n(none)" || l.read(".git/index") != index {
			t.Errorf("after it there is %q", got)
		}
	}
	l.write("a.txt", "other\n2\n3\n4\n5\n6\nseven\n")
	l.write("new.txt", "new\n")
	if _, err := l.slots.TakeBack(t.Context(), before, after, false); !errors.Is(err, workspace.ErrConflict) || l.read("new.txt") != "new\n" {
		t.Errorf("%v, and new.txt is %q", err, l.read("new.txt"))
	}
}
