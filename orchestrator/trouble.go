package orchestrator

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// trouble is what follows from a fault that is not the agent's: the attempt is taken up again after a while. A model that
// answers with a rate limit or an overload cools down, for everybody who uses it; that wait is its provider's wish and
// does not count towards giving up.
func (r *run) trouble(o *boulder.Open, kind workKind, err error) []boulder.Body {
	ref, now := o.Attempt.AttemptRef, r.o.cfg.Now()
	t, known := errors.AsType[*boulder.TroubleError](err)
	if !known {
		t = &boulder.TroubleError{Kind: boulder.TroubleServer}
	}
	if !cools(t) {
		wait := max(jitter(schedule.Backoff(r.o.limits, o.Attempt.Troubles+1)), t.RetryAfter)
		return one(boulder.Trouble{
			AttemptRef: ref, Kind: t.Kind, Reason: err.Error(), NotBefore: now.Add(wait).UTC(),
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
	now := r.o.cfg.Now()
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
	until := now.Add(jitter(wait))
	if before.Until.After(until) {
		until = before.Until
	}
	return boulder.Cooled{Model: model, Until: until.UTC(), Limit: max(1, limit), Full: full, Reason: err.Error()}
}

// jitter adds up to a quarter, and no more than 10 s, so that parallel attempts do not come back as one.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(min(int64(d)/4, int64(10*time.Second))+1))
}
