package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/internal/text"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

const (
	// rulingTimeout bounds a ruling, and what else is asked of the diverter while an agent waits: so an ask is answered
	// within 5 s even if it cannot be taken down.
	rulingTimeout = 2 * time.Second
	// besideTimeout bounds the looks at the server without which an ask is answered all the same.
	besideTimeout = time.Second
)

// diverted reports whether the session's asks are the diverter's at this moment.
func (t *turn) diverted() bool {
	if t.cfg.Diverter == nil || !t.cfg.Diverter.On(t.scope()) {
		return false
	}
	t.seen.diverting = true
	return true
}

func (t *turn) scope() boulder.BlockerScope {
	a := t.job.Attempt
	return boulder.BlockerScope{
		BoulderID: t.job.BoulderID, SubTaskID: a.SubTaskID, Attempt: a.Attempt, SessionID: a.SessionID,
		Diverted: t.job.Diverted,
	}
}

// divertAsked diverts a permission that an event tells of, together with what is asked beside it.
func (t *turn) divertAsked(ctx context.Context, dir *opencode.Directory, r opencode.PermissionRequest) error {
	looking, cancel := context.WithTimeout(ctx, besideTimeout)
	t.know(looking, dir, r.SessionID, r.Tool)
	asks := append(t.beside(looking, dir, r.ID), t.permissionAsk(dir, r)) // it is the newest that is known of
	cancel()
	return t.divert(ctx, asks...)
}

// divertAskedQuestion does the same for a question, whose answer sweeps nothing away.
func (t *turn) divertAskedQuestion(ctx context.Context, dir *opencode.Directory, r opencode.QuestionRequest) error {
	looking, cancel := context.WithTimeout(ctx, besideTimeout)
	t.know(looking, dir, r.SessionID, r.Tool)
	cancel()
	return t.divert(ctx, t.questionAsk(dir, r))
}

// divert gives asks to the diverter and replies to them as far as there is something to reply. One that is known
// already is left alone: it comes as an event and in lists.
func (t *turn) divert(ctx context.Context, asks ...*ask) error {
	asks = slices.DeleteFunc(asks, func(a *ask) bool {
		known := t.seen.asked[a.id]
		setIn(&t.seen.asked, a.id)
		return known
	})
	if len(asks) == 0 {
		return nil
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	t.ruleOn(ctx, asks)
	if ctx.Err() != nil {
		return context.Cause(ctx) // and not refused: whoever takes the turn up asks again
	}
	if !t.waitsForPerson() {
		t.seen.asksAt = t.cfg.Now().Add(askLook)
	}
	t.seen.asks = append(t.seen.asks, asks...)
	t.keepTime()
	if err := t.tellUnoffered(); err != nil {
		return err
	}
	if slices.ContainsFunc(asks, func(a *ask) bool { return a.failed == nil && a.ruling.BlockerID != "" }) {
		if err := t.tellRaised(ctx); err != nil {
			return err
		}
	}
	for _, a := range asks {
		if err := t.announce(a); err != nil {
			return err
		}
	}
	return t.replyToAsks(ctx)
}

// ruleOn has asks ruled on, all at once: together they take no longer than one may.
func (t *turn) ruleOn(ctx context.Context, asks []*ask) {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	var g errgroup.Group
	for _, a := range asks {
		g.Go(func() error { t.rule(ctx, a); return nil })
	}
	t.offerTool(ctx, false) // in case the diverter was off when the turn began
	_ = g.Wait()
}

func (t *turn) rule(ctx context.Context, a *ask) {
	a.ruling, a.failed = t.cfg.Diverter.Divert(ctx, a.blocker)
	if a.failed == nil {
		return
	}
	if errors.Is(a.failed, context.DeadlineExceeded) {
		a.failed = fmt.Errorf("it took more than %s: %w", rulingTimeout, a.failed)
	}
	a.ruling.Reply = boulder.ReplyDiverted
	if a.blocker.Ask.Permission == doomLoop {
		a.ruling.Reply = boulder.ReplyAllowed // to refuse it would end the turn
	}
}

// announce says in a line for people what becomes of an ask.
func (t *turn) announce(a *ask) error {
	r := a.ruling
	done, what := "refused ", t.inWords(a)
	switch given := r.Reply == boulder.ReplyAllowed; {
	case a.questions > 0 && given:
		done = "answered "
	case a.questions > 0:
		done = "nobody answers "
	case given:
		done = "allowed "
	}
	switch {
	case a.failed != nil:
		t.cfg.Logger.Warn("an ask could not be taken down", "session", a.session, "ask", a.id, "error", a.failed)
		return t.notice(done + what + ", which could not be taken down: " + text.Short(t.cfg.Redact.Text(a.failed.Error()), 200))
	case a.waits():
		return t.notice("waits for a person until " + clock(r.Until, t.cfg.Now()) + ": " + what + " (" + r.BlockerID + ")")
	case r.Reply != boulder.ReplyAllowed:
		return t.notice(done + what + ", taken down as " + r.BlockerID)
	case r.BlockerID != "":
		return t.notice(done + what + ", as a person said to " + r.BlockerID)
	default:
		return t.progress(done+what, nil) // as the policy has it
	}
}

// replyToAsks replies to what is ruled on, as far as it is due.
func (t *turn) replyToAsks(ctx context.Context) error {
	asks := slices.Clone(t.seen.asks)
	var ruled []session.Ruled
	for _, a := range asks {
		ruled = append(ruled, session.Ruled{Session: a.session, Question: a.questions > 0, Reply: a.ruling.Reply})
	}
	for _, i := range session.Replies(ruled) {
		if err := t.reply(ctx, asks[i]); err != nil {
			return err
		}
	}
	return nil
}

// reply does what was ruled.
func (t *turn) reply(ctx context.Context, a *ask) error {
	replying, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := a.reply(replying, cmp.Or(a.ruling.Message, t.cfg.Diverter.Instruction(a.blocker)))
	if err != nil && !errors.Is(err, opencode.ErrNotFound) {
		return fault(err)
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	t.forget(a)
	if err != nil && a.ruling.Reply != boulder.ReplyAllowed {
		t.gone(ctx, a.ruling.BlockerID)
	}
	return nil
}

// settledElsewhere takes in that somebody else replied to an ask: another client of the server, or an abort.
func (t *turn) settledElsewhere(ctx context.Context, id string) {
	for _, a := range t.seen.asks {
		if a.id == id {
			t.forget(a)
			t.gone(ctx, a.ruling.BlockerID)
			return
		}
	}
}

func (t *turn) forget(a *ask) {
	t.seen.asks = slices.DeleteFunc(t.seen.asks, func(b *ask) bool { return b == a })
	t.keepTime()
}

// gone is best effort: it is about what people read.
func (t *turn) gone(ctx context.Context, blockerID string) {
	if blockerID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	if err := t.cfg.Diverter.Gone(ctx, blockerID); err != nil {
		t.cfg.Logger.Warn("a blocker that nobody waits for is not marked so", "blocker", blockerID, "error", err)
	}
}
