package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

const (
	listBoulders = 10_000
	listRounds   = 7
	listTimes    = 3
	mostOfList   = 3
)

// measureList compares printing the list of a database of 10,000 boulders with opening the bare file and reading the
// same keys, both within a process of this program. Whole commands are there to be seen, without a limit.
func measureList(ctx context.Context, w *world) ([]comparison, error) {
	dir, err := w.project(ctx, "list")
	if err != nil {
		return nil, err
	}
	took, err := timed(func() error { return fillProject(ctx, dir, listBoulders) })
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(dir, ".manager", "manager.db"))
	if err != nil {
		return nil, err
	}
	w.report("The list's database has %s boulders in %s, made in %s.",
		thousands(listBoulders), megabytes(float64(info.Size())), seconds(took))
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	inside := func(kind string) contender {
		return contender{"list, " + kind, func(ctx context.Context) (float64, error) {
			p := w.command(ctx, dir, self, listCommand, kind, dir, strconv.Itoa(listBoulders), strconv.Itoa(listTimes))
			if err := together([]*process{p}); err != nil {
				return 0, err
			}
			var result stepResult
			if err := json.Unmarshal(p.output.Bytes(), &result); err != nil {
				return 0, fmt.Errorf("%w: %s", err, oneLine(p.output.String()))
			}
			return result.Seconds, nil
		}}
	}
	command := func(name string, args ...string) contender {
		return contender{filepath.Base(name), func(ctx context.Context) (float64, error) {
			return timed(func() error { return w.run(ctx, dir, name, args...) })
		}}
	}
	results, err := w.race(ctx, listRounds, inside(listManager), inside(listBare),
		command(w.manager, "list"), command(self, listCommand, listBare, dir, strconv.Itoa(listBoulders), "1"))
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("list of %s boulders", thousands(listBoulders))
	return []comparison{
		{
			name: name, ours: side{"open, read, print", results[0]}, theirs: side{"bare open and read", results[1]},
			format: milliseconds, limit: mostOfList,
		},
		{
			name: name + ", commands", ours: side{"manager list", results[2]}, theirs: side{"bare process", results[3]},
			format: milliseconds,
		},
	}, nil
}
