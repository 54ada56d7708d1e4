package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	streams      = 20
	streamRounds = 3
	mostMemory   = 100e6
)

// Sizes of the events of all sessions together.
const (
	streamShort  = 50 << 20
	streamMiddle = 200 << 20 // from here on, what is bounded is full
	streamLong   = 800 << 20
)

// measureMemory has twenty sub-tasks run at once whose sessions send more and more events, and looks at the most
// memory that the manager itself ever had.
func measureMemory(ctx context.Context, w *world) ([]comparison, error) {
	plan, err := w.plan("streams.yaml", streams, independent)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(w.root, "streams-config.yaml")
	limits := fmt.Sprintf("limits: {global: %d, per_model: %d}\n", streams, streams)
	if err := os.WriteFile(config, []byte(limits), 0o600); err != nil {
		return nil, err
	}
	results, err := w.race(ctx, streamRounds,
		w.stream(plan, config, streamShort), w.stream(plan, config, streamMiddle), w.stream(plan, config, streamLong))
	if err != nil {
		return nil, err
	}
	short, middle, long := side{"50 MB", results[0]}, side{"200 MB", results[1]}, side{"800 MB", results[2]}
	line := func(ours side, limit float64) comparison {
		return comparison{
			name: fmt.Sprintf("20 sessions, %s of events: peak memory", ours.what), ours: ours, theirs: middle,
			format: megabytes, limit: limit, most: mostMemory,
		}
	}
	return []comparison{line(short, 1), line(long, 1.15)}, nil
}

// stream is one run with so many bytes of events in all.
func (w *world) stream(plan, config string, size int) contender {
	return contender{fmt.Sprintf("%d MB", size>>20), func(ctx context.Context) (float64, error) {
		fake, err := w.startFake(ctx, size/streams, 0, streams, 0)
		if err != nil {
			return 0, err
		}
		defer fake.stop()
		dir, err := w.project(ctx, fmt.Sprintf("streams-%d", w.next()))
		if err != nil {
			return 0, err
		}
		p := w.managerRun(ctx, dir, plan, "--attach", fake.url, "--config", config)
		if err := together([]*process{p}); err != nil {
			return 0, err
		}
		return w.highWater(p)
	}}
}

// highWater is the most memory that an ended process ever had, in bytes: its resident set, and that of the largest
// process it waited for.
func (w *world) highWater(p *process) (float64, error) {
	usage, ok := p.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errNoProc
	}
	return float64(usage.Maxrss) * 1024, nil
}

// startFake starts a server that only plays OpenCode, see [runFake].
func (w *world) startFake(
	ctx context.Context, events, messages, together int, pause time.Duration,
) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return w.listen(w.command(ctx, w.root, self, fakeCommand,
		fmt.Sprint(events), fmt.Sprint(messages), fmt.Sprint(together), fmt.Sprint(pause.Microseconds())))
}
