package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
)

// The OpenCode server is killed while a sub-task is at work: another one is started and the same session goes on.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	dir, env, model := crashWorld(t)
	p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger")
	session := p.until("subtask-start")["session_id"]
	<-model.asked
	first := servers(t, p.cmd.Process.Pid)
	if len(first) != 1 {
		t.Fatalf("the manager has %d servers", len(first))
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	close(model.release)
	done := p.until("subtask-done")
	if done["sub_task_id"] != "first" || done["completed"] != true || done["attempt"] != 1.0 {
		t.Errorf("%v", done)
	}
	if again := servers(t, p.cmd.Process.Pid); len(again) != 1 || again[0] == first[0] {
		t.Errorf("servers: %v, before %v", again, first)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.stderr.String())
	}
	wantFile(t, dir, "first.txt", "first\n")
	wantFile(t, dir, "second.txt", "second\n")
	_, stdout, _ := run(t, dir, env, "show", "--json")
	if !strings.Contains(stdout, session.(string)) {
		t.Errorf("session %s is not the one that finished:\n%s", session, stdout)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.prompts["first"] != 1 || model.prompts["second"] != 1 || model.resumes != 1 {
		t.Errorf("prompts %v, %d resume prompts", model.prompts, model.resumes)
	}
}

// All connections to an attached server are cut while a turn runs, and the turn ends before they are back: nothing is
// lost, and nothing is sent twice.
func TestConnectionIsCut(t *testing.T) {
	t.Parallel()
	dir, env, model, server := heldWorld(t)
	env, attach := attached(t, dir, env, server)
	p := startProxy(t, strings.TrimPrefix(attach, "--attach=http://"))
	m := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger",
		"--attach", "http://"+p.listener.Addr().String())
	<-model.asked
	if n := p.cut(); n == 0 {
		t.Fatal("there was no connection to cut")
	}
	close(model.release)
	if code := m.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, m.stderr.String())
	}
	wantFile(t, dir, "first.txt", "first\n")
	wantFile(t, dir, "second.txt", "second\n")
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.prompts["first"] != 1 || model.prompts["second"] != 1 || model.resumes != 0 {
		t.Errorf("prompts %v, %d resume prompts", model.prompts, model.resumes)
	}
}

// serve starts an OpenCode server without a password, as a person does in a terminal, and returns its address.
func serve(t *testing.T, dir string, env []string) string {
	t.Helper()
	server, err := octest.Serve(dir, env, "0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server.URL
}

// servers are the children of a process that serve; it has others for moments, such as git.
func servers(t *testing.T, pid int) []int {
	t.Helper()
	return slices.DeleteFunc(children(t, pid), func(child int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		return err != nil || !bytes.Contains(line, []byte("\x00serve\x00"))
	})
}

// proxy passes connections on, and can break all of them.
type proxy struct {
	listener net.Listener
	to       string
	pipes    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.pipes.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.pipes.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = true, true
		p.mu.Unlock()
		p.pipes.Go(func() { pass(in, out) })
		p.pipes.Go(func() { pass(out, in) })
	}
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // it ends when one of them is closed
	to.Close()
	from.Close()
}

// cut breaks all connections that there are and returns how many.
func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns) / 2
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
	return n
}
