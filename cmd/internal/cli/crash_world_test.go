package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const chainPlan = `
task: Two files, one after the other
model: scripted/agent
sub_tasks:
  - {id: first, description: Write first.txt, expects_changes: true}
  - {id: second, description: Write second.txt, depends_on: [first], expects_changes: true}
`

// gateModel is a good agent and a fair judge, but holds back each sub-task's first answer until it is released.
type gateModel struct {
	asked   chan string // sub-tasks whose agent asked for its first answer
	release chan struct{}
}

func newGateModel() *gateModel {
	return &gateModel{asked: make(chan string, 100), release: make(chan struct{})}
}

func (g *gateModel) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		return acceptAll
	}
	if toolSaid(req, "Wrote file") {
		return scriptmodel.Reply{Text: "All of it is done now."}
	}
	id := subTaskOf(req.FirstUser())
	g.asked <- id
	return scriptmodel.Reply{Wait: g.release, ToolCalls: writes(id+".txt", id+"\n").ToolCalls}
}

func subTaskOf(prompt string) string {
	_, rest, _ := strings.Cut(prompt, "# Sub-task: ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// toolSaid reports whether the result of a tool call contains a text.
func toolSaid(req scriptmodel.Request, text string) bool {
	return slices.ContainsFunc(req.Messages, func(m scriptmodel.Message) bool {
		return m.Role == "tool" && strings.Contains(m.Text, text)
	})
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

// until reads events up to the first of a type and returns that one.
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

// wait reads the remaining events and checks the exit code, which is -1 after a signal.
func (p *process) wait(want int) {
	p.t.Helper()
	for p.events.Scan() {
	}
	err := p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.t.Fatalf("%q: exit code %d, want %d (%v)\n%s", p.cmd.Args, got, want, err, p.stderr.String())
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// world is a project, the model of its agents and ledgers, and the environment of its managers.
type world struct {
	t     *testing.T
	dir   string
	env   []string
	model *scriptmodel.Server
}

// newWorld is a git repository if there are files. Without git it takes no snapshots, which are half of a test's time.
func newWorld(t *testing.T, reply scriptmodel.Handler, files map[string]string) *world {
	t.Helper()
	model, dir := octest.Model(t, reply), t.TempDir()
	if files != nil {
		dir = octest.Repo(t, files)
	}
	return &world{t, dir, testEnv(t, model.URL()), model}
}

// directWorld is a world whose ledgers ask the model directly instead of through OpenCode.
func directWorld(t *testing.T, reply scriptmodel.Handler, files map[string]string) *world {
	t.Helper()
	w := newWorld(t, reply, files)
	w.env = direct(t, w.env, w.model.URL(), "any")
	return w
}

func heldWorld(t *testing.T) (*world, *gateModel) {
	t.Helper()
	gate := newGateModel()
	return directWorld(t, gate.reply, map[string]string{"plan.yaml": chainPlan}), gate
}

// attached makes managers log in to the shared server and returns the flag for it.
func (w *world) attached() (flag string) {
	w.t.Helper()
	w.env, flag = attached(w.t, w.dir, w.env, w.model)
	return flag
}

func run(t *testing.T, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := manager(t, dir, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func (w *world) start(args ...string) *process {
	w.t.Helper()
	return startManager(w.t, w.dir, w.env, append(args, "--json")...)
}

func (w *world) run(want int, args ...string) (stdout, stderr string) {
	w.t.Helper()
	code, stdout, stderr := run(w.t, w.dir, w.env, args...)
	if code != want {
		w.t.Fatalf("manager %q: exit code %d, want %d\n%.2000s\n%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

func wantFile(t *testing.T, dir, name, want string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(data) != want {
		t.Errorf("%s holds %q (%v), want %q", name, data, err, want)
	}
}
