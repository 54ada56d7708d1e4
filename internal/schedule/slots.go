package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// slots counts who holds one. Every live attempt holds exactly one, from the event that starts it to the one that ends
// it, so there is nothing to give back.
type slots struct {
	l         Limits
	now       time.Time
	cooling   map[string]boulder.Cooldown
	global    int
	providers map[string]int
	models    map[string]int
}

func newSlots(l Limits, held ...Share) *slots {
	c := &slots{l: l, providers: map[string]int{}, models: map[string]int{}}
	for _, share := range held {
		for model, n := range share.Held {
			for range n {
				c.take(model)
			}
		}
	}
	return c
}

// slotsOf counts those of a boulder as well.
func slotsOf(s *boulder.State, l Limits, now time.Time, others ...Share) *slots {
	c := newSlots(l, others...)
	c.now, c.cooling = now, s.Boulder.Cooldowns
	for _, o := range s.Live() {
		c.take(o.Attempt.Model)
	}
	return c
}

func (c *slots) take(model string) {
	c.global++
	c.providers[providerOf(model)]++
	c.models[model]++
}

// full says why no attempt with the model can start, or returns "".
func (c *slots) full(model string) string {
	name := model
	if name == "" {
		name = "the default model"
	}
	provider := providerOf(model)
	limit, limited := c.l.Providers[provider]
	cool, cooling := c.cooling[model]
	switch {
	case cooling && c.now.Before(cool.Until):
		return fmt.Sprintf("%s cools down until %s: %s", name, cool.Until.Local().Format(time.TimeOnly), cool.Reason)
	case cooling && c.models[model] >= cool.Limit:
		return taken(cool.Limit, " of "+name+" (less than usual after: "+cool.Reason+")")
	case c.global >= c.l.Global:
		return taken(c.l.Global, "")
	case limited && c.providers[provider] >= limit:
		return taken(limit, " of provider "+provider)
	case c.models[model] >= c.l.Model(model):
		return taken(c.l.Model(model), " of "+name)
	}
	return ""
}

func taken(limit int, of string) string {
	if limit == 0 {
		return fmt.Sprintf("no slots%s are allowed (the limit is 0)", of)
	}
	if limit == 1 {
		return fmt.Sprintf("the one slot%s is taken", of)
	}
	return fmt.Sprintf("all %d slots%s are taken", limit, of)
}

// dispatch fills the free slots. Within a model: by priority, then first in, first out. Between models that have a free
// slot, the one whose first attempt is more urgent, or has waited longer, goes first. Boulders that share the limits have
// their turn by the age of their tickets. It waits for a model to cool down only if a budget allows to go on then.
func (c *computing) dispatch(others []Share) {
	free, queues := slotsOf(c.s, c.l, c.now, others...), c.queues()
	tickets := map[string][]time.Time{} // of the attempts that have not started
	for m, q := range queues {
		tickets[m] = ticketsOf(q, c.l.Global)
	}
	models := slices.Sorted(maps.Keys(queues))
	for {
		var first *boulder.Open
		for _, m := range models {
			q, mine := queues[m], tickets[m]
			if len(q) > 0 && free.full(m) == "" && (first == nil || before(q[0], first)) &&
				(len(mine) == 0 || !free.yields(m, mine[0], others)) {
				first = q[0]
			}
		}
		if first == nil {
			break
		}
		c.do(boulder.Starting{AttemptRef: first.Attempt.AttemptRef})
		m := first.Attempt.Model
		free.take(m)
		queues[m], tickets[m] = queues[m][1:], tickets[m][min(1, len(tickets[m])):]
	}
	var cooled time.Time
	for m, q := range queues {
		if cool := c.s.Boulder.Cooldowns[m]; len(q) > 0 && c.now.Before(cool.Until) {
			cooled = earlier(cooled, cool.Until)
		}
	}
	if cooled.IsZero() {
		return
	}
	if why := c.budget.forbids(boulder.Starting{}); why != "" {
		c.held = why
		return
	}
	c.wakeAt(cooled)
}

// earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// before orders the heads of two queues.
func before(a, b *boulder.Open) bool {
	return cmp.Or(
		cmp.Compare(a.SubTask.Priority.Rank(), b.SubTask.Priority.Rank()),
		cmp.Compare(a.Attempt.QueueSeq, b.Attempt.QueueSeq),
		cmp.Compare(a.SubTask.Position, b.SubTask.Position),
	) < 0
}

// Startable names the sub-tasks that still have to run but never could, because the limit of their model or of its
// provider is 0. Nothing else keeps an attempt waiting for ever, so a run that asks first cannot hang.
func Startable(s *boulder.State, l Limits) error {
	none := newSlots(l)
	first := map[string]*boulder.SubTask{}
	needs := map[string]int{}
	for _, t := range s.SubTasks {
		if !t.Unfinished() {
			continue
		}
		if needs[t.Model]++; needs[t.Model] == 1 {
			first[t.Model] = t
		}
	}
	var errs []error
	for _, m := range slices.Sorted(maps.Keys(needs)) {
		if reason := none.full(m); reason != "" {
			errs = append(errs, fmt.Errorf("%s, and %d sub-tasks need one (the first is %q): "+
				"raise that limit or give them another model", reason, needs[m], first[m].ID))
		}
	}
	return errors.Join(errs...)
}

// Wait is an attempt that waits for a slot, for people to see.
type Wait struct {
	SubTaskID string `json:"sub_task_id"`
	Model     string `json:"model"`
	Position  int    `json:"position"` // in the queue of its model, from 1
	Reason    string `json:"reason"`
	// Until is when the wait is over at the latest, if that is known: the end of a cool-down.
	Until time.Time `json:"until,omitzero"`
}

// Waiting lists the attempts that wait for a slot, with the reason. An attempt that could start now is not in it.
func Waiting(s *boulder.State, l Limits, now time.Time) []Wait {
	free, queues := slotsOf(s, l, now), s.Queues()
	var waits []Wait
	for _, m := range slices.Sorted(maps.Keys(queues)) {
		reason := free.full(m)
		if reason == "" {
			continue
		}
		for i, o := range queues[m] {
			w := Wait{SubTaskID: o.SubTask.ID, Model: m, Position: i + 1, Reason: reason}
			if until := s.Boulder.Cooldowns[m].Until; now.Before(until) {
				w.Until = until
			}
			waits = append(waits, w)
		}
	}
	return waits
}
