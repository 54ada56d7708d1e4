package orphan

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asManager makes this test binary register, run a shell command with its mark, print the mark, and wait.
const asManager = "ORPHAN_TEST_MANAGER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asManager); dir != "" {
		if err := beManager(dir, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func beManager(dir, script string) error {
	r, err := Register(dir)
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), r.Env())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(r.Env())
	_, _ = os.Stdin.Read(make([]byte, 1)) // a closed stdin asks for a clean exit
	return r.Release()
}

// manager is a registered process with children.
type manager struct {
	t     *testing.T
	dir   string
	token string // in the command line of all that it starts, whatever their environment
	cmd   *exec.Cmd
	stdin io.Closer
}

// startManager starts a manager whose script gets a unique number of seconds as $1, by which its `sleep`s are found.
func startManager(t *testing.T, dir, script string, sleeps int) *manager {
	t.Helper()
	m := &manager{t: t, dir: dir, token: fmt.Sprintf("1000.%d", time.Now().UnixNano())}
	m.cmd = exec.Command(os.Args[0], strings.ReplaceAll(script, "$1", m.token))
	m.cmd.Env = append(os.Environ(), asManager+"="+dir)
	m.cmd.Stderr = os.Stderr
	var errs [3]error
	var stdout io.Reader
	m.stdin, errs[0] = m.cmd.StdinPipe()
	stdout, errs[1] = m.cmd.StdoutPipe()
	errs[2] = m.cmd.Start()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a failed test may leave processes
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		for _, pid := range m.matching(func(line []byte) bool { return bytes.Contains(line, []byte(m.token)) }) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(m.running()) == sleeps })
	return m
}

// running lists the sleeps that the manager's script started.
func (m *manager) running() []int {
	return m.matching(func(line []byte) bool { return bytes.HasPrefix(line, []byte("sleep\x00"+m.token)) })
}

func (m *manager) matching(matches func(line []byte) bool) []int {
	var pids []int
	all, err := processes(Variable)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range all {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if matches(line) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func (m *manager) kill() {
	m.t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		m.t.Fatal(err)
	}
	_ = m.cmd.Wait()
}

// await polls the condition, at most until the test binary's timeout.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test is over")
		}
	}
}

func sweep(t *testing.T, dir string) Swept {
	t.Helper()
	s, err := Sweep(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// escapes starts four sleeps that detach: by a new session, a second fork, a clean environment below a live shell.
const escapes = `
setsid sleep $1 &
(setsid sh -c 'sleep $1 & exit' &)
setsid sh -c 'env -i sleep $1 & wait' &
(setsid sh -c 'env -i setsid sleep $1 & wait' &)
`

func TestSweepAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := startManager(t, dir, escapes, 4)
	bystander := startManager(t, dir, escapes, 4)
	elsewhere := startManager(t, t.TempDir(), escapes, 4)
	if s := sweep(t, dir); s != (Swept{}) {
		t.Errorf("while all are alive: %+v", s)
	}
	m.kill()
	if n := len(m.running()); n != 4 {
		t.Fatalf("%d processes outlived the manager: nothing to test", n)
	}
	// Concurrent commands share the work, and what is already gone is no error.
	var all sync.WaitGroup
	var managers, processes atomic.Int32
	for range 8 {
		all.Go(func() {
			s, err := Sweep(dir)
			if err != nil {
				t.Error(err)
			}
			managers.Add(int32(s.Managers))
			processes.Add(int32(s.Processes))
		})
	}
	all.Wait()
	if managers.Load() != 1 || processes.Load() < 6 { // the four sleeps and two waiting shells
		t.Errorf("%d managers with %d processes", managers.Load(), processes.Load())
	}
	if left := m.running(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, other := range []*manager{bystander, elsewhere} {
		if n := len(other.running()); n != 4 {
			t.Errorf("another manager has %d of its processes left", n)
		}
	}
	if s := sweep(t, dir); s != (Swept{}) {
		t.Errorf("the second time: %+v", s)
	}
	if names := list(t, dir); len(names) != 1 {
		t.Errorf("records: %v, want that of the other manager", names)
	}
}

// A manager that exits cleanly leaves neither processes nor a record.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := startManager(t, dir, escapes, 4)
	m.stdin.Close()
	if err := m.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if left := m.running(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if names := list(t, dir); len(names) > 0 {
		t.Errorf("records: %v", names)
	}
}

// A manager that an agent starts is ended with the outer one; what it started is found by its own record.
func TestManagerInsideOfAManager(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inner := fmt.Sprintf("setsid env %s=%s %s 'setsid sleep $1 & wait' 3<>fifo <&3 > /dev/null &",
		asManager, dir, program)
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startManager(t, dir, "cd "+dir+"; "+inner+" setsid sleep $1 &", 2)
	m.kill()
	if s := sweep(t, dir); s.Managers != 2 || s.Processes < 3 {
		t.Errorf("%+v", s)
	}
	if left := m.running(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A sweep never removes the record of a process that is registering.
func TestRegisterBesideSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				r, err := Register(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := Sweep(dir); err != nil {
					t.Error(err)
				}
				mark := strings.TrimPrefix(r.Env(), Variable+"=")
				if _, err := os.Lstat(filepath.Join(dir, DirName, mark)); err != nil {
					t.Error(err)
				}
				r.records.Remove(mark) // unlike Release, without scanning all processes
				r.file.Close()
				r.records.Close()
			}
		})
	}
	all.Wait()
}

// victim is a process that a record marks or names. The test says whether a sweep must end it.
func victim(t *testing.T, mark string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), Variable+"="+mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	await(t, func() bool { // until its environment is visible
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
		return markOf(data, Variable) == mark
	})
	return cmd
}

func write(t *testing.T, dir, mark, content string) {
	t.Helper()
	records := filepath.Join(dir, DirName)
	err := errors.Join(os.MkdirAll(records, 0o700), os.WriteFile(filepath.Join(records, mark), []byte(content), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, DirName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A record without an owner ends the processes with its mark, whatever it contains, and none that it names.
func TestRecords(t *testing.T) {
	t.Parallel()
	named := victim(t, rand.Text()) // has another manager's mark
	dir, mark := t.TempDir(), rand.Text()
	marked := victim(t, mark)
	write(t, dir, mark, fmt.Sprintf(`{"pid":%d}`, named.Process.Pid))
	if got := sweep(t, dir); got != (Swept{Managers: 1, Processes: 1}) || len(list(t, dir)) > 0 {
		t.Errorf("%+v, left: %v", got, list(t, dir))
	}
	if _, err := stat(marked.Process.Pid); err == nil {
		t.Error("the marked process was not ended")
	}
	if _, err := stat(named.Process.Pid); err != nil {
		t.Errorf("the process that the record names: %v", err)
	}
}

// Entries that are not our records are kept, and end nothing.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	dir, mark := t.TempDir(), rand.Text()
	marked := victim(t, mark)
	outside := filepath.Join(t.TempDir(), mark)
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "notes.txt", "mine")
	// Names that are almost a mark.
	for _, name := range []string{mark[1:], mark + "A", strings.ToLower(mark), mark[:25] + "1", otherUser} {
		write(t, dir, name, "")
	}
	records := filepath.Join(dir, DirName)
	link := rand.Text()
	err := errors.Join(
		os.Symlink(outside, filepath.Join(records, mark)),
		os.Symlink("notes.txt", filepath.Join(records, link)),
		os.Mkdir(filepath.Join(records, rand.Text()), 0o700),
		syscall.Mkfifo(filepath.Join(records, rand.Text()), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // only root can chown
		theirs := rand.Text()
		write(t, dir, theirs, "")
		if err := os.Chown(filepath.Join(records, theirs), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	before := list(t, dir)
	if s := sweep(t, dir); s != (Swept{}) {
		t.Errorf("%+v", s)
	}
	if after := list(t, dir); len(after) != len(before) {
		t.Errorf("before %v, after %v", before, after)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if _, err := stat(marked.Process.Pid); err != nil {
		t.Errorf("a link named it, and it was ended: %v", err)
	}
}

// A state directory that is a link may lead to another project.
func TestLinksInPlaceOfDirectories(t *testing.T) {
	t.Parallel()
	elsewhere, mark := t.TempDir(), rand.Text()
	marked := victim(t, mark)
	write(t, elsewhere, mark, "")
	link := filepath.Join(t.TempDir(), ".manager")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	if s := sweep(t, link); s != (Swept{}) {
		t.Errorf("%+v", s)
	}
	inside := t.TempDir()
	if err := os.Symlink(filepath.Join(elsewhere, DirName), filepath.Join(inside, DirName)); err != nil {
		t.Fatal(err)
	}
	if s, err := Sweep(inside); s != (Swept{}) || err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Register(inside); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("Register: %v", err)
	}
	if _, err := stat(marked.Process.Pid); err != nil {
		t.Errorf("it was ended: %v", err)
	}
}

func TestRegisterIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Register(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, DirName))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	mark := strings.TrimPrefix(r.Env(), Variable+"=")
	if info, err = os.Stat(filepath.Join(dir, DirName, mark)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record: %v, %v", info.Mode(), err)
	}
	if err := errors.Join(r.Release(), r.Release()); err != nil {
		t.Error(err)
	}
	if names := list(t, dir); len(names) > 0 {
		t.Errorf("records: %v", names)
	}
	_, err = Register(os.DevNull)
	if err == nil || !strings.Contains(err.Error(), "choose another with -C") {
		t.Errorf("without a directory: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const tail = " S 10 20 30 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 9 10"
	want := process{pid: 7, parent: 10, group: 20, session: 30, start: 987654321}
	for _, name := range []string{"sleep", "a b", ") S 1 1 1 1", "\n", "", "((("} {
		got, err := parseStat(7, []byte("7 ("+name+")"+tail))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for _, data := range []string{"", "7 (sleep) S 1", "7 (sleep) S x 20 30 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 1"} {
		if p, err := parseStat(7, []byte(data)); err == nil {
			t.Errorf("%q: %+v", data, p)
		}
	}
	if _, err := parseStat(7, []byte("7 (x)"+strings.Replace(tail, "S", "Z", 1))); !errors.Is(err, errEnded) {
		t.Errorf("a zombie: %v", err)
	}
	threads := strings.NewReplacer("S", "Z", "20 0 1 0", "20 0 3 0").Replace(tail)
	if got, err := parseStat(7, []byte("7 (x)"+threads)); err != nil || got != want {
		t.Errorf("a zombie with threads that run: %+v, %v", got, err)
	}
}
