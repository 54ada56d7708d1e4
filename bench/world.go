package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// The scripted model's name in OpenCode, the prompt of every sub-task, and the answer.
const (
	agentModel = scriptmodel.ProviderID + "/" + scriptmodel.ModelAgent
	question   = "Say that you are ready."
	answer     = "I have looked at everything that was asked for, and I am ready. Nothing is left to be done."
)

// world is the environment of all measurements: a temporary directory with a home, projects and an instant model.
type world struct {
	options
	root   string
	env    []string
	model  *scriptmodel.Server
	agents *agents

	starting sync.Mutex     // start one server at a time: the first creates the home's database
	shared   *octest.Server // see startServer
}

// size returns full, or small with -once.
func (w *world) size(full, small int) int {
	if w.once {
		return small
	}
	return full
}

func newWorld(ctx context.Context, o options) (_ *world, err error) {
	if err := o.absolute(); err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "manager-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{options: o, root: root, agents: &agents{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	home := filepath.Join(w.root, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	if w.model, err = scriptmodel.Start(w.reply); err != nil {
		return nil, err
	}
	w.env = append(scriptmodel.OpenCodeEnv(os.Environ(), home, w.model.URL()),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Bench", "GIT_AUTHOR_EMAIL=bench@example.com",
		"GIT_COMMITTER_NAME=Bench", "GIT_COMMITTER_EMAIL=bench@example.com",
		"OPENAI_BASE_URL="+w.model.URL(), "OPENAI_API_KEY=scripted", "MANAGER_OPENCODE="+w.opencode,
	)
	if w.once {
		octest.Lean(w.env) // faster; nothing is compared
		return w, nil
	}
	// The first OpenCode of a home creates its database, which would count for the first contender.
	return w, w.run(ctx, w.root, w.opencode, "models")
}

// instantModel answers sessions with one sentence, and judges that they are complete.
func instantModel(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() != scriptmodel.KindStructured {
		return scriptmodel.Reply{Text: answer, OutputTokens: len(answer) / 4}
	}
	return scriptmodel.Reply{JSON: verdict}
}

var verdict = map[string]any{
	"criteria":    []any{map[string]any{"id": "C1", "evidence": "The last message says it.", "met": true}},
	"output_data": "", "new_facts": []any{},
	"is_progress": true, "is_in_loop": false, "is_stuck": false, "stuck_reason": "", "blocked_by": "none",
	"need_replan": false, "replan_reason": "", "remaining": []any{}, "summary": "The agent is ready.",
	"goal_achieved": false, "completed": true, "continuation_prompt": "",
}

func (w *world) close() {
	if w.shared != nil {
		w.shared.Kill()
	}
	if w.model != nil {
		w.model.Close()
	}
	if err := os.RemoveAll(w.root); err != nil {
		w.note("could not remove %s: %v", w.root, err)
	}
}

// note shows progress to the user.
func (w *world) note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (w *world) detail(format string, args ...any) {
	if w.verbose {
		w.note("  "+format, args...)
	}
}

// process is a command whose process group is killed when its context ends.
type process struct {
	*exec.Cmd
	output bytes.Buffer
}

func (w *world) command(ctx context.Context, dir, name string, args ...string) *process {
	p := &process{Cmd: exec.CommandContext(ctx, name, args...)}
	p.Dir = dir
	p.Env = slices.Concat(w.env, []string{"PWD=" + dir}) // OpenCode trusts PWD
	p.Stdout, p.Stderr = &p.output, &p.output
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cancel = p.killGroup
	p.WaitDelay = 5 * time.Second
	return p
}

func (p *process) killGroup() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }

// finish waits for the process, and fails unless it exits with 0.
func (p *process) finish() error {
	if err := p.Wait(); err != nil {
		p.Args[0] = filepath.Base(p.Path)
		return fmt.Errorf("%s: %w: %s", strings.Join(p.Args, " "), err, oneLine(p.output.String()))
	}
	return nil
}

func (w *world) run(ctx context.Context, dir, name string, args ...string) error {
	p := w.command(ctx, dir, name, args...)
	if err := p.Start(); err != nil {
		return err
	}
	return p.finish()
}

// project creates a git repository with small files and one commit.
func (w *world) project(ctx context.Context, name string, files int) (dir string, err error) {
	dir = filepath.Join(w.root, name)
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("part%d", i/10), fmt.Sprintf("file%d.txt", i))
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, fmt.Appendf(nil, "This is file %d.\n", i), 0o644),
		); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "--all"},
		{"commit", "--quiet", "--message", "Start"},
	} {
		if err := w.run(ctx, dir, "git", args...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// What the i-th sub-task of a plan depends on.

func independent(int) string { return "[]" }

func onPrevious(i int) string {
	if i == 0 {
		return "[]"
	}
	return fmt.Sprintf("[s%d]", i-1)
}

// plan writes a plan file of n sub-tasks that ask the same question.
func (w *world) plan(name string, n int, dependsOn func(int) string) (path string, err error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: 1\ntask: Get ready\nmodel: %s\nsub_tasks:\n", agentModel)
	for i := range n {
		fmt.Fprintf(&b, "  - id: s%d\n    subject: Get ready, part %d\n    description: %s\n"+
			"    success_criteria: [The agent says that it is ready]\n    depends_on: %s\n", i, i, question, dependsOn(i))
	}
	path = filepath.Join(w.root, name)
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}
