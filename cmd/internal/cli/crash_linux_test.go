package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// An order after kill -9 says that the agent continues in its server, and stops it before another one starts.
func TestOrderStopsTheAgentThatWasLeft(t *testing.T) {
	t.Parallel()
	second, err := octest.StandIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		order, next []string
		own         bool // the next run has its own server, also of another OpenCode
	}{
		"retry":       {[]string{"retry", "first"}, []string{"resume"}, false},
		"cancel":      {[]string{"cancel"}, []string{"run", "plan.yaml"}, false},
		"skip":        {[]string{"skip", "first"}, []string{"run", "plan.yaml"}, false}, // it can be resumed
		"cancel, own": {[]string{"cancel"}, []string{"run", "plan.yaml", "--opencode", second}, true},
		"resume, own": {nil, []string{"resume"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := newGateModel()
			var asked, stopped atomic.Int32
			w := directWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
				reply := gate.reply(ctx, req)
				if reply.Wait != nil && asked.Add(1) == 1 {
					select {
					case <-ctx.Done():
						stopped.Add(1)
					case <-gate.release:
					}
				}
				return reply
			}, map[string]string{"plan.yaml": chainPlan})
			attach := w.attached()
			p := w.start("run", "plan.yaml", attach)
			<-gate.asked
			p.signal(syscall.SIGKILL)
			p.wait(-1)

			const left = `The agent of "first" may still be at work in session ses_`
			for _, args := range [][]string{test.order, {"status"}} {
				if test.order == nil {
					break
				}
				if stdout, _ := w.run(0, args...); !strings.Contains(stdout, left) {
					t.Errorf("%q does not say that an agent may be at work:\n%s", args, stdout)
				}
			}
			if !test.own {
				test.next = append(test.next, attach)
			}
			next := w.start(test.next...)
			<-gate.asked
			close(gate.release)
			next.wait(0)
			if stopped.Load() != 1 {
				t.Error("two agents were at work on the same sub-task")
			}
			if stdout, _ := w.run(0, "list", "--json"); strings.Contains(stdout, "ses_") {
				t.Errorf("the session is still said to be left:\n%s", stdout)
			}
			wantFile(t, w.dir, "second.txt", "second\n")
		})
	}
}

// The first Ctrl-C lets the running turn end, the second aborts it. After both a resume finishes the work.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			w, gate := heldWorld(t)
			attach := w.attached()
			p := w.start("run", "plan.yaml", attach)
			<-gate.asked
			// Two signals of one kind may arrive as one; manager treats all kinds alike.
			for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[:signals] {
				p.signal(s)
			}
			if signals == 1 {
				close(gate.release)
			}
			p.wait(exitInterrupted)
			if !strings.Contains(p.stderr.String(), "manager resume ") {
				t.Errorf("no resume line:\n%s", p.stderr.String())
			}
			if signals == 2 {
				close(gate.release)
			} else {
				wantFile(t, w.dir, "first.txt", "first\n")
			}
			if stdout, _ := w.run(0, "resume", "--json", attach); strings.Contains(stdout, `"type":"retry"`) {
				t.Errorf("the interrupted attempt was used up:\n%s", stdout)
			}
			wantFile(t, w.dir, "second.txt", "second\n")
		})
	}
}

// All connections to a server are cut, and the turn ends before they are back: nothing is lost or sent twice.
func TestConnectionIsCut(t *testing.T) {
	t.Parallel()
	w, gate := heldWorld(t)
	server, err := url.Parse(strings.TrimPrefix(w.attached(), "--attach="))
	if err != nil {
		t.Fatal(err)
	}
	var open atomic.Int32 // requests in flight
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
	prompts := map[string]int{}
	for _, r := range w.model.Requests() {
		if r.Kind() == scriptmodel.KindAgent && r.TurnsSinceUser() == 0 {
			prompts[subTaskOf(r.FirstUser())]++
		}
	}
	if prompts["first"] != 1 || prompts["second"] != 1 {
		t.Errorf("prompts %v", prompts)
	}
}

// serve starts an OpenCode server without a password, as the user does in a terminal, and returns its address.
func serve(t *testing.T, dir string, env []string) string {
	t.Helper()
	server, err := octest.Serve(dir, env, "0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server.URL
}

// servers lists the children of a process that serve, by the thread that started each; git is a child for moments.
func servers(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lists {
		children, _ := os.ReadFile(path) // the thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			line, err := os.ReadFile("/proc/" + child + "/cmdline")
			if n, _ := strconv.Atoi(child); err == nil && bytes.Contains(line, []byte("\x00serve\x00")) {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
