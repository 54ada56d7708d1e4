package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Detail is one boulder as a view shows it.
type Detail struct {
	Boulder  boulder.Boulder       `json:"boulder"`
	Revision *boulder.PlanRevision `json:"revision,omitempty"` // the current one; nil while planning
	SubTasks []boulder.SubTask     `json:"sub_tasks"`          // in plan order
	Attempts []boulder.Attempt     `json:"attempts"`           // in plan order, then by number
}

// Load returns the state of a boulder: its snapshot, with the events behind it applied. Errors wrap
// [boulder.ErrNotFound], or name what cannot be read as a [CorruptError]; nothing is returned then, as a run must not go on
// without it.
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

// load returns with an error the state as far as it can be read.
func load(tx *bolt.Tx, id string) (*boulder.State, error) {
	var snap boulder.Snapshot
	text := tx.Bucket(bucketSnapshots).Get([]byte(id))
	if text != nil && decode(bucketSnapshots, id, []byte(id), text, &snap) == nil {
		if s, err := boulder.Restore(snap); err == nil {
			return s, replay(tx, id, s)
		}
	}
	s := boulder.NewState() // without a snapshot, or with one that is damaged, there is still the log
	return s, replay(tx, id, s)
}

// replay applies the events of the log that follow a state, and checks that none is missing.
func replay(tx *bolt.Tx, id string, s *boulder.State) error {
	prefix, begun := logPrefix(id), s.Boulder.Seq
	c := tx.Bucket(bucketLog).Cursor()
	for k, v := c.Seek(logKey(id, begun+1)); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		var e boulder.Event
		err := decode(bucketLog, readable(k), k, v, &e)
		if err == nil {
			if err = s.Replay(e); err != nil {
				err = &CorruptError{Bucket: string(bucketLog), Key: readable(k), Err: err}
			}
		}
		if err != nil {
			return err
		}
	}
	var last entry
	listed := tx.Bucket(bucketList).Get([]byte(id))
	err := decode(bucketList, id, []byte(id), listed, &last)
	switch {
	case s.Boulder.Seq == 0 && listed == nil:
		return fmt.Errorf("boulder %q: %w", id, boulder.ErrNotFound)
	case err == nil && last.Seq != s.Boulder.Seq:
		return &CorruptError{Bucket: string(bucketLog), Key: readable(logKey(id, s.Boulder.Seq+1)), Err: errMissing}
	case s.Boulder.Seq == 0:
		return err
	}
	return nil
}

// Get returns a boulder with its plan, sub-tasks and attempts. Errors wrap [boulder.ErrNotFound]; or they name what cannot
// be read as [CorruptError], and what can be read is returned all the same.
func (db *DB) Get(ctx context.Context, boulderID string) (d Detail, err error) {
	err = db.view(ctx, "get", func(tx *bolt.Tx) error {
		s, err := load(tx, boulderID)
		d = Detail{Boulder: s.Boulder, Revision: s.Revision}
		for _, t := range s.SubTasks {
			d.SubTasks = append(d.SubTasks, *t)
		}
		for _, a := range s.Attempts {
			d.Attempts = append(d.Attempts, *a)
		}
		slices.SortStableFunc(d.Attempts, func(a, b boulder.Attempt) int {
			return cmp.Compare(s.SubTask(a.SubTaskID).Position, s.SubTask(b.SubTaskID).Position)
		})
		return err
	})
	return d, err
}

// Events returns those of a boulder after number afterSeq, in order, at most limit; 0 is all. Errors are those of [DB.Get].
func (db *DB) Events(
	ctx context.Context, boulderID string, afterSeq uint64, limit int,
) (events []boulder.Event, err error) {
	err = db.view(ctx, "events", func(tx *bolt.Tx) error {
		prefix := logPrefix(boulderID)
		c := tx.Bucket(bucketLog).Cursor()
		if k, _ := c.Seek(prefix); !bytes.HasPrefix(k, prefix) {
			return fmt.Errorf("boulder %q: %w", boulderID, boulder.ErrNotFound)
		}
		if afterSeq+1 == 0 {
			return nil
		}
		var faults []error
		for k, v := c.Seek(logKey(boulderID, afterSeq+1)); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			var e boulder.Event
			if err := decode(bucketLog, readable(k), k, v, &e); err != nil {
				faults = append(faults, err)
			} else if events = append(events, e); len(events) == limit {
				break
			}
		}
		return errors.Join(faults...)
	})
	return events, err
}
