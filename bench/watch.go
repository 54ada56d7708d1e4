package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// An hour of a session that is always at work: each minute it is left idle and told to go on, and it calls the model five
// times a minute. That makes 60 turns and 75,000 events, 74 MB of them.
const (
	watchTurns  = 60
	watchEarly  = 5       // turns after which memory is looked at for the first time
	watchEvents = 1 << 20 // bytes in a turn: four calls of the model with a command each, and one without
	// watchPause is short, so that it does not take an hour but a minute and a half, and long enough that each event
	// arrives for itself: those that come together cost less.
	watchPause   = time.Millisecond
	watchRounds  = 2
	watchHour    = 3600.0 // seconds
	mostOfCore   = 0.01
	mostWatching = 30e6 // bytes
	mostGrowth   = 1.25
)

// watchConfig makes the waiting short. The promise never comes, and nothing counts as a failure, so that it ends at the
// bound of continuations only.
const watchConfig = "watch: {idle: 20ms, countdown: 10ms, cooldown: off, failures: off, done_when: [promise]}\n"

// measureWatch has `manager watch` follow an hour of a session in compressed time, and looks at the processor time that
// it took, start and end included, and at the most memory that it ever had.
func measureWatch(ctx context.Context, w *world) ([]comparison, error) {
	config := filepath.Join(w.root, "watch-config.yaml")
	if err := os.WriteFile(config, []byte(watchConfig), 0o600); err != nil {
		return nil, err
	}
	var processor, early, all, hour []float64
	for range watchRounds {
		h, err := w.watchHour(ctx, config)
		if err != nil {
			return nil, err
		}
		w.detail("watch: %.3g s of processor, %s after %d turns, %s in all", h.processor, megabytes(h.early), watchEarly,
			megabytes(h.peak))
		processor, hour = append(processor, h.processor), append(hour, watchHour)
		early, all = append(early, h.early), append(all, h.peak)
	}
	return []comparison{
		{
			name: "watch, an hour of events: processor time", ours: side{"manager watch", processor},
			theirs: side{"the hour", hour}, format: seconds, limit: mostOfCore,
		},
		{
			name: "watch, an hour of events: peak memory", ours: side{"60 turns", all},
			theirs: side{fmt.Sprintf("its first %d", watchEarly), early}, format: megabytes, limit: mostGrowth, most: mostWatching,
		},
	}, nil
}

// watched is what one watch took: seconds, and bytes of its resident set.
type watched struct{ processor, early, peak float64 }

// watchHour is one hour of one session.
func (w *world) watchHour(ctx context.Context, config string) (h watched, err error) {
	fake, err := w.startFake(ctx, watchEvents, 0, 1, watchPause)
	if err != nil {
		return h, err
	}
	defer fake.stop()
	dir, err := w.project(ctx, fmt.Sprintf("watch-%d", w.next()))
	if err != nil {
		return h, err
	}
	p := w.command(ctx, dir, w.manager, "watch", "--json", "--attach", fake.url, "--config", config,
		"--max-iterations", strconv.Itoa(watchTurns-1))
	p.Stdout = nil
	output, err := p.StdoutPipe()
	if err != nil {
		return h, err
	}
	if err := p.Start(); err != nil {
		return h, err
	}
	err = ask(ctx, fake.url, dir)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	ended := false
	for err == nil && !ended && lines.Scan() {
		var decision struct {
			Decision, Gate string
			Iteration      int
		}
		err = json.Unmarshal(lines.Bytes(), &decision)
		switch {
		case err != nil:
		case decision.Decision == "let_go":
			ended = true
			h.peak, err = residentPeak(p.Process.Pid)
			if decision.Gate != "iterations" {
				err = fmt.Errorf("it ended at the gate %q: %s", decision.Gate, lines.Text())
			}
		case decision.Decision == "send" && decision.Iteration == watchEarly:
			h.early, err = residentPeak(p.Process.Pid)
		}
	}
	err = errors.Join(err, lines.Err(), p.Process.Signal(os.Interrupt))
	waited := p.Wait()
	if err == nil && !ended {
		err = fmt.Errorf("manager watch ended too early: %w: %s", waited, oneLine(p.output.String()))
	}
	h.processor = (p.ProcessState.UserTime() + p.ProcessState.SystemTime()).Seconds()
	return h, err
}

// ask has a person begin a session.
func ask(ctx context.Context, address, dir string) error {
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{})
	if err != nil {
		return err
	}
	defer client.Close()
	d := client.In(dir)
	s, err := d.CreateSession(ctx, opencode.NewSession{Title: "A long day"})
	if err != nil {
		return err
	}
	return d.Prompt(ctx, s.ID, opencode.Prompt{
		MessageID: opencode.NewMessageID(time.Now()), Parts: []opencode.TextPart{{Text: question}},
	})
}

// residentPeak is the most memory that a process ever had, in bytes. What the kernel tells when the process has ended
// is not that: it counts what its parent had when it was started.
func residentPeak(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoProc, err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, errNoProc
}
