package main

import "context"

const statusRounds = 41

// measureStatus compares looking at a small project: with `manager status` and with `git status`.
func measureStatus(ctx context.Context, w *world) ([]comparison, error) {
	dir, err := w.project(ctx, "status")
	if err != nil {
		return nil, err
	}
	plan, err := w.plan("status.yaml", 3, onPrevious)
	if err != nil {
		return nil, err
	}
	if err := together([]*process{w.managerRun(ctx, dir, plan)}); err != nil {
		return nil, err
	}
	command := func(name string) contender {
		return contender{name + " status", func(ctx context.Context) (float64, error) {
			return timed(func() error { return w.run(ctx, dir, name, "status") })
		}}
	}
	results, err := w.race(ctx, statusRounds, command(w.manager), command("git"))
	if err != nil {
		return nil, err
	}
	manager, git := side{"manager status", results[0]}, side{"git status", results[1]}
	return []comparison{{
		name: "small project, 3 sub-tasks done", ours: manager, theirs: git, format: milliseconds, limit: 5,
	}}, nil
}
