package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Share is what one of several boulders that share the limits holds, and what it waits for.
type Share struct {
	Held    map[string]int // by model: attempts that hold a slot
	Waiting []Ticket       // attempts that would start if there were a slot, the oldest of each model first
}

// Ticket is the place of a boulder in the line for a model: the boulder whose ticket is older goes first. Which of its own
// attempts then starts is its own business.
type Ticket struct {
	Model string
	Since time.Time
}

// Hold brings the slots that a boulder holds up to date, and returns its share. It gives back those of attempts that are over,
// or whose boulder is paused, once nothing is busy with them, and takes one for each attempt that needs one, as far as there
// are any: after a pause or a crash other boulders may have them.
func Hold(
	s *boulder.State, l Limits, now time.Time, slots map[boulder.AttemptRef]string, busy func(boulder.AttemptRef) bool,
	others []Share, halting bool,
) Share {
	running := s.Boulder.Status == boulder.Running
	held := map[string]int{}
	for ref, model := range slots {
		o := s.Open(ref.SubTaskID)
		live := o != nil && o.Attempt.AttemptRef == ref && o.Attempt.Status.Live()
		if !busy(ref) && (!live || !running) {
			delete(slots, ref)
			continue
		}
		held[model]++
	}
	share := waiting(s, l, now, halting)
	share.Held = held
	if !running {
		return share
	}
	all := append(slices.Clip(others), Share{Held: held})
	var first []Ticket
	for _, o := range s.Live() {
		ref, model := o.Attempt.AttemptRef, o.Attempt.Model
		if _, has := slots[ref]; has {
			continue
		}
		if Room(l, model, all...) {
			slots[ref] = model
			held[model]++
		} else if !halting {
			first = append(first, Ticket{Model: model, Since: o.Attempt.StartedAt})
		}
	}
	share.Waiting = append(first, share.Waiting...)
	return share
}

// waiting is what a boulder waits for. One that halts, or does not run, waits for nothing: it keeps nobody waiting.
func waiting(s *boulder.State, l Limits, now time.Time, halting bool) Share {
	var share Share
	if halting || s.Boulder.Status != boulder.Running {
		return share
	}
	c := newComputing(s, l, now)
	if c.budget.forbids(boulder.Starting{}) != "" {
		return share
	}
	queues := c.queues()
	for _, m := range slices.Sorted(maps.Keys(queues)) {
		if now.Before(s.Boulder.Cooldowns[m].Until) {
			continue
		}
		for _, since := range ticketsOf(queues[m], l.Global) {
			share.Waiting = append(share.Waiting, Ticket{m, since})
		}
	}
	return share
}

// Room reports whether there is a slot for an attempt with the model besides what is held.
func Room(l Limits, model string, held ...Share) bool { return newSlots(l, held...).full(model) == "" }

// ticketsOf are since when the first attempts in the line of a model wait, the oldest first; at most n of them: more than
// there are slots say nothing.
func ticketsOf(queue []*boulder.Open, n int) []time.Time {
	var all []time.Time
	for _, o := range queue[:min(n, len(queue))] {
		all = append(all, o.Attempt.QueuedAt)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// yields reports whether an attempt with the model whose ticket is of the given time has to let attempts of other
// boulders go first, so that no slot is left for it.
func (c *slots) yields(model string, since time.Time, others []Share) bool {
	after := *c
	after.providers, after.models = maps.Clone(c.providers), maps.Clone(c.models)
	for _, share := range others {
		for _, t := range share.Waiting {
			if t.Since.Before(since) && after.full(t.Model) == "" {
				after.take(t.Model)
			}
		}
	}
	return after.full(model) != ""
}
