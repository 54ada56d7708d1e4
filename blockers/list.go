package blockers

import (
	"context"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Filter says which blockers are listed. What is zero does not filter.
type Filter struct {
	boulder.BlockerScope
	Status boulder.BlockerStatus
	Hard   *bool
	// Undelivered are settled blockers that their boulder was not told about.
	Undelivered bool
}

// List gives the blockers that a filter wants, oldest first. One that cannot be read is named in the error, and the others
// are given all the same.
func (d *Register) List(ctx context.Context, f Filter) (found []boulder.Blocker, err error) {
	err = d.with(ctx, reading, func(tx *bolt.Tx) error {
		all, err := records(tx)
		for _, r := range all {
			if (f.BoulderID == "" || r.BoulderID == f.BoulderID) && (f.SubTaskID == "" || r.SubTaskID == f.SubTaskID) &&
				(f.Attempt == 0 || r.Attempt == f.Attempt) && (f.SessionID == "" || r.SessionID == f.SessionID) &&
				(f.Status == "" || r.Status == f.Status) && (f.Hard == nil || r.Hard == *f.Hard) &&
				(!f.Undelivered || r.Status.Settled() && !r.Delivered) {
				found = append(found, r.Blocker)
			}
		}
		return err
	})
	return found, err
}

// Raised lists what was recorded for an attempt, or, in a scope without one, for a session; oldest first.
func (d *Register) Raised(ctx context.Context, s boulder.BlockerScope) ([]boulder.Blocker, error) {
	if s.BoulderID != "" {
		s.SessionID = "" // an attempt may have had several
	}
	return d.List(ctx, Filter{BlockerScope: s})
}

// Get gives one blocker, by its id in upper or lower case. Errors wrap [ErrNotFound].
func (d *Register) Get(ctx context.Context, id string) (b boulder.Blocker, err error) {
	err = d.one(ctx, reading, id, func(r *record) error {
		b = r.Blocker
		return nil
	})
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
func (d *Register) Status(ctx context.Context) (Status, error) {
	s := Status{Sessions: map[string]bool{}, File: d.cfg.File}
	trouble := d.Flush(ctx)
	err := d.with(ctx, reading, func(tx *bolt.Tx) error {
		all, damaged := records(tx)
		_, items := unlisted(all)
		if s.Unwritten = len(items); trouble == nil {
			trouble = damaged
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
	})
	if trouble != nil {
		s.Trouble = trouble.Error()
	}
	return s, err
}

const (
	switchProject = "project"
	switchSession = "session/" // and its id
	valueOn       = "on"
	valueOff      = "off"
)

// On reports whether what comes up there is diverted and recorded: as the session's switch says, else the project's, else
// it is on if the configuration says so or the boulder was started with it. Where the database cannot be read within a
// second, for which an ask of an agent waits, no switch counts.
func (d *Register) On(scope boulder.BlockerScope) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	on, err := d.on(ctx, scope)
	if err != nil {
		d.cfg.Logger.Warn("blockers: switch not read", "error", err)
	}
	return on
}

func (d *Register) on(ctx context.Context, scope boulder.BlockerScope) (on bool, err error) {
	on = d.cfg.Enabled || scope.Diverted
	err = d.with(ctx, reading, func(tx *bolt.Tx) error {
		for _, key := range []string{switchProject, switchSession + scope.SessionID} { // the session's counts more
			if v := tx.Bucket(bucketSwitches).Get([]byte(key)); v != nil {
				on = string(v) == valueOn
			}
		}
		return nil
	})
	return on, err
}

// Switch turns diversion on or off for a session, or with "" for the project; nil takes the switch away. It holds, over
// restarts as well, until it is used again, and is seen by whatever comes up next in any process.
func (d *Register) Switch(ctx context.Context, sessionID string, on *bool) error {
	key, how, value := switchProject, making, valueOff
	if sessionID != "" {
		if err := checkScope(boulder.BlockerScope{SessionID: sessionID}); err != nil {
			return err
		}
		key = switchSession + sessionID
	}
	switch {
	case on == nil:
		how = changing
	case *on:
		value = valueOn
	}
	err := d.with(ctx, how, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketSwitches)
		if on == nil {
			return b.Delete([]byte(key))
		}
		return b.Put([]byte(key), []byte(value))
	})
	if err == nil {
		d.cfg.Logger.Info("blockers: switched", "session", sessionID, "configured", on == nil, "on", on != nil && *on)
	}
	return err
}
