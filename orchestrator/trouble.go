package orchestrator

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// trouble is what follows from a fault that is not the agent's: the attempt is taken up again after a while. A model that
// answers with a rate limit or an overload cools down, for everybody who uses it; that wait is its provider's wish and
// does not count towards giving up.
func (r *run) trouble(o *boulder.Open, kind workKind, err error) []boulder.Body {
	ref, now := o.Attempt.AttemptRef, r.now()
	t, known := errors.AsType[*boulder.TroubleError](err)
	if !known {
		t = &boulder.TroubleError{Kind: boulder.TroubleServer}
	}
	if !cools(t) {
		wait := schedule.Backoff(r.o.limits, o.Attempt.Troubles+1)
		wait = max(r.jitter(wait, ref.SubTaskID, ref.Attempt<<8+o.Attempt.Troubles), t.RetryAfter)
		return one(boulder.Trouble{
			AttemptRef: ref, Kind: t.Kind, Reason: err.Error(), NotBefore: now.Add(wait),
		})
	}
	model := t.Model
	if model == "" {
		model = o.Attempt.Model
		if kind == workJudge {
			model = r.state.Boulder.LedgerModel
		}
	}
	cool := r.coolDown(model, t, err)
	return []boulder.Body{
		cool, boulder.Trouble{AttemptRef: ref, Kind: t.Kind, Reason: err.Error(), NotBefore: cool.Until, Uncounted: true},
	}
}

// cools reports whether a fault makes its model wait.
func cools(t *boulder.TroubleError) bool {
	return t.Kind == boulder.TroubleRateLimit || t.Kind == boulder.TroubleOverloaded
}

// coolDown is the pause of a model, and with how many attempts at once it goes on after that: half as many.
func (r *run) coolDown(model string, t *boulder.TroubleError, err error) boulder.Cooled {
	now := r.now()
	before := r.state.Boulder.Cooldowns[model]
	full := r.o.limits.Model(model)
	limit := full
	if before.Limit > 0 {
		limit = min(limit, before.Limit)
	}
	hits := max(before.Hits, 1)
	if !now.Before(before.Until) { // else another attempt has just halved it
		limit, hits = max(1, limit/2), before.Hits+1
	}
	wait := t.RetryAfter
	if wait <= 0 {
		wait = schedule.Cool(r.o.limits, hits)
	}
	until := now.Add(r.jitter(wait, model, hits))
	if before.Until.After(until) {
		until = before.Until
	}
	return boulder.Cooled{Model: model, Until: until, Limit: max(1, limit), Full: full, Reason: err.Error()}
}

// jitter adds up to a quarter, and no more than 10 s, so that parallel attempts do not come back as one. How much follows
// from who waits, in which boulder, and for the how-many-th time: what happened once can be replayed.
func (r *run) jitter(d time.Duration, who string, n int) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %d", r.state.Boulder.ID, who, n) // a hash takes everything
	return d + time.Duration(h.Sum64()%(uint64(min(d/4, 10*time.Second))+1))
}
