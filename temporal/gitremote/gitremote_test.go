package gitremote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/temporal/gitremote"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/workspace"
)

// team is a git remote and a project in the directory sub/ of a clone, where a boulder has begun.
type team struct {
	*testing.T
	project             *gitremote.Remote
	bare, address, base string
}

// newTeam creates a project with committed.txt, and with begun.txt uncommitted. via turns the remote's path into a URL.
func newTeam(t *testing.T, via func(path string) string) *team {
	t.Helper()
	k := &team{T: t, bare: filepath.Join(t.TempDir(), "remote.git")}
	dir := octest.Repo(t, map[string]string{"sub/committed.txt": "1\n"})
	octest.Git(t, dir, "clone", "--quiet", "--bare", ".", k.bare)
	k.address = via(k.bare)
	k.project = k.remote(dir)
	must(t, os.WriteFile(filepath.Join(dir, "sub", "begun.txt"), []byte("2\n"), 0o600))
	var err error
	k.base, err = k.project.Clone.Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	for range 2 { // twice, as after a crash
		must(t, k.project.Begin(t.Context(), "b", k.base))
	}
	return k
}

func (k *team) remote(dir string) *gitremote.Remote {
	k.Helper()
	w, err := workspace.Open(k.Context(), filepath.Join(dir, "sub"))
	must(k.T, err)
	return &gitremote.Remote{URL: k.address, Clone: w.Slots()}
}

func file(path string) string { return "file://" + path }

type clone struct {
	*team
	*gitremote.Slots
	dir string
}

func (k *team) clone() clone {
	k.Helper()
	dir := k.TempDir()
	octest.Git(k.T, dir, "clone", "--quiet", k.bare, ".")
	r := k.remote(dir)
	return clone{k, &gitremote.Slots{Slots: project.Slots{Slots: r.Clone}, Remote: r}, dir}
}

// slot prepares slot number for an attempt "<sub-task>/<number>", which is the worker's until ctx ends.
func (c clone) slot(ctx context.Context, number int, attempt, from string) executor.Slot {
	c.Helper()
	s, err := c.Prepare(ctx, c.claim(number, attempt, from))
	must(c.T, err)
	return s
}

func (k *team) claim(number int, attempt, from string) boulder.SlotClaim {
	subTask, n, _ := strings.Cut(attempt, "/")
	try, _ := strconv.Atoi(n)
	return boulder.SlotClaim{BoulderID: "b", Slot: number, SubTaskID: subTask, Attempt: try, Base: k.base, From: from}
}

func (k *team) write(s executor.Slot, name, content string) {
	k.Helper()
	must(k.T, os.WriteFile(filepath.Join(s.Dir(), name), []byte(content), 0o600))
}

func (k *team) capture(s executor.Slot) string {
	k.Helper()
	commit, _, err := s.Capture(k.Context(), "")
	must(k.T, err)
	return commit
}

// files returns the names and contents of a slot's files, as one line.
func (k *team) files(s executor.Slot) (all string) {
	k.Helper()
	entries, err := os.ReadDir(s.Dir())
	must(k.T, err)
	for _, entry := range entries {
		if data, err := os.ReadFile(filepath.Join(s.Dir(), entry.Name())); err == nil {
			all += entry.Name() + "=" + string(data)
		}
	}
	return strings.ReplaceAll(all, "\n", " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Attempts in two clones are integrated in one of them. A third attempt, in the other, starts from the result, and the
// project can fetch it. At the end neither the remote nor the clones keep any refs.
func TestAcrossClones(t *testing.T) {
	for name, via := range map[string]func(*testing.T) func(string) string{
		"file": func(*testing.T) func(string) string { return file },
		"ssh":  serveSSH,
	} {
		t.Run(name, func(t *testing.T) { acrossClones(t, newTeam(t, via(t))) })
	}
}

func acrossClones(t *testing.T, k *team) {
	ctx, a, b := t.Context(), k.clone(), k.clone()
	x, y := a.slot(ctx, 1, "x/1", k.base), b.slot(ctx, 2, "y/1", k.base)
	if got := k.files(x); got != "begun.txt=2 committed.txt=1 " {
		t.Errorf("a slot begins with %s", got)
	}
	k.write(x, "x.txt", "x\n")
	k.write(y, "y.txt", "y\n")
	results := []string{k.capture(x), k.capture(y)}
	if again := k.capture(x); again != results[0] { // as after a crash
		t.Errorf("captured %s, and then %s", results[0], again)
	}
	tip := k.base
	for _, result := range results {
		must(t, b.MoveTip(ctx, "b", tip, tip))
		commit, _, conflicts, err := b.Integrate(ctx, tip, result, "m", time.Unix(1, 0))
		must(t, err)
		if commit == tip || len(conflicts) > 0 {
			t.Fatalf("%s does not merge: %q", result, conflicts)
		}
		must(t, b.Remote.Publish(ctx, "b", commit)) // from now on the worker may die
		must(t, a.MoveTip(ctx, "b", tip, commit))
		must(t, b.MoveTip(ctx, "b", tip, commit))
		tip = commit
	}
	if err := a.MoveTip(ctx, "b", k.base, results[0]); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("the tip is moved from where it is not: %v", err)
	}
	z := a.slot(ctx, 1, "z/1", tip)
	if got := k.files(z); got != "begun.txt=2 committed.txt=1 x.txt=x y.txt=y " {
		t.Errorf("a slot at the tip begins with %s", got)
	}
	must(t, k.project.Fetch(ctx, "b"))
	if at, err := k.project.Clone.Ref(ctx, "b", "tip"); at != tip || err != nil {
		t.Errorf("the project has the tip at %s, %v; want %s", at, err, tip)
	}
	if ids, err := k.project.Boulders(ctx); fmt.Sprint(ids, err) != "[b] <nil>" {
		t.Errorf("on the remote: %q, %v", ids, err)
	}
	for range 2 {
		must(t, k.project.End(ctx, "b"))
	}
	if got := octest.Git(t, k.bare, "for-each-ref", "refs/manager"); got != "" {
		t.Errorf("left on the remote: %s", got)
	}
	must(t, a.Remote.Sweep(ctx, func(string) bool { return true }))
	if kept, err := a.Remote.Clone.Kept(ctx); fmt.Sprint(kept, err) != "[b] <nil>" {
		t.Errorf("of its own boulders the clone has %q, %v", kept, err)
	}
	for _, c := range []clone{a, b} {
		must(t, c.Remote.Sweep(ctx, func(string) bool { return false }))
		kept, err := c.Remote.Clone.Kept(ctx)
		if slots, _ := filepath.Glob(filepath.Join(c.dir, "sub", ".manager", "slots", "*")); err != nil || len(kept)+len(slots) > 0 {
			t.Errorf("left in a clone: refs of %q, %q, %v", kept, slots, err)
		}
	}
	if _, err := a.Prepare(ctx, k.claim(1, "x/2", k.base)); err == nil || !strings.Contains(err.Error(), "is over") {
		t.Errorf("a slot of a boulder that is over: %v", err)
	}
}

// A worker that lost an attempt is refused if it publishes after its successor. The successor replaces what the first
// worker published before. The next attempt starts from the successor's result, also in the first worker's clone.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	k := newTeam(t, file)
	a, b := k.clone(), k.clone()
	mine, giveUp := context.WithCancel(t.Context())
	first := a.slot(mine, 1, "x/1", k.base)
	k.write(first, "x.txt", "first\n")
	heir := b.slot(t.Context(), 1, "x/1", k.base)
	k.write(heir, "x.txt", "second\n")
	k.capture(first)
	giveUp()
	second := k.capture(heir)
	k.write(first, "x.txt", "late\n")
	if _, _, err := first.Capture(t.Context(), ""); !errors.Is(err, workspace.ErrMoved) || !strings.Contains(err.Error(), second) ||
		!strings.Contains(err.Error(), "another worker") {
		t.Errorf("published after %s: %v", second, err)
	}
	third := b.slot(t.Context(), 1, "x/2", k.base)
	k.write(third, "x.txt", "third\n")
	k.capture(third)
	if got := k.files(a.slot(t.Context(), 1, "x/3", k.base)); !strings.HasSuffix(got, " x.txt=third ") {
		t.Errorf("the next attempt begins with %s", got)
	}
}

// serveSSH runs sshd on the loopback interface for one test. It returns a function that turns paths into URLs.
func serveSSH(t *testing.T) func(path string) string {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd, err = exec.LookPath("/usr/sbin/sshd")
	}
	keygen, keygenErr := exec.LookPath("ssh-keygen")
	me, meErr := user.Current()
	if err := errors.Join(err, keygenErr, meErr); err != nil {
		t.Skip("a remote over ssh is not tested: ", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"host", "key"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.Command(sshd, "-D", "-e", "-f", os.DevNull, "-o", "ListenAddress=127.0.0.1", "-o", fmt.Sprint("Port=", port),
		"-o", "HostKey="+filepath.Join(dir, "host"), "-o", "AuthorizedKeysFile="+filepath.Join(dir, "key.pub"),
		"-o", "StrictModes=no", "-o", "PidFile=none", "-o", "UsePAM=no", "-o", "PermitRootLogin=yes")
	said, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(said)
	line, _ := lines.ReadString('\n')
	if !strings.Contains(line, "listening") {
		t.Skipf("a remote over ssh is not tested: sshd does not start: %s", line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	t.Setenv("GIT_SSH_COMMAND", fmt.Sprintf("ssh -F %s -i %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=%s -o BatchMode=yes -o LogLevel=ERROR",
		os.DevNull, filepath.Join(dir, "key"), filepath.Join(dir, "known")))
	return func(path string) string { return fmt.Sprintf("ssh://%s@127.0.0.1:%d%s", me.Username, port, path) }
}
