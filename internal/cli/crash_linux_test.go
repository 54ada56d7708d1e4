package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// An order after kill -9, while the agent works on in a server that nobody ended: manager says so, and the agent is stopped
// before another one starts.
func TestOrderStopsTheAgentThatWasLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ order, next []string }{
		"retry":  {[]string{"retry", "first"}, []string{"resume"}},
		"cancel": {[]string{"cancel"}, []string{"run", "plan.yaml"}},
		"skip":   {[]string{"skip", "first"}, []string{"run", "plan.yaml"}}, // another boulder, while that one can be resumed
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := newGateModel()
			var asked, stopped atomic.Int32
			w := newWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
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
				if stdout, _ := w.run(0, args...); !strings.Contains(stdout, left) {
					t.Errorf("%q does not say that an agent may be at work:\n%s", args, stdout)
				}
			}
			next := w.start(append(test.next, attach)...)
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

// The first Ctrl-C lets the running turn end; the second aborts it. Both times a resume finishes the work.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			w, gate := heldWorld(t)
			attach := w.attached()
			p := w.start("run", "plan.yaml", attach)
			<-gate.asked
			// Two signals of one kind may arrive as one; the manager treats all kinds alike.
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

// A second run in the same project is refused with who holds it; looking works all the same.
func TestSecondRunIsRefused(t *testing.T) {
	t.Parallel()
	w, gate := heldWorld(t)
	p := w.start("run", "plan.yaml", w.attached())
	<-gate.asked
	_, stderr := w.run(exitHeld, "run", "plan.yaml")
	if !strings.Contains(stderr, fmt.Sprintf("process %d", p.cmd.Process.Pid)) {
		t.Errorf("second run: %s", stderr)
	}
	if stdout, _ := w.run(0, "status"); !strings.Contains(stdout, "first") || !strings.Contains(stdout, "second") {
		t.Errorf("status: %s", stdout)
	}
	close(gate.release)
	p.wait(0)
}

// Nothing of ours is left when a run has ended, however it ended: the OpenCode server goes with the manager.
func TestServerDiesWithTheManager(t *testing.T) {
	t.Parallel()
	w, gate := heldWorld(t)
	p := w.start("run", "plan.yaml")
	<-gate.asked
	servers := children(t, p.cmd.Process.Pid)
	if len(servers) != 1 {
		t.Fatalf("the manager has %d children", len(servers))
	}
	fd, err := unix.PidfdOpen(servers[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p.signal(syscall.SIGKILL)
	p.wait(-1)
	// A pidfd becomes readable when its process ends.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000); n != 1 {
		t.Errorf("process %d is still there after 10 s (%v)", servers[0], err)
	}
}

// children lists the direct children of a process; each belongs to the thread that started it.
func children(t *testing.T, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range lists {
		data, _ := os.ReadFile(path) // the thread may have ended
		for f := range strings.FieldsSeq(string(data)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}
