package blockers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Raise records what an agent reports with the tool. It is on disk when Raise returns without an error; an error means
// that nothing was recorded: [*InputError], [ErrOff], [ErrTooMany], or one of the database.
//
// The same question and context of the same session, white space aside, within [Config.Cooldown] is a duplicate, for which
// the first one's record is given; unless it blocks progress now and did not before.
func (d *Desk) Raise(ctx context.Context, scope boulder.BlockerScope, in Input) (
	b boulder.Blocker, duplicate bool, err error,
) {
	if err := in.Check(); err != nil {
		return b, false, err
	}
	if err := checkScope(scope); err != nil {
		return b, false, err
	}
	in = in.tidy()
	raised := boulder.Blocker{
		BoulderID: scope.BoulderID, SubTaskID: scope.SubTaskID, Attempt: scope.Attempt, SessionID: scope.SessionID,
		Category: boulder.BlockerCategory(in.Category), Question: in.Question, Context: in.Context, Hard: *in.BlocksProgress,
		Options: in.Options, ChosenOption: in.ChosenOption, ChosenReasoning: in.ChosenReasoning,
		Status: boulder.BlockerPending,
	}
	d.tidyAll(&raised)
	if on, err := d.on(ctx, scope); err != nil || !on { // without a database being made for it
		return b, false, cmp.Or(err, ErrOff)
	}
	err = d.update(ctx, func(tx *bolt.Tx) error {
		raised.CreatedAt = d.now()
		if !d.isOn(tx, scope) {
			return ErrOff
		}
		mine := d.ofSession(tx, scope.SessionID)
		for _, r := range slices.Backward(mine) {
			if d.sameLately(&r.Blocker, &raised) {
				b, duplicate = r.Blocker, true
				d.cfg.Logger.Info("blocker: duplicate", "id", b.ID, "session", scope.SessionID)
				return nil
			}
		}
		if err := d.room(mine, scope.SessionID); err != nil {
			return err
		}
		r := &record{Blocker: raised}
		err := add(tx, r)
		b = r.Blocker
		return err
	})
	if err != nil {
		return boulder.Blocker{}, false, err
	}
	if !duplicate {
		d.cfg.Logger.Info("blocker: recorded", "id", b.ID, "session", b.SessionID, "boulder", b.BoulderID,
			"sub_task", b.SubTaskID, "category", b.Category, "hard", b.Hard)
	}
	return b, duplicate, nil
}

// ofSession are the records of a session. One that cannot be read keeps nobody from reporting something.
func (d *Desk) ofSession(tx *bolt.Tx, session string) []*record {
	all, err := records(tx)
	if err != nil {
		d.cfg.Logger.Warn("blockers: not read", "error", err)
	}
	return slices.DeleteFunc(all, func(r *record) bool { return r.Blocker.SessionID != session })
}

// sameLately reports whether the same was asked within the cooldown.
func (d *Desk) sameLately(old, b *boulder.Blocker) bool {
	return b.CreatedAt.Sub(old.CreatedAt) < d.cfg.Cooldown && old.Ask == nil && (old.Hard || !b.Hard) &&
		text.Fold(old.Question) == text.Fold(b.Question) && text.Fold(old.Context) == text.Fold(b.Context)
}

// room fails if the session may have no further blocker.
func (d *Desk) room(mine []*record, session string) error {
	if n := len(mine); n >= d.cfg.Max {
		d.cfg.Logger.Warn("blocker: refused, too many", "session", session, "blockers", n)
		return fmt.Errorf("%w: it has %d", ErrTooMany, n)
	}
	return nil
}

// texts are all texts of a blocker that come from outside.
func texts(b *boulder.Blocker) []*string {
	all := []*string{&b.Question, &b.Context, &b.ChosenOption, &b.ChosenReasoning}
	for i := range b.Options {
		all = append(all, &b.Options[i])
	}
	if b.Ask != nil {
		all = append(all, &b.Ask.Permission, &b.Ask.Tool, &b.Ask.Arguments, &b.Ask.RequestID)
		for i := range b.Ask.Patterns {
			all = append(all, &b.Ask.Patterns[i])
		}
	}
	return all
}

// tidyAll makes texts what is stored of them: without control characters, and then without secrets, which one of those may
// have hidden.
func (d *Desk) tidyAll(b *boulder.Blocker) {
	for _, s := range texts(b) {
		*s = d.cfg.Redact(clean(*s))
	}
}
