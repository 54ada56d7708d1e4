package main

import (
	"context"
	"os"
	"strconv"
)

const (
	chainLength = 5
	chainRounds = 11
)

// measureChain has five questions answered one after the other on the same warm server, by the manager, which also has
// each answer judged, takes snapshots, hands results on and stores every step, and by a client that does none of that.
func measureChain(ctx context.Context, w *world) ([]comparison, error) {
	dir, err := w.project(ctx, "chain")
	if err != nil {
		return nil, err
	}
	plan, err := w.plan("chain.yaml", chainLength, onPrevious)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	warm, err := w.startServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer warm.stop()
	results, err := w.race(ctx, chainRounds,
		contender{"manager", func(ctx context.Context) (float64, error) {
			p := w.managerRun(ctx, dir, plan, "--attach", warm.url)
			return timed(func() error { return together([]*process{p}) })
		}},
		contender{"bare client", func(ctx context.Context) (float64, error) {
			return timed(func() error {
				return w.run(ctx, dir, self, bareCommand, warm.url, dir, strconv.Itoa(chainLength))
			})
		}},
	)
	if err != nil {
		return nil, err
	}
	manager, client := side{"manager run --attach", results[0]}, side{"bare HTTP client", results[1]}
	return []comparison{{name: "chain of 5, warm: time", ours: manager, theirs: client, format: seconds, limit: 1.15}}, nil
}
