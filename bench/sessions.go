package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/bouldermgr/manager/testkit/octest"
)

// measureSessions compares three ways to have questions answered on one warm server: manager, which also judges each
// answer, takes snapshots, hands results on and stores every step; a client that does none of that; and `opencode run`.
func measureSessions(ctx context.Context, w *world) (all []comparison, err error) {
	dir, err := w.project(ctx, "sessions", 40)
	if err != nil {
		return nil, err
	}
	warm, err := w.startServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer w.leave(warm)
	line := func(name string, ours, theirs []float64, than string, limit float64) {
		all = append(all, comparison{
			name: name, ours: side{"manager run --attach", ours}, theirs: side{than, theirs}, format: seconds, limit: limit,
		})
	}
	five := w.size(5, 1)
	for _, m := range []struct {
		name      string
		n, rounds int
		dependsOn func(int) string
		order     string
		limit     float64
	}{
		{"at once", five, 11, independent, "all", 1.10},
		{"at once", 50, 7, independent, "all", 1.10},
		{"in a chain", w.size(5, 2), 11, onPrevious, "one", 1.15},
	} {
		if w.once && m.n == 50 {
			continue
		}
		contenders, err := w.sessions(dir, warm, m.n, m.dependsOn, m.order)
		if err != nil {
			return all, err
		}
		// An `opencode run` costs as much as ten questions to a warm server, so only this line has it.
		single := m.n == five && m.order == "all" && !w.once
		if single {
			contenders = append(contenders, timing("opencode run", func(ctx context.Context) error {
				return together(w.alone(ctx, dir, m.n))
			}))
		}
		results, err := w.race(ctx, m.rounds, contenders...)
		if err != nil {
			return all, err
		}
		line(fmt.Sprintf("%d %s", m.n, m.name), results[0], results[1], "bare HTTP client", m.limit)
		if single {
			line(fmt.Sprintf("%d %s", m.n, m.name), results[0], results[2], fmt.Sprintf("%d × opencode run", m.n), 0.15)
		}
	}
	return all, nil
}

// sessions returns the contenders manager and bare client.
func (w *world) sessions(
	dir string, warm *octest.Server, n int, dependsOn func(int) string, order string,
) ([]contender, error) {
	plan, err := w.plan(fmt.Sprintf("%s-%d.yaml", order, n), n, dependsOn)
	if err != nil {
		return nil, err
	}
	config, err := w.wide(n)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []contender{
		timing("manager", func(ctx context.Context) error {
			return together([]*process{w.managerRun(ctx, dir, plan, "--in-place", "--attach", warm.URL, "--config", config)})
		}),
		timing("bare client", func(ctx context.Context) error {
			return w.run(ctx, dir, self, bareCommand, warm.URL, dir, strconv.Itoa(n), order)
		}),
	}, nil
}

// wide writes a configuration in which n sub-tasks may run at once.
func (w *world) wide(n int) (path string, err error) {
	path = filepath.Join(w.root, fmt.Sprintf("wide-%d.yaml", n))
	return path, os.WriteFile(path, fmt.Appendf(nil, "limits: {global: %d, per_model: %d}\n", n, n), 0o600)
}

// alone returns one `opencode run` process per question. Without titles each would ask the model for one.
func (w *world) alone(ctx context.Context, dir string, n int) []*process {
	processes := make([]*process, n)
	for i := range processes {
		processes[i] = w.command(ctx, dir, w.opencode, "run", "--model", agentModel,
			"--title", fmt.Sprintf("Get ready, part %d", i), question)
	}
	return processes
}

// managerRun runs a plan. The judge's model is called directly, not through OpenCode.
func (w *world) managerRun(ctx context.Context, dir, plan string, args ...string) *process {
	return w.command(ctx, dir, w.manager, append([]string{"run", plan, "--yes", "--ledger-model", "openai/judge"}, args...)...)
}

// measureMemory runs 20 sub-tasks at once whose sessions send 200 MB of events, and measures manager's peak memory.
func measureMemory(ctx context.Context, w *world) ([]comparison, error) {
	const streams = 20
	size := w.size(200, 4)
	plan, err := w.plan("streams.yaml", streams, independent)
	if err != nil {
		return nil, err
	}
	config, err := w.wide(streams)
	if err != nil {
		return nil, err
	}
	dir, err := w.project(ctx, "streams", 40)
	if err != nil {
		return nil, err
	}
	results, err := w.race(ctx, 3, contender{"manager", func(ctx context.Context) (float64, error) {
		fake, err := w.startFake(ctx, size<<20/streams, streams)
		if err != nil {
			return 0, err
		}
		defer fake.Kill()
		p := w.managerRun(ctx, dir, plan, "--in-place", "--attach", fake.URL, "--config", config)
		if err := together([]*process{p}); err != nil {
			return 0, err
		}
		usage, ok := p.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return 0, errors.New("memory is what getrusage says, which this system does not have")
		}
		return float64(usage.Maxrss) * 1024, nil
	}})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("20 sessions, %d MB of events: peak memory", size)
	return []comparison{fixed(name, "manager run --attach", results[0], 100e6, megabytes)}, nil
}

func (w *world) startFake(ctx context.Context, events, together int) (*octest.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return w.listen(w.command(ctx, w.root, self, fakeCommand, fmt.Sprint(events), fmt.Sprint(together)))
}

// measureStatus compares `manager status` with `git status` in two projects. Git's work grows with the files;
// manager's time is nearly all the start of a binary with four vendors' SDKs. With few files two program starts of
// some milliseconds are compared, so that line has no limit.
func measureStatus(ctx context.Context, w *world) ([]comparison, error) {
	few, err := w.statusOf(ctx, 40)
	if err != nil {
		return nil, err
	}
	many, err := w.statusOf(ctx, w.size(1000, 60))
	few.limit = 0
	return []comparison{few, many}, err
}

func (w *world) statusOf(ctx context.Context, files int) (comparison, error) {
	dir, err := w.project(ctx, fmt.Sprint("status", files), files)
	if err != nil {
		return comparison{}, err
	}
	plan, err := w.plan(fmt.Sprintf("status%d.yaml", files), 3, onPrevious)
	if err != nil {
		return comparison{}, err
	}
	fake, err := w.startFake(ctx, 1, 1)
	if err != nil {
		return comparison{}, err
	}
	defer fake.Kill()
	if err := together([]*process{w.managerRun(ctx, dir, plan, "--in-place", "--attach", fake.URL)}); err != nil {
		return comparison{}, err
	}
	command := func(name string) contender {
		return timing(name+" status", func(ctx context.Context) error { return w.run(ctx, dir, name, "status") })
	}
	results, err := w.race(ctx, 41, command(w.manager), command("git"))
	if err != nil {
		return comparison{}, err
	}
	return comparison{
		name: fmt.Sprintf("project of %d files", files), ours: side{"manager status", results[0]},
		theirs: side{"git status", results[1]}, format: milliseconds, limit: 3,
	}, nil
}

func together(processes []*process) error {
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.Start())
	}
	for i, p := range processes {
		if errs[i] == nil {
			errs[i] = p.finish()
		}
	}
	return errors.Join(errs...)
}
