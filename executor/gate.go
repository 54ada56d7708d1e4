package executor

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
)

// DefaultGateTimeout bounds a gate that is given no other bound.
const DefaultGateTimeout = 10 * time.Minute

// gateOutputKept is how many characters of a gate's output are kept.
const gateOutputKept = 2000

// runGates runs the sub-task's gates one after the other, all of them, so that the agent is told everything that is wrong;
// lint says whether those among them that stand in for a language server.
func (t *turn) runGates(ctx context.Context, lint bool) ([]boulder.Gate, error) {
	gates, err := t.gates(ctx, t.job.SubTask.Gates, "gate")
	if err != nil {
		return nil, err
	}
	mayStayRed := t.job.SubTask.NoWorse
	if lint {
		mayStayRed = slices.Concat(mayStayRed, t.job.SubTask.Lint)
	}
	more, err := t.gates(ctx, mayStayRed, "gate")
	if err != nil {
		return nil, err
	}
	for i := range more {
		more[i].NoWorse = noWorse(baselineOf(t.job.SubTask.Baseline, more[i].Command), more[i])
	}
	return append(gates, more...), nil
}

func (t *turn) gates(ctx context.Context, commands []string, what string) ([]boulder.Gate, error) {
	var gates []boulder.Gate
	for _, line := range commands {
		if err := t.progress(what+": "+text.Short(t.cfg.Redact.Text(line), 100), nil); err != nil {
			return nil, err
		}
		gates = append(gates, RunCommand(ctx, t.cfg.Project, t.cfg.Env, line, t.cfg.GateTimeout, t.cfg.Redact.Text))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return gates, nil
}

// RunCommand runs a shell command in a directory as a gate, for at most timeout: in its own process group, which ends with
// it or with ctx. What of its output is kept goes through redact. nil: the environment is that of this process.
func RunCommand(
	ctx context.Context, dir string, env []string, line string, timeout time.Duration, redact func(string) string,
) boulder.Gate {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out gateOutput
	began := time.Now()
	err := command.Run(command.Shell(ctx, dir, env, line), &out)
	g := boulder.Gate{Command: line, Duration: time.Since(began)}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		g.ExitCode = exit.ExitCode()
	} else if err != nil {
		g.ExitCode = -1
		out.last.add([]byte("\nthe gate could not be run: " + err.Error()))
	}
	g.TimedOut = g.ExitCode != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)
	g.Output = text.Excerpt(redact(out.last.String()), gateOutputKept, text.End)
	if !g.Green() {
		g.NotFound, g.NotIn = command.NotFound(line, g.ExitCode, out.last.String())
		g.NotFound = redact(g.NotFound)
		g.Failing = out.failing.list()
	}
	return g
}

// gateOutput reads what a gate prints: the names of failing tests from all of it, and its end.
type gateOutput struct {
	last    lastBytes
	failing failingTests
}

func (o *gateOutput) Write(p []byte) (int, error) {
	o.last.add(p)
	return o.failing.Write(p)
}

// lastBytes is a writer that keeps the end of what is written, however much that is.
type lastBytes struct {
	data    []byte
	dropped bool
}

const lastBytesKept = 16 << 10

func (l *lastBytes) add(p []byte) {
	l.data = append(l.data, p...)
	if over := len(l.data) - lastBytesKept; over > lastBytesKept {
		l.data = append(l.data[:0], l.data[over:]...)
		l.dropped = true
	}
}

func (l *lastBytes) String() string {
	if l.dropped {
		return "[earlier output dropped]\n" + string(l.data)
	}
	return string(l.data)
}
