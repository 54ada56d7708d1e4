package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Load returns what a run needs to go on with a boulder. Its cost grows with the plan, and not with what has been
// done on it. Errors wrap [boulder.ErrNotFound], or name every record that cannot be read as a [CorruptError];
// nothing is returned then, as a run must not go on without them.
func (db *DB) Load(ctx context.Context, boulderID string) (boulder.Records, error) {
	var r boulder.Records
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		r, err = load(tx, boulderID)
		return err
	})
	if err != nil {
		return boulder.Records{}, fmt.Errorf("load: %w", err)
	}
	return r, nil
}

func load(tx *bolt.Tx, id string) (boulder.Records, error) {
	w, err := openWork(tx, id)
	if err != nil {
		return boulder.Records{}, err
	}
	var r boulder.Records
	var headErr, revisionErr, subTaskErr, openErr error
	r.Boulder, headErr = head(tx, id)
	r.Revision, revisionErr = w.revision(r.Boulder.Revision)
	r.SubTasks, subTaskErr = collect(scan[boulder.SubTask](w, bucketSubTasks, nil))
	r.Open, openErr = w.openAttempts()
	return r, errors.Join(headErr, revisionErr, subTaskErr, openErr)
}

// revision reads a plan revision; 0 has none.
func (w work) revision(number int) (*boulder.PlanRevision, error) {
	if number == 0 {
		return nil, nil
	}
	r, err := get[*boulder.PlanRevision](w, bucketRevisions, number32(number))
	return r, err
}

// openAttempts reads the attempts that are not over, each with its newest turn.
func (w work) openAttempts() ([]boulder.OpenRecord, error) {
	return collect(func(yield func(boulder.OpenRecord, error) bool) {
		c := w.Bucket.Bucket(bucketOpen).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if !yield(w.openAttempt(k)) {
				return
			}
		}
	})
}

func (w work) openAttempt(key []byte) (boulder.OpenRecord, error) {
	a, err := get[boulder.Attempt](w, bucketAttempts, key)
	if err != nil || a.Turns == 0 {
		return boulder.OpenRecord{Attempt: a}, err
	}
	t, err := get[*boulder.Turn](w, bucketTurns, turnKey(a.AttemptRef, a.Turns))
	return boulder.OpenRecord{Attempt: a, Turn: t}, err
}
