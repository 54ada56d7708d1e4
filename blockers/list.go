package blockers

import (
	"context"
	"errors"

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

// List gives the blockers that a filter wants, oldest first. One that cannot be read is named in the error, and the others
// are given all the same.
func (d *Desk) List(ctx context.Context, f Filter) ([]boulder.Blocker, error) {
	return d.read(ctx, f.wants)
}

// Raised lists what was recorded for an attempt, oldest first.
func (d *Desk) Raised(ctx context.Context, ref boulder.AttemptRef, boulderID string) ([]boulder.Blocker, error) {
	return d.read(ctx, func(r *record) bool {
		b := &r.Blocker
		return b.BoulderID == boulderID && b.SubTaskID == ref.SubTaskID && b.Attempt == ref.Attempt
	})
}

// Get gives one blocker, by its id in upper or lower case. Errors wrap [ErrNotFound].
func (d *Desk) Get(ctx context.Context, id string) (boulder.Blocker, error) {
	n, err := numberOf(id)
	if err != nil {
		return boulder.Blocker{}, err
	}
	found, faults := d.read(ctx, func(r *record) bool { return r.Blocker.ID == idOf(n) })
	if len(found) == 1 {
		return found[0], nil
	}
	if _, err := d.get(ctx, id); err != nil {
		return boulder.Blocker{}, err
	}
	return boulder.Blocker{}, faults
}

// Status says how things stand.
type Status struct {
	Enabled  bool            // for sessions without a switch of their own
	Switch   *bool           // of the project; nil: as configured
	Sessions map[string]bool // those with a switch of their own

	Pending, Hard     int // nobody has answered; and how many of them block progress
	Answered, Skipped int
	// Unwritten is how many items blockers.md lacks, after one more try to write them; Trouble says why, and
	// names records that cannot be read.
	Unwritten int
	Trouble   error
	File      string // the list for people, relative to the project
}

// Status counts. Records that cannot be read are named in its Trouble.
func (d *Desk) Status(ctx context.Context) (Status, error) {
	s := Status{Enabled: d.cfg.Enabled, Sessions: map[string]bool{}, File: d.cfg.File}
	s.Trouble = d.Flush(ctx)
	err := d.view(ctx, func(tx *bolt.Tx) error {
		if err := s.switches(tx); err != nil {
			return err
		}
		all, damaged := records(tx)
		s.Trouble = errors.Join(s.Trouble, damaged)
		for _, r := range all {
			switch r.Blocker.Status {
			case boulder.BlockerAnswered:
				s.Answered++
			case boulder.BlockerSkipped:
				s.Skipped++
			default:
				s.Pending++
				if r.Blocker.Hard {
					s.Hard++
				}
			}
			s.Unwritten += len(r.unlisted())
		}
		return nil
	})
	return s, err
}
