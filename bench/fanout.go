package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

const (
	fanOut       = 5 // sub-tasks
	timeRounds   = 5
	memoryRounds = 3
)

// measureFanOut has five questions answered at once: by the manager with a server of its own, by the manager attached
// to a warm server, and by five processes of `opencode run`.
func measureFanOut(ctx context.Context, w *world) ([]comparison, error) {
	dir, err := w.project(ctx, "fanout")
	if err != nil {
		return nil, err
	}
	plan, err := w.plan("fanout.yaml", fanOut, independent)
	if err != nil {
		return nil, err
	}
	f := fanOutRun{w, dir, plan}
	time, err := f.time(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := f.memory(ctx)
	if err != nil {
		return nil, err
	}
	cold, attached, alone := "manager run", "manager run --attach", "5 × opencode run"
	line := func(name, what string, ours, theirs []float64, format func(float64) string, limit float64) comparison {
		return comparison{
			name: "fan-out of 5, " + name, ours: side{what, ours}, theirs: side{alone, theirs}, format: format, limit: limit,
		}
	}
	return []comparison{
		line("cold: time", cold, time[0], time[2], seconds, 0.4),
		line("warm: time", attached, time[1], time[2], seconds, 0.15),
		line("cold: peak memory", cold, memory[0], memory[2], megabytes, 0.5),
		line("warm: peak memory", attached+" + server", memory[1], memory[2], megabytes, 0.5),
	}, nil
}

type fanOutRun struct {
	*world
	dir, plan string
}

// time measures how long it takes. Nobody looks at memory meanwhile, which takes time itself.
func (f fanOutRun) time(ctx context.Context) ([][]float64, error) {
	warm, err := f.startServer(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	defer warm.stop()
	wall := func(processes ...*process) (float64, error) {
		return timed(func() error { return together(processes) })
	}
	return f.race(ctx, timeRounds,
		contender{"cold", func(ctx context.Context) (float64, error) { return wall(f.cold(ctx)) }},
		contender{"attached", func(ctx context.Context) (float64, error) { return wall(f.attached(ctx, warm)) }},
		contender{"opencode run", func(ctx context.Context) (float64, error) { return wall(f.alone(ctx)...) }},
	)
}

// memory measures the peak of all processes together. No other OpenCode of ours runs meanwhile, and the warm server is
// a new one each time: it has had one session, not those of all rounds before.
func (f fanOutRun) memory(ctx context.Context) ([][]float64, error) {
	return f.race(ctx, memoryRounds,
		contender{"cold", func(ctx context.Context) (float64, error) { return peak(ctx, []*process{f.cold(ctx)}) }},
		contender{"attached", func(ctx context.Context) (float64, error) {
			warm, err := f.startServer(ctx, f.dir)
			if err != nil {
				return 0, err
			}
			defer warm.stop()
			return peak(ctx, []*process{f.attached(ctx, warm)}, warm.process.Process.Pid)
		}},
		contender{"opencode run", func(ctx context.Context) (float64, error) { return peak(ctx, f.alone(ctx)) }},
	)
}

func (f fanOutRun) cold(ctx context.Context) *process { return f.managerRun(ctx, f.dir, f.plan) }

func (f fanOutRun) attached(ctx context.Context, warm *server) *process {
	return f.managerRun(ctx, f.dir, f.plan, "--attach", warm.url)
}

// alone is the way without a manager: a process for each question. They get titles, or each would ask the model for
// one.
func (f fanOutRun) alone(ctx context.Context) []*process {
	processes := make([]*process, fanOut)
	for i := range processes {
		processes[i] = f.command(ctx, f.dir, f.opencode, "run", "--model", agentModel,
			"--title", fmt.Sprintf("Get ready, part %d", i), question)
	}
	return processes
}

func (w *world) managerRun(ctx context.Context, dir, plan string, args ...string) *process {
	return w.command(ctx, dir, w.manager, append([]string{"run", plan, "--yes"}, args...)...)
}

// peak runs the processes at once and gives the most memory that they, what they started, and the others used together.
func peak(ctx context.Context, processes []*process, others ...int) (float64, error) {
	if err := startAll(processes); err != nil {
		return 0, err
	}
	roots := others
	for _, p := range processes {
		roots = append(roots, p.Process.Pid)
	}
	ctx, stop := context.WithCancel(ctx)
	var most int64
	var watchErr error
	var watching sync.WaitGroup
	watching.Go(func() { most, watchErr = watch(ctx, roots...) })
	err := finishAll(processes)
	stop()
	watching.Wait()
	return float64(most), errors.Join(err, watchErr)
}

// together runs processes at once.
func together(processes []*process) error {
	if err := startAll(processes); err != nil {
		return err
	}
	return finishAll(processes)
}

func startAll(processes []*process) error {
	for i, p := range processes {
		if err := p.Start(); err != nil {
			for _, started := range processes[:i] {
				_ = started.killGroup()
			}
			return errors.Join(fmt.Errorf("start %s: %w", filepath.Base(p.Path), err), finishAll(processes[:i]))
		}
	}
	return nil
}

func finishAll(processes []*process) error {
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.finish())
	}
	return errors.Join(errs...)
}
