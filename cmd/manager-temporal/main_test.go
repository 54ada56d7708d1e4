package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/temporal/devtest"
	"github.com/bouldermgr/manager/testkit/octest"
)

// asManager is the variable that makes the test binary manager-temporal.
const asManager = "MANAGER_TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
	}
	os.Exit(m.Run())
}

// site is a project with the demo's model, OpenCode, and a Temporal server.
type site struct {
	*testing.T
	dir     string
	env     []string
	model   string // URL
	program string
}

func newSite(t *testing.T) *site {
	t.Helper()
	const demo = "../internal/cli/demo"
	script, err := os.ReadFile(demo + "/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, program: program, dir: octest.Repo(t, map[string]string{"LICENSE": "none\n"})}
	if err := os.CopyFS(s.dir, os.DirFS(demo+"/project")); err != nil {
		t.Fatal(err)
	}
	octest.Git(t, s.dir, "add", "--all")
	octest.Git(t, s.dir, "commit", "--quiet", "--message", "The project")
	s.model = octest.Script(t, string(script)).URL()
	s.env = append(octest.Env(t, s.model), asManager+"=1", "MANAGER_OPENCODE="+octest.Binary(t), "TEMPORAL_ADDRESS="+devtest.Start(t, "").Address)
	return s
}

// host simulates another machine that runs the image of examples/temporal. It shares no files with the site.
func (s *site) host(remote string) *site {
	s.Helper()
	bin := s.TempDir()
	if err := os.Symlink(s.program, filepath.Join(bin, "manager-temporal")); err != nil {
		s.Fatal(err)
	}
	start, err := filepath.Abs("../../examples/temporal/start.sh")
	if err != nil {
		s.Fatal(err)
	}
	env := slices.Concat(s.env, octest.Env(s.T, s.model))
	return &site{T: s.T, dir: bin, env: append(env, "PATH="+bin+":"+os.Getenv("PATH"), "PROJECT_REMOTE="+remote), program: start}
}

func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// manager runs a command, and checks its exit code and that its output contains says.
func (s *site) manager(code int, says string, args ...string) {
	s.Helper()
	cmd := s.command(args...)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), says) {
		s.Fatalf("%q ends with %d, and says:\n%s\nwant %d and %q", args, got, out, code, says)
	}
}

// blocker returns the id of the open blocker.
func (s *site) blocker() string {
	s.Helper()
	out, err := s.command("blockers", "list", "--json").Output()
	var b struct{ ID string }
	if err == nil {
		err = json.Unmarshal(out, &b)
	}
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return b.ID
}

type running struct {
	*exec.Cmd
	out   bytes.Buffer
	ended chan struct{}
}

func (r *running) end() {
	_ = r.Process.Signal(os.Interrupt)
	<-r.ended
}

// background starts a command and returns when it says so. The command runs until the test ends it.
func (s *site) background(says string, args ...string) *running {
	s.Helper()
	r := &running{Cmd: s.command(args...), ended: make(chan struct{})}
	ready := make(chan struct{})
	r.Stderr = writer(func(p []byte) {
		before := strings.Contains(r.out.String(), says)
		r.out.Write(p)
		if !before && strings.Contains(r.out.String(), says) {
			close(ready)
		}
	})
	if err := r.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.Wait()
	}()
	s.Cleanup(func() {
		r.end()
		if s.Failed() {
			s.Logf("%q says:\n%s", args, r.out.String())
		}
	})
	select {
	case <-ready:
	case <-r.ended:
		s.Fatalf("%q ended: %s", args, r.out.String())
	case <-time.After(time.Minute):
		s.Fatalf("%q says nothing of %q", args, says)
	}
	return r
}

// breakable starts a worker. breakIt kills and removes its OpenCode, and waits until the worker has ended.
func (s *site) breakable() (breakIt func()) {
	s.Helper()
	dir := s.TempDir()
	program := filepath.Join(dir, "opencode")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s/pid\nexec %s \"$@\"\n", dir, octest.Binary(s.T))
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		s.Fatal(err)
	}
	own := *s
	own.env = append(slices.Clone(s.env), "MANAGER_OPENCODE="+program)
	worker := own.background("Working for", "worker")
	return func() {
		s.Helper()
		pid, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil {
			err = os.Remove(program)
		}
		if err == nil {
			err = exec.Command("kill", "-9", strings.TrimSpace(string(pid))).Run()
		}
		if err != nil {
			s.Fatal(err)
		}
		<-worker.ended
		if code, said := worker.ProcessState.ExitCode(), worker.out.String(); code != 1 || !strings.Contains(said, "OpenCode stopped working") {
			s.Errorf("the worker ended with %d, and said:\n%s", code, said)
		}
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

const demoTask = "Add a greeting and a farewell to the greeter, each in a file of its own," +
	" and a command that uses both. Show in EXAMPLE.md what it prints."

// TestDemo is `manager demo` on Temporal with two workers: a plan, parallel isolated sub-tasks, a conflict, a blocker
// and its answer, orders, and landing. Afterwards the commands that show boulders work without a gateway.
func TestDemo(t *testing.T) {
	s := newSite(t)
	theGateway := s.background("Handing boulders", "gateway", "--heartbeat", "10s")
	task := []string{"run", "--detach", "--yes", "--isolate", "--blockers", demoTask}
	s.manager(1, "no worker answers", task...)
	s.manager(0, "Nothing has been run here yet", "status")
	breakOpenCode := s.breakable()
	s.manager(0, "", task...)
	breakOpenCode()
	for begun := time.Now(); ; <-time.After(200 * time.Millisecond) {
		out, _ := s.command("status").CombinedOutput()
		if strings.Contains(string(out), "may be out of date: no worker answers") {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("without a worker, status says\n%s", out)
		}
	}
	s.manager(0, "may be out of date: no worker answers", "list")
	s.background("Working for", "worker")
	s.background("Working for", "worker")
	s.manager(4, "", "wait", "--timeout", "2m")
	s.manager(0, "farewell", "status")
	s.manager(0, "B1", "blockers", "list")
	s.manager(0, "", "blockers", "answer", "B1", "With Goodbye: it is a formal program.")
	s.manager(0, "", "resume")
	s.manager(0, "completed", "wait", "--timeout", "2m")
	s.manager(0, "task-complete", "logs", "--json")
	s.manager(0, "", "report")
	s.manager(0, "", "land", "--files")
	theGateway.end()
	s.manager(0, "completed", "status")
	landed := exec.Command("sh", "greeter.sh", "Ada")
	landed.Dir = s.dir
	out, err := landed.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Ada") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestClones is [TestDemo] with workers that share only a git remote. Once the results have landed, no refs are left.
func TestClones(t *testing.T) {
	s := newSite(t)
	bare := filepath.Join(t.TempDir(), "remote.git")
	octest.Git(t, s.dir, "clone", "--quiet", "--bare", ".", bare)
	remote := "file://" + bare
	s.background("Handing boulders", "gateway", "--git-remote", remote)
	for range 3 {
		h := s.host(remote)
		h.background("Working for", "worker")
	}
	s.manager(1, "in place", "run", "--detach", "--yes", "--in-place", demoTask)
	s.manager(4, "B", "run", "--engine", "temporal", "--yes", "--blockers", demoTask)
	s.manager(0, "", "blockers", "answer", s.blocker(), "With Goodbye: it is a formal program.")
	s.manager(0, "", "resume")
	s.manager(0, "completed", "wait", "--timeout", "2m")
	s.manager(0, "+++ b/", "diff")
	s.manager(0, "", "land", "--files")
	landed := exec.Command("sh", "greeter.sh", "Ada")
	landed.Dir = s.dir
	out, err := landed.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Ada") {
		t.Errorf("%s, %v", out, err)
	}
	left := ""
	for begun := time.Now(); time.Since(begun) < time.Minute; <-time.After(100 * time.Millisecond) {
		if left = octest.Git(t, bare, "for-each-ref", "refs/manager"); left == "" {
			return
		}
	}
	t.Errorf("on the remote is left %s", left)
}

// TestOrdersOfTheUser: orders steer a boulder on Temporal, running or paused. Without a gateway none changes the copy.
func TestOrdersOfTheUser(t *testing.T) {
	s := newSite(t)
	s.manager(2, "at least 3s", "gateway", "--heartbeat", "0")
	s.manager(1, "manager-temporal gateway", "run", "--engine", "temporal", "--yes", demoTask)
	theGateway := s.background("Handing boulders", "gateway")
	s.background("Working for", "worker")
	s.manager(0, "", "run", "--detach", "--yes", "--isolate", "--blockers", demoTask)
	s.manager(0, "run by process", "status")
	theGateway.end()
	s.manager(0, "a copy of a boulder that runs on temporal", "status")
	s.manager(0, "when this copy was made", "report")
	for _, order := range [][]string{{"note", "planted in the copy"}, {"pause"}, {"resume"}, {"cancel"}} {
		s.manager(1, "manager-temporal gateway", order...)
	}
	s.background("Handing boulders", "gateway")
	s.manager(0, "", "pause")
	s.manager(4, "", "wait", "--timeout", "2m")
	s.manager(0, "paused", "status")
	s.manager(2, "MODEL=N", "limits", "other/model=-1")
	s.manager(2, "HOST:PORT", "limits", "--temporal-address", "localhost")
	s.manager(0, "2      limits", "limits", "other/model=2")
	s.manager(0, "–      configuration", "limits", "other/model=")
	s.manager(0, "", "note", "Be brief: planted note")
	s.manager(0, "", "resume", "--detach")
	s.manager(4, "B1", "wait", "--timeout", "2m")
	s.manager(0, "planted note", "logs")
	s.manager(0, "Write the greeting", "show")
	s.manager(2, "nosuch", "retry", "nosuch")
	s.manager(0, "", "skip", "farewell")
	s.manager(0, "skipped", "status")
	s.manager(0, "", "cancel", "command")
	s.manager(0, "cancelled", "status")
	s.manager(0, "", "cancel")
	s.manager(130, "cancelled", "wait", "--timeout", "2m")
	plan := "task: Greet\nsub_tasks:\n  - {id: greeting, subject: Write the greeting, description: Write lib/greeting.sh, success_criteria: [It greets]}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	s.manager(0, "have not landed", "run", "--engine", "temporal", "--yes", "--isolate", "plan.yaml")
}
