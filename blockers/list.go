package blockers

import (
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Filter says which blockers are listed. What is zero does not filter.
type Filter struct {
	BoulderID string
	SubTaskID string
	SessionID string
	Status    boulder.BlockerStatus
	Hard      *bool
}

func (f Filter) wants(r *record) bool {
	b := &r.Blocker
	return (f.BoulderID == "" || b.BoulderID == f.BoulderID) && (f.SubTaskID == "" || b.SubTaskID == f.SubTaskID) &&
		(f.SessionID == "" || b.SessionID == f.SessionID) && (f.Status == "" || b.Status == f.Status) &&
		(f.Hard == nil || b.Hard == *f.Hard)
}

// candidates are the numbers of all records that may be wanted, by the narrowest index that there is.
func (f Filter) candidates(tx *bolt.Tx) []uint64 {
	switch {
	case f.SessionID != "":
		return numbersAt(tx.Bucket(bucketSessions), sessionKey(f.SessionID))
	case f.BoulderID != "":
		prefix := append([]byte(f.BoulderID), 0)
		if f.SubTaskID != "" {
			prefix = append(append(prefix, f.SubTaskID...), 0)
		}
		return numbersAt(tx.Bucket(bucketAttempts), prefix)
	case f.Status != "":
		return numbersAt(tx.Bucket(statusBucket(f.Status)), nil)
	}
	return numbersAt(tx.Bucket(bucketRecords), nil)
}

// List gives the blockers that a filter wants, oldest first. One that cannot be read is named in the error, and the others
// are given all the same.
func (d *Desk) List(ctx context.Context, f Filter) (found []boulder.Blocker, err error) {
	err = d.look(ctx, func(tx *bolt.Tx) (err error) {
		numbers := f.candidates(tx)
		slices.Sort(numbers)
		found, err = read(tx, numbers, f.wants)
		return err
	})
	return found, err
}

// Raised lists what was recorded for an attempt, oldest first.
func (d *Desk) Raised(ctx context.Context, ref boulder.AttemptRef, boulderID string) (found []boulder.Blocker, err error) {
	err = d.look(ctx, func(tx *bolt.Tx) (err error) {
		key := attemptKey(boulderID, ref.SubTaskID, ref.Attempt)
		found, err = read(tx, numbersAt(tx.Bucket(bucketAttempts), key), nil)
		return err
	})
	return found, err
}

// Get gives one blocker, by its id in upper or lower case. Errors wrap [ErrNotFound].
func (d *Desk) Get(ctx context.Context, id string) (b boulder.Blocker, err error) {
	n, err := numberOf(id)
	if err != nil {
		return b, err
	}
	err = d.look(ctx, func(tx *bolt.Tx) error {
		r, err := get(tx, n)
		if err == nil {
			b = r.Blocker
		}
		return err
	})
	if err == nil && b.ID == "" {
		err = fmt.Errorf("%w: %s", ErrNotFound, idOf(n))
	}
	return b, err
}

// Status says how things stand.
type Status struct {
	Enabled  bool            // for sessions without a switch of their own
	Switch   *bool           // of the project; nil: as configured
	Sessions map[string]bool // those with a switch of their own

	Pending, Hard     int // nobody has answered; and how many of them block progress
	Answered, Skipped int
	// Unwritten is how many items blockers.md lacks, after one more try to write them; Trouble says why.
	Unwritten int
	Trouble   error
	File      string // the list for people, relative to the project
}

// Status counts, without reading the records.
func (d *Desk) Status(ctx context.Context) (Status, error) {
	s := Status{Enabled: d.cfg.Enabled, Sessions: map[string]bool{}, File: d.cfg.File}
	s.Trouble = d.Flush(ctx)
	err := d.view(ctx, func(tx *bolt.Tx) error {
		if err := s.switches(tx); err != nil {
			return err
		}
		err := tx.Bucket(bucketPending).ForEach(func(_, mark []byte) error {
			s.Pending++
			if string(mark) == markHard {
				s.Hard++
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.Answered = len(numbersAt(tx.Bucket(bucketAnswered), nil))
		s.Skipped = len(numbersAt(tx.Bucket(bucketSkipped), nil))
		all, _ := queue(tx) // what cannot be read is in Trouble
		for _, q := range all {
			if q.Written.IsZero() {
				s.Unwritten++
			}
		}
		return nil
	})
	return s, err
}
