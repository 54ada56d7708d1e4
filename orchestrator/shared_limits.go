package orchestrator

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/bouldermgr/manager/internal/schedule"
)

// runs are the boulders that one Orchestrator runs at the same time. They share its limits: each tells the others what it
// holds and what it waits for.
type runs struct {
	idle   sync.Mutex // held, before mu, while an order changes a boulder that nothing runs, and while a run enters
	mu     sync.Mutex
	byID   map[string]*run
	shares map[*run]schedule.Share
}

// enter makes the run known under the id of its boulder.
func (o *Orchestrator) enter(id string, r *run) error {
	o.runs.idle.Lock()
	defer o.runs.idle.Unlock()
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if o.runs.byID[id] != nil {
		return fmt.Errorf("boulder %s is being run already", id)
	}
	o.runs.byID[id], r.id = r, id
	return nil
}

// leave forgets the run; what it held is free for the others.
func (o *Orchestrator) leave(r *run) {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if o.runs.byID[r.id] == r {
		delete(o.runs.byID, r.id)
	}
	delete(o.runs.shares, r)
	o.runs.nudge(r)
	close(r.over)
}

func (o *Orchestrator) running(id string) *run {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	return o.runs.byID[id]
}

// nudge makes the others look again. Its caller holds mu.
func (rs *runs) nudge(except *run) {
	for _, other := range rs.byID {
		if other == except {
			continue
		}
		select {
		case other.nudge <- struct{}{}:
		default: // it is going to look
		}
	}
}

// others are what the other boulders hold and wait for. Its caller holds mu.
func (r *run) others() []schedule.Share {
	var others []schedule.Share
	for other, share := range r.o.runs.shares {
		if other != r {
			others = append(others, share)
		}
	}
	return others
}

// share tells the other boulders what this one holds and waits for. Its caller holds mu.
func (r *run) share(mine schedule.Share) {
	if !reflect.DeepEqual(mine, r.o.runs.shares[r]) {
		r.o.runs.shares[r] = mine
		r.o.runs.nudge(r)
	}
}
