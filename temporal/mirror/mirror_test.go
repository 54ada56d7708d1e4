package mirror_test

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
	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/temporal/mirror"
	"github.com/bouldermgr/manager/workspace"
)

// A process that is started with workVar takes a slot as a worker does.
const workVar = "MANAGER_TEST_WORK"

func TestMain(m *testing.M) {
	if job := os.Getenv(workVar); job != "" {
		if err := work(strings.Fields(job)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// team is a project whose boulder begins, and the remote.
type team struct {
	*testing.T
	project, bare, remote, base string
}

// newTeam has a project with committed.txt, and begun.txt uncommitted. via makes the URL of the remote's path.
func newTeam(t *testing.T, via func(path string) string) *team {
	t.Helper()
	k := &team{T: t, bare: filepath.Join(t.TempDir(), "remote.git")}
	k.project = octest.Repo(t, map[string]string{"committed.txt": "1\n"})
	octest.Git(t, k.project, "clone", "--quiet", "--bare", ".", k.bare)
	k.remote = via(k.bare)
	must(t, os.WriteFile(filepath.Join(k.project, "begun.txt"), []byte("2\n"), 0o600))
	w, err := workspace.Open(t.Context(), k.project)
	must(t, err)
	k.base, err = w.Slots().Base(t.Context(), false, time.Unix(1, 0))
	must(t, err)
	for range 2 { // as after a crash
		must(t, mirror.Begin(t.Context(), w.Slots(), k.remote, "b", k.base))
	}
	return k
}

func file(path string) string { return "file://" + path }

type host struct {
	*team
	*mirror.Mirror
	cache string
}

func (k *team) host() host {
	k.Helper()
	cache := k.TempDir()
	m, err := mirror.Open(k.Context(), mirror.Config{Remote: k.remote, Cache: cache})
	must(k.T, err)
	return host{k, m, cache}
}

// slot takes one for an attempt "<sub-task>/<number>".
func (h host) slot(attempt, from string) *mirror.Slot {
	h.Helper()
	s, err := h.Slot(h.Context(), h.claim(attempt, from))
	must(h.T, err)
	h.Cleanup(s.Close)
	return s
}

func (k *team) claim(attempt, from string) boulder.SlotClaim {
	subTask, number, _ := strings.Cut(attempt, "/")
	n, _ := strconv.Atoi(number)
	return boulder.SlotClaim{BoulderID: "b", SubTaskID: subTask, Attempt: n, Base: k.base, From: from}
}

func (k *team) write(s *mirror.Slot, name, content string) {
	k.Helper()
	must(k.T, os.WriteFile(filepath.Join(s.Dir(), name), []byte(content), 0o600))
}

// files are those of a slot with their contents, without git's.
func (k *team) files(s *mirror.Slot) (all string) {
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

// refs are the manager's on the remote.
func (k *team) refs() string {
	return octest.Git(k.T, k.bare, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/manager")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What an attempt leaves on one host is put onto the tip on another, and a third attempt begins with it on the first. At the
// end nothing is left, on the remote and on both hosts.
func TestAcrossHosts(t *testing.T) {
	for name, via := range map[string]func(*testing.T) func(string) string{
		"file": func(*testing.T) func(string) string { return file },
		"ssh":  serveSSH,
	} {
		t.Run(name, func(t *testing.T) { acrossHosts(t, newTeam(t, via(t))) })
	}
}

func acrossHosts(t *testing.T, k *team) {
	a, b := k.host(), k.host()
	x, y := a.slot("x/1", k.base), b.slot("y/1", k.base)
	if got := k.files(x); got != "begun.txt=2 committed.txt=1 " {
		t.Errorf("a slot begins with %s", got)
	}
	if got := octest.Git(t, x.Dir(), "diff", "--stat", "main", "origin/main"); got != "" {
		t.Errorf("the branches of the remote differ in a slot: %s", got)
	}
	k.write(x, "x.txt", "x\n")
	k.write(y, "y.txt", "y\n")
	ofX, _, err := x.Publish(t.Context(), "")
	must(t, err)
	_, _, err = x.Publish(t.Context(), "") // as after a crash
	must(t, err)
	_, _, err = y.Publish(t.Context(), "")
	must(t, err)

	must(t, b.Fetch(t.Context(), "b"))
	tip := k.base
	for _, subTask := range []string{"x", "y"} {
		result, err := b.Result(t.Context(), "b", boulder.AttemptRef{SubTaskID: subTask, Attempt: 1})
		must(t, err)
		commit, _, conflicts, err := b.Slots.Integrate(t.Context(), tip, result, subTask, time.Unix(1, 0))
		must(t, err)
		if commit == tip || len(conflicts) > 0 {
			t.Fatalf("%s does not merge: %q", subTask, conflicts)
		}
		must(t, b.MoveTip(t.Context(), "b", tip, commit))
		must(t, b.MoveTip(t.Context(), "b", tip, commit))
		tip = commit
	}
	if err := a.MoveTip(t.Context(), "b", k.base, ofX); !errors.Is(err, workspace.ErrMoved) {
		t.Errorf("the tip is moved from where it is not: %v", err)
	}
	x.Close()
	z := a.slot("z/1", tip)
	if got := k.files(z); got != "begun.txt=2 committed.txt=1 x.txt=x y.txt=y " {
		t.Errorf("a slot at the tip begins with %s", got)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	octest.Git(t, t.TempDir(), "clone", "--quiet", file(k.bare), clone)
	if got := octest.Git(t, clone, "for-each-ref", "refs/manager"); got != "" {
		t.Errorf("an ordinary clone gets %s", got)
	}

	must(t, a.End(t.Context(), "b")) // z is still at work
	if got := k.refs(); got != "" {
		t.Errorf("left on the remote: %s", got)
	}
	if _, err := os.Stat(z.Dir()); err != nil {
		t.Errorf("a slot that is in use was removed: %v", err)
	}
	z.Close()
	y.Close()
	for _, h := range []host{a, b} {
		must(t, h.Sweep(t.Context()))
		kept, err := h.Slots.Kept(t.Context())
		if slots, _ := filepath.Glob(filepath.Join(h.cache, "*", ".manager", "slots", "*")); err != nil || len(kept)+len(slots) > 0 {
			t.Errorf("left on a host: refs of %q, %q, %v", kept, slots, err)
		}
	}
	if _, err := a.Slot(t.Context(), k.claim("x/2", k.base)); err == nil || !strings.Contains(err.Error(), "is over") {
		t.Errorf("a slot of a boulder that is over: %v", err)
	}
}

// A worker that was given up is refused when it publishes after the one that took its place, and what it left is not taken for
// the attempt's work.
func TestZombie(t *testing.T) {
	t.Parallel()
	k := newTeam(t, file)
	a, b := k.host(), k.host()
	zombie, heir := a.slot("x/1", k.base), b.slot("x/1", k.base)
	k.write(zombie, "x.txt", "late\n")
	k.write(zombie, "late.txt", "late\n")
	k.write(heir, "x.txt", "first\n")
	first, _, err := heir.Publish(t.Context(), "")
	must(t, err)
	_, _, err = zombie.Publish(t.Context(), "")
	if !errors.Is(err, workspace.ErrMoved) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), "another worker") {
		t.Errorf("published after %s: %v", first, err)
	}
	got, err := a.Result(t.Context(), "b", boulder.AttemptRef{SubTaskID: "x", Attempt: 1})
	if got != first || err != nil {
		t.Errorf("the attempt left %s, %v; want %s", got, err, first)
	}
	if got := k.files(a.slot("x/2", k.base)); !strings.HasSuffix(got, " x.txt=first ") {
		t.Errorf("the next attempt begins, beside the zombie, with %s", got)
	}
	zombie.Close()
	if got := k.files(a.slot("x/3", k.base)); !strings.HasSuffix(got, " x.txt=first ") {
		t.Errorf("the next attempt begins, in the zombie's slot, with %s", got)
	}
}

// work takes a slot: cache, remote, base, attempt. It writes dirty.txt, says what it found, publishes what it is told on
// standard input, and ends with that.
func work(job []string) error {
	ctx := context.Background()
	m, err := mirror.Open(ctx, mirror.Config{Cache: job[0], Remote: job[1]})
	if err != nil {
		return err
	}
	s, err := m.Slot(ctx, (&team{base: job[2]}).claim(job[3], job[2]))
	if err != nil {
		return err
	}
	found, _ := os.ReadFile(filepath.Join(s.Dir(), "dirty.txt"))
	if err := os.WriteFile(filepath.Join(s.Dir(), "dirty.txt"), []byte(job[3]), 0o600); err != nil {
		return err
	}
	fmt.Printf("%s found %q\n", s.Dir(), found)
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	_, _, err = s.Publish(ctx, "")
	return err
}

// worker is a process of a host. next is what it says.
type worker struct {
	*exec.Cmd
	stdin io.Closer
	next  *bufio.Reader
}

func (k *team) worker(cache, attempt string) worker {
	k.Helper()
	cmd := exec.CommandContext(k.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workVar+"="+strings.Join([]string{cache, k.remote, k.base, attempt}, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(k.T, err)
	out, err := cmd.StdoutPipe()
	must(k.T, err)
	must(k.T, cmd.Start())
	return worker{cmd, in, bufio.NewReader(out)}
}

func (w worker) line() string {
	line, _ := w.next.ReadString('\n')
	return line
}

// The worker processes of a host share one mirror, from the moment that it is made, and each has slots of its own. One that is
// killed leaves its slot to the next, and its files to the same attempt.
func TestWorkersOfOneHost(t *testing.T) {
	t.Parallel()
	k := newTeam(t, file)
	cache := t.TempDir()
	var all []worker
	where := map[string]string{} // attempt by what its worker said
	for i := range 4 {
		all = append(all, k.worker(cache, fmt.Sprintf("x%d/1", i)))
	}
	var said []string
	for i, w := range all {
		line := w.line()
		said = append(said, line)
		if other, ok := where[line]; ok || !strings.HasSuffix(line, " found \"\"\n") {
			t.Errorf("x%d says %s and %s the same", i, line, other)
		}
		where[line] = fmt.Sprintf("x%d", i)
	}
	must(t, all[2].Process.Kill())
	_ = all[2].Wait()
	again := k.worker(cache, "x2/1")
	if got, want := again.line(), strings.Replace(said[2], `""`, `"x2/1"`, 1); got != want {
		t.Errorf("after its worker was killed, the attempt goes on as %q; want %q", got, want)
	}
	must(t, again.Process.Kill())
	_ = again.Wait()
	next := k.worker(cache, "x4/1")
	if got := next.line(); got != said[2] {
		t.Errorf("after its worker was killed, another attempt has %q; want %q", got, said[2])
	}
	for _, w := range []worker{all[0], all[1], all[3], next} {
		w.stdin.Close()
		rest, _ := io.ReadAll(w.next)
		if err := w.Wait(); err != nil {
			t.Errorf("a worker: %v: %s", err, rest)
		}
	}
	if got := strings.Fields(k.refs()); fmt.Sprint(got) != "[b/base b/tip b/x0/1 b/x1/1 b/x3/1 b/x4/1]" {
		t.Errorf("published: %s", got)
	}
	mirrors, _ := filepath.Glob(filepath.Join(cache, "*", ".git"))
	if len(mirrors) != 1 {
		t.Errorf("mirrors of the host: %q", mirrors)
	}
}

// A project may be a directory of its repository.
func TestDirectoryOfRepository(t *testing.T) {
	t.Parallel()
	k := newTeam(t, file)
	m, err := mirror.Open(t.Context(), mirror.Config{Remote: k.remote, Cache: t.TempDir(), Dir: "sub/project"})
	must(t, err)
	s := host{team: k, Mirror: m}.slot("x/1", k.base)
	k.write(s, "x.txt", "x\n")
	commit, _, err := s.Publish(t.Context(), "")
	must(t, err)
	if got := octest.Git(t, k.bare, "diff", "--name-only", k.base, commit); got != "sub/project/x.txt\n" {
		t.Errorf("published: %s", got)
	}
}

func TestPasswordInURL(t *testing.T) {
	t.Parallel()
	_, err := mirror.Open(t.Context(), mirror.Config{Remote: "https://me:hunter2@example.com/x.git", Cache: t.TempDir()})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "credential helper") {
		t.Errorf("a password in the URL: %v", err)
	}
}

// serveSSH runs sshd on the loopback interface for one test.
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
