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
	others    []Share // of boulders that share the limits
}

func countSlots(s *boulder.State, l Limits, now time.Time, others []Share) *slots {
	c := &slots{
		l: l, now: now, cooling: s.Boulder.Cooldowns, providers: map[string]int{}, models: map[string]int{},
		others: others,
	}
	for _, o := range s.Live() {
		c.take(o.Attempt.Model)
	}
	c.takeAll(others)
	return c
}

func (c *slots) takeAll(shares []Share) {
	for _, share := range shares {
		for model, n := range share.Held {
			for range n {
				c.take(model)
			}
		}
	}
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
// slot, the one whose first attempt is more urgent, or has waited longer, goes first.
//
// What a replan is about to replace is held back. The time is when a model that has attempts waiting has cooled down;
// zero: none has to. Boulders that share the limits have their turn by the age of their tickets.
func dispatch(
	s *boulder.State, l Limits, now time.Time, held map[string]bool, others []Share,
) (actions []Action, cooled time.Time) {
	models := s.Models()
	if len(models) == 0 {
		return nil, time.Time{}
	}
	c := countSlots(s, l, now, others)
	given := map[string]int{} // attempts started, by model
	yields := func(m string) bool {
		if len(others) == 0 {
			return false
		}
		mine := tickets(s, m, held, l.Global)
		return given[m] < len(mine) && c.yields(m, mine[given[m]])
	}
	started := map[string]int{} // from the head of each model's queue
	for {
		var first *boulder.Open
		for _, m := range models {
			for head := s.Queued(m, started[m]); head != nil && held[head.SubTask.ID]; head = s.Queued(m, started[m]) {
				started[m]++
			}
			head := s.Queued(m, started[m])
			if head != nil && c.full(m) == "" && (first == nil || before(head, first)) && !yields(m) {
				first = head
			}
		}
		if first == nil {
			break
		}
		actions = append(actions, Start{first})
		c.take(first.Attempt.Model)
		started[first.Attempt.Model]++
		given[first.Attempt.Model]++
	}
	for _, m := range models {
		if cool := s.Boulder.Cooldowns[m]; s.Queued(m, started[m]) != nil && now.Before(cool.Until) {
			cooled = earlier(cooled, cool.Until)
		}
	}
	return actions, cooled
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
	none := &slots{l: l}
	first := map[string]*boulder.SubTask{}
	needs := map[string]int{}
	for _, t := range s.SubTasks {
		if t.Status != boulder.SubTaskPending && t.Status != boulder.SubTaskInProgress {
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
	c := countSlots(s, l, now, nil)
	var waits []Wait
	for _, m := range s.Models() {
		reason := c.full(m)
		if reason == "" {
			continue
		}
		for i := 0; ; i++ {
			o := s.Queued(m, i)
			if o == nil {
				break
			}
			w := Wait{SubTaskID: o.SubTask.ID, Model: m, Position: i + 1, Reason: reason}
			if until := s.Boulder.Cooldowns[m].Until; now.Before(until) {
				w.Until = until
			}
			waits = append(waits, w)
		}
	}
	return waits
}
