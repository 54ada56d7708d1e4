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

// count adds the usage of a complete answer once, and reports whether it did.
func (t *turn) count(m opencode.MessageInfo) bool {
	if m.Role != opencode.RoleAssistant || m.Completed.IsZero() || t.seen.counted[m.ID] {
		return false
	}
	t.seen.counted[m.ID] = true
	t.seen.usage = t.seen.usage.Add(t.usageOf(m))
	return true
}

// usageOf returns the usage of one answer. [Config].Price fills in where OpenCode knows no price.
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

// used reports the turn's usage so far, with the given activity if none was reported yet.
func (t *turn) used(activity string) error {
	return t.say(boulder.SubTaskProgress{Activity: text.If(t.seen.activity == "", activity)})
}

// recount reads the turn's usage from the server: events may be missing. What the attempt reported is subtracted.
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

// eachChildAnswer calls take for what the sub-agents' models answered in the turn. What counts is when an answer began,
// since a later turn can resume a sub-agent. It does not change the turn.
func (t *turn) eachChildAnswer(ctx context.Context, take func(opencode.MessageInfo)) error {
	sessions, err := session.Descendants(ctx, t.dir, t.job.Attempt.SessionID)
	if err != nil {
		return fault(err)
	}
	// OpenCode uses the same clock, with millisecond resolution.
	sent := cmp.Or(t.job.Turn.SentAt, t.seen.Began).Truncate(time.Millisecond)
	for _, s := range sessions {
		if s.Updated.Before(sent) {
			continue // each prompt updates the session (observed)
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
