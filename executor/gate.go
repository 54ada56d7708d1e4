package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
)

// DefaultGateTimeout bounds a gate that is given no other bound.
const DefaultGateTimeout = 10 * time.Minute

const (
	// gateOutputKept is how many characters of a gate's output are kept, gateEndKept how many bytes of it are looked at for
	// that, and for what the shell says.
	gateOutputKept = 2000
	gateEndKept    = 16 << 10
)

// runGates runs the sub-task's gates one after the other, all of them, so that the agent is told everything that is wrong;
// lint says whether those among them that stand in for a language server.
func (t *turn) runGates(ctx context.Context, lint bool) ([]boulder.Gate, error) {
	s := t.job.SubTask
	commands := slices.Concat(s.Gates, s.NoWorse)
	if lint {
		commands = append(commands, s.Lint...)
	}
	gates, err := t.gates(ctx, commands, "gate")
	for i := len(s.Gates); i < len(gates); i++ {
		gates[i].NoWorse = noWorse(baselineOf(s.Baseline, gates[i].Command), gates[i])
	}
	return gates, err
}

func (t *turn) gates(ctx context.Context, commands []string, what string) ([]boulder.Gate, error) {
	var gates []boulder.Gate
	for _, line := range commands {
		if err := t.say(boulder.SubTaskProgress{Activity: what + ": " + text.Short(t.cfg.Redact.Text(line), 100)}); err != nil {
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
	end := &text.LastBytes{Limit: gateEndKept}
	var failing failingTests // of all that it prints
	began := time.Now()
	err := command.Run(command.Shell(ctx, dir, env, line), io.MultiWriter(end, &failing))
	g := boulder.Gate{Command: line, Duration: time.Since(began)}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		g.ExitCode = exit.ExitCode()
	} else if err != nil {
		g.ExitCode = -1
		fmt.Fprintf(end, "\nthe gate could not be run: %v", err)
	}
	g.TimedOut = g.ExitCode != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)
	g.Output = text.Excerpt(redact(end.String()), gateOutputKept, text.End)
	if !g.Green() {
		g.NotFound, g.NotIn = command.NotFound(dir, line, g.ExitCode, end.String())
		g.NotFound = redact(g.NotFound)
		g.Failing = failing.list()
	}
	return g
}
