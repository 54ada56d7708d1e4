package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
	"github.com/bouldermgr/manager/internal/text"
)

// Share is a boulder's part of the shared limits: what it holds, what it waits for, and which models rejected it.
type Share struct {
	Held    map[string]int              // by model: attempts that hold a slot
	Waiting []Ticket                    // attempts that would start with a slot, the oldest of each model first
	Cooling map[string]boulder.Cooldown // by model: cool-downs whose end has not come, lifted ones included
}

// coolDowns returns the cool-downs of other boulders that this one lacks, for models that it needs now. A rejected
// boulder speaks for all, and so does a user who lifts a limit.
func (c *computing) coolDowns(others []Share) (cooled []Action) {
	newest := map[string]boulder.Cooldown{}
	for _, lifted := range []bool{false, true} {
		for _, share := range others {
			for m, cool := range share.Cooling {
				known := cmp.Or(newest[m], c.s.Boulder.Cooldowns[m])
				matters := c.now.Before(cool.Until) || lifted && c.now.Before(known.Until)
				if !cool.Lifted.IsZero() == lifted && matters && Supersedes(cool, known) && c.needs(m) {
					newest[m] = cool
				}
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(newest)) {
		cooled = append(cooled, Apply{boulder.Cooled{Model: m, Cooldown: newest[m]}})
	}
	return cooled
}

// Supersedes reports whether a cool-down replaces a known one. The later end counts, except that a limit lifted by the
// user is over until a provider rejects again.
func Supersedes(cool, known boulder.Cooldown) bool {
	if !cool.Lifted.IsZero() {
		return known.Since.Before(cool.Until) && cool.Until.Before(known.Until)
	}
	return cool.Until.After(known.Until) && (known.Lifted.IsZero() || !cool.Since.Before(known.Until))
}

func (c *computing) needs(model string) bool {
	uses := func(o *boulder.Open) bool { return o.Attempt.Model == model }
	return model == c.s.Boulder.Ledger() || c.listed(model) || len(c.s.Queues()[model]) > 0 || slices.ContainsFunc(c.s.Live(), uses)
}

// Ticket is the place of a boulder in the queue for a model: the older ticket goes first, whichever attempt it is for.
type Ticket struct {
	Model string
	Since time.Time
}

// slots counts held slots by model. A live attempt holds one until the event that ends it; [Hold] frees those
// of a paused boulder.
type slots struct {
	l       Limits
	now     time.Time
	cooling map[string]boulder.Cooldown
	held    map[string]int
	coming  map[string]int // attempts at work that take another model with their next prompt
	of      map[string]int // those of another provider, by that
}

// slotsOf counts the slots of a boulder and others; without a boulder, cool-downs are ignored.
func slotsOf(s *boulder.State, l Limits, now time.Time, others ...Share) *slots {
	c := &slots{l: l, now: now, held: map[string]int{}, coming: map[string]int{}, of: map[string]int{}}
	for _, share := range others {
		for model, n := range share.Held {
			c.held[model] += n
		}
	}
	if s != nil {
		c.cooling = s.Boulder.Cooldowns
		for _, o := range s.Live() {
			c.held[o.Attempt.Model]++
			if m := o.SubTask.Model; m != o.Attempt.Model {
				c.coming[m]++
				if providerOf(m) != providerOf(o.Attempt.Model) {
					c.of[providerOf(m)]++
				}
			}
		}
	}
	return c
}

// whyFull says why no attempt with the model can start, or returns "".
func (c *slots) whyFull(model string) string {
	name, provider := cmp.Or(model, "the default model"), providerOf(model)
	all, ofProvider, ofModel := 0, c.of[provider], c.held[model]+c.coming[model]
	for m, n := range c.held {
		if all += n; providerOf(m) == provider {
			ofProvider += n
		}
	}
	limit, limited := c.l.Providers[provider]
	cool, cooling := c.cooling[model]
	switch {
	case cooling && c.now.Before(cool.Until):
		return limitText(model, cool, c.now)
	case cooling && ofModel >= cool.Limit:
		return taken(cool.Limit, " of "+name+" (less than usual after: "+cool.Reason+")")
	case all >= c.l.Global:
		return taken(c.l.Global, "")
	case limited && ofProvider >= limit:
		return taken(limit, " of provider "+provider)
	case ofModel >= c.l.Model(model):
		return taken(c.l.Model(model), " of "+name)
	}
	return ""
}

func taken(limit int, of string) string {
	switch limit {
	case 0:
		return fmt.Sprintf("no slots%s are allowed (the limit is 0)", of)
	case 1:
		return fmt.Sprintf("the one slot%s is taken", of)
	}
	return fmt.Sprintf("all %d slots%s are taken", limit, of)
}

// yields reports whether other boulders with older tickets leave no slot for an attempt with the model.
func (c *slots) yields(model string, since time.Time, others []Share) bool {
	after := *c
	after.held = maps.Clone(c.held)
	for _, share := range others {
		for _, t := range share.Waiting {
			if t.Since.Before(since) && after.whyFull(t.Model) == "" {
				after.held[t.Model]++
			}
		}
	}
	return after.whyFull(model) != ""
}

// dispatch fills the free slots. Within a model: by priority, then first in, first out. Between models: the more urgent
// first attempt, then the one that has waited longer. Between boulders: by the age of their tickets. It waits for a
// cool-down only if a budget allows a start then.
func (c *computing) dispatch(others []Share) {
	free, queues := slotsOf(c.s, c.l, c.now, others...), c.queues()
	tickets := map[string][]time.Time{} // of the attempts that have not started
	for m, q := range queues {
		tickets[m] = ticketsOf(q, c.l.Global)
	}
	models, atWork := slices.Sorted(maps.Keys(queues)), c.s.Live()
	for {
		var first *boulder.Open
		for _, m := range models {
			for len(queues[m]) > 0 && claimed(queues[m][0].SubTask, atWork) != "" {
				queues[m] = queues[m][1:]
			}
			q, mine := queues[m], tickets[m]
			if len(q) > 0 && free.whyFull(m) == "" && (first == nil || before(q[0], first)) &&
				(len(mine) == 0 || !free.yields(m, mine[0], others)) {
				first = q[0]
			}
		}
		if first == nil {
			break
		}
		m := first.Attempt.Model
		switch {
		case c.exhausted(first.SubTask):
			c.do(Apply{c.outOfTurns(first, "another one had the last of them")})
		case !c.crowdedOut(first.SubTask):
			c.begun[c.s.Root(first.SubTask).ID]++
			c.do(Apply{boulder.Starting{AttemptRef: first.Attempt.AttemptRef, Slot: c.freeSlot(first.SubTask)}})
			atWork = append(atWork, first)
			free.held[m]++
		}
		queues[m], tickets[m] = queues[m][1:], tickets[m][min(1, len(tickets[m])):]
	}
	for m, q := range queues {
		if len(q) == 0 || !c.cooling(m) {
			continue
		}
		if why := c.budget.forbids(Apply{boulder.Starting{}}); why != "" {
			c.overBudget = why
			return
		}
		for _, o := range q {
			if !c.tooLong(m, o.SubTask.Models) {
				c.wakeAt(c.s.Boulder.Cooldowns[m].Until)
			}
		}
	}
}

// claimed says why a sub-task cannot run now: one at work may write the same file, or has written one that it may
// write. It returns "" if there is none, or if the plan does not say what they write.
func claimed(t *boulder.SubTask, atWork []*boulder.Open) string {
	if len(t.Writes) == 0 {
		return ""
	}
	for _, o := range atWork {
		if o.SubTask == t || len(o.SubTask.Writes) == 0 {
			continue
		}
		mine, its := scope.Overlap(slices.Concat(t.Writes, t.Files), slices.Concat(o.SubTask.Writes, o.SubTask.Files))
		if mine != "" {
			return fmt.Sprintf("%q is at work on %s, and this one may write %s", o.SubTask.ID, its, mine)
		}
	}
	return ""
}

// ticketsOf returns since when the first n attempts of a queue wait, oldest first.
func ticketsOf(queue []*boulder.Open, n int) []time.Time {
	var all []time.Time
	for _, o := range queue[:min(n, len(queue))] {
		all = append(all, o.Attempt.QueuedAt)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func before(a, b *boulder.Open) bool {
	return cmp.Or(
		cmp.Compare(a.SubTask.Priority.Rank(), b.SubTask.Priority.Rank()),
		cmp.Compare(a.Attempt.QueueSeq, b.Attempt.QueueSeq),
		cmp.Compare(a.SubTask.Position, b.SubTask.Position),
	) < 0
}

// Hold updates the slots that a boulder holds, and returns its share. It frees slots of attempts that are over, paused, or
// wait long for their model, once no work is busy with them, and takes free ones for attempts that lack one: after a pause, a
// crash or a change of model others may have theirs. Of its own attempts those that todo runs come first. A boulder that halts,
// or does not run, waits for nothing.
func Hold(
	s *boulder.State, l Limits, now time.Time, slots map[boulder.AttemptRef]string, busy func(boulder.AttemptRef) bool,
	todo []Action, others []Share, halting bool,
) Share {
	running, share := s.Boulder.Status == boulder.Running, Share{Held: map[string]int{}, Cooling: map[string]boulder.Cooldown{}}
	for m, cool := range s.Boulder.Cooldowns {
		if now.Before(cool.Until) || now.Before(cool.Lifted) {
			share.Cooling[m] = cool
		}
	}
	c := newComputing(s, l, now)
	for ref, model := range slots {
		o := s.Open(ref.SubTaskID)
		live := o != nil && o.Attempt.AttemptRef == ref && o.Attempt.Status.Live() && !c.waitsLong(o)
		if !busy(ref) && (!live || !running || o.Attempt.Model != model) { // it may have got another model
			delete(slots, ref)
			continue
		}
		share.Held[model]++
	}
	if !running {
		return share
	}
	all := append(slices.Clip(others), share)
	runs := map[boulder.AttemptRef]bool{}
	for _, a := range todo {
		if run, is := a.(Run); is {
			runs[run.Open.Attempt.AttemptRef] = true
		}
	}
	for _, o := range s.Live() {
		ref, model := o.Attempt.AttemptRef, o.Attempt.Model
		if _, has := slots[ref]; has || c.waitsLong(o) {
			continue
		}
		full := func() bool { return slotsOf(nil, l, now, all...).whyFull(model) != "" } // what has begun ignores cool-downs
		if runs[ref] && full() {
			for _, idle := range s.Live() { // one that waits for something else, which may be this one, gives way
				other := idle.Attempt.AttemptRef
				if its, holds := slots[other]; holds && !runs[other] && !busy(other) && full() {
					share.Held[its]--
					delete(slots, other)
				}
			}
		}
		if !full() {
			slots[ref] = model
			share.Held[model]++
		} else if !halting {
			share.Waiting = append(share.Waiting, Ticket{Model: model, Since: o.Attempt.StartedAt})
		}
	}
	if halting || s.Boulder.Trunk.Trial || c.budget.forbids(Apply{boulder.Starting{}}) != "" {
		return share
	}
	queues, live := c.queues(), s.Live()
	for _, m := range slices.Sorted(maps.Keys(queues)) {
		if c.cooling(m) {
			continue
		}
		able := slices.DeleteFunc(slices.Clone(queues[m]), func(o *boulder.Open) bool { return claimed(o.SubTask, live) != "" })
		for _, since := range ticketsOf(able, l.Global) {
			share.Waiting = append(share.Waiting, Ticket{m, since})
		}
	}
	return share
}

// Startable names the unfinished sub-tasks that could never run, because the limit of their model or its provider is 0.
// Nothing else keeps an attempt waiting for ever, so a run that checks this first cannot hang.
func Startable(s *boulder.State, l Limits) error {
	needs := map[string][]string{} // by model
	for _, t := range s.SubTasks {
		if t.Unfinished() {
			needs[t.Model] = append(needs[t.Model], t.ID)
			for _, m := range t.Wanted().All() {
				if m != t.Model {
					needs[m] = append(needs[m], t.ID)
				}
			}
		}
	}
	return StartableModels(needs, l)
}

// StartableModels is [Startable] for the ids of sub-tasks by the model that they need.
func StartableModels(needs map[string][]string, l Limits) error {
	var errs []error
	for _, m := range slices.Sorted(maps.Keys(needs)) {
		if reason := slotsOf(nil, l, time.Time{}).whyFull(m); reason != "" {
			errs = append(errs, fmt.Errorf("%s, which stops %s (the first is %q): raise that limit or use another model",
				reason, text.Plural(len(needs[m]), "sub-task"), needs[m][0]))
		}
	}
	return errors.Join(errs...)
}

// WaitingAttempt is an attempt that waits for a slot, or for another that may write the same files, as shown to the user.
type WaitingAttempt struct {
	SubTaskID string `json:"sub_task_id"`
	Model     string `json:"model"`
	Position  int    `json:"position"` // in the queue of its model, from 1
	Reason    string `json:"reason"`
	// Until is the end of the model's cool-down, if any. The wait may last longer.
	Until time.Time `json:"until,omitzero"`
}

// Waiting lists the attempts that wait for a slot. others are the boulders that hold slots of the shared limits, by id.
func Waiting(s *boulder.State, l Limits, now time.Time, others map[string]Share) (waits []WaitingAttempt) {
	if s.Boulder.Waits(now) {
		return nil // the boulder itself waits
	}
	live, queues, own, all := s.Live(), s.Queues(), slotsOf(s, l, now), slotsOf(s, l, now, slices.Collect(maps.Values(others))...)
	for _, m := range slices.Sorted(maps.Keys(queues)) {
		reason, until := own.whyFull(m), s.Boulder.Cooldowns[m].Until
		if s.Boulder.Trunk.Trial {
			reason = "the gates are tried in a slot first"
		}
		if reason == "" && all.whyFull(m) != "" {
			reason = "the slots are held by " + strings.Join(slices.Sorted(maps.Keys(others)), ", ")
		}
		if !now.Before(until) {
			until = time.Time{}
		}
		for i, o := range queues[m] {
			if why := cmp.Or(reason, claimed(o.SubTask, live)); why != "" {
				waits = append(waits, WaitingAttempt{SubTaskID: o.SubTask.ID, Model: m, Position: i + 1, Reason: why, Until: until})
			}
		}
	}
	return waits
}
