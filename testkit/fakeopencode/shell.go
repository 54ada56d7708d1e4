package fakeopencode

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// shell is a command that was started.
type shell struct {
	id      string
	session *session
	cmd     *exec.Cmd
	started int64
	ended   chan struct{}
}

func (sh *shell) wait() {
	_ = sh.cmd.Wait() // see ProcessState
	close(sh.ended)
}

// kill kills the command with its children.
func (sh *shell) kill() {
	select {
	case <-sh.ended: // its number may be another's by now
	default:
		_ = syscall.Kill(-sh.cmd.Process.Pid, syscall.SIGKILL)
	}
}

func (l *location) listShells(*http.Request) (any, error) {
	all := []any{}
	for _, sh := range l.server.shells {
		select {
		case <-sh.ended:
		default:
			if sh.session.Info.Location == l.ref {
				all = append(all, fields{
					"id": sh.id, "status": "running", "command": sh.cmd.Args[2], "cwd": sh.cmd.Dir, "shell": sh.cmd.Path,
					"file": filepath.Join(l.server.data, "shell", sh.id), "pid": sh.cmd.Process.Pid,
					"metadata": fields{"sessionID": sh.session.Info.ID}, "time": fields{"started": sh.started},
				})
			}
		}
	}
	return l.answer(all)
}

func (s *Server) removeShell(r *http.Request) (any, error) {
	for _, sh := range s.shells {
		if sh.id == r.PathValue("id") {
			sh.kill()
		}
	}
	return nil, nil
}

// commandSeparator splits a line into the commands that a permission lists.
var commandSeparator = regexp.MustCompile(`\s*(?:&&|\|\||[|;\n])\s*`)

// shell runs a command in a process session of its own: it survives a server that is killed.
func (t *toolCall) shell() (result, error) {
	x, s, command := t.step.x, t.server(), t.string("command")
	commands := slices.DeleteFunc(commandSeparator.Split(strings.TrimSpace(command), -1), func(c string) bool { return c == "" })
	if err := t.ask("shell", commands...); err != nil {
		return result{}, err
	}
	id := s.newID("sh_")
	out, err := os.Create(filepath.Join(s.data, "shell", id))
	if err != nil {
		return result{}, err
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = x.Info.Location.Directory, out, out
	for name, value := range s.cfg.Environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	started := &shell{id: id, session: x, cmd: cmd, started: now(), ended: make(chan struct{})}
	s.shells = append(s.shells, started)
	s.work.Go(started.wait)
	t.progress(map[string]any{"shellID": id})
	if await(t.ctx, s, started.ended); t.ctx.Err() != nil {
		if !s.behaviour.LeavesCommands {
			started.kill()
			s.unlocked(func() { <-started.ended })
		}
		return result{}, t.ctx.Err()
	}
	text, _ := os.ReadFile(out.Name())
	code := cmd.ProcessState.ExitCode()
	return result{
		string(text), map[string]any{"status": "completed", "truncated": false, "shellID": id, "exit": code},
		fmt.Sprintf("Command exited with code %d.", code),
	}, nil
}
