package workspace

import (
	"cmp"
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

	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	// localTimeout ends a git command that hangs. A first snapshot of a very large work tree takes seconds.
	localTimeout = 2 * time.Minute
	exitFatal    = 128     // git refused; 1 is a command's own "no"
	maxStderr    = 4 << 10 // bytes
)

// exitCode returns the exit status of a git command; -1 if it did not exit by itself.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// stderrOf returns what a git command that failed said.
func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}

// git runs commands in one directory. Nothing in the user's environment or configuration changes what they do or print.
type git struct {
	dir   string
	index string // instead of the user's; empty: the user's, which is only read
	env   []string

	config  []string      // arguments that overrule settings
	timeout time.Duration // instead of localTimeout
	said    io.Writer     // gets the stderr of all commands; nil: only errors have it
}

// settings overrule the configuration: no hooks, no daemons, no writes besides those asked for. Filters such as git-lfs
// stay on; without them, every file that they handle would count as changed. Files are written by as many processes as there are
// cores: docs/decisions/0109-warm-copies.md.
func settings() []string {
	return []string{
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.quotePath=off",
		"-c", "core.splitIndex=false", "-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false",
		"-c", "gc.auto=0", "-c", "core.logAllRefUpdates=false", "-c", "maintenance.auto=false",
		"-c", "checkout.workers=0",
	}
}

// environ drops GIT_ variables such as GIT_DIR and GIT_INDEX_FILE, which a manager inherits if a hook or an alias
// starts it. Those that locate git and its configuration stay.
func (g git) environ() []string {
	env := slices.DeleteFunc(command.WithoutRepository(os.Environ()), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "GIT_CONFIG_") && name != "GIT_EXEC_PATH" &&
			name != "GIT_CEILING_DIRECTORIES" && name != "GIT_DISCOVERY_ACROSS_FILESYSTEM"
	})
	env = append(env, "LC_ALL=C", "LANGUAGE=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	if g.index != "" {
		env = append(env, "GIT_INDEX_FILE="+g.index)
	}
	return append(env, g.env...)
}

// line is output without surrounding white space.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.output(ctx, args...)
	return strings.TrimSpace(out), err
}

// query is line for a command whose exit status 1 is an answer, not an error.
func (g git) query(ctx context.Context, args ...string) (string, error) {
	out, err := g.line(ctx, args...)
	if exitCode(err) == 1 {
		err = nil
	}
	return out, err
}

// resolve returns the object that a name stands for; empty if none.
func (g git) resolve(ctx context.Context, name string) (id string, err error) {
	return g.query(ctx, "rev-parse", "--verify", "--quiet", name)
}

// refs returns the refs that match a pattern of git for-each-ref, with their objects.
func (g git) refs(ctx context.Context, pattern string) (map[string]string, error) {
	out, err := g.output(ctx, "for-each-ref", "--format=%(objectname)\t%(refname)", pattern)
	return refsIn(out), err
}

func refsIn(out string) map[string]string {
	refs := map[string]string{}
	for line := range strings.Lines(out) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			refs[ref] = id
		}
	}
	return refs
}

// records splits what a command printed with -z.
func records(out string) []string {
	if out = strings.TrimRight(out, "\x00"); out == "" {
		return nil
	}
	return strings.Split(out, "\x00")
}

func (g git) each(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := g.output(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command and returns what it printed, also if it failed.
func (g git) output(ctx context.Context, args ...string) (string, error) {
	return g.feed(ctx, "", args...)
}

// feed is output of a command with the given stdin.
func (g git) feed(ctx context.Context, in string, args ...string) (string, error) {
	var out strings.Builder
	err := g.run(ctx, strings.NewReader(in), &out, args...)
	return out.String(), err
}

// run runs a command. The error wraps an [*exec.ExitError] with git's stderr, or the cause of ctx's end.
func (g git) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	timeout := cmp.Or(g.timeout, localTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	cmd := exec.CommandContext(limited, "git", slices.Concat(settings(), g.config, args)...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = g.dir, g.environ(), in, out
	stderr := &text.LastBytes{Limit: maxStderr}
	cmd.Stderr = stderr
	if g.said != nil {
		cmd.Stderr = io.MultiWriter(stderr, g.said)
	}
	// A process group of its own: Ctrl-C on the terminal asks the manager for an orderly stop, and must not end git.
	// Cancelling ends the group with a signal on which git removes its locks.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second // then git is killed; a filter that outlives it may hold the pipes

	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		exit.Stderr = []byte(stderr.String())
	}
	return fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
}
