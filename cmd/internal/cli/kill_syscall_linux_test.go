package cli

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

var killSyscalls = flag.Int("kill-syscalls", 5, "how many kills TestKillAtSyscall makes; 0: one at each system call")

// oneThread has a manager land on its first thread, the only one that strace follows: counts of calls repeat then.
const oneThread = "MANAGER_TEST_ONE_THREAD=1"

func init() {
	if slices.Contains(os.Environ(), oneThread) {
		runtime.LockOSThread()
	}
}

// changing are the system calls with which landing changes files, or opens or syncs them.
const changing = "openat,write,pwrite64,ftruncate,fsync,fdatasync,fchmod,fchmodat,rename,renameat,renameat2,link,linkat," +
	"symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat"

const (
	tenLines  = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	allAtOnce = "echo 11 >> ten.txt && mkdir -p new/deep && echo x > new/deep/x && rm -r dir && echo file > dir" +
		" && rm gone.txt && ln -s ten.txt link && chmod +x run.sh && mkdir build && echo x > build/out"
	allAsItWas = `test ! -e build && test -z "$(git status --porcelain)" && echo yes > clean.txt`
	landedPlan = `
task: All kinds of changes
model: scripted/agent
sub_tasks:
  - {id: all, description: Change all, gates: [test -f new/deep/x]}
`
	nextPlan = `
task: Look around
model: scripted/agent
sub_tasks:
  - {id: look, description: Look around, gates: [test -f clean.txt]}
`
)

// unlanded is a project with results that have not landed.
type unlanded struct {
	*world
	slots         string            // the directory with its slots
	saved         string            // copies of both
	before, after map[string]string // its files
}

func newUnlanded(t *testing.T) *unlanded {
	t.Helper()
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case req.TurnsSinceUser() > 0:
			return scriptmodel.Reply{Text: "All is changed."}
		case strings.Contains(req.FirstUser(), "Look around"):
			return shell(allAsItWas)
		}
		return shell(allAtOnce)
	}, map[string]string{"plan.yaml": landedPlan, ".gitignore": "/build\n", "ten.txt": tenLines, "gone.txt": "gone\n", "dir/a": "a\n", "run.sh": "true\n"})
	writeFile(t, filepath.Join(w.dir, "ten.txt"), "not committed\n"+tenLines)
	w.run(0, "run", "plan.yaml", "--isolate", w.attached())
	u := &unlanded{
		world: w, slots: filepath.Join(project.Getenv(w.env, "XDG_CACHE_HOME"), "manager"), saved: t.TempDir(), before: filesIn(t, w.dir),
	}
	copyAll(t, w.dir, filepath.Join(u.saved, "project"))
	copyAll(t, u.slots, filepath.Join(u.saved, "slots"))
	return u
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// filesIn returns what is in a project: contents, targets of links, modes.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case rel == ".git", rel == ".manager":
			return fs.SkipDir
		case d.IsDir():
			all[rel] = "directory"
			return nil
		case d.Type() == fs.ModeSymlink:
			all[rel], err = os.Readlink(path)
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[rel] = fmt.Sprintf("%v %s", info.Mode(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (u *unlanded) restore() {
	u.t.Helper()
	for from, to := range map[string]string{"project": u.dir, "slots": u.slots} {
		if err := os.RemoveAll(to); err != nil {
			u.t.Fatal(err)
		}
		copyAll(u.t, filepath.Join(u.saved, from), to)
	}
}

// killedAt lands, with a kill.
func (u *unlanded) killedAt(m moment) (killed bool) {
	u.t.Helper()
	return u.traced("-o", os.DevNull, "-e", "trace="+m.call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", m.call, m.n))
}

// traced lands with strace, and reports whether the manager was killed.
func (u *unlanded) traced(options ...string) (killed bool) {
	u.t.Helper()
	cmd := manager(u.t, u.dir, append(u.env, oneThread), "land", "--files")
	cmd.Args = slices.Concat([]string{"strace", "-qq", "-e", "signal=none"}, options, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path, _ = exec.LookPath("strace")
	out, err := cmd.CombinedOutput()
	killed = err != nil && cmd.ProcessState.ExitCode() == -1 // strace ends as the manager did
	if err != nil && !killed && !strings.Contains(string(out), "have landed") {
		u.t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
	return killed
}

// moment is the n-th of the calls of one kind.
type moment struct {
	call string
	n    int
}

// moments lets a landing happen, and returns all at which it can be killed.
func (u *unlanded) moments() (all []moment) {
	u.t.Helper()
	log := filepath.Join(u.t.TempDir(), "strace")
	u.traced("-o", log, "-e", "trace="+changing)
	u.after = filesIn(u.t, u.dir)
	data, err := os.ReadFile(log)
	if err != nil {
		u.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, line := range regexp.MustCompile(`(?m)^\w+`).FindAllString(string(data), -1) {
		counts[line]++
		all = append(all, moment{line, counts[line]})
	}
	return all
}

// lands lands the results, also if they turn out to be landed already, and reports whether nothing conflicted.
func (u *unlanded) lands() bool {
	u.t.Helper()
	code, _, stderr := run(u.t, u.dir, u.env, "land", "--files")
	switch {
	case code == 0, code == exitUsage && strings.Contains(stderr, "have landed"):
		return true
	case code != exitError || !strings.Contains(stderr, "conflicts with your files: gone.txt"):
		u.t.Errorf("land: exit code %d\n%s", code, stderr)
	}
	return false
}

func (u *unlanded) wantFiles(want map[string]string) {
	u.t.Helper()
	if diff := cmp.Diff(want, filesIn(u.t, u.dir)); diff != "" {
		u.t.Errorf("files (-want +got):\n%s", diff)
	}
}

// landAgain is what follows a kill: all is landed in the end.
func (u *unlanded) landAgain() {
	if u.lands() {
		u.wantFiles(u.after)
	}
}

// drop leaves all as before, unless it is recorded already that the results have landed.
func (u *unlanded) drop() {
	code, _, stderr := run(u.t, u.dir, u.env, "land", "--drop")
	switch {
	case code == 0:
		u.wantFiles(u.before)
	case code == exitUsage && strings.Contains(stderr, "have landed"):
		u.wantFiles(u.after)
	default:
		u.t.Errorf("drop: exit code %d\n%s", code, stderr)
	}
}

// edit changes a file that results change elsewhere: both are in it in the end.
func (u *unlanded) edit() {
	path := filepath.Join(u.dir, "ten.txt")
	data, err := os.ReadFile(path)
	if err != nil {
		u.t.Fatal(err)
	}
	writeFile(u.t, path, "mine\n"+string(data))
	if u.lands() {
		wantFile(u.t, u.dir, "ten.txt", "mine\nnot committed\n"+tenLines+"11\n")
	}
	writeFile(u.t, path, "not committed\n"+tenLines+"11\n")
	u.wantFiles(u.after)
}

// conflict changes a file that results remove: it stays, and once it is out of the way all lands.
func (u *unlanded) conflict() {
	path := filepath.Join(u.dir, "gone.txt")
	writeFile(u.t, path, "mine\n")
	landed := u.lands()
	wantFile(u.t, u.dir, "gone.txt", "mine\n")
	if err := os.Remove(path); err != nil {
		u.t.Fatal(err)
	}
	if landed || u.lands() {
		u.wantFiles(u.after)
	}
}

// runNext is another boulder after the landing: in the slots that stay for it is nothing else than the project's files.
func (u *unlanded) runNext() {
	plan := filepath.Join(u.t.TempDir(), "next.yaml")
	writeFile(u.t, plan, nextPlan)
	if !u.lands() {
		u.t.Fatal("the results conflict")
	}
	u.run(0, "run", plan, "--isolate", u.attached())
	u.run(0, "land", "--drop")
	u.wantFiles(u.after)
}

// kill -9 of the manager at each system call that changes a file while results land. Whatever was written then, they can
// land or be dropped, and what the user has edited meanwhile is kept.
func TestKillAtSyscall(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("needs strace, and the right to trace: %v: %s", err, out)
	}
	u := newUnlanded(t)
	moments := u.moments()
	follow := []struct {
		name string
		then func()
	}{{"land", u.landAgain}, {"drop", u.drop}, {"edit", u.edit}, {"conflict", u.conflict}, {"run", u.runNext}}
	kills := *killSyscalls
	if kills == 0 {
		kills = len(moments)
	}
	killed := 0
	for i := range kills {
		m, next := moments[i*len(moments)/kills], follow[i%len(follow)]
		u.restore()
		if u.killedAt(m) {
			killed++
		}
		if i/len(follow)%2 == 1 { // a repeat may be killed, too
			u.killedAt(m)
		}
		next.then()
		u.clean()
		if t.Failed() {
			t.Fatalf("killed at %s %d of %d system calls, then: %s", m.call, m.n, len(moments), next.name)
		}
	}
	if t.Logf("%d of %d landings were killed, at %d system calls", killed, kills, len(moments)); killed < kills*9/10 {
		t.Error("too few")
	}
}

// clean checks that a landing has left nothing.
func (u *unlanded) clean() {
	u.t.Helper()
	u.emptyPool()
	refs := octest.Git(u.t, u.dir, "for-each-ref", "--format=%(refname)", ":!refs/manager/dropped")
	left, err := filepath.Glob(filepath.Join(u.dir, ".manager", "[ls]*")) // land*, slots
	if err != nil || len(left) > 0 || strings.Contains(refs, "refs/manager/") && !strings.Contains(refs, "refs/manager/dropped/") {
		u.t.Errorf("left: %q, %v, refs %s", left, err, refs)
	}
}
