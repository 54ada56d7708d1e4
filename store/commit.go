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
	if takesUp(c.Events) {
		records = append(records, record{inMeta, keyActive, []byte(c.Boulder.ID)})
	}
	db.writing.Lock()
	defer db.writing.Unlock()
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
	w := writer{id: c.Boulder.ID, redact: redact}
	w.records = make([]record, 0, 3+len(c.Events)+len(c.SubTasks)+2*len(c.Attempts)+len(c.Turns))
	w.head(&c.Boulder)
	for i := range c.Events {
		w.put(inEvents, number64(c.Events[i].Seq), c.Events[i])
	}
	if r := c.Revision; r != nil {
		w.put(inRevisions, number32(r.Number), r)
	}
	for i := range c.SubTasks {
		w.put(inSubTasks, []byte(c.SubTasks[i].ID), &c.SubTasks[i])
	}
	for i := range c.Attempts {
		w.attempt(&c.Attempts[i])
	}
	for i := range c.Turns {
		t := &c.Turns[i]
		w.put(inTurns, turnKey(t.AttemptRef, t.Number), t)
	}
	return w.records, w.err
}

// writer gathers encoded records. It stops at the first that cannot be stored.
type writer struct {
	id      string
	redact  func([]byte) []byte // see [Options]
	records []record
	err     error
}

// put adds a record.
func (w *writer) put(in place, key []byte, value any) {
	if w.err != nil {
		return
	}
	data, err := encode(value, w.redact)
	if err != nil {
		w.err = fmt.Errorf("write record %s in %s: %w", readable(bucketOf[in], key), workName(w.id, in), err)
		return
	}
	w.add(in, key, data)
}

// maxKey is what bbolt allows.
const maxKey = 1 << 15

// add adds a record that is encoded; nil deletes it.
func (w *writer) add(in place, key, value []byte) {
	switch {
	case w.err != nil:
	case len(key) == 0:
		w.err = fmt.Errorf("write record in %s: %w", workName(w.id, in), bolterrors.ErrKeyRequired)
	case len(key) > maxKey:
		w.err = fmt.Errorf("write record %.80q in %s: %w", key, workName(w.id, in), bolterrors.ErrKeyTooLarge)
	default:
		w.records = append(w.records, record{in, key, value})
	}
}

// head adds what is stored of a boulder itself: its head, and its item in the list.
func (w *writer) head(b *boulder.Boulder) {
	value, err := encode(b, w.redact)
	if err != nil {
		w.err = fmt.Errorf("write record %s in %s: %w", b.ID, bucketBoulders, err)
		return
	}
	item := ItemOf(b)
	if w.redact != nil {
		if w.err = item.redacted(value); w.err != nil {
			return
		}
	}
	w.add(inBoulders, []byte(b.ID), value)
	key := createdKey(b)
	w.add(inCreated, key, item.encode(key))
}

// attempt adds an attempt, and keeps the index of those that are not over.
func (w *writer) attempt(a *boulder.Attempt) {
	key := attemptKey(a.AttemptRef)
	w.put(inAttempts, key, a)
	var open []byte
	if !a.Status.Terminal() {
		open = []byte{}
	}
	w.add(inOpen, key, open)
}
