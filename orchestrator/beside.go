package orchestrator

import (
	"fmt"
	"slices"
	"sync"

	"github.com/bouldermgr/manager/boulder"
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

// beside calls decide with what the other boulders hold and wait for. No other one decides meanwhile, so that no slot is
// given out twice.
func (r *run) beside(decide func(others []schedule.Share) error) error {
	rs := &r.o.runs
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var others []schedule.Share
	for other, share := range rs.shares {
		if other != r {
			others = append(others, share)
		}
	}
	err := decide(others)
	waiting := r.holdSlots(others)
	mine := schedule.Share{}
	if err == nil {
		mine = schedule.ShareOf(r.state, r.o.limits, r.now(), r.halting())
		if !r.halting() {
			mine.Waiting = append(waiting, mine.Waiting...)
		}
	}
	mine.Held = r.held()
	if !mine.Equal(rs.shares[r]) {
		rs.shares[r] = mine
		rs.nudge(r)
	}
	return err
}

// holdSlots gives back the slots of attempts that are over, or whose boulder is paused, once nothing is at work on them;
// and takes one for each attempt that needs one, as far as there are any: after a pause or a crash other boulders may have
// them. It returns what still waits.
func (r *run) holdSlots(others []schedule.Share) (waiting []schedule.Ticket) {
	running := r.state.Boulder.Status == boulder.Running
	for ref := range r.slots {
		o := r.state.Open(ref.SubTaskID)
		live := o != nil && o.Attempt.AttemptRef == ref && o.Attempt.Status.Live()
		if !r.inflight[ref] && (!live || !running) {
			delete(r.slots, ref)
		}
	}
	if !running {
		return nil
	}
	held := r.held()
	all := append(slices.Clip(others), schedule.Share{Held: held})
	for _, o := range r.state.Live() {
		ref := o.Attempt.AttemptRef
		if _, has := r.slots[ref]; has {
			continue
		}
		if schedule.Room(r.o.limits, o.Attempt.Model, all) {
			r.slots[ref] = o.Attempt.Model
			held[o.Attempt.Model]++
		} else {
			waiting = append(waiting, schedule.Ticket{Model: o.Attempt.Model, Since: o.Attempt.StartedAt})
		}
	}
	return waiting
}

// held counts the slots by model.
func (r *run) held() map[string]int {
	held := map[string]int{}
	for _, model := range r.slots {
		held[model]++
	}
	return held
}
