package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
)

// The OpenCode server is killed while a sub-task is at work: another one is started and the same session goes on.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	w, gate := heldWorld(t)
	p := w.start("run", "plan.yaml")
	session := p.until("subtask-start")["session_id"]
	<-gate.asked
	first := servers(t, p.cmd.Process.Pid)
	if len(first) != 1 {
		t.Fatalf("the manager has %d servers", len(first))
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	close(gate.release)
	done := p.until("subtask-done")
	if done["sub_task_id"] != "first" || done["completed"] != true || done["attempt"] != 1.0 {
		t.Errorf("%v", done)
	}
	if again := servers(t, p.cmd.Process.Pid); len(again) != 1 || again[0] == first[0] {
		t.Errorf("servers: %v, before %v", again, first)
	}
	p.wait(0)
	wantFile(t, w.dir, "first.txt", "first\n")
	wantFile(t, w.dir, "second.txt", "second\n")
	if stdout, _ := w.run(0, "show", "--json"); !strings.Contains(stdout, session.(string)) {
		t.Errorf("session %s is not the one that finished:\n%s", session, stdout)
	}
	gate.prompted(t, 1)
}

// All connections to an attached server are cut while a turn runs, and the turn ends before they are back: nothing is
// lost, and nothing is sent twice.
func TestConnectionIsCut(t *testing.T) {
	t.Parallel()
	w, gate := heldWorld(t)
	server, err := url.Parse(strings.TrimPrefix(w.attached(), "--attach="))
	if err != nil {
		t.Fatal(err)
	}
	var open atomic.Int32 // requests
	passOn := httputil.NewSingleHostReverseProxy(server)
	passOn.FlushInterval = -1
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		passOn.ServeHTTP(rw, r)
	}))
	t.Cleanup(proxy.Close)
	p := w.start("run", "plan.yaml", "--attach", proxy.URL)
	<-gate.asked
	if open.Load() == 0 {
		t.Fatal("there was no connection to cut")
	}
	proxy.CloseClientConnections()
	close(gate.release)
	p.wait(0)
	wantFile(t, w.dir, "first.txt", "first\n")
	wantFile(t, w.dir, "second.txt", "second\n")
	gate.prompted(t, 0)
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
