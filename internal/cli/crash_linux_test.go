package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// chainPlan has a sub-task that depends on another one.
const chainPlan = `
task: Two files, one after the other
model: scripted/agent
sub_tasks:
  - {id: first, description: Write first.txt, expects_changes: true}
  - {id: second, description: Write second.txt, depends_on: [first], expects_changes: true}
`

// gateModel answers like a good agent and a fair judge, but holds each sub-task's first answer back until it is
// released.
type gateModel struct {
	mu      sync.Mutex
	prompts map[string]int // by sub-task: agent prompts that reached the model
	resumes int
	asked   chan string // a sub-task's agent asked for its first answer
	release chan struct{}
}

func newGateModel() *gateModel {
	return &gateModel{prompts: map[string]int{}, asked: make(chan string, 100), release: make(chan struct{})}
}

func (g *gateModel) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		return scriptmodel.Reply{JSON: map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "the patch", "met": true}},
			"completed": true, "summary": "The file is written.",
		}}
	}
	id := subTaskOf(req.FirstUser())
	if req.TurnsSinceUser() == 0 {
		g.mu.Lock()
		if strings.Contains(req.LastUser(), "Sub-task: "+id) && req.AssistantTurns() == 0 {
			g.prompts[id]++
		} else {
			g.resumes++
		}
		g.mu.Unlock()
	}
	if wrote(req) {
		return scriptmodel.Reply{Text: "All of it is done now."}
	}
	g.asked <- id
	return scriptmodel.Reply{Wait: g.release, ToolCalls: []scriptmodel.ToolCall{
		{Name: "write", Args: map[string]any{"filePath": id + ".txt", "content": id + "\n"}},
	}}
}

func subTaskOf(prompt string) string {
	_, rest, _ := strings.Cut(prompt, "# Sub-task: ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

func wrote(req scriptmodel.Request) bool {
	for _, m := range req.Messages {
		if m.Role == "tool" && strings.Contains(m.Text, "Wrote file") {
			return true
		}
	}
	return false
}

// process is a running manager whose --json events are read.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	events *bufio.Scanner
	stderr bytes.Buffer
	seen   []string
}

func startManager(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: manager(t, dir, env, args...)}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.events = bufio.NewScanner(out)
	p.events.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// until reads events up to the first of a type, and returns it.
func (p *process) until(eventType string) map[string]any {
	p.t.Helper()
	for p.events.Scan() {
		var e map[string]any
		if err := json.Unmarshal(p.events.Bytes(), &e); err != nil {
			p.t.Fatalf("not JSON: %s", p.events.Bytes())
		}
		p.seen = append(p.seen, fmt.Sprint(e["type"]))
		if e["type"] == eventType {
			return e
		}
	}
	p.t.Fatalf("no %s event; saw %q\n%s", eventType, p.seen, p.stderr.String())
	return nil
}

// wait reads the rest and returns the exit code; -1 after a signal.
func (p *process) wait() int {
	p.t.Helper()
	for p.events.Scan() {
	}
	err := p.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.t.Fatal(err)
	}
	return 0
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// crashWorld is a project with a plan, and a model that holds back.
func crashWorld(t *testing.T) (dir string, env []string, model *gateModel) {
	t.Helper()
	model = newGateModel()
	server := octest.Model(t, model.reply)
	env = testEnv(t, server.URL())
	return octest.Repo(t, map[string]string{"plan.yaml": chainPlan}), env, model
}

func run(t *testing.T, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := manager(t, dir, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), errs.String()
}

func wantFile(t *testing.T, dir, name, want string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(data) != want {
		t.Errorf("%s holds %q (%v), want %q", name, data, err, want)
	}
}

// kill -9 while the second sub-task is at work: the first is not done again, and the second is finished in its session.
func TestResumeAfterKill(t *testing.T) {
	t.Parallel()
	dir, env, model := crashWorld(t)
	p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger")
	<-model.asked
	model.release <- struct{}{}
	p.until("subtask-done")
	if id := <-model.asked; id != "second" {
		t.Fatalf("%q is at work", id)
	}
	p.signal(syscall.SIGKILL)
	if code := p.wait(); code != -1 {
		t.Fatalf("exit code %d after SIGKILL", code)
	}

	code, stdout, _ := run(t, dir, env, "status")
	if code != 0 || !strings.Contains(stdout, "manager resume") {
		t.Errorf("status after the crash: %d\n%s", code, stdout)
	}
	close(model.release)
	code, stdout, stderr := run(t, dir, env, "resume", "--json")
	if code != 0 || !strings.Contains(stdout, `"all_completed":true`) {
		t.Fatalf("resume: %d\n%s%s", code, stdout, stderr)
	}
	wantFile(t, dir, "first.txt", "first\n")
	wantFile(t, dir, "second.txt", "second\n")
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.prompts["first"] != 1 || model.prompts["second"] != 1 || model.resumes > 1 {
		t.Errorf("prompts %v, %d resume prompts", model.prompts, model.resumes)
	}
}

// The first Ctrl-C lets the running turn end; the second aborts it. Both times a resume finishes the work.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			dir, env, model := crashWorld(t)
			p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger")
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
			code, stdout, stderr := run(t, dir, env, "resume", "--json")
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
	dir, env, model := crashWorld(t)
	p := startManager(t, dir, env, "run", "plan.yaml", "--json", "--ledger-model", "scripted/ledger")
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
