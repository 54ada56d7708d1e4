package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// out returns the cool-down because of which a model is not used by those that have another. A refused key is refused for
// all models of its provider.
func (c *computing) out(model string) (cool boulder.Cooldown, out bool) {
	for _, m := range slices.Sorted(maps.Keys(c.s.Boulder.Cooldowns)) {
		known := c.s.Boulder.Cooldowns[m]
		concerned := m == model || known.Out == boulder.OutKey && providerOf(m) == providerOf(model)
		if concerned && known.Out != "" && c.now.Before(known.Until) && known.Until.After(cool.Until) {
			cool, out = known, true
		}
	}
	return cool, out
}

// unproven reports whether a model was out, and has not answered since.
func (c *computing) unproven(model string) bool { return c.s.Boulder.Cooldowns[model].Out != "" }

// choose returns the model of a list to use instead of the present one, or that one: the first that is not out, else the one
// that is so for the shortest time. One that has yet to prove that it can be used again is chosen only where tries allows.
func (c *computing) choose(models boulder.Models, now string, tries func(model string) bool) string {
	soonest := now
	for _, m := range models.All() {
		cool, out := c.out(m)
		switch end, _ := c.out(soonest); {
		case out && cool.Until.Before(end.Until):
			soonest = m
		case out:
		case m == now, !c.unproven(m), tries(m):
			return m
		}
	}
	if _, out := c.out(now); !out {
		return now
	}
	return soonest
}

// switches returns who has to use another model of a list than until now. Away from one that is out go all at once, live
// attempts included. Back go those without a live attempt: one alone first, and once it has had an answer all others.
func (c *computing) switches(others []Share) []Action {
	b := &c.s.Boulder
	if len(b.Cooldowns) == 0 && b.Switches == 0 {
		return nil
	}
	var all []boulder.Switched
	ledger := b.Ledger()
	_, ledgerOut := c.out(ledger)
	if to := c.choose(b.LedgerModel, ledger, func(string) bool { return true }); to != ledger && (ledgerOut || c.ledgerDue()) {
		switched := c.switched(ledger, to)
		switched.Ledger = true
		all = append(all, switched)
	}
	tried := map[string]bool{} // models that an attempt tries
	for _, o := range c.s.Live() {
		tried[o.Attempt.Model], tried[o.SubTask.Model] = true, true // the latter with its next prompt
	}
	for _, share := range others {
		for m, n := range share.Held {
			tried[m] = tried[m] || n > 0
		}
		for _, t := range share.Waiting {
			tried[t.Model] = true
		}
	}
	for m, queue := range c.s.Queues() {
		tried[m] = tried[m] || len(queue) > 0
	}
	for _, t := range c.s.SubTasks {
		if t.Models == "" || t.Status.Terminal() {
			continue
		}
		o := c.s.Open(t.ID)
		_, away := c.out(t.Model)
		if o != nil && o.Attempt.Status.Live() && !away {
			continue
		}
		to := c.choose(t.Models, t.Model, func(m string) bool { return o != nil && !tried[m] })
		if to == t.Model {
			continue
		}
		switched := c.switched(t.Model, to)
		same := func(other boulder.Switched) bool {
			return !other.Ledger && other.From == switched.From && other.To == switched.To
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			switched = all[i]
			all = slices.Delete(all, i, i+1)
		}
		switched.SubTasks = append(switched.SubTasks, t.ID)
		all = append(all, switched)
		tried[to] = true
	}
	var actions []Action
	for _, switched := range all {
		actions = append(actions, Apply{switched})
	}
	return actions
}

// ledgerDue reports whether a ledger is to be asked.
func (c *computing) ledgerDue() bool {
	b := &c.s.Boulder
	return b.Status == boulder.Planning || b.Replan != nil || c.s.AllOver() ||
		slices.ContainsFunc(c.s.Live(), func(o *boulder.Open) bool {
			return o.Attempt.Status == boulder.AttemptMonitoring && o.Turn.Verdict == nil
		})
}

// switched says why one model takes the place of another.
func (c *computing) switched(from, to string) boulder.Switched {
	b := boulder.Switched{From: from, To: to}
	cool, out := c.out(from)
	switch {
	case !out && c.unproven(to):
		b.Probe, b.Reason = true, "perhaps it can be used again: a single one tries"
	case !out:
		b.Reason = "it can be used again"
	default:
		b.Reason = cool.Reason
	}
	if out && !cool.Endless() {
		b.Until = cool.Until
	}
	return b
}

// unusable says why no model of a list can be used for now, and when the first of them can be again.
func (c *computing) unusable(models boulder.Models) (why string, end time.Time) {
	var all []string
	for _, m := range models.All() {
		if cool, out := c.out(m); out {
			all = append(all, limitText(m, cool, c.now))
			if end.IsZero() || cool.Until.Before(end) {
				end = cool.Until
			}
		}
	}
	return strings.Join(all, "; "), end
}

// limitText says that a model cannot be used, and until when.
func limitText(model string, cool boulder.Cooldown, now time.Time) string {
	name, why := cmp.Or(model, "the default model"), boulder.Unnamed(model, cool.Reason)
	if cool.Endless() {
		return fmt.Sprintf("%s cannot be used: %s", name, why)
	}
	return fmt.Sprintf("%s is limited until %s: %s", name, text.Until(cool.Until, now), why)
}

// takeOut decides whether the models behind a refused one in a list take its place, and until when. A wait that is short
// enough is waited out. Refused again after it, a model is out, if another one can be used. What its provider says about the
// end is believed once: the time between two tries grows.
func (c *computing) takeOut(cool *boulder.Cooled, kind boulder.TroubleKind, models boulder.Models) {
	all, before := models.All(), c.s.Boulder.Cooldowns[cool.Model]
	out := boulder.OutLimit
	if kind == boulder.TroubleOverloaded {
		out = boulder.OutOverload
	}
	again := !c.now.Before(before.Until) && (before.Hits > 0 || before.Out != "")
	others := slices.ContainsFunc(all, func(m string) bool {
		_, gone := c.out(m)
		return m != cool.Model && !gone
	})
	cool.Out = before.Out // unless it has answered since
	if before.Out != "" && c.now.Before(before.Until) || !slices.Contains(all, cool.Model) || len(all) == 1 {
		return // others were at work when it went out, or there is no other model
	}
	grown := time.Duration(0)
	if again {
		grown = min(2*before.Until.Sub(before.Since), c.l.ResetMax)
	}
	if others && (again || cool.Hits > c.l.Cooldowns) {
		cool.Out, cool.Until = out, later(cool.Until, c.now.Add(max(grown, c.l.WaitForModel)))
		return
	}
	cool.Until = later(cool.Until, c.now.Add(min(grown, c.l.WaitForModel)))
	if cool.Until.Sub(c.now) > c.l.WaitForModel+maxJitter {
		cool.Out = out
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Outage returns what follows from an error of an attempt, or of its judge, after which its model cannot be used without a
// known end: others of a list take its place. It returns nil for other errors, and where there is no list.
func Outage(s *boulder.State, l Limits, now time.Time, o *boulder.Open, err error) []boulder.Body {
	c := newComputing(s, l, now)
	model, models := s.ModelFor(o), c.modelsFor(o)
	cooled := c.outage(model, models, err)
	if cooled == nil {
		return nil
	}
	return []boulder.Body{*cooled, boulder.Trouble{
		AttemptRef: o.Attempt.AttemptRef, Kind: boulder.TroubleRefused, Reason: cooled.Reason, NotBefore: cooled.Until, Uncounted: true,
	}}
}

// LedgerOutage is [Outage] for a plan, a replan, or the check of the request.
func LedgerOutage(s *boulder.State, l Limits, now time.Time, err error) []boulder.Body {
	cooled := newComputing(s, l, now).outage(s.Boulder.Ledger(), s.Boulder.LedgerModel, err)
	if cooled == nil {
		return nil
	}
	return []boulder.Body{*cooled, boulder.PlanTrouble{Reason: cooled.Reason, NotBefore: cooled.Until, Uncounted: true}}
}

func (c *computing) outage(model string, models boulder.Models, err error) *boulder.Cooled {
	out, all := boulder.OutageOf(err), models.All()
	if out == "" || len(all) < 2 || !slices.Contains(all, model) {
		return nil
	}
	cool := c.coolDown(model, 0)
	cool.Out, cool.Until, cool.Reset, cool.Reason = out, boulder.NoEnd(), time.Time{}, refusalText(err)
	return &cool
}

// refusalText returns why a model cannot be used, without what that means for a run: it may well continue.
func refusalText(err error) string {
	whole := err.Error()
	if _, said, found := strings.Cut(whole, boulder.ErrFatal.Error()+": "); found {
		return said
	}
	return whole
}

// Refused notes why a model without another in its list cannot be used. The run ends, and asks it again once it is resumed:
// nothing waits for this cool-down.
func Refused(s *boulder.State, l Limits, now time.Time, model string, err error) []boulder.Body {
	if boulder.OutageOf(err) == "" {
		return nil
	}
	cool := newComputing(s, l, now).coolDown(model, 0)
	before := s.Boulder.Cooldowns[model]
	cool.Until, cool.Limit, cool.Hits = later(now, before.Until), max(1, cmp.Or(before.Limit, cool.Full)), before.Hits
	cool.Out, cool.Reason = before.Out, refusalText(err)
	return []boulder.Body{cool}
}

// ModelNow returns the model of a list to use now.
func ModelNow(s *boulder.State, models boulder.Models, now time.Time) string {
	c := newComputing(s, Limits{}, now)
	return c.choose(models, models.First(), func(string) bool { return true })
}

// modelsFor returns the list of the model that an attempt needs now.
func (c *computing) modelsFor(o *boulder.Open) boulder.Models {
	if o.Attempt.Status == boulder.AttemptMonitoring {
		return c.s.Boulder.LedgerModel
	}
	return o.SubTask.Models
}

// waitsLong reports whether an attempt waits for a model that is out: perhaps for hours, in which others need its slot.
func (c *computing) waitsLong(o *boulder.Open) bool {
	_, out := c.out(c.s.ModelFor(o))
	return out && (o.Attempt.Status == boulder.AttemptMonitoring || c.now.Before(o.Attempt.NotBefore))
}

// listed reports whether a model is in a list that is still of use.
func (c *computing) listed(model string) bool {
	return slices.Contains(c.s.Boulder.LedgerModel.All(), model) || slices.ContainsFunc(c.s.SubTasks, func(t *boulder.SubTask) bool {
		return !t.Status.Terminal() && slices.Contains(t.Models.All(), model)
	})
}

// ModelUse is a model in use, or in a list of one, and what is known of it, as shown to the user.
type ModelUse struct {
	Model    string            `json:"model"`
	Cooldown *boulder.Cooldown `json:"cooldown,omitempty"` // nil: no refusal is known
	Instead  []string          `json:"instead,omitempty"`  // they work in its place now
	Fallback []string          `json:"fallback,omitempty"` // they would take its place
}

// ModelUses lists the models of the unfinished sub-tasks and of the ledgers, none of a boulder that is over.
func ModelUses(s *boulder.State, now time.Time) (all []ModelUse) {
	c, b := newComputing(s, Limits{}, now), &s.Boulder
	if b.Status.Terminal() {
		return nil
	}
	use := func(models boulder.Models, atWork string) {
		list := models.All()
		if len(list) == 0 {
			list = []string{atWork}
		}
		for i, m := range list {
			at := slices.IndexFunc(all, func(u ModelUse) bool { return u.Model == m })
			if at < 0 {
				at, all = len(all), append(all, ModelUse{Model: m})
				if cool, known := b.Cooldowns[m]; known {
					all[at].Cooldown = &cool
				}
				if cool, out := c.out(m); out {
					all[at].Cooldown = &cool // perhaps of another model with the same key
				}
			}
			into, other := &all[at].Instead, atWork
			if m == atWork {
				into, other = &all[at].Fallback, m
				if next := slices.IndexFunc(list, func(n string) bool { _, out := c.out(n); return n != m && !out }); next >= 0 {
					other = list[next]
				}
			}
			_, out := c.out(other)
			if !out && other != m && slices.Index(list, atWork) >= i && !slices.Contains(*into, other) {
				*into = append(*into, other)
			}
		}
	}
	for _, t := range s.SubTasks {
		if !t.Status.Terminal() {
			use(t.Wanted(), t.Model)
		}
	}
	use(b.LedgerModel, b.Ledger())
	return all
}
