package blockers

import (
	"context"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Filter selects blockers. Zero fields do not filter.
type Filter struct {
	boulder.BlockerScope
	Status boulder.BlockerStatus
	Hard   *bool
}

// Match reports whether a blocker is selected.
func (f Filter) Match(b *boulder.Blocker) bool {
	return (f.BoulderID == "" || b.BoulderID == f.BoulderID) && (f.SubTaskID == "" || b.SubTaskID == f.SubTaskID) &&
		(f.Attempt == 0 || b.Attempt == f.Attempt) && (f.SessionID == "" || b.SessionID == f.SessionID) &&
		(f.Status == "" || b.Status == f.Status) && (f.Hard == nil || b.Hard == *f.Hard)
}

// List returns the matching blockers outside of runs, oldest first. The error names unreadable ones; the others are still
// returned.
func (d *Register) List(ctx context.Context, f Filter) (found []boulder.Blocker, err error) {
	err = d.with(ctx, reading, func(tx *bolt.Tx) error {
		all, err := records(tx)
		for _, r := range all {
			if f.Match(&r.Blocker) {
				found = append(found, r.Blocker)
			}
		}
		return err
	})
	return found, err
}

// Raised lists what is recorded for an attempt or, outside of runs, for a session; oldest first.
func (d *Register) Raised(ctx context.Context, scope boulder.BlockerScope) (found []boulder.Blocker, err error) {
	err = d.within(ctx, reading, scope, func(_ boulder.BlockerBook, all []boulder.Blocker) error {
		found = slices.DeleteFunc(slices.Clone(all), func(b boulder.Blocker) bool { return b.Attempt != scope.Attempt })
		return nil
	})
	return found, err
}

// Get returns the blocker outside of runs with this id, in upper or lower case. Errors wrap [ErrNotFound].
func (d *Register) Get(ctx context.Context, id string) (b boulder.Blocker, err error) {
	err = d.withRecord(ctx, reading, id, func(r *record) error {
		b = r.Blocker
		return nil
	})
	return b, err
}

// Status is the state of diversion in the project.
type Status struct {
	Switch   *bool           `json:"switch"`   // of the project; nil: as configured
	Sessions map[string]bool `json:"sessions"` // those with a switch of their own, which overrides the project's
	// Unwritten is how many items blockers.md lacks after another attempt. Trouble says why, or names unreadable records.
	Unwritten int    `json:"unwritten"`
	Trouble   string `json:"trouble,omitempty"`
	File      string `json:"file"` // the list for people, relative to the project
}

// Status flushes blockers.md and reads the switches.
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
	switchSession = "session/" // followed by its id
	valueOn       = "on"
	valueOff      = "off"
)

// On reports whether asks and blockers of a scope are diverted. The session's switch overrides the project's, which
// overrides the configuration and the boulder's own setting. If the database cannot be read within a second (an agent's
// ask waits for it), the switches are ignored.
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
		for _, key := range []string{switchProject, switchSession + scope.SessionID} { // the session's overrides
			if v := tx.Bucket(bucketSwitches).Get([]byte(key)); v != nil {
				on = string(v) == valueOn
			}
		}
		return nil
	})
	return on, err
}

// Switch turns diversion on or off for a session or, if sessionID is "", for the project; nil removes the switch. It
// persists across restarts, and takes effect on the next ask or blocker in any process.
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
