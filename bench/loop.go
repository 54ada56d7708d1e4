package main

import (
	"context"
	"fmt"
)

const (
	loopRounds = 5
	loopSmall  = 100
	loopLarge  = 5000
)

// measureLoop compares the cost of a sub-task in a large plan with that in a small one: scheduler, loop and the real
// database on the disk, with a runner that reports what one with OpenCode must. No OpenCode, no model.
func measureLoop(ctx context.Context, w *world) ([]comparison, error) {
	m, err := newStepsMeasure(w, "loop")
	if err != nil {
		return nil, err
	}
	loop, err := m.own(nameSessions, stepSessions)
	if err != nil {
		return nil, err
	}
	var comparisons []comparison
	for _, shape := range []string{shapeChain, shapeFanOut} {
		large, small := m.contender(loop, shape, loopLarge, 1), m.contender(loop, shape, loopSmall, 20)
		results, err := w.race(ctx, loopRounds, large.per(loopLarge), small.per(loopSmall))
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, comparison{
			name: "cost of a sub-task, " + shape, ours: side{"of " + thousands(loopLarge), results[0]},
			theirs: side{fmt.Sprintf("of %d", loopSmall), results[1]}, format: microseconds, limit: 1.3,
		})
	}
	return comparisons, nil
}

// per divides the results by n.
func (c contender) per(n int) contender {
	return contender{c.name, func(ctx context.Context) (float64, error) {
		result, err := c.once(ctx)
		return result / float64(n), err
	}}
}
