package blockers

import (
	"context"
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
	Switch   *bool           `json:"switch"`   // of the project; nil: as configured
	Sessions map[string]bool `json:"sessions"` // those with a switch of their own, which counts most
	// Unwritten is how many items blockers.md lacks, after one more try to write them; Trouble says why, and names records
	// that cannot be read.
	Unwritten int    `json:"unwritten"`
	Trouble   string `json:"trouble,omitempty"`
	File      string `json:"file"` // the list for people, relative to the project
}

// Status reads the switches, and writes what blockers.md lacks.
func (d *Desk) Status(ctx context.Context) (Status, error) {
	s := Status{Sessions: map[string]bool{}, File: d.cfg.File}
	count := func(tx *bolt.Tx) error {
		all, damaged := records(tx)
		s.Unwritten, s.Trouble = 0, ""
		for _, r := range all {
			s.Unwritten += len(r.unlisted())
		}
		if damaged != nil {
			s.Trouble = damaged.Error()
		}
		return tx.Bucket(bucketSwitches).ForEach(func(k, v []byte) error {
			on := string(v) == valueOn
			if session, ok := strings.CutPrefix(string(k), switchSession); ok {
				s.Sessions[session] = on
			} else {
				s.Switch = &on
			}
			return nil
		})
	}
	err := d.with(ctx, reading, count)
	if err != nil || s.Unwritten == 0 {
		return s, err
	}
	unwritten := d.Flush(ctx)
	err = d.with(ctx, reading, count)
	if unwritten != nil {
		s.Trouble = unwritten.Error()
	}
	return s, err
}
