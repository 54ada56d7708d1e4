package fakeopencode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// commandSeparator splits a line into the commands that a permission lists one by one.
var commandSeparator = regexp.MustCompile(`\s*(?:&&|\|\||[|;\n])\s*`)

// shell runs a command in a session of its own. A server that is killed leaves it alone.
func (t *toolCall) shell() (result, error) {
	x := t.step.x
	command := t.string("command")
	var commands []string
	for _, c := range commandSeparator.Split(strings.TrimSpace(command), -1) {
		if c != "" {
			commands = append(commands, c)
		}
	}
	if err := t.ask("shell", commands...); err != nil {
		return result{}, err
	}
	x.server.mu.Lock()
	id, env := x.server.newID("sh_"), x.environ()
	x.server.mu.Unlock()
	out, err := os.Create(filepath.Join(x.server.data, "shell", id))
	if err != nil {
		return result{}, err
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = x.Info.Location.Directory, env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	t.progress(map[string]any{"shellID": id})
	kill := context.AfterFunc(t.ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // with all that it started
	_ = cmd.Wait()                                                                                   // the state says it
	kill()
	text, _ := os.ReadFile(out.Name())
	code := cmd.ProcessState.ExitCode()
	return result{
		string(text), map[string]any{"status": "completed", "truncated": false, "shellID": id, "exit": code},
		fmt.Sprintf("Command exited with code %d.", code),
	}, t.ctx.Err()
}

// environ is what the session's commands find in their environment.
func (x *session) environ() (env []string) {
	all := x.server.cfg.Environ
	if x.Environment != nil {
		all = x.Environment
	}
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	return env
}
