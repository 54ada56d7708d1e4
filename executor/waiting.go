package executor

import (
	"context"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/session"
)

// overdue is how long after its time a wait is ended by the session that waits, should nobody else end it.
const overdue = 5 * time.Second

// lookAtAsks looks, once in a while, whether a person has answered.
func (t *turn) lookAtAsks(ctx context.Context) error {
	now := t.cfg.Now()
	if !t.waitsForPerson() || now.Before(t.seen.asksAt) {
		return nil
	}
	t.seen.asksAt = now.Add(session.AnswerLook)
	for _, a := range t.seen.asks {
		if !a.waits() {
			continue
		}
		if !t.ruleAgain(ctx, a, now) {
			continue
		}
		if err := t.announce(a); err != nil {
			return err
		}
	}
	t.keepTime()
	return t.replyToAsks(ctx)
}

// ruleAgain reports whether an ask does not wait any longer.
func (t *turn) ruleAgain(ctx context.Context, a *ask, now time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, rulingTimeout)
	defer cancel()
	r, err := t.cfg.Diverter.Ruling(ctx, a.ruling.BlockerID)
	late := now.After(a.ruling.Until.Add(overdue))
	switch {
	case err == nil && r.Reply != boulder.ReplyWaiting:
		r.BlockerID = a.ruling.BlockerID
		a.ruling = r
	case late:
		a.failed = err
		a.ruling.Reply, a.ruling.Message = boulder.ReplyDiverted, ""
	case err == nil:
		a.ruling.Until = r.Until
	}
	return !a.waits()
}

// waitsForPerson reports whether a person may still answer something.
func (t *turn) waitsForPerson() bool { return slices.ContainsFunc(t.seen.asks, (*ask).waits) }

// askOrBefore is the moment, or the one at which to look at the asks if that comes before.
func (t *turn) askOrBefore(at time.Time) time.Time {
	if t.waitsForPerson() && t.seen.asksAt.Before(at) {
		return t.seen.asksAt
	}
	return at
}

// clock is a time as a person reads it who looks at it now.
func clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	switch {
	case at.Sub(now) < 2*time.Minute:
		return at.Format(time.TimeOnly)
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04")
	}
	return at.Format("Jan 2 15:04")
}

// pause adds up the times in which a turn waits for a person: they are nobody's work, and no silence.
type pause struct {
	since time.Time // zero: it does not wait
	total time.Duration
}

func (p *pause) set(waits bool, now time.Time) {
	switch {
	case waits && p.since.IsZero():
		p.since = now
	case !waits && !p.since.IsZero():
		p.total, p.since = p.by(now), time.Time{}
	}
}

// by is how long it had waited at a moment.
func (p *pause) by(now time.Time) time.Duration {
	if p.since.IsZero() {
		return p.total
	}
	return p.total + max(0, now.Sub(p.since))
}

// keepTime stops the turn's clock while it waits for a person.
func (t *turn) keepTime() { t.seen.pause.set(t.waitsForPerson(), t.cfg.Now()) }
