package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/bouldermgr/manager/boulder"
)

// Commit writes all of c, or nothing, and returns when it is on disk. After an error the disk is as it was. Cancelling
// ctx stops a commit that has not begun, and no other. Events that do not follow the stored ones are [ErrConflict].
func (db *DB) Commit(ctx context.Context, c boulder.Changes) error {
	err := errors.New("the boulder has no id")
	if c.Boulder.ID != "" {
		err = db.commit(ctx, &c)
	}
	if err != nil {
		return fmt.Errorf("commit boulder %q: %w", c.Boulder.ID, err)
	}
	return nil
}

func (db *DB) commit(ctx context.Context, c *boulder.Changes) error {
	records, err := recordsOf(c, db.redact)
	if err != nil {
		return err
	}
	run := takesUp(c.Events)
	if run {
		records = append(records, record{inMeta, keyActive, []byte(c.Boulder.ID)})
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	if run {
		db.journal.plain = 0 // more is to come
	}
	if err := db.writable(); err != nil {
		return err
	}
	last, err := db.lastEvent(ctx, c.Boulder.ID)
	if err != nil {
		return err
	}
	for i := range c.Events {
		if last++; c.Events[i].Seq != last {
			return fmt.Errorf("event %d comes where %d is next: %w", c.Events[i].Seq, last, ErrConflict)
		}
	}
	if err := db.save(ctx, &entry{id: c.Boulder.ID, records: records}); err != nil {
		return err
	}
	db.journal.last[c.Boulder.ID] = last
	return nil
}

// writable fails if the handle is not for writing. bbolt would say so only when the journal is folded.
func (db *DB) writable() error {
	switch {
	case db.closed.Load():
		return bolterrors.ErrDatabaseNotOpen
	case db.bolt.IsReadOnly():
		return bolterrors.ErrDatabaseReadOnly
	}
	return nil
}

// lastEvent is the number of the newest event of a boulder, or 0. It fails if nothing can be added to the boulder: that
// has to be known before a change of it is in the journal. The caller holds db.writing.
func (db *DB) lastEvent(ctx context.Context, id string) (seq uint64, err error) {
	const most = 1000 // boulders that are remembered
	last := db.journal.last
	if seq, ok := last[id]; ok {
		return seq, nil
	}
	err = db.view(ctx, func(s *snapshot) error {
		w, err := openWork(s, id)
		if errors.Is(err, boulder.ErrNotFound) {
			return nil
		}
		if err := errors.Join(err, w.damage); err != nil {
			return err
		}
		for k := range w.tables[inEvents].backwards() {
			if len(k) == 8 {
				seq = binary.BigEndian.Uint64(k)
			}
			return nil
		}
		return nil
	})
	if len(last) >= most {
		clear(last)
	}
	return seq, err
}

// recordsOf encodes changes.
func recordsOf(c *boulder.Changes, redact func([]byte) []byte) ([]record, error) {
	w := newWriter(c.Boulder.ID, redact)
	defer w.free()
	w.changes(c)
	return w.records()
}
