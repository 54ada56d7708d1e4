package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// alsoAskedTimeout bounds the looks at the server without which an ask is answered all the same.
	alsoAskedTimeout = time.Second
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

// ask is an ask of a session of the tree that the diverter was given and that is not replied to.
type ask struct {
	session.Ask
	blocker boulder.Blocker
	ruling  boulder.Ruling
	failed  error // why there is no record
}

func (a *ask) waits() bool { return a.ruling.Reply == boulder.ReplyWaiting }

// newAsk is an ask as it is taken down, with what is known of the call that asks.
func (t *turn) newAsk(a session.Ask, call opencode.ToolCall) *ask {
	s, b := t.scope(), a.Blocker()
	b.BoulderID, b.SubTaskID, b.Attempt, b.SessionID, b.Diverted = s.BoulderID, s.SubTaskID, s.Attempt, s.SessionID, s.Diverted
	b.Context = "The sub-task: " + strings.TrimRight(t.job.SubTask.Subject, ".") + "."
	asks := t.tree.Member(a.SessionID())
	if a.SessionID() != s.SessionID {
		b.Context += " A sub-agent asks, which is to do this: " + cmp.Or(titleOf(asks), "unknown") + "."
	}
	if d := asks.Directory; d != "" && d != t.cfg.Project {
		b.Context += " It works in " + d + "."
	}
	if call.Tool != "" {
		b.Ask.Tool, b.Ask.Arguments = call.Tool, string(call.Input)
	}
	return &ask{Ask: a, blocker: b}
}

// asking is the call that asks, and whether it waits. The event that tells its arguments may come after the ask.
func (t *turn) asking(ctx context.Context, a session.Ask) (call opencode.ToolCall, waits bool, err error) {
	if ref := a.Tool(); ref != nil {
		if call, ok := t.tree.Running(a.SessionID(), *ref); ok {
			return call, true, nil
		}
	}
	call, waits, err = a.Call(ctx, t.directoryOf(a.SessionID()))
	return call, waits, fault(err)
}

// divertAsked diverts an ask that an event tells of: a permission together with what else is asked, since a refusal may
// sweep that away.
func (t *turn) divertAsked(ctx context.Context, a session.Ask) error {
	looking, cancel := context.WithTimeout(ctx, alsoAskedTimeout)
	var asks []*ask
	if a.Permission != nil {
		asks = t.alsoAsked(looking, a)
	}
	call, _, err := t.asking(looking, a)
	cancel()
	if err != nil { // arguments are for people to read, so an ask is not held up for them
		t.cfg.Logger.Warn("the arguments of a call that asks are not known", "session", a.SessionID(), "error", err)
	}
	return t.divert(ctx, append(asks, t.newAsk(a, call))...) // it is the newest that is known of
}

// alsoAsked are the other permissions that are asked for in the ask's directory at this moment. It is about the order of
// the replies alone, so an ask is not held up for it.
func (t *turn) alsoAsked(ctx context.Context, a session.Ask) (asks []*ask) {
	listed, err := t.directoryOf(a.SessionID()).Permissions(ctx)
	if err == nil {
		listed = slices.DeleteFunc(listed, func(r opencode.PermissionRequest) bool { return r.ID == a.ID() })
		asks, err = t.unknownAsks(ctx, session.Asks(listed, nil))
	}
	if err != nil {
		t.cfg.Logger.Warn("what else is asked is not known", "error", err)
	}
	return asks
}

// divertListed takes in what is asked in the tree: what is new, and what is not there any more.
func (t *turn) divertListed(ctx context.Context, listed []session.Ask) error {
	for _, a := range slices.Clone(t.seen.asks) {
		same := func(l session.Ask) bool { return l.ID() == a.ID() }
		if !slices.ContainsFunc(listed, same) {
			t.settledElsewhere(ctx, a.ID())
		}
	}
	asks, err := t.unknownAsks(ctx, listed)
	if err != nil {
		return err
	}
	return t.divert(ctx, asks...)
}

// unknownAsks are the asks of the tree, among those that a directory lists, that wait and that the diverter was not given.
// Those who want to report a blocker are let do it, before a refusal sweeps that away.
func (t *turn) unknownAsks(ctx context.Context, listed []session.Ask) ([]*ask, error) {
	var asks []*ask
	listed = slices.DeleteFunc(listed, func(a session.Ask) bool { return !t.tree.Has(a.SessionID()) })
	for _, a := range listed {
		if t.isToolPermission(a) {
			if err := t.answer(ctx, a); err != nil {
				return nil, err
			}
		}
	}
	for _, a := range listed {
		if t.seen.asked[a.ID()] || t.isToolPermission(a) {
			continue
		}
		call, waits, err := t.asking(ctx, a)
		if err != nil {
			return asks, err
		}
		if waits {
			asks = append(asks, t.newAsk(a, call))
		}
	}
	return asks, nil
}

// divert gives asks to the diverter and replies to them as far as there is something to reply. One that is known
// already is left alone: it comes as an event and in lists.
func (t *turn) divert(ctx context.Context, asks ...*ask) error {
	asks = slices.DeleteFunc(asks, func(a *ask) bool {
		known := t.seen.asked[a.ID()]
		setIn(&t.seen.asked, a.ID())
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
		t.seen.asksAt = t.cfg.Now().Add(session.AnswerLook)
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
	done, what := "refused ", t.inWords(a.Ask)
	switch given := r.Reply == boulder.ReplyAllowed; {
	case a.Question != nil && given:
		done = "answered "
	case a.Question != nil:
		done = "nobody answers "
	case given:
		done = "allowed "
	}
	switch {
	case a.failed != nil:
		t.cfg.Logger.Warn("an ask could not be taken down", "session", a.SessionID(), "ask", a.ID(), "error", a.failed)
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
		ruled = append(ruled, session.Ruled{Session: a.SessionID(), Question: a.Question != nil, Reply: a.ruling.Reply})
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
	err := a.Reply(ctx, t.directoryOf(a.SessionID()), a.ruling.Reply,
		cmp.Or(a.ruling.Message, t.cfg.Diverter.Instruction(a.blocker)))
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
		if a.ID() == id {
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
