package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Load returns the state of a boulder: its snapshot plus later events. Errors wrap [boulder.ErrNotFound] or are a
// [CorruptError]; they come without a state, because a run must not continue from a partial one.
func (db *DB) Load(ctx context.Context, boulderID string) (s *boulder.State, err error) {
	err = db.view(ctx, "load", func(tx *bolt.Tx) (err error) {
		s, err = load(tx, boulderID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// load returns, together with an error, the state as far as it is readable.
func load(tx *bolt.Tx, id string) (*boulder.State, error) {
	var snap boulder.Snapshot
	text := tx.Bucket(bucketSnapshots).Get([]byte(id))
	if text != nil && decode(bucketSnapshots, id, []byte(id), text, &snap) == nil {
		if s, err := boulder.Restore(snap); err == nil {
			return s, replay(tx, id, s)
		}
	}
	s := boulder.NewState() // without an intact snapshot, replay the whole log
	return s, replay(tx, id, s)
}

// records yields the keys and values of a boulder's log after event number after.
func records(tx *bolt.Tx, id string, after uint64) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		prefix, before := logPrefix(id), logKey(id, after)
		c := tx.Bucket(bucketLog).Cursor()
		for k, v := c.Seek(before); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if !bytes.Equal(k, before) && !yield(k, v) {
				return
			}
		}
	}
}

// replay applies the logged events after s, and checks that none is missing.
func replay(tx *bolt.Tx, id string, s *boulder.State) error {
	for k, v := range records(tx, id, s.Boulder.Seq) {
		var e boulder.Event
		if err := decode(bucketLog, keyName(k), k, v, &e); err != nil {
			return err
		}
		if err := s.Replay(e); err != nil {
			return &CorruptError{Bucket: string(bucketLog), Key: keyName(k), Err: err}
		}
	}
	var last entry
	listed := tx.Bucket(bucketList).Get([]byte(id))
	err := decode(bucketList, id, []byte(id), listed, &last)
	switch {
	case s.Boulder.Seq == 0 && listed == nil:
		return fmt.Errorf("boulder %q: %w", id, boulder.ErrNotFound)
	case err == nil && last.Seq != s.Boulder.Seq:
		return &CorruptError{Bucket: string(bucketLog), Key: keyName(logKey(id, s.Boulder.Seq+1)), Err: errMissing}
	case s.Boulder.Seq == 0:
		return err
	}
	return nil
}

// Get is [DB.Load] for views: it returns the readable part together with a [CorruptError].
func (db *DB) Get(ctx context.Context, boulderID string) (snap boulder.Snapshot, err error) {
	err = db.view(ctx, "get", func(tx *bolt.Tx) error {
		s, err := load(tx, boulderID)
		snap = s.Snapshot()
		return err
	})
	return snap, err
}

// Events returns at most limit events (0: all) that follow number afterSeq, in order. Errors are those of [DB.Get].
func (db *DB) Events(
	ctx context.Context, boulderID string, afterSeq uint64, limit int,
) (events []boulder.Event, err error) {
	err = db.view(ctx, "events", func(tx *bolt.Tx) error {
		prefix := logPrefix(boulderID)
		if k, _ := tx.Bucket(bucketLog).Cursor().Seek(prefix); !bytes.HasPrefix(k, prefix) {
			return fmt.Errorf("boulder %q: %w", boulderID, boulder.ErrNotFound)
		}
		var faults []error
		for k, v := range records(tx, boulderID, afterSeq) {
			var e boulder.Event
			if err := decode(bucketLog, keyName(k), k, v, &e); err != nil {
				faults = append(faults, err)
			} else if events = append(events, e); len(events) == limit {
				break
			}
		}
		return errors.Join(faults...)
	})
	return events, err
}
