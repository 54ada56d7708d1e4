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
	"strings"
	"sync"
	"syscall"
	"testing"

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
	dir, env, model, _ = heldWorld(t)
	return dir, env, model
}

// heldWorld is [crashWorld] with the server of its model.
func heldWorld(t *testing.T) (dir string, env []string, model *gateModel, server *scriptmodel.Server) {
	t.Helper()
	model = newGateModel()
	server = octest.Model(t, model.reply)
	env = testEnv(t, server.URL())
	return octest.Repo(t, map[string]string{"plan.yaml": chainPlan}), env, model, server
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
