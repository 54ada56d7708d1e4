package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// fillAppend is how full pages of the event log and of the list are left when they split. Their keys only ever grow, so no
// page but the last gets another one, and bbolt's default would leave half of each empty (8 % of a whole file, measured).
const fillAppend = 0.95

// Commit writes all of c in one transaction and returns when it is on disk. After an error the disk is as it was.
// Cancelling ctx stops a commit that has not begun, and no other. Events that do not follow the stored ones are
// [ErrConflict].
func (db *DB) Commit(ctx context.Context, c boulder.Changes) error {
	err := errors.New("the boulder has no id")
	if c.Boulder.ID != "" {
		err = db.update(ctx, func(tx *bolt.Tx) error {
			if err := write(tx, &c, db.redact); err != nil {
				return err
			}
			return follow(tx, &c)
		})
	}
	if err != nil {
		return fmt.Errorf("commit boulder %q: %w", c.Boulder.ID, err)
	}
	return nil
}

func write(tx *bolt.Tx, c *boulder.Changes, redact func([]byte) []byte) error {
	w, isNew, err := makeWork(tx, c.Boulder.ID)
	if err != nil {
		return err
	}
	w.redact = redact
	if err := writeHead(tx, &c.Boulder, isNew, redact); err != nil {
		return err
	}
	if err := w.writeEvents(c.Events); err != nil {
		return err
	}
	if r := c.Revision; r != nil {
		if err := w.put(bucketRevisions, number32(r.Number), r); err != nil {
			return err
		}
	}
	for i := range c.SubTasks {
		if err := w.put(bucketSubTasks, []byte(c.SubTasks[i].ID), &c.SubTasks[i]); err != nil {
			return err
		}
	}
	for i := range c.Attempts {
		if err := w.writeAttempt(&c.Attempts[i]); err != nil {
			return err
		}
	}
	for i := range c.Turns {
		t := &c.Turns[i]
		if err := w.put(bucketTurns, turnKey(t.AttemptRef, t.Number), t); err != nil {
			return err
		}
	}
	return nil
}

func writeHead(tx *bolt.Tx, b *boulder.Boulder, isNew bool, redact func([]byte) []byte) error {
	if isNew {
		if _, err := tx.Bucket(bucketCreated).NextSequence(); err != nil {
			return err
		}
	}
	value, err := encode(b, redact)
	if err != nil {
		return err
	}
	item := ItemOf(b)
	if redact != nil {
		if err := item.redacted(value); err != nil {
			return err
		}
	}
	created := tx.Bucket(bucketCreated)
	created.FillPercent = fillAppend
	if err := created.Put(createdKey(b), item.encode()); err != nil {
		return err
	}
	return tx.Bucket(bucketBoulders).Put([]byte(b.ID), value)
}

func (w work) writeEvents(events []boulder.Event) error {
	log := w.Bucket.Bucket(bucketEvents)
	log.FillPercent = fillAppend
	var last uint64
	if k, _ := log.Cursor().Last(); len(k) == 8 {
		last = binary.BigEndian.Uint64(k)
	}
	for i := range events {
		last++
		if events[i].Seq != last {
			return fmt.Errorf("event %d comes where %d is next: %w", events[i].Seq, last, ErrConflict)
		}
		if err := w.put(bucketEvents, number64(last), events[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w work) writeAttempt(a *boulder.Attempt) error {
	key := attemptKey(a.AttemptRef)
	if err := w.put(bucketAttempts, key, a); err != nil {
		return err
	}
	if a.Status.Terminal() {
		return w.Bucket.Bucket(bucketOpen).Delete(key)
	}
	return w.Bucket.Bucket(bucketOpen).Put(key, nil)
}
