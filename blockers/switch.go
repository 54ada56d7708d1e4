package blockers

import (
	"context"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

const (
	switchProject = "project"
	switchSession = "session/" // and its id
	valueOn       = "on"
	valueOff      = "off"
)

// switchPatience is how long [Desk.On] waits for others who use the database: an ask of an agent waits for it.
const switchPatience = time.Second

// On reports whether what comes up there is diverted and recorded: as the session's switch says, else the project's, else
// it is on if the configuration says so or the boulder was started with it. Where the database cannot be read within a
// second, no switch counts.
func (d *Desk) On(scope boulder.BlockerScope) bool {
	ctx, cancel := context.WithTimeout(context.Background(), switchPatience)
	defer cancel()
	on, err := d.on(ctx, scope)
	if err != nil {
		d.cfg.Logger.Warn("blockers: switch not read", "error", err)
	}
	return on
}

func (d *Desk) on(ctx context.Context, scope boulder.BlockerScope) (on bool, err error) {
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
func (d *Desk) Switch(ctx context.Context, sessionID string, on *bool) error {
	key := switchProject
	if sessionID != "" {
		if err := checkScope(boulder.BlockerScope{SessionID: sessionID}); err != nil {
			return err
		}
		key = switchSession + sessionID
	}
	how := making
	if on == nil {
		how = changing
	}
	err := d.with(ctx, how, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketSwitches)
		switch {
		case on == nil:
			return b.Delete([]byte(key))
		case *on:
			return b.Put([]byte(key), []byte(valueOn))
		}
		return b.Put([]byte(key), []byte(valueOff))
	})
	if err == nil {
		d.cfg.Logger.Info("blockers: switched", "session", sessionID, "configured", on == nil, "on", on != nil && *on)
	}
	return err
}
