package blockers

import (
	"context"
	"errors"
	"strings"

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

// List gives the blockers that a filter wants, oldest first. One that cannot be read is named in the error, and the others
// are given all the same.
func (d *Desk) List(ctx context.Context, f Filter) ([]boulder.Blocker, error) {
	return d.read(ctx, func(r *record) bool {
		b := &r.Blocker
		return (f.BoulderID == "" || b.BoulderID == f.BoulderID) && (f.SubTaskID == "" || b.SubTaskID == f.SubTaskID) &&
			(f.SessionID == "" || b.SessionID == f.SessionID) && (f.Status == "" || b.Status == f.Status) &&
			(f.Hard == nil || b.Hard == *f.Hard)
	})
}

// Raised lists what was recorded for an attempt, or, in a scope without one, for a session; oldest first.
func (d *Desk) Raised(ctx context.Context, s boulder.BlockerScope) ([]boulder.Blocker, error) {
	return d.read(ctx, func(r *record) bool {
		b := &r.Blocker
		if s.BoulderID == "" {
			return b.SessionID == s.SessionID
		}
		return b.BoulderID == s.BoulderID && b.SubTaskID == s.SubTaskID && b.Attempt == s.Attempt
	})
}

// Undelivered lists settled blockers that their boulder was not told about, oldest first; of one boulder, or with "" of
// all.
func (d *Desk) Undelivered(ctx context.Context, boulderID string) ([]boulder.Blocker, error) {
	return d.read(ctx, func(r *record) bool {
		b := &r.Blocker
		return b.BoulderID != "" && b.Status.Settled() && !r.Delivered && (boulderID == "" || b.BoulderID == boulderID)
	})
}

// read gives the blockers of all records that are wanted, and then tries to write what blockers.md still lacks.
func (d *Desk) read(ctx context.Context, want func(*record) bool) (found []boulder.Blocker, err error) {
	lacking := 0
	err = d.with(ctx, reading, func(tx *bolt.Tx) error {
		all, err := records(tx)
		for _, r := range all {
			lacking += len(r.unlisted())
			if want(r) {
				found = append(found, r.Blocker)
			}
		}
		return err
	})
	d.retry(ctx, lacking)
	return found, err
}

// retry writes what blockers.md lacks; if that cannot be done now, the next operation tries again.
func (d *Desk) retry(ctx context.Context, lacking int) {
	if lacking == 0 {
		return
	}
	if err := d.Flush(ctx); err != nil {
		d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
	}
}

// Get gives one blocker, by its id in upper or lower case. Errors wrap [ErrNotFound].
func (d *Desk) Get(ctx context.Context, id string) (b boulder.Blocker, err error) {
	lacking := 0
	err = d.one(ctx, reading, id, func(r *record) error {
		b, lacking = r.Blocker, len(r.unlisted())
		return nil
	})
	d.retry(ctx, lacking)
	return b, err
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
func (d *Desk) Status(ctx context.Context) (s Status, err error) {
	if s, err = d.count(ctx); err != nil || s.Unwritten == 0 {
		return s, err
	}
	unwritten := d.Flush(ctx)
	s, err = d.count(ctx)
	s.Trouble = errors.Join(unwritten, s.Trouble)
	return s, err
}

func (d *Desk) count(ctx context.Context) (Status, error) {
	s := Status{Enabled: d.cfg.Enabled, Sessions: map[string]bool{}, File: d.cfg.File}
	err := d.with(ctx, reading, func(tx *bolt.Tx) error {
		err := tx.Bucket(bucketSwitches).ForEach(func(k, v []byte) error {
			on := string(v) == valueOn
			if session, ok := strings.CutPrefix(string(k), switchSession); ok {
				s.Sessions[session] = on
			} else {
				s.Switch, s.Enabled = &on, on
			}
			return nil
		})
		all, damaged := records(tx)
		s.Trouble = damaged
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
		return err
	})
	return s, err
}
