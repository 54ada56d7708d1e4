package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// DefaultGateTimeout is the default of [Config].GateTimeout.
const DefaultGateTimeout = 10 * time.Minute

const (
	gateOutputKept = 2000     // characters
	gateEndKept    = 16 << 10 // bytes, which are searched for that and for shell errors
)

// NoDiagnostics says why OpenCode cannot find errors in files, and what to do; empty if it can or lint commands do.
func NoDiagnostics(c opencode.Caps, lint []string) string {
	if c.Diagnostics || len(lint) > 0 {
		return ""
	}
	return fmt.Sprintf("OpenCode %d runs no language servers; use a command (gates, done_when: tests, lint in the configuration)",
		c.Generation)
}

// runGates runs all gates of the sub-task, also after one failed, so that the agent learns everything that is wrong.
// lint includes the commands that replace a language server.
func (t *turn) runGates(ctx context.Context, lint bool) ([]boulder.Gate, error) {
	s := t.job.SubTask
	commands := slices.Concat(s.Gates, s.NoWorse)
	if lint {
		commands = append(commands, s.Lint...)
	}
	gates, err := t.gates(ctx, commands, "gate")
	for i := len(s.Gates); i < len(gates); i++ {
		g := &gates[i]
		g.NoWorse = NoWorse(boulder.GateOf(s.Baseline, g.Command), *g)
		if err != nil || g.Holds() || !newFailures(&s, *g) {
			continue
		}
		var again []boulder.Gate
		if again, err = t.gates(ctx, []string{g.Command}, "gate, once more"); err == nil {
			*g = again[0]
			g.NoWorse = NoWorse(boulder.GateOf(s.Baseline, g.Command), *g)
			g.FlakySuspected = g.Holds()
		}
	}
	return gates, err
}

// newFailures reports whether a gate that may stay red names failing tests that did not fail before. They may be flaky.
func newFailures(t *boulder.SubTask, g boulder.Gate) bool {
	before := boulder.GateOf(t.Baseline, g.Command)
	return t.MayStayRed(g.Command) && before != nil && g.Ordinary() && slices.ContainsFunc(g.Failing, func(name string) bool {
		return !slices.Contains(before.Failing, name)
	})
}

func (t *turn) gates(ctx context.Context, commands []string, what string) ([]boulder.Gate, error) {
	var gates []boulder.Gate
	for _, line := range commands {
		if err := t.say(boulder.SubTaskProgress{Activity: what + ": " + text.Short(t.cfg.Redact.Text(line), 100)}); err != nil {
			return nil, err
		}
		gates = append(gates, RunGate(ctx, t.path, t.env, line, t.cfg.GateTimeout, t.cfg.Redact.Text))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return gates, nil
}

// RunGate is [RunCommand] with CI=1 unless the environment sets CI: test runners then end instead of watching files. The
// commands that prepare slots or regenerate files run without it, since package managers then refuse to write lock files.
func RunGate(
	ctx context.Context, dir string, env []string, line string, timeout time.Duration, redact func(string) string,
) boulder.Gate {
	if env == nil {
		env = os.Environ()
	}
	if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "CI=") }) {
		env = append(slices.Clip(env), "CI=1")
	}
	return RunCommand(ctx, dir, env, line, timeout, redact)
}

// RunCommand runs a shell command in dir, for at most timeout. Its process group ends with it or with ctx.
// redact is applied to the output that is kept. A nil env means that of this process.
func RunCommand(
	ctx context.Context, dir string, env []string, line string, timeout time.Duration, redact func(string) string,
) boulder.Gate {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end := &text.LastBytes{Limit: gateEndKept}
	var failing failingTests // of the whole output
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

// baseline runs the sub-task's commands before its first attempt, unless this run knows their baseline. It returns nil
// if there is nothing to measure, or if the work has begun.
func (t *turn) baseline(ctx context.Context) ([]boulder.Gate, error) {
	s := t.job.SubTask
	if t.job.Attempt.Attempt != 1 || t.job.Turn.MessageID != "" {
		return nil, nil
	}
	var gates []boulder.Gate
	for _, line := range slices.Concat(s.Gates, s.NoWorse, s.Lint) {
		if boulder.GateOf(s.Baseline, line) != nil || boulder.GateOf(gates, line) != nil {
			continue
		}
		g, err := t.once(ctx, line)
		if err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// measured is a command's run before the work. Sub-tasks that begin at the same time share it.
type measured struct {
	sync.Mutex
	gate *boulder.Gate
}

type measuredKey struct{ boulderID, command string }

func (t *turn) once(ctx context.Context, line string) (boulder.Gate, error) {
	found, _ := t.measured.LoadOrStore(measuredKey{t.job.BoulderID, line}, new(measured))
	m := found.(*measured)
	m.Lock()
	defer m.Unlock()
	if m.gate == nil {
		gates, err := t.gates(ctx, []string{line}, "gate, before the work begins")
		if err != nil {
			return boulder.Gate{}, err
		}
		m.gate = &gates[0]
	}
	return *m.gate, nil
}

// Verify implements orchestrator.Verifier. A command shared by several sub-tasks runs once.
func (e *Executor) Verify(
	ctx context.Context, what boulder.Verification, report func(boulder.Body) error,
) error {
	at, err := e.project(), error(nil)
	if what.Trunk.Base != "" {
		if at, err = e.tip(ctx, what.BoulderID, what.Trunk); err != nil {
			return err
		}
	}
	now, _, err := at.snapshot(ctx)
	if err != nil {
		e.cfg.Logger.Warn("whether files have changed is not known", "error", err)
	}
	report = e.reporting(report)
	ran := map[string]boulder.Gate{}
	unchanged := func(t *boulder.SubTask) bool {
		if what.Trunk.Base != "" { // a slot may have had ignored files
			return t.Tree == now && !slices.ContainsFunc(t.AllGates(), func(line string) bool { return !what.Trunk.Passed(line, now) })
		}
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
			case what.Trunk.Passed(line, now):
				g.Command = line
			default:
				g = RunGate(ctx, at.path, at.env, line, e.cfg.GateTimeout, e.cfg.Redact.Text)
				ran[line] = g
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if t.MayStayRed(line) {
				g.NoWorse = NoWorse(boulder.GateOf(t.Baseline, line), g)
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

// NoWorse says why a red gate does not count: it failed in no other tests than before, or, where neither run names a
// test, with the same output. It is empty if the gate is green or counts.
func NoWorse(before *boulder.Gate, after boulder.Gate) string {
	switch {
	case before != nil && before.NoWorse != "" && !after.Green():
		return before.NoWorse
	case before == nil, !before.Ordinary(), !after.Ordinary():
		return ""
	case len(before.Failing) == 0 && len(after.Failing) == 0:
		if stable(before.Output) == stable(after.Output) {
			return "red before too, with the same output"
		}
		return ""
	case len(after.Failing) == 0, len(after.Failing) >= failingKept:
		return "" // it broke in another way, or not all names were kept
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

// stable returns an output without parts that vary from run to run. It drops the first lines of a cut output, since the
// position of the cut depends on the length of such parts.
func stable(output string) string {
	if strings.HasPrefix(output, "[cut: ") {
		lines := strings.SplitAfterN(output, "\n", 4)
		output = lines[len(lines)-1]
	}
	return enforcer.Normalize(output)
}
