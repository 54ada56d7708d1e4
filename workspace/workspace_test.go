package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repo is a git repository in a temporary directory.
type repo struct {
	testing.TB
	dir string
}

// newRepo makes a repository and commits the files, given as alternating paths and contents.
func newRepo(t testing.TB, files ...string) repo {
	t.Helper()
	r := repo{TB: t, dir: t.TempDir()}
	r.git("init", "-q", "-b", "main")
	for i := 0; i < len(files); i += 2 {
		r.write(files[i], files[i+1])
	}
	if len(files) > 0 {
		r.commit()
	}
	return r
}

// git runs git without the configuration of the user and the machine.
func (r repo) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r repo) write(path, content string) {
	r.Helper()
	path = filepath.Join(r.dir, path)
	must(r, os.MkdirAll(filepath.Dir(path), 0o755))
	must(r, os.WriteFile(path, []byte(content), 0o644))
}

func (r repo) remove(path string) {
	r.Helper()
	must(r, os.RemoveAll(filepath.Join(r.dir, path)))
}

func (r repo) commit() {
	r.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "m")
}

func (r repo) open(sub string) *workspace.Workspace {
	r.Helper()
	w, err := workspace.Open(r.Context(), filepath.Join(r.dir, sub))
	must(r, err)
	return w
}

func snapshot(t testing.TB, w *workspace.Workspace) string {
	t.Helper()
	id, err := w.Snapshot(t.Context())
	must(t, err)
	return id
}

func every(string) bool { return true }

// changes returns the diff of what change did.
func changes(t testing.TB, w *workspace.Workspace, change func()) boulder.Diff {
	t.Helper()
	before := snapshot(t, w)
	change()
	d, err := w.Diff(t.Context(), before, snapshot(t, w), every)
	must(t, err)
	return d
}

// wantFiles compares the changed files in the format of git's numstat: added and removed lines, path.
func wantFiles(t testing.TB, got boulder.Diff, want ...string) {
	t.Helper()
	var files []string
	for _, f := range got.Files {
		files = append(files, fmt.Sprintf("%d %d %s", f.Added, f.Removed, f.Path))
		if !f.Own {
			t.Errorf("%s is not its own", f.Path)
		}
	}
	if diff := cmp.Diff(want, files); diff != "" || got.Unavailable != "" {
		t.Errorf("unavailable: %q, files (-want +got):\n%s", got.Unavailable, diff)
	}
}

func TestOutsideOfGit(t *testing.T) {
	t.Parallel()
	r := repo{TB: t, dir: t.TempDir()}
	w := r.open("")
	if got := w.Reason(); got != "not a git repository" {
		t.Errorf("reason %q", got)
	}
	head, err := w.Head(t.Context())
	if head != "" || err != nil || w.Root() != "" || snapshot(t, w) != "" {
		t.Errorf("head %q, %v, root %q", head, err, w.Root())
	}
	d, err := w.Diff(t.Context(), "", "", nil)
	if err != nil || d.Unavailable != "not a git repository" || d.Empty() {
		t.Errorf("diff %+v, %v", d, err)
	}
}

func TestWithoutGit(t *testing.T) {
	r := newRepo(t)
	t.Setenv("PATH", t.TempDir())
	if got := r.open("").Reason(); got != "git is not installed" {
		t.Errorf("reason %q", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("file", "")
	for _, dir := range []string{"missing", "file"} {
		if _, err := workspace.Open(t.Context(), filepath.Join(r.dir, dir)); err == nil {
			t.Errorf("%s was opened", dir)
		}
	}
	if got := r.open(".git").Reason(); !strings.Contains(got, "inside of a repository") {
		t.Errorf("reason for .git: %q", got)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	w := r.open("")
	if head, err := w.Head(t.Context()); head != "" || err != nil {
		t.Errorf("without a commit: %q, %v", head, err)
	}
	r.commit()
	if head, err := w.Head(t.Context()); head != strings.TrimSpace(r.git("rev-parse", "HEAD")) || err != nil {
		t.Errorf("with a commit: %q, %v", head, err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "changed.txt", "one\ntwo\n", "gone.txt", "one\n", "same.txt", "same\n", ".gitignore", "*.log\n")
	r.write("dirty.txt", "was there before\n")
	d := changes(t, r.open(""), func() {
		r.write("changed.txt", "one\n2\n3\n")
		r.remove("gone.txt")
		r.write("new dir/new.txt", "new\n")
		r.write("ignored.log", "x")
		r.write("bin", "\x00\x01")
		r.write(".manager/manager.db", "x") // its own .gitignore is missing here
		r.git("add", "changed.txt")
		r.git("commit", "-q", "-m", "a commit of the agent does not hide anything")
	})
	wantFiles(t, d, "-1 -1 bin", "2 1 changed.txt", "0 1 gone.txt", "1 0 new dir/new.txt")
	for _, want := range []string{"-two\n+2\n+3\n", "Binary files", "+new\n"} {
		if !strings.Contains(d.Patch, want) {
			t.Errorf("the patch lacks %q:\n%s", want, d.Patch)
		}
	}
}

// A diff has every change and nothing else.
func TestChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files  []string // committed
		sub    string
		before func(r repo)
		change func(r repo)
		want   []string
	}{
		"an empty subdirectory without commits": {
			nil, "sub", func(r repo) { r.write("sub/.manager/x", "") }, func(r repo) { r.write("sub/first", "1\n") },
			[]string{"1 0 first"},
		},
		"strange names": {nil, "", repo.commit, func(r repo) {
			for _, name := range []string{" spaces ", "new\nline", "\xff\xfe", ":(top)magic", "-n", "tab\tquote\"", "ü*[x]"} {
				r.write(name, "1\n")
			}
		}, []string{
			"1 0  spaces ", "1 0 -n", "1 0 :(top)magic", "1 0 new\nline", "1 0 tab\tquote\"", "1 0 ü*[x]", "1 0 \uFFFD",
		}},
		"a file that cannot be read": {[]string{"a", "1\n"}, "", func(repo) {}, func(r repo) {
			r.write("z", "1\n")
			if os.Geteuid() != 0 { // root can read everything
				r.write("secret", "1\n")
				must(r, os.Chmod(filepath.Join(r.dir, "secret"), 0))
			}
		}, []string{"1 0 z"}},
		"a sparse checkout": {
			[]string{"in/f", "1\n", "out/f", "1\n"}, "", func(r repo) { r.git("sparse-checkout", "set", "in") }, func(r repo) {
				r.write("in/g", "1\n")
				r.write("in/f", "2\n")
			}, []string{"1 1 in/f", "1 0 in/g"},
		},
		"other types": {[]string{"dir/f", "1\n", "file", "1\n"}, "", func(repo) {}, func(r repo) {
			r.remove("dir")
			r.remove("file")
			r.write("file/inside", "1\n")
			must(r, os.Symlink("elsewhere", filepath.Join(r.dir, "dir")))
		}, []string{"1 0 dir", "0 1 dir/f", "0 1 file", "1 0 file/inside"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, test.files...)
			test.before(r)
			d := changes(t, r.open(test.sub), func() { test.change(r) })
			wantFiles(t, d, test.want...)
			if n := strings.Count(d.Patch, "\n@@ "); n != len(test.want) {
				t.Errorf("the patch shows %d of %d files:\n%s", n, len(test.want), d.Patch)
			}
		})
	}
}

func TestSameSize(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "f", "aaa")
	// Size and time stamp stay the same: only the index's own time shows that its entry is not to be trusted.
	path := filepath.Join(r.dir, "f")
	index := filepath.Join(r.dir, ".git", "index")
	moment := time.Now().Add(-time.Hour).Truncate(time.Second)
	must(r, os.Chtimes(path, moment, moment))
	r.git("update-index", "--refresh")
	r.git("config", "core.trustctime", "false")
	w := r.open("")
	before := snapshot(t, w)
	r.write("f", "bbb")
	for _, p := range []string{path, index} {
		must(r, os.Chtimes(p, moment, moment))
	}
	if after := snapshot(t, w); after == before {
		t.Error("the change was not seen")
	}
}

// A snapshot moves neither index, refs nor stash, whatever their state.
func TestLeavesEverythingAlone(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "a", "1", "b", "1")
	r.write("a", "2")
	r.git("stash")
	r.write("a", "3")
	r.git("add", "a")
	r.write("a", "4")
	r.write("new", "x")
	r.write(".git/hooks/post-index-change", "#!/bin/sh\ntouch "+filepath.Join(r.dir, "hook-ran")+"\n")
	must(r, os.Chmod(filepath.Join(r.dir, ".git/hooks/post-index-change"), 0o755))
	w := r.open("")
	r.write(".git/index.lock", "held by somebody")

	state := func() map[string]string {
		files := map[string]string{}
		err := filepath.WalkDir(r.dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.Contains(path, "/objects/") {
				return err
			}
			content, err := os.ReadFile(path)
			files[path] = string(content)
			return err
		})
		must(r, err)
		return files
	}
	before := state()
	snapshot(t, w)
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("a snapshot changed files:\n%s", diff)
	}
}

func TestSubdirectory(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sub/in", "1\n", "out", "1\n")
	w := r.open("sub")
	if root, err := filepath.EvalSymlinks(r.dir); err != nil || w.Root() != root {
		t.Errorf("root %q, want %q, %v", w.Root(), root, err)
	}
	d := changes(t, w, func() {
		r.write("sub/in", "2\n")
		r.write("sub/new", "1\n")
		r.write("sub/.manager/x", "1\n")
		r.write("out", "2\n")
		r.git("add", "out")
	})
	if tree := r.git("ls-tree", "-r", "--name-only", snapshot(t, w)); strings.Contains(tree, ".manager") {
		t.Errorf("the manager's own state is in the snapshot:\n%s", tree)
	}
	wantFiles(t, d, "1 1 in", "1 0 new")
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sub/in", "1\n", "out file", "1\n")
	r.git("checkout", "-q", "-b", "other")
	r.write("sub/in", "2\n")
	r.write("out file", "2\n")
	r.commit()
	r.git("checkout", "-q", "main")
	r.write("sub/in", "3\n")
	r.write("out file", "3\n")
	r.commit()
	cmd := exec.Command("git", "-c", "user.name=n", "-c", "user.email=e", "merge", "other")
	cmd.Dir = r.dir
	if err := cmd.Run(); err == nil {
		t.Fatal("the merge has no conflict")
	}
	d := changes(t, r.open("sub"), func() { r.write("sub/in", "resolved\n") })
	wantFiles(t, d, "1 5 in")
	if d = changes(t, r.open(""), func() { r.write("out file", "resolved\n") }); len(d.Files) != 1 {
		t.Errorf("files %+v", d.Files)
	}
}

// Bits in the index, with which users keep local edits out of their commits, hide nothing from a snapshot. In a sparse
// checkout missing files are not deletions.
func TestHiddenFiles(t *testing.T) {
	t.Parallel()
	for bit, letter := range map[string]string{"--skip-worktree": "S", "--assume-unchanged": "h"} {
		r := newRepo(t, "conf/local.yml", "1\n2\n", "gone", "x\n", "same", "x\n")
		r.git("update-index", bit, "conf/local.yml", "gone", "same")
		d := changes(t, r.open(""), func() {
			r.write("conf/local.yml", "MINE\n2\n")
			r.remove("gone")
		})
		wantFiles(t, d, "1 1 conf/local.yml", "0 1 gone")
		if d = changes(t, r.open("conf"), func() { r.write("conf/local.yml", "1\n2\n") }); len(d.Files) != 1 {
			t.Errorf("%s: from a subdirectory: %+v", bit, d.Files)
		}
		if got := strings.Count("\n"+r.git("ls-files", "-v"), "\n"+letter+" "); got != 3 {
			t.Errorf("%s: the user's index has %d such bits", bit, got)
		}
	}
	r := newRepo(t, "in/a", "a\n", "out/b", "b\n", "out/c", "c\n")
	r.git("sparse-checkout", "set", "in")
	head := r.git("rev-parse", "HEAD^{tree}")
	tree, err := r.open("").Snapshot(t.Context())
	if must(t, err); tree+"\n" != head {
		t.Errorf("the files outside of a sparse checkout count as deleted: %s", r.git("diff", "--stat", "HEAD", tree))
	}
	d := changes(t, r.open(""), func() { r.write("out/b", "mine\n") })
	wantFiles(t, d, "1 1 out/b")
}

func TestEmbeddedRepositories(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "f", "1\n")
	emb := repo{TB: t, dir: filepath.Join(r.dir, "emb")}
	d := changes(t, r.open(""), func() {
		r.write("f", "2\n")
		r.write("zz", "2\n")
		r.write("empty/x", "")
		repo{TB: t, dir: filepath.Join(r.dir, "empty")}.git("init", "-q")
		r.write("emb/x", "1")
		emb.git("init", "-q")
		emb.commit()
	})
	wantFiles(t, d, "1 0 emb", "0 0 empty/x", "1 1 f", "1 0 zz")
	d = changes(t, r.open(""), func() {
		r.write("emb/x", "2")
		emb.commit()
	})
	wantFiles(t, d, "1 1 emb")
}

// A file that is written in place all the time, as by a database, does not keep the others from being stored.
func TestFileThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "f", "1\n")
	path := filepath.Join(r.dir, "data")
	must(t, os.WriteFile(path, make([]byte, 8<<20), 0o644))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := int64(1); ; i++ {
			select {
			case <-over:
				return
			default:
				_, _ = file.WriteAt([]byte(fmt.Sprint(i)), i*7919%(8<<20-20))
			}
		}
	}()
	d := changes(t, r.open(""), func() { r.write("f", "2\n") })
	close(over)
	<-ended
	must(t, file.Close())
	for _, f := range d.Files {
		if f.Path == "f" {
			return
		}
	}
	t.Errorf("%+v", d.Files)
}

// A large file is not read, but its changes are seen.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sub/f", "1\n")
	large := filepath.Join(r.dir, "sub", "big [x].bin")
	grow := func(size int64) {
		f, err := os.OpenFile(large, os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			err = errors.Join(f.Truncate(size), f.Close())
		}
		must(r, err)
	}
	w := r.open("sub")
	const binary = "-1 -1 big [x].bin"
	wantFiles(t, changes(t, w, func() { grow(65 << 20) }), binary)
	wantFiles(t, changes(t, w, func() { grow(66 << 20) }), binary)
	wantFiles(t, changes(t, w, func() {}))
	if entry := r.git("ls-tree", "-l", snapshot(t, w)+":sub", "big [x].bin"); !strings.Contains(entry, " 45\t") {
		t.Errorf("the content went into the repository: %s", entry)
	}
}

func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "f", "1\n")
	linked := filepath.Join(t.TempDir(), "linked")
	r.git("worktree", "add", "-q", linked)
	other := repo{TB: t, dir: linked}
	d := changes(t, other.open(""), func() {
		other.write("f", "2\n")
		r.write("f", "not here\n")
	})
	wantFiles(t, d, "1 1 f")
}

func TestOwn(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit()
	w := r.open("")
	before := snapshot(t, w)
	r.write("a-theirs", "theirs\n")
	r.write("b-mine", "mine\n")
	own := func(path string) bool { return path == "b-mine" }
	d, err := w.Diff(t.Context(), before, snapshot(t, w), own)
	must(r, err)
	want := []boulder.FileChange{{Path: "b-mine", Added: 1, Own: true}, {Path: "a-theirs", Added: 1}}
	if diff := cmp.Diff(want, d.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if !strings.Contains(d.Patch, "+mine") || strings.Contains(d.Patch, "+theirs") {
		t.Errorf("patch:\n%s", d.Patch)
	}
}

func TestPatchIsCut(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit()
	d := changes(t, r.open(""), func() { r.write("f", strings.Repeat("ü界\n", 10_000)) })
	runes := []rune(d.Patch)
	if len(runes) > 12_000 || len(runes) < 11_990 || !strings.Contains(d.Patch, "\n[cut: 281") {
		t.Errorf("%d characters, ending in %q", len(runes), string(runes[len(runes)-60:]))
	}
	d = changes(t, r.open(""), func() { r.write("g", strings.Repeat("\xff\n", 20_000)) })
	if n := len([]rune(d.Patch)); n > 12_000 {
		t.Errorf("%d characters", n)
	}
}

func TestSnapshotGone(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("a", "1")
	w := r.open("")
	before := snapshot(t, w)
	r.write("a", "2")
	after := snapshot(t, w)
	r.git("prune", "--expire=now")
	if _, err := w.Diff(t.Context(), before, after, every); err == nil || !strings.Contains(err.Error(), before+" is not in the repository any more") {
		t.Errorf("error %v", err)
	}
	if _, err := w.Diff(t.Context(), "--output=x", after, nil); err == nil {
		t.Error("an option was taken for a snapshot")
	}
	for _, id := range []string{"--output=x", "--output=x^"} { // as an imported boulder may have
		if _, err := w.Patch(t.Context(), id, after, "-p", nil); err == nil {
			t.Errorf("%q was taken for a snapshot", id)
		}
	}
	if _, err := w.Patch(t.Context(), before, after, "-p", nil); err == nil || !strings.Contains(err.Error(), "any more") {
		t.Errorf("patch of what is gone: %v", err)
	}
	if d, err := w.Diff(t.Context(), "", after, nil); err != nil || d.Unavailable == "" {
		t.Errorf("diff without a snapshot: %+v, %v", d, err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	w := r.open("")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := w.Snapshot(ctx); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestCorruptIndex(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "a", "1")
	r.write(".git/index", "no index")
	_, err := r.open("").Snapshot(t.Context())
	if err == nil || !strings.Contains(err.Error(), "index file") {
		t.Errorf("error %v", err)
	}
}

// Git's variables have no effect: a hook or an alias that starts manager sets them.
func TestEnvironment(t *testing.T) {
	r := newRepo(t, "a", "1\n")
	other := newRepo(t)
	t.Setenv("GIT_DIR", filepath.Join(other.dir, ".git"))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other.dir, ".git", "index"))
	t.Setenv("GIT_EXTERNAL_DIFF", "false")
	t.Setenv("GIT_LITERAL_PATHSPECS", "1")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	d := changes(t, r.open(""), func() { r.write("a", "2\n") })
	wantFiles(t, d, "1 1 a")
	if entries, err := os.ReadDir(filepath.Join(other.dir, ".git", "objects")); err != nil || len(entries) != 2 {
		t.Errorf("the other repository was written to: %v, %v", entries, err)
	}
}

func TestConcurrentSnapshots(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "a", "1")
	r.write("b", "1")
	w := r.open("")
	const n = 8
	ids := make(chan string, n)
	for range n {
		go func() {
			id, err := w.Snapshot(t.Context())
			if err != nil {
				id = err.Error()
			}
			ids <- id
		}()
	}
	first := <-ids
	for range n - 1 {
		if id := <-ids; id != first {
			t.Errorf("snapshots %s and %s differ", first, id)
		}
	}
}

func TestLeaveOut(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "tracked [a].md", "1\n", "tracked a.md", "1\n")
	w, err := workspace.Open(t.Context(), r.dir, "tracked [a].md", "notes/new.md", "not there")
	must(r, err)
	got := changes(t, w, func() {
		r.write("tracked [a].md", "2\n")
		r.write("notes/new.md", "1\n")
		r.write("notes/other.md", "1\n")
		r.write("tracked a.md", "2\n")
	})
	wantFiles(t, got, "1 0 notes/other.md", "1 1 tracked a.md")
	if strings.Contains(got.Patch, "tracked [a].md") || strings.Contains(got.Patch, "new.md") {
		t.Errorf("the patch has what is left out:\n%s", got.Patch)
	}
}

// Equal hashes are equal own changes: of text, of binary files, and past the cut of the patch.
func TestHash(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of some length\n", 2000)
	r := newRepo(t, "text", "one\n", "long", long)
	w := r.open("")
	from := snapshot(t, w)
	diff := func(own func(string) bool) boulder.Diff {
		t.Helper()
		d, err := w.Diff(t.Context(), from, snapshot(t, w), own)
		must(r, err)
		return d
	}
	seen := map[string]string{}
	for _, test := range []struct{ name, path, content string }{
		{"text", "text", "two\n"},
		{"other text", "text", "three\n"},
		{"binary", "bin", "\x00\x01"},
		{"other binary of the same size", "bin", "\x00\x02"},
		{"long", "long", strings.ReplaceAll(long, "a", "b") + "end"},
		{"long, and different past the cut", "long", strings.ReplaceAll(long, "a", "b") + "END"},
	} {
		r.write(test.path, test.content)
		d := diff(every)
		if before, ok := seen[d.Hash]; ok || len(d.Hash) != 64 {
			t.Errorf("%s has the hash %q, like %q", test.name, d.Hash, before)
		}
		seen[d.Hash] = test.name
	}
	again := diff(every)
	if seen[again.Hash] != "long, and different past the cut" {
		t.Errorf("the same change has another hash: %q", again.Hash)
	}
	notBin := func(path string) bool { return path != "bin" }
	mine := diff(notBin)
	r.write("bin", "\x00\x03")
	if theirs := diff(notBin); mine.Hash != theirs.Hash || mine.Hash == again.Hash {
		t.Errorf("somebody else's file counts: %q, %q, all: %q", mine.Hash, theirs.Hash, again.Hash)
	}
	if none := diff(func(string) bool { return false }); none.Hash != "" || len(none.Files) == 0 {
		t.Errorf("nothing is its own, but the hash is %q of %v", none.Hash, none.Files)
	}
}
