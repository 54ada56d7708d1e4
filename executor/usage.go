package executor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// count adds what an answer that is complete used, once.
func (t *turn) count(m opencode.MessageInfo) bool {
	if m.Role != opencode.RoleAssistant || m.Completed.IsZero() || t.seen.counted[m.ID] {
		return false
	}
	t.seen.counted[m.ID] = true
	t.seen.usage = t.seen.usage.Add(t.usageOf(m))
	return true
}

// usageOf is what one answer used. [Config].Price is asked where OpenCode knows no price.
func (t *turn) usageOf(m opencode.MessageInfo) boulder.Usage {
	u := session.Usage(m.Tokens, m.Cost)
	u.Calls = 1
	if u.Unpriced > 0 && t.cfg.Price != nil {
		if price, known := t.cfg.Price(cmp.Or(m.Model.String(), t.job.Attempt.Model), u); known {
			u.Cost, u.Unpriced = price, 0
		}
	}
	return u
}

// used reports what the turn has used so far. What it did is said already, or else the text given here.
func (t *turn) used(activity string) error {
	return t.say(boulder.SubTaskProgress{Activity: text.If(t.seen.activity == "", activity)})
}

// recount reads what the turn has used so far, because events that told so may have been missed, or come while nobody
// followed it. What was reported of it before it was taken up is booked already.
func (t *turn) recount(ctx context.Context) error {
	before := t.seen.usage
	t.seen.usage = boulder.Usage{}
	clear(t.seen.counted)
	own := false
	for m, err := range t.dir.EachMessage(ctx, t.job.Attempt.SessionID) {
		if err != nil {
			return fault(err)
		}
		if own {
			t.count(m.Info)
		}
		own = own || m.Info.ID == t.job.Turn.MessageID
	}
	if err := t.eachChildAnswer(ctx, func(m opencode.MessageInfo) { t.count(m) }); err != nil {
		return err
	}
	if t.seen.usage = t.seen.usage.Sub(t.job.Attempt.Spent); t.seen.usage == before { // less if messages were deleted
		return nil
	}
	return t.used("took the turn up again")
}

// eachChildAnswer goes through what the sub-agents' models answered in the turn. A sub-agent can be taken up again by a
// later turn, so what counts is when the answer began, and not when its session did. It changes nothing of the turn.
func (t *turn) eachChildAnswer(ctx context.Context, take func(opencode.MessageInfo)) error {
	sessions, err := session.Descendants(ctx, t.dir, t.job.Attempt.SessionID)
	if err != nil {
		return fault(err)
	}
	// As exactly as OpenCode, which shares the clock, tells the time.
	sent := cmp.Or(t.job.Turn.SentAt, t.seen.Began).Truncate(time.Millisecond)
	for _, s := range sessions {
		if s.Updated.Before(sent) {
			continue // each prompt updates it (seen)
		}
		for m, err := range t.conn.Client.In(s.Directory).EachMessage(ctx, s.ID) {
			if err != nil && !errors.Is(err, opencode.ErrNotFound) {
				return fault(err)
			}
			if err == nil && m.Info.Role == opencode.RoleAssistant && !m.Info.Created.Before(sent) {
				take(m.Info)
			}
		}
	}
	return nil
}
