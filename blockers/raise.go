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

// Raise records what an agent reports with the tool, see [ReadInput]. It is on disk when Raise returns without an error; an
// error means that nothing was recorded: [*InputError], [ErrOff], [ErrTooMany], or one of the database.
//
// The same question and context of the same session, white space aside, within [Config.Cooldown] is a duplicate, for which
// the first one's record is given; unless it blocks progress now and did not before.
func (d *Desk) Raise(ctx context.Context, scope boulder.BlockerScope, in boulder.Blocker) (b boulder.Blocker, err error) {
	if err := cmp.Or(checkInput(in, &in.Hard, nil, nil), checkScope(scope)); err != nil {
		return b, err
	}
	raised := in
	raised.BlockerScope, raised.Status, raised.CreatedAt = scope, boulder.BlockerPending, d.now()
	raised.Options = slices.Clone(in.Options)
	d.tidy(&raised)
	if on, err := d.on(ctx, scope); err != nil || !on { // without a database being made for it
		return b, cmp.Or(err, ErrOff)
	}
	err = d.with(ctx, making, func(tx *bolt.Tx) error {
		all := d.readable(tx)
		for _, r := range slices.Backward(all) {
			old := &r.Blocker
			if old.SessionID == scope.SessionID && raised.CreatedAt.Sub(old.CreatedAt) < d.cfg.Cooldown && old.Ask == nil &&
				(old.Hard || !raised.Hard) && text.Fold(old.Question) == text.Fold(raised.Question) &&
				text.Fold(old.Context) == text.Fold(raised.Context) {
				b = *old
				return nil
			}
		}
		r := &record{Blocker: raised}
		err := d.add(tx, all, r)
		b = r.Blocker
		return err
	})
	if err != nil {
		return boulder.Blocker{}, err
	}
	d.cfg.Logger.Info("blocker: recorded", "id", b.ID, "session", b.SessionID, "boulder", b.BoulderID,
		"sub_task", b.SubTaskID, "category", b.Category, "hard", b.Hard)
	return b, nil
}

// readable are the records. One that cannot be read keeps no agent from reporting something.
func (d *Desk) readable(tx *bolt.Tx) []*record {
	all, err := records(tx)
	if err != nil {
		d.cfg.Logger.Warn("blockers: not read", "error", err)
	}
	return all
}

// add stores a new record with an id of its own, unless its session has as many among all as it may have.
func (d *Desk) add(tx *bolt.Tx, all []*record, r *record) error {
	n := 0
	for _, old := range all {
		if old.Blocker.SessionID == r.Blocker.SessionID {
			n++
		}
	}
	if n >= d.cfg.Max {
		d.cfg.Logger.Warn("blocker: refused, too many", "session", r.Blocker.SessionID, "blockers", n)
		return fmt.Errorf("%w: it has %d", ErrTooMany, n)
	}
	number, err := tx.Bucket(bucketRecords).NextSequence()
	if err != nil {
		return err
	}
	r.Blocker.ID = idOf(number)
	return put(tx, r)
}

// tidy makes the texts of a blocker that come from outside what is stored of them: without control characters, and then
// without secrets, which one of those may have hidden.
func (d *Desk) tidy(b *boulder.Blocker) {
	for _, s := range texts(b) {
		*s = d.cfg.Redact(clean(*s))
	}
}
