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

	"github.com/bouldermgr/manager/internal/text"
)

const (
	// localTimeout ends a git command that hangs, on a dead network file system for example. A first snapshot of a very large
	// work tree takes seconds.
	localTimeout = 2 * time.Minute
	// exitFatal is how git exits when it refuses; 1 is a command's own "no".
	exitFatal = 128
	// maxStderr is how much of what git says is kept, in bytes.
	maxStderr = 4 << 10
)

// exitCode is how a git command exited; -1 if it did not, or not by itself.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// git runs commands in one directory, with nothing of the user's environment or configuration that could change what
// they do or print.
type git struct {
	dir   string
	index string // instead of the user's; empty: the user's, which is then not written
	env   []string

	timeout time.Duration // instead of localTimeout
}

// settings overrule the configuration: no hooks and no daemons are run, nothing is written beside what is asked for.
// Filters such as those of git-lfs stay on: without them every file that they handle would count as changed.
func settings() []string {
	return []string{
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.quotePath=off",
		"-c", "core.splitIndex=false", "-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false",
		"-c", "gc.auto=0", "-c", "core.logAllRefUpdates=false", "-c", "maintenance.auto=false",
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
	return append(env, g.env...)
}

// line is output without the white space around it.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.output(ctx, args...)
	return strings.TrimSpace(out), err
}

// answer is line of a command whose "no", see [exitFatal], is an answer: that is no error.
func (g git) query(ctx context.Context, args ...string) (string, error) {
	out, err := g.line(ctx, args...)
	if exitCode(err) == 1 {
		err = nil
	}
	return out, err
}

// resolve is the object that a name stands for; empty: it stands for none.
func (g git) resolve(ctx context.Context, name string) (id string, err error) {
	return g.query(ctx, "rev-parse", "--verify", "--quiet", name)
}

// refs are those that a pattern of git for-each-ref fits, and where they are.
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

// records are the parts of what a command printed with -z.
func records(out string) []string {
	if out = strings.TrimRight(out, "\x00"); out == "" {
		return nil
	}
	return strings.Split(out, "\x00")
}

// each runs commands, up to the first that fails.
func (g git) each(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := g.output(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command and gives what it printed, also if it failed.
func (g git) output(ctx context.Context, args ...string) (string, error) {
	return g.feed(ctx, "", args...)
}

// feed is output of a command that reads something.
func (g git) feed(ctx context.Context, in string, args ...string) (string, error) {
	var out strings.Builder
	err := g.run(ctx, strings.NewReader(in), &out, args...)
	return out.String(), err
}

// run runs a command. The error wraps an [*exec.ExitError], with what git said, if git ended; or the cause of ctx's end.
func (g git) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	timeout := cmp.Or(g.timeout, localTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	cmd := exec.CommandContext(limited, "git", append(settings(), args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = g.dir, g.environ(), in, out
	stderr := &text.LastBytes{Limit: maxStderr}
	cmd.Stderr = stderr
	// In a process group of its own: Ctrl-C on the terminal asks the manager to stop in an orderly way, and must not end
	// the git commands that this takes. Cancelling ends the whole group, in the way in which git removes its locks.
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
