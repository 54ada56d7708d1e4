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
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// daemons start processes that get out of sight in every way: a session of their own, a second fork, a clean
// environment below a shell that stays. TOKEN is how long they sleep, and how they are found. The script itself runs until
// there is a file "go".
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

// After any end of the manager nothing of what it, its OpenCode server, the agent's tools or the gates have started
// is left: at once if it could clean up, else after the next command, whatever that is. One boulder goes through all
// of it.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	w := newOrphanWorld(t)

	// kill -9 of the manager's whole group while a tool and a gate run, and a look beside it before.
	m := w.start("run", "plan.yaml", "--yes", "--ledger-model", "scripted/ledger")
	m.look()
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
	await(t, func() bool { return !alive(server) }) // it goes with the manager
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

	// Two signals: nothing is left without any other command, even if OpenCode hangs and ends nothing of its own. That ends by
	// itself only after several calls have timed out.
	m = w.start("resume", "--yes")
	m.look()
	for _, server := range servers(t, m.cmd.Process.Pid) {
		if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	m.signal(syscall.SIGTERM, syscall.SIGINT)
	m.end(exitInterrupted)
	m.nothingLeft("after two signals and with a server that hangs")
	if !m.terminal.cursor() || !m.terminal.sane() {
		t.Errorf("the terminal was left without a cursor, or in another mode:\n%q", m.terminal.text())
	}

	if signal.Ignored(syscall.SIGHUP) {
		return // under nohup, which manager respects
	}
	// The terminal is closed: both signals that this brings are one polite request, so the turns may end.
	m = w.start("resume", "--yes")
	m.look()
	m.terminal.close()
	m.signal(syscall.SIGHUP)
	m.awaitNoSignal(syscall.SIGHUP)
	m.signal(syscall.SIGHUP)
	m.awaitNoSignal(syscall.SIGHUP)
	writeFile(t, filepath.Join(w.dir, "go"), "")
	m.end(exitInterrupted)
	m.nothingLeft("after the terminal was closed")
	if stdout, _ := w.run(0, "status"); !strings.Contains(stdout, "paused: stopped") { // else: interrupted
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
			return content
		case subTaskOf(req.FirstUser()) == "tool" && req.TurnsSinceUser() == 0:
			return shell("sh ./daemons.sh")
		}
		return scriptmodel.Reply{Text: "All of it is done now."}
	}, map[string]string{"plan.yaml": orphanPlan, "daemons.sh": strings.ReplaceAll(daemons, "TOKEN", token)})}
	w.env = append(w.env, "TERM=xterm-256color")
	t.Cleanup(func() { // what a failed test leaves
		for _, pid := range w.sleeps() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return w
}

// sleeps are the daemons, by their command line: some have no environment left to be found by.
func (w *orphanWorld) sleeps() []int {
	return running(w.t, func(pid int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.HasPrefix(line, []byte("sleep\x00"+w.token))
	})
}

// running lists the processes that match and have not ended.
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

// alive reports whether a process has not ended, and is not past its last instruction and only gives its memory back, as a
// killed server does for a while.
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

// processes are those that have this world's home, and something else, in their environment.
func (w *world) processes(also string) []int {
	at := slices.IndexFunc(w.env, func(entry string) bool { return strings.HasPrefix(entry, "HOME=") })
	return running(w.t, func(pid int) bool {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return strings.Contains(string(environ), "\x00"+w.env[at]+"\x00") && strings.Contains(string(environ), also)
	})
}

// gone checks that there are no such processes.
func (w *world) gone(when string, pids []int) {
	w.t.Helper()
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		w.t.Errorf("%s: process %d is left: %q", when, pid, line)
	}
}

// messy is a manager on a terminal of its own.
type messy struct {
	*orphanWorld
	cmd      *exec.Cmd
	terminal *pty
}

func (w *orphanWorld) start(args ...string) *messy {
	w.t.Helper()
	m := &messy{orphanWorld: w, cmd: manager(w.t, w.dir, w.env, args...), terminal: openPTY(w.t)}
	m.cmd.Stderr = m.terminal.slave
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// look waits until the tool and the gate run.
func (m *messy) look() {
	m.t.Helper()
	await(m.t, func() bool { return len(m.sleeps()) == daemonCount })
	if n := len(m.processes(orphan.Variable + "=" + m.record())); n < daemonCount || len(servers(m.t, m.cmd.Process.Pid)) != 1 {
		m.t.Fatalf("there is no server, or too little runs: %d", n)
	}
}

// record is the name of the manager's record, which marks what it starts; empty: there is none.
func (m *messy) record() (name string) {
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

// nothingLeft checks that all processes are gone, and the record too.
func (m *messy) nothingLeft(when string) {
	m.t.Helper()
	m.gone(when, append(m.processes(""), m.sleeps()...))
	if left := m.record(); left != "" {
		m.t.Errorf("%s: record %s is left", when, left)
	}
}

func (m *messy) signal(all ...syscall.Signal) {
	m.t.Helper()
	for _, s := range all {
		if err := m.cmd.Process.Signal(s); err != nil {
			m.t.Fatal(err)
		}
	}
}

// awaitNoSignal returns when the process has taken the signal, so that the next of its kind is one more.
func (m *messy) awaitNoSignal(s syscall.Signal) {
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

func (m *messy) end(code int) {
	m.t.Helper()
	_ = m.cmd.Wait() // the exit code tells
	m.terminal.drain()
	if got := m.cmd.ProcessState.ExitCode(); got != code {
		m.t.Fatalf("exit code %d, want %d:\n%s", got, code, m.terminal.text())
	}
}
