package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// trouble is what follows from a fault of an attempt that is not the agent's: the attempt is taken up again after a while.
func trouble(s *boulder.State, l Limits, now time.Time, o *boulder.Open, err error) []boulder.Body {
	ref, model := o.Attempt.AttemptRef, o.Attempt.Model
	if o.Attempt.Status == boulder.AttemptMonitoring {
		model = s.Boulder.LedgerModel
	}
	kind, until, cooled := wait(s, l, now, err, model, o.Attempt.Troubles, ref.SubTaskID, ref.Attempt)
	return append(cooled, boulder.Trouble{
		AttemptRef: ref, Kind: kind, Reason: err.Error(), NotBefore: until, Uncounted: len(cooled) > 0,
	})
}

// ReplanTrouble is what follows from such a fault of a replan.
func ReplanTrouble(s *boulder.State, l Limits, now time.Time, err error) []boulder.Body {
	_, until, cooled := wait(s, l, now, err, s.Boulder.LedgerModel, s.Boulder.Replan.Troubles, "replan", s.Boulder.Replans)
	return append(cooled, boulder.ReplanTrouble{Reason: err.Error(), NotBefore: until, Uncounted: len(cooled) > 0})
}

// wait says until when whoever met a fault waits. A model that answers with a rate limit or an overload cools down, for
// everybody who uses it; that wait is its provider's wish and does not count towards giving up.
func wait(
	s *boulder.State, l Limits, now time.Time, err error, model string, troubles int, who string, n int,
) (kind boulder.TroubleKind, until time.Time, cooled []boulder.Body) {
	t, known := errors.AsType[*boulder.TroubleError](err)
	if !known {
		t = &boulder.TroubleError{Kind: boulder.TroubleServer}
	}
	if t.Kind == boulder.TroubleRateLimit || t.Kind == boulder.TroubleOverloaded {
		cool := coolDown(s, l, now, model, t)
		cool.Reason = err.Error()
		return t.Kind, cool.Until, []boulder.Body{cool}
	}
	d := jitter(s, doubled(l.Backoff, l.Backoff<<10, troubles+1), who, n<<8+troubles)
	return t.Kind, now.Add(max(d, t.RetryAfter)), nil
}

// coolDown is the pause of a model, and with how many attempts at once it continues after that: half as many. Attempts that
// meet the same limit at once count once: those that come while the model cools down already say nothing about whether the
// wait was long enough.
func coolDown(s *boulder.State, l Limits, now time.Time, model string, t *boulder.TroubleError) boulder.Cooled {
	model = cmp.Or(t.Model, model)
	before, full := s.Boulder.Cooldowns[model], l.Model(model)
	limit, hits := full, max(before.Hits, 1)
	if before.Limit > 0 {
		limit = min(limit, before.Limit)
	}
	if !now.Before(before.Until) {
		limit, hits = limit/2, before.Hits+1
	}
	pause := cmp.Or(max(t.RetryAfter, 0), doubled(l.CoolBase, l.CoolMax, hits))
	until := now.Add(jitter(s, pause, model, hits))
	if before.Until.After(until) {
		until = before.Until
	}
	return boulder.Cooled{Model: model, Until: until, Limit: max(1, limit), Full: full, Hits: hits}
}

// regrown is the cool-down of a model after an answer came: its limit grows by one. Nil: nothing changes.
func regrown(s *boulder.State, model string, now time.Time) *boulder.Cooldown {
	c, shrunk := s.Boulder.Cooldowns[model]
	if !shrunk || now.Before(c.Until) {
		return nil
	}
	c.Limit, c.Hits = c.Limit+1, 0
	return &c
}

// doubled is the n-th wait in a row, from 1, without jitter.
func doubled(wait, most time.Duration, n int) time.Duration {
	for ; n > 1 && wait < most; n-- {
		wait += min(wait, most-wait)
	}
	return min(wait, most)
}

// jitter adds up to a quarter, and no more than 10 s, so that parallel attempts do not come back as one. How much follows
// from who waits, in which boulder, and for the how-many-th time: what happened once can be replayed.
func jitter(s *boulder.State, d time.Duration, who string, n int) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %d", s.Boulder.ID, who, n) // a hash takes everything
	return d + time.Duration(h.Sum64()%(uint64(min(d/4, 10*time.Second))+1))
}
