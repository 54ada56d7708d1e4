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

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// An order after kill -9, while the agent works on in a server that nobody ended: manager says so, and the agent is stopped
// before another one starts.
func TestOrderStopsTheAgentThatWasLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ order, next []string }{
		"retry":  {[]string{"retry", "first"}, []string{"resume"}},
		"cancel": {[]string{"cancel"}, []string{"run", "plan.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := newGateModel()
			var asked, stopped atomic.Int32
			server := octest.Model(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
				reply := model.reply(ctx, req)
				if reply.Wait != nil && asked.Add(1) == 1 {
					select {
					case <-ctx.Done():
						stopped.Add(1)
					case <-model.release:
					}
				}
				return reply
			})
			dir := octest.Repo(t, map[string]string{"plan.yaml": chainPlan})
			env, attach := attached(t, dir, testEnv(t, server.URL()), server)
			p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger", attach)
			<-model.asked
			p.signal(syscall.SIGKILL)
			p.wait()

			const left = `The agent of "first" may still be at work in session ses_`
			if code, stdout, stderr := run(t, dir, env, test.order...); code != 0 || !strings.Contains(stdout, left) {
				t.Fatalf("%v: %d\n%s%s", test.order, code, stdout, stderr)
			}
			if _, stdout, _ := run(t, dir, env, "status"); !strings.Contains(stdout, left) {
				t.Errorf("status does not say that an agent may be at work:\n%s", stdout)
			}
			next := startManager(t, dir, env, append(test.next, "--json", "--ledger-model", "scripted/ledger", attach)...)
			<-model.asked
			close(model.release)
			if code := next.wait(); code != 0 {
				t.Fatalf("%v: %d\n%s", test.next, code, next.stderr.String())
			}
			if stopped.Load() != 1 {
				t.Error("two agents were at work on the same sub-task")
			}
			if _, stdout, _ := run(t, dir, env, "list", "--json"); strings.Contains(stdout, "ses_") {
				t.Errorf("the session is still said to be left:\n%s", stdout)
			}
			wantFile(t, dir, "second.txt", "second\n")
		})
	}
}

// The first Ctrl-C lets the running turn end; the second aborts it. Both times a resume finishes the work.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			dir, env, model, server := heldWorld(t)
			env, attach := attached(t, dir, env, server)
			p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger", attach)
			<-model.asked
			// Two signals of one kind may arrive as one; the manager treats all kinds alike.
			for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[:signals] {
				p.signal(s)
			}
			if signals == 1 {
				close(model.release)
			}
			if code := p.wait(); code != 130 {
				t.Fatalf("exit code %d\n%s", code, p.stderr.String())
			}
			if !strings.Contains(p.stderr.String(), "manager resume ") {
				t.Errorf("no resume line:\n%s", p.stderr.String())
			}
			if signals == 2 {
				close(model.release)
			} else {
				wantFile(t, dir, "first.txt", "first\n")
			}
			code, stdout, stderr := run(t, dir, env, "resume", "--json", attach)
			if code != 0 {
				t.Fatalf("resume: %d\n%s%s", code, stdout, stderr)
			}
			if strings.Contains(stdout, `"type":"retry"`) {
				t.Errorf("the interrupted attempt was used up:\n%s", stdout)
			}
			wantFile(t, dir, "second.txt", "second\n")
		})
	}
}

// A second run in the same project is refused with who holds it; looking works all the same.
func TestSecondRunIsRefused(t *testing.T) {
	t.Parallel()
	dir, env, model, server := heldWorld(t)
	env, attach := attached(t, dir, env, server)
	p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger", attach)
	<-model.asked
	code, _, stderr := run(t, dir, env, "run", "plan.yaml")
	if code != 5 || !strings.Contains(stderr, fmt.Sprintf("process %d", p.cmd.Process.Pid)) {
		t.Errorf("second run: %d\n%s", code, stderr)
	}
	code, stdout, stderr := run(t, dir, env, "status")
	if code != 0 || !strings.Contains(stdout, "first") || !strings.Contains(stdout, "second") {
		t.Errorf("status: %d\n%s%s", code, stdout, stderr)
	}
	close(model.release)
	if code := p.wait(); code != 0 {
		t.Errorf("the run itself: %d\n%s", code, p.stderr.String())
	}
}

// Nothing of ours is left when a run has ended, however it ended: the OpenCode server goes with the manager.
func TestServerDiesWithTheManager(t *testing.T) {
	t.Parallel()
	dir, env, model := crashWorld(t)
	p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger")
	<-model.asked
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
	p.wait()
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
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
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
