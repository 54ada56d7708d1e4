package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// Load returns what a run needs to go on with a boulder. Its cost grows with the plan, and not with what has been
// done on it. Errors wrap [boulder.ErrNotFound], or name every record that cannot be read as a [CorruptError];
// nothing is returned then, as a run must not go on without them.
func (db *DB) Load(ctx context.Context, boulderID string) (boulder.Records, error) {
	var r boulder.Records
	err := db.view(ctx, func(s *snapshot) (err error) {
		r, err = load(s, boulderID)
		return err
	})
	if err != nil {
		return boulder.Records{}, fmt.Errorf("load: %w", err)
	}
	return r, nil
}

func load(s *snapshot, id string) (boulder.Records, error) {
	w, err := openWork(s, id)
	if err != nil {
		return boulder.Records{}, err
	}
	var r boulder.Records
	var headErr, revisionErr, subTaskErr, openErr error
	r.Boulder, headErr = head(s, id)
	r.Revision, revisionErr = w.revision(r.Boulder.Revision)
	r.SubTasks, subTaskErr = collect(scan[boulder.SubTask](w, inSubTasks, nil))
	r.Open, openErr = w.openAttempts()
	return r, errors.Join(w.damage, headErr, revisionErr, subTaskErr, openErr)
}

// revision reads a plan revision; 0 has none.
func (w work) revision(number int) (*boulder.PlanRevision, error) {
	if number == 0 {
		return nil, nil
	}
	r, err := get[*boulder.PlanRevision](w, inRevisions, number32(number))
	return r, err
}

// openAttempts reads the attempts that are not over, each with its newest turn.
func (w work) openAttempts() ([]boulder.OpenRecord, error) {
	return collect(func(yield func(boulder.OpenRecord, error) bool) {
		for k := range w.tables[inOpen].from(nil) {
			if !yield(w.openAttempt(k)) {
				return
			}
		}
	})
}

func (w work) openAttempt(key []byte) (boulder.OpenRecord, error) {
	a, err := get[boulder.Attempt](w, inAttempts, key)
	if err != nil || a.Turns == 0 {
		return boulder.OpenRecord{Attempt: a}, err
	}
	t, err := get[*boulder.Turn](w, inTurns, turnKey(a.AttemptRef, a.Turns))
	return boulder.OpenRecord{Attempt: a, Turn: t}, err
}
