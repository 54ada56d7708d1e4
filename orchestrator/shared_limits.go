package orchestrator

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// runs are the boulders that one Orchestrator runs at the same time, sharing its limits. Each publishes which slots it
// holds, what it waits for, and which models rejected it.
type runs struct {
	mu     sync.Mutex // also serializes orders on boulders that nothing runs: each must see the effect of the one before
	byID   map[string]*run
	shares map[*run]schedule.Share
	left   map[string]boulder.Cooldown // by model: the newest cool-down of ended runs
}

// enter registers the run under the id of its boulder.
func (o *Orchestrator) enter(id string, r *run) error {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if o.runs.byID[id] != nil {
		return fmt.Errorf("boulder %s: %w", boulder.ShortID(id), boulder.ErrRunning)
	}
	o.runs.byID[id] = r
	return nil
}

// leave removes the run, which frees what it held for the others.
func (o *Orchestrator) leave(r *run) {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	maps.DeleteFunc(o.runs.byID, func(_ string, x *run) bool { return x == r })
	for m, cool := range o.runs.shares[r].Cooling {
		if schedule.Supersedes(cool, o.runs.left[m]) {
			o.runs.left[m] = cool
		}
	}
	delete(o.runs.shares, r)
	o.runs.wake(r)
	for _, rest := range r.inbox.Close() {
		if left, ok := rest.(order); ok {
			left.reply.Put(errNotTaken)
		}
	}
}

// errNotTaken answers an order that arrived after the loop had ended: its sender tries again.
var errNotTaken = errors.New("the run ended before it took the order")

// woken makes a run decide again: what others hold or wait for has changed, or it is to stop.
type woken struct{}

// wake makes the other runs decide again. The caller holds mu.
func (rs *runs) wake(except *run) {
	for _, other := range rs.byID {
		if other != except {
			other.inbox.Put(woken{})
		}
	}
}
