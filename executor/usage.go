package executor

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// step takes in the end of a call of the model, by the agent or a sub-agent. It is reported at once: a budget is kept by
// what is reported, and a sub-agent can make many calls within one of its parent's.
func (t *turn) step(sessionID string, s opencode.StepFinish, model opencode.ModelRef) error {
	if model.IsZero() {
		model = t.model
	}
	t.seen.usage = t.seen.usage.Add(t.usageOf(model, s.Tokens, s.Cost))
	if sessionID == t.job.Attempt.SessionID {
		return t.used("the model answered")
	}
	activity := "sub-agent: " + cmp.Or(t.seen.children[sessionID], titleOf(t.tree.Member(sessionID)), "at work")
	delete(t.seen.children, sessionID)
	return t.progress(activity, nil)
}

// used reports what the turn has used so far. What it did is said already, or else the text given here.
func (t *turn) used(activity string) error {
	if t.seen.activity == "" {
		return t.progress(activity, nil)
	}
	return t.report(boulder.SubTaskProgress{AttemptRef: t.job.Attempt.AttemptRef, Usage: t.seen.usage})
}

// recount reads what the turn has used so far and which tools run, because events that told so may have been missed, or
// come while nobody followed it. What was reported of it before it was taken up is booked already.
func (t *turn) recount(ctx context.Context) error {
	before := t.seen.usage
	t.seen.usage = boulder.Usage{}
	err := t.eachAnswer(ctx, func(m opencode.Message) {
		t.tree.Answer(m, t.seen.busy) // else a call in it is one of a server that died
		for _, p := range m.Parts {
			if p.Step != nil {
				t.seen.usage = t.seen.usage.Add(t.usageOf(m.Info.Model, p.Step.Tokens, p.Step.Cost))
			}
		}
	})
	if err != nil {
		return err
	}
	if t.seen.usage = beyond(t.seen.usage, t.job.Attempt.Spent); t.seen.usage == before {
		return nil
	}
	return t.used("took the turn up again")
}

// beyond is what is used of a more than of b, which is a part of it unless messages were deleted.
func beyond(a, b boulder.Usage) boulder.Usage {
	return boulder.Usage{
		Input: max(0, a.Input-b.Input), CacheRead: max(0, a.CacheRead-b.CacheRead),
		CacheWrite: max(0, a.CacheWrite-b.CacheWrite), Output: max(0, a.Output-b.Output),
		Reasoning: max(0, a.Reasoning-b.Reasoning), Cost: max(0, a.Cost-b.Cost),
		Calls: max(0, a.Calls-b.Calls), Unpriced: max(0, a.Unpriced-b.Unpriced),
	}
}

// eachAnswer goes through what models answered in the turn: the agent, and then its sub-agents.
func (t *turn) eachAnswer(ctx context.Context, take func(opencode.Message)) error {
	own := false
	for m, err := range t.dir.EachMessage(ctx, t.job.Attempt.SessionID) {
		if err != nil {
			return fault(err)
		}
		if own && m.Info.Role == opencode.RoleAssistant {
			take(m)
		}
		own = own || m.Info.ID == t.job.Turn.MessageID
	}
	return t.eachChildAnswer(ctx, take)
}

// eachChildAnswer goes through what the sub-agents' models answered in the turn. A sub-agent can be taken up again by a
// later turn, so what counts is when the answer began, and not when its session did. It changes nothing of the turn.
func (t *turn) eachChildAnswer(ctx context.Context, take func(opencode.Message)) error {
	sessions, err := session.Descendants(ctx, t.dir, t.job.Attempt.SessionID)
	if err != nil {
		return fault(err)
	}
	sent := t.sentAt()
	for _, s := range sessions {
		if s.Updated.Before(sent) {
			continue // each prompt updates it (seen)
		}
		for m, err := range t.conn.Client.In(s.Directory).EachMessage(ctx, s.ID) {
			if err != nil && !errors.Is(err, opencode.ErrNotFound) {
				return fault(err)
			}
			if err == nil && m.Info.Role == opencode.RoleAssistant && !m.Info.Created.Before(sent) {
				take(m)
			}
		}
	}
	return nil
}

// sentAt is when the turn's prompt was sent, on the clock that OpenCode shares and as exactly as it tells the time.
func (t *turn) sentAt() time.Time {
	at := t.job.Turn.SentAt
	if at.IsZero() {
		at = t.seen.began
	}
	return at.Truncate(time.Millisecond)
}

// titleOf is what a sub-agent is to do, without the name that OpenCode adds: "Read (@general subagent)".
func titleOf(s opencode.Session) string {
	title, _, _ := strings.Cut(s.Title, " (@")
	return text.Short(title, 100)
}
