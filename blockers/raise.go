package blockers

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

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
		if number, first := d.sameLately(tx, raised); first != nil {
			b, duplicate = first.Blocker, true
			d.cfg.Logger.Info("blocker: duplicate", "id", idOf(number), "session", scope.SessionID)
			return nil
		}
		if err := d.room(tx, scope.SessionID); err != nil {
			return err
		}
		r := &record{Blocker: raised}
		_, err := d.record(tx, r)
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

// record stores a new record, which gets its id, and its item for blockers.md with it.
func (d *Desk) record(tx *bolt.Tx, r *record) (number uint64, err error) {
	if number, err = add(tx, r); err != nil {
		return 0, err
	}
	return number, enqueue(tx, raisedItem(&r.Blocker))
}

// sameLately finds a blocker of the session that asked the same within the cooldown.
func (d *Desk) sameLately(tx *bolt.Tx, b boulder.Blocker) (number uint64, same *record) {
	prefix := sessionKey(b.SessionID)
	c := tx.Bucket(bucketSessions).Cursor()
	k, _ := c.Seek(append(prefix, bytes.Repeat([]byte{0xff}, 8)...)) // behind the session's last
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	for ; k != nil && bytes.HasPrefix(k, sessionKey(b.SessionID)); k, _ = c.Prev() {
		number = numberAt(k)
		r, err := get(tx, number)
		if err != nil { // what cannot be read keeps nobody from reporting something
			d.cfg.Logger.Warn("blocker: not read", "id", idOf(number), "error", err)
			continue
		}
		if b.CreatedAt.Sub(r.Blocker.CreatedAt) >= d.cfg.Cooldown {
			return 0, nil
		}
		if r.Blocker.Ask == nil && text.Fold(r.Blocker.Question) == text.Fold(b.Question) &&
			text.Fold(r.Blocker.Context) == text.Fold(b.Context) && (r.Blocker.Hard || !b.Hard) {
			return number, r
		}
	}
	return 0, nil
}

// room fails if the session may have no further blocker.
func (d *Desk) room(tx *bolt.Tx, session string) error {
	if n := len(numbersAt(tx.Bucket(bucketSessions), sessionKey(session))); n >= d.cfg.Max {
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
