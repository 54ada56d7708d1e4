package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	loopRounds = 5
	loopSmall  = 100
	loopLarge  = 5000
)

// measureLoop runs the benchmark of scheduler, loop and store that stands in package orchestrator: no OpenCode, no
// model, but the real database on the disk.
func measureLoop(ctx context.Context, w *world) ([]comparison, error) {
	binary := filepath.Join(w.root, "loop.test")
	// Built with the user's own environment, whose caches hold most of it.
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./orchestrator")
	build.Dir = w.source
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the benchmark: %w: %s", err, oneLine(string(out)))
	}
	var comparisons []comparison
	for _, shape := range []string{"chain", "fan-out"} {
		results, err := w.race(ctx, loopRounds,
			w.loop(binary, shape, loopLarge, 1),
			w.loop(binary, shape, loopSmall, 20),
		)
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			name: "cost of a sub-task, " + shape, ours: side{"of 5,000", results[0]},
			theirs: side{"of 100", results[1]}, format: microseconds, limit: 1.3,
		})
	}
	return comparisons, nil
}

// loop is one run of the benchmark at one size, with so many repetitions.
func (w *world) loop(binary, shape string, size, times int) contender {
	name := fmt.Sprintf("%s/%d", shape, size)
	return contender{name, func(ctx context.Context) (float64, error) {
		p := w.command(ctx, filepath.Join(w.source, "orchestrator"), binary, "-test.run=^$",
			fmt.Sprintf("-test.bench=^BenchmarkLoop$/^%s$/^%d$", shape, size), fmt.Sprintf("-test.benchtime=%dx", times))
		if err := p.Start(); err != nil {
			return 0, err
		}
		if err := p.finish(); err != nil {
			return 0, err
		}
		return costOf(p.output.String())
	}}
}

// costOf finds the cost of a sub-task, in seconds, in what the benchmark printed.
func costOf(output string) (float64, error) {
	match := regexp.MustCompile(`([0-9.]+) µs/sub-task`).FindStringSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("there is no µs/sub-task in what the benchmark printed: %s", strings.TrimSpace(output))
	}
	cost, err := strconv.ParseFloat(match[1], 64)
	return cost / 1e6, err
}
