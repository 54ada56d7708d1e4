package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

const (
	fanOut             = 5 // sub-tasks
	fanOutRounds       = 5
	fanOutRoundsMemory = 3
)

// measureFanOut has five questions answered at once: by the manager with a server of its own, by the manager attached to a warm server,
// and by five processes of `opencode run`. Time and memory come from different rounds: looking at memory takes time.
func measureFanOut(ctx context.Context, w *world) ([]comparison, error) {
	dir, err := w.project(ctx, "fanout")
	if err != nil {
		return nil, err
	}
	plan, err := w.plan("fanout.yaml", fanOut, independent)
	if err != nil {
		return nil, err
	}
	warm, err := w.startServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer warm.stop()
	f := fanOutRun{w, dir, plan, warm}
	wall, err := w.race(ctx, fanOutRounds, f.contenders(f.wall)...)
	if err != nil {
		return nil, err
	}
	memory, err := w.race(ctx, fanOutRoundsMemory, f.contenders(f.memory)...)
	if err != nil {
		return nil, err
	}
	cold, attached, alone := "manager run", "manager run --attach", "5 × opencode run"
	return []comparison{
		{"fan-out of 5, cold: time", side{cold, wall[0]}, side{alone, wall[2]}, seconds, 0.4},
		{"fan-out of 5, warm: time", side{attached, wall[1]}, side{alone, wall[2]}, seconds, 0.15},
		{"fan-out of 5, cold: peak memory", side{cold, memory[0]}, side{alone, memory[2]}, megabytes, 0.5},
		{"fan-out of 5, warm: peak memory", side{attached + " + server", memory[1]}, side{alone, memory[2]}, megabytes, 0.5},
	}, nil
}

type fanOutRun struct {
	*world
	dir, plan string
	warm      *server
}

// measurement runs processes to their end and measures them. others are processes that run already and count as well.
type measurement func(ctx context.Context, processes []*process, others ...int) (float64, error)

func (f fanOutRun) contenders(measure measurement) []contender {
	return []contender{
		{"cold", func(ctx context.Context) (float64, error) {
			return measure(ctx, []*process{f.managerRun(ctx, f.dir, f.plan)})
		}},
		{"attached", func(ctx context.Context) (float64, error) {
			p := f.managerRun(ctx, f.dir, f.plan, "--attach", f.warm.url)
			return measure(ctx, []*process{p}, f.warm.process.Process.Pid)
		}},
		{"opencode run", func(ctx context.Context) (float64, error) {
			processes := make([]*process, fanOut)
			for i := range processes {
				// With a title, or each of them would ask the model for one.
				processes[i] = f.command(ctx, f.dir, f.opencode, "run", "--model", agentModel,
					"--title", fmt.Sprintf("Get ready, part %d", i), question)
			}
			return measure(ctx, processes)
		}},
	}
}

func (w *world) managerRun(ctx context.Context, dir, plan string, args ...string) *process {
	return w.command(ctx, dir, w.manager, append([]string{"run", plan, "--yes"}, args...)...)
}

func (f fanOutRun) wall(_ context.Context, processes []*process, _ ...int) (float64, error) {
	return timed(func() error { return together(processes) })
}

func (f fanOutRun) memory(ctx context.Context, processes []*process, others ...int) (float64, error) {
	roots := others
	if err := startAll(processes); err != nil {
		return 0, err
	}
	for _, p := range processes {
		roots = append(roots, p.Process.Pid)
	}
	ctx, stop := context.WithCancel(ctx)
	var peak int64
	var watchErr error
	var watching sync.WaitGroup
	watching.Go(func() { peak, watchErr = watch(ctx, roots...) })
	err := finishAll(processes)
	stop()
	watching.Wait()
	return float64(peak), errors.Join(err, watchErr)
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
