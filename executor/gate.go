package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// DefaultGateTimeout bounds a gate that is given no other bound.
const DefaultGateTimeout = 10 * time.Minute

const (
	// gateOutputKept is how many characters of a gate's output are kept, gateEndKept how many bytes of it are looked at for
	// that, and for what the shell says.
	gateOutputKept = 2000
	gateEndKept    = 16 << 10
)

// NoDiagnostics says why an OpenCode cannot tell whether there are errors in files, and what to do; empty: it can, or the
// commands of lint do it in its place.
func NoDiagnostics(c opencode.Caps, lint []string) string {
	if c.Diagnostics || len(lint) > 0 {
		return ""
	}
	return fmt.Sprintf("OpenCode %d runs no language servers; use a command (gates, done_when: tests, lint in the configuration)",
		c.Generation)
}

// runGates runs the sub-task's gates one after the other, all of them, so that the agent is told everything that is wrong;
// lint says whether those among them that stand in for a language server.
func (t *turn) runGates(ctx context.Context, lint bool) ([]boulder.Gate, error) {
	s := t.job.SubTask
	commands := slices.Concat(s.Gates, s.NoWorse)
	if lint {
		commands = append(commands, s.Lint...)
	}
	var exempt []boulder.Gate // they would take their time again, and be no help
	commands = slices.DeleteFunc(commands, func(line string) bool {
		before := boulder.GateOf(s.Baseline, line)
		if before == nil || before.NoWorse == "" || !before.TimedOut || !s.MayStayRed(line) {
			return false
		}
		exempt = append(exempt, *before)
		return true
	})
	gates, err := t.gates(ctx, commands, "gate")
	for i := len(s.Gates); i < len(gates); i++ {
		gates[i].NoWorse = noWorse(boulder.GateOf(s.Baseline, gates[i].Command), gates[i])
	}
	return append(gates, exempt...), err
}

func (t *turn) gates(ctx context.Context, commands []string, what string) ([]boulder.Gate, error) {
	var gates []boulder.Gate
	for _, line := range commands {
		if err := t.say(boulder.SubTaskProgress{Activity: what + ": " + text.Short(t.cfg.Redact.Text(line), 100)}); err != nil {
			return nil, err
		}
		gates = append(gates, RunCommand(ctx, t.path, t.env, line, t.cfg.GateTimeout, t.cfg.Redact.Text))
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

// baseline measures how the gates go that may stay red, before the sub-task's first attempt begins: those of which this run
// does not know it yet. Nil: there is nothing to measure, or it is too late.
func (t *turn) baseline(ctx context.Context) ([]boulder.Gate, error) {
	s := t.job.SubTask
	if t.job.Attempt.Attempt != 1 || t.job.Turn.MessageID != "" {
		return nil, nil
	}
	unknown := slices.DeleteFunc(slices.Concat(s.NoWorse, s.Lint), func(command string) bool {
		return boulder.GateOf(s.Baseline, command) != nil
	})
	gates, err := t.gates(ctx, unknown, "gate, before the work begins")
	checks := slices.Concat(t.job.Checks.Tests, t.job.Checks.Lint)
	for i := range gates {
		g := &gates[i]
		if s.DoneDefault && slices.Contains(checks, g.Command) && !g.Green() && (!ordinary(*g) || len(g.Failing) == 0) {
			g.NoWorse = "red before the work began, in a way that nothing can be compared with"
		}
	}
	return gates, err
}

// Verify implements orchestrator.Verifier. A command of several sub-tasks runs once.
func (e *Executor) Verify(
	ctx context.Context, what boulder.Verification, report func(boulder.Body) error,
) error {
	at, err := e.project(), error(nil)
	if what.Line.Base != "" {
		if at, err = e.tip(ctx, what.BoulderID, what.Line); err != nil {
			return err
		}
	}
	now, err := at.files.Snapshot(ctx)
	if err != nil {
		e.cfg.Logger.Warn("whether files have changed is not known", "error", err)
	}
	report = e.reporting(report)
	ran := map[string]boulder.Gate{}
	unchanged := func(t *boulder.SubTask) bool {
		return t.Tree != "" && t.Tree == now || t.ID == what.Last && (t.Tree == "" || now == "")
	}
	for i := range what.SubTasks {
		if t := &what.SubTasks[i]; unchanged(t) {
			for _, g := range t.GateRuns {
				if g.Green() {
					ran[g.Command] = g
				}
			}
		}
	}
	for i := range what.SubTasks {
		t := &what.SubTasks[i]
		if unchanged(t) && len(t.Unverified()) == 0 {
			continue
		}
		for _, line := range t.AllGates() {
			g, has := ran[line]
			switch {
			case has:
			case what.Line.Passed(line, now):
				g.Command = line
			default:
				g = RunCommand(ctx, at.path, at.env, line, e.cfg.GateTimeout, e.cfg.Redact.Text)
				ran[line] = g
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if t.MayStayRed(line) {
				g.NoWorse = noWorse(boulder.GateOf(t.Baseline, line), g)
			}
			run := boulder.NewGateRun(t, t.Attempts, g)
			run.Final = true
			if err := report(run); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastOrdinaryExit is the highest status with which a command ends by its own choice; shells give 126 and more to what
// could not be run, or was killed.
const lastOrdinaryExit = 125

// noWorse says why a gate that is red does not count, or nothing if it is green or counts: it was red before for no
// other tests than now. Where neither run names a test, both have to say the same.
func noWorse(before *boulder.Gate, after boulder.Gate) string {
	switch {
	case before != nil && before.NoWorse != "" && !after.Green():
		return before.NoWorse
	case before == nil, !ordinary(*before), !ordinary(after):
		return ""
	case len(before.Failing) == 0 && len(after.Failing) == 0:
		if stable(before.Output) == stable(after.Output) {
			return "red before too, with the same output"
		}
		return ""
	case len(after.Failing) == 0, len(after.Failing) >= failingKept:
		return "" // it broke in another way, or there may be more than were kept
	}
	for _, name := range after.Failing {
		if !slices.Contains(before.Failing, name) {
			return ""
		}
	}
	const named = 5
	names := after.Failing[:min(len(after.Failing), named)]
	more := text.Some(len(after.Failing)-len(names), "more")
	return "red before too: " + strings.Join(names, ", ") + text.Prefixed(" and ", more)
}

func ordinary(g boulder.Gate) bool {
	return !g.TimedOut && 0 < g.ExitCode && g.ExitCode <= lastOrdinaryExit
}

// stable is an output without what changes by itself. Of one that was cut, the first lines are left out: where the cut
// falls depends on the length of what was normalised away.
func stable(output string) string {
	if strings.HasPrefix(output, "[cut: ") {
		lines := strings.SplitAfterN(output, "\n", 4)
		output = lines[len(lines)-1]
	}
	return enforcer.Normalize(output)
}
