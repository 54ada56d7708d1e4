package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// daemons starts processes that detach in every way: a session of their own, a second fork, a clean environment below a
// live shell. TOKEN is their sleeping time, by which they are found. The script runs until a file "go" exists.
const daemons = `#!/bin/sh
setsid sleep TOKEN > /dev/null 2>&1 &
(setsid sh -c 'sleep TOKEN & exit' > /dev/null 2>&1 &)
setsid sh -c 'env -i sleep TOKEN & wait' > /dev/null 2>&1 &
while ! test -e go; do sleep 0.02; done
`

const orphanPlan = `
task: Leave processes behind
isolation: off
model: scripted/agent
sub_tasks:
  - {id: tool, description: Start daemons}
  - {id: gate, description: Have them started, gates: ["sh ./daemons.sh"]}
`

const daemonCount = 2 * 3 // of a tool and of a gate

// However manager ends, no process of its own, its OpenCode server, the agent's tools or the gates is left: at once if
// it could clean up, else after the next command, whatever that is. One boulder goes through all cases.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	w := newOrphanWorld(t)

	// kill -9 of the manager's process group while a tool and a gate run, after another command has looked.
	m := w.start("run", "plan.yaml", "--yes", "--ledger-model", "scripted/ledger")
	m.awaitDaemons()
	if _, stderr := w.run(0, "status"); strings.Contains(stderr, "killed") {
		t.Errorf("status beside the run: %s", stderr)
	}
	if n := len(w.sleeps()); n != daemonCount {
		t.Errorf("a command beside a live manager left it %d of its processes", n)
	}
	server := servers(t, m.cmd.Process.Pid)[0]
	if err := syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.end(-1)
	await(t, func() bool { return !alive(server) }) // it ends with the manager
	if n := len(w.sleeps()); n < daemonCount {
		t.Errorf("%d daemons outlived the manager: nothing to test", n)
	}
	if m.terminal.cursor() {
		t.Error("the live view had not hidden the cursor: nothing to test")
	}
	status := w.start("status")
	status.end(0)
	m.nothingLeft("after kill -9 and status")
	if text := status.terminal.text(); !status.terminal.cursor() || !strings.Contains(text, "A manager was killed here") {
		t.Errorf("status on the terminal after the crash:\n%q", text)
	}

	// Two signals leave nothing, without another command, even if OpenCode hangs and its calls only time out.
	m = w.start("resume", "--yes")
	m.awaitDaemons()
	for _, server := range servers(t, m.cmd.Process.Pid) {
		if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	m.signal(syscall.SIGTERM, syscall.SIGINT)
	m.end(exitInterrupted)
	if !strings.Contains(m.terminal.text(), "was cut off at work") {
		t.Errorf("the resume after the crash does not say what it does:\n%q", m.terminal.text())
	}
	m.nothingLeft("after two signals and with a server that hangs")
	if !m.terminal.cursor() || !m.terminal.sane() {
		t.Errorf("the terminal was left without a cursor, or in another mode:\n%q", m.terminal.text())
	}

	if signal.Ignored(syscall.SIGHUP) {
		return // under nohup, which manager respects
	}
	// Closing the terminal sends two signals, which are one polite request: the turns may end.
	m = w.start("resume", "--yes")
	m.awaitDaemons()
	m.terminal.close()
	m.signal(syscall.SIGHUP)
	m.awaitNoSignal(syscall.SIGHUP)
	m.signal(syscall.SIGHUP)
	m.awaitNoSignal(syscall.SIGHUP)
	writeFile(t, filepath.Join(w.dir, "go"), "")
	m.end(exitInterrupted)
	m.nothingLeft("after the terminal was closed")
	if stdout, _ := w.run(0, "status"); !strings.Contains(stdout, "paused: its process was stopped") { // else: interrupted
		t.Errorf("the turns were not allowed to end:\n%s", stdout)
	}
}

// orphanWorld is a project whose agents and gates start daemons.
type orphanWorld struct {
	*world
	token string
}

func newOrphanWorld(t *testing.T) *orphanWorld {
	t.Helper()
	token := fmt.Sprintf("3000.%d", time.Now().UnixNano())
	w := &orphanWorld{token: token, world: newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case subTaskOf(req.FirstUser()) == "tool" && req.TurnsSinceUser() == 0:
			return shell("sh ./daemons.sh")
		}
		return scriptmodel.Reply{Text: "All of it is done now."}
	}, map[string]string{"plan.yaml": orphanPlan, "daemons.sh": strings.ReplaceAll(daemons, "TOKEN", token)})}
	w.env = append(w.env, "TERM=xterm-256color")
	t.Cleanup(func() { // a failed test may leave daemons
		for _, pid := range w.sleeps() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return w
}

// sleeps finds the daemons by their command line: some have no environment to search.
func (w *orphanWorld) sleeps() []int {
	return running(w.t, func(pid int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.HasPrefix(line, []byte("sleep\x00"+w.token))
	})
}

// running lists the matching processes that have not ended.
func running(t *testing.T, matches func(pid int) bool) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && matches(pid) && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive reports whether a process has not ended and is not exiting. A killed server takes a while to free its memory.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if err != nil || len(fields) < 7 || strings.ContainsAny(fields[0], "ZX") {
		return false
	}
	const exiting = 4 // PF_EXITING of the kernel's sched.h, in the flags: field 9 of proc_pid_stat(5)
	flags, err := strconv.ParseUint(fields[9-3], 10, 64)
	return err == nil && flags&exiting == 0
}

// processes lists those whose environment has this world's home and the text also.
func (w *world) processes(also string) []int {
	at := slices.IndexFunc(w.env, func(entry string) bool { return strings.HasPrefix(entry, "HOME=") })
	return running(w.t, func(pid int) bool {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return strings.Contains(string(environ), "\x00"+w.env[at]+"\x00") && strings.Contains(string(environ), also)
	})
}

func (w *world) gone(when string, pids []int) {
	w.t.Helper()
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		w.t.Errorf("%s: process %d is left: %q", when, pid, line)
	}
}

// ttyManager is a manager on a terminal of its own.
type ttyManager struct {
	*orphanWorld
	cmd      *exec.Cmd
	terminal *pty
}

func (w *orphanWorld) start(args ...string) *ttyManager {
	w.t.Helper()
	m := &ttyManager{orphanWorld: w, cmd: manager(w.t, w.dir, w.env, args...), terminal: openPTY(w.t)}
	m.cmd.Stderr = m.terminal.slave
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// awaitDaemons waits until the tool and the gate run.
func (m *ttyManager) awaitDaemons() {
	m.t.Helper()
	await(m.t, func() bool { return len(m.sleeps()) == daemonCount })
	if n := len(m.processes(orphan.Variable + "=" + m.record())); n < daemonCount || len(servers(m.t, m.cmd.Process.Pid)) != 1 {
		m.t.Fatalf("there is no server, or too little runs: %d", n)
	}
}

// record returns the name of the manager's record, which is also its processes' mark, or "".
func (m *ttyManager) record() (name string) {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.dir, ".manager", orphan.DirName))
	if err != nil || len(entries) > 1 {
		m.t.Fatalf("records: %v, %v", entries, err)
	}
	for _, e := range entries {
		name = e.Name()
	}
	return name
}

func (m *ttyManager) nothingLeft(when string) {
	m.t.Helper()
	m.gone(when, append(m.processes(""), m.sleeps()...))
	if left := m.record(); left != "" {
		m.t.Errorf("%s: record %s is left", when, left)
	}
}

func (m *ttyManager) signal(all ...syscall.Signal) {
	m.t.Helper()
	for _, s := range all {
		if err := m.cmd.Process.Signal(s); err != nil {
			m.t.Fatal(err)
		}
	}
}

// awaitNoSignal waits until the process has taken the signal, so that the next of its kind is not merged with it.
func (m *ttyManager) awaitNoSignal(s syscall.Signal) {
	m.t.Helper()
	await(m.t, func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
		if err != nil {
			m.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "\nShdPnd:\t")
		pending, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		return pending&(1<<(s-1)) == 0
	})
}

func (m *ttyManager) end(code int) {
	m.t.Helper()
	_ = m.cmd.Wait()
	m.terminal.drain()
	if got := m.cmd.ProcessState.ExitCode(); got != code {
		m.t.Fatalf("exit code %d, want %d:\n%s", got, code, m.terminal.text())
	}
}
