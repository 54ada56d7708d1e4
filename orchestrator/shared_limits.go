package orchestrator

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// runs are the boulders that one Orchestrator runs at the same time. They share its limits: each tells the others what it
// holds, what it waits for, and which models turned it away.
type runs struct {
	mu     sync.Mutex // also held while an order changes a boulder that nothing runs: a second one has to see what the first did
	byID   map[string]*run
	shares map[*run]schedule.Share
	left   map[string]boulder.Cooldown // by model: the newest cool-down of runs that are over
}

// enter makes the run known under the id of its boulder.
func (o *Orchestrator) enter(id string, r *run) error {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if o.runs.byID[id] != nil {
		return fmt.Errorf("boulder %s: %w", id, boulder.ErrRunning)
	}
	o.runs.byID[id] = r
	return nil
}

// leave forgets the run; what it held is free for the others.
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

// errNotTaken answers an order that came when the loop had ended: it is for whoever has the boulder now.
var errNotTaken = errors.New("the run ended before it took the order")

// woken makes a run look again: others hold or wait for something else now, or it is to stop.
type woken struct{}

// wake makes the others look again. Its caller holds mu.
func (rs *runs) wake(except *run) {
	for _, other := range rs.byID {
		if other != except {
			other.inbox.Put(woken{})
		}
	}
}
