package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	// timeout ends a git command that hangs, on a dead network file system for example. A first snapshot of a very large
	// work tree takes seconds.
	timeout = 2 * time.Minute
	// exitFatal is how git exits when it refuses; 1 is a command's own "no".
	exitFatal = 128
	// maxStderr is how much of what git says is kept, in bytes.
	maxStderr = 4 << 10
)

// Error is a git command that failed.
type Error struct {
	Command string // git's sub-command: "write-tree"
	Code    int    // exit code; -1 if it did not exit by itself
	Stderr  string // the end of what it said, at most 4 KiB
	Err     error  // an [*exec.ExitError], or why it could not be run
}

// Error implements error.
func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("git %s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("git %s: %v: %s", e.Command, e.Err, e.Stderr)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// reason is git's first line without what is for git's own users: "not a git repository".
func (e *Error) reason() string {
	line, _, _ := strings.Cut(e.Stderr, "\n")
	line, _, _ = strings.Cut(strings.TrimPrefix(line, "fatal: "), " (")
	if line == "" {
		return "git refuses to work there"
	}
	return line
}

// git runs commands in one directory, with nothing of the user's environment or configuration that could change what
// they do or print.
type git struct {
	dir   string
	index string // instead of the user's; empty: the user's, which is then not written
}

// settings overrule the configuration: no hooks and no daemons are run, nothing is written beside what is asked for.
// Filters such as those of git-lfs stay on: without them every file that they handle would count as changed.
func settings() []string {
	return []string{
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.quotePath=off",
		"-c", "core.splitIndex=false", "-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false",
	}
}

// environ drops every GIT_ variable, GIT_DIR and GIT_INDEX_FILE first of all: a manager that is started by a hook or
// an alias inherits them. Those that say where git and its configuration are stay.
func (g git) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "GIT_CONFIG_") && name != "GIT_EXEC_PATH" &&
			name != "GIT_CEILING_DIRECTORIES" && name != "GIT_DISCOVERY_ACROSS_FILESYSTEM"
	})
	env = append(env, "LC_ALL=C", "LANGUAGE=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	if g.index != "" {
		env = append(env, "GIT_INDEX_FILE="+g.index)
	}
	return env
}

// output runs a command and gives what it printed, also if it failed.
func (g git) output(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	err := g.run(ctx, nil, &out, args...)
	return out.String(), err
}

// run runs a command. The error is an [*Error], or the cause of ctx's end.
func (g git) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	cmd := exec.CommandContext(limited, "git", append(settings(), args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = g.dir, g.environ(), in, out
	stderr := &text.LastBytes{Limit: maxStderr}
	cmd.Stderr = stderr
	// In a process group of its own: Ctrl-C on the terminal asks the manager to stop in an orderly way, and must not end
	// the git commands that this takes. Cancelling ends the whole group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // a filter that outlives git may hold the pipes

	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	failure := &Error{Command: args[0], Code: -1, Stderr: stderr.String(), Err: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		failure.Code = exit.ExitCode()
	}
	if limited.Err() != nil {
		failure.Err = context.Cause(limited)
	}
	return failure
}
