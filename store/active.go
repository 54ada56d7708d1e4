package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Active returns the id of the active boulder: the one that was begun or taken up last, whether it is over or not. The
// error wraps [boulder.ErrNotFound] if there is none: nothing was run here yet.
func (db *DB) Active(ctx context.Context) (id string, err error) {
	err = db.view(ctx, func(tx *bolt.Tx) error {
		id = activeID(tx)
		return nil
	})
	if err == nil && id == "" {
		err = fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound)
	}
	return id, wrap("find the active boulder", err)
}

// activeID is empty if there is no active boulder.
func activeID(tx *bolt.Tx) string {
	id := string(tx.Bucket(bucketMeta).Get(keyActive))
	if id != "" && tx.Bucket(bucketBoulders).Get([]byte(id)) == nil {
		return ""
	}
	return id
}

// follow makes a boulder the active one if a process has begun it, or taken it up.
func follow(tx *bolt.Tx, c *boulder.Changes) error {
	for _, e := range c.Events {
		switch e.Body.(type) {
		case boulder.Created, boulder.TakenUp:
			return tx.Bucket(bucketMeta).Put(keyActive, []byte(c.Boulder.ID))
		}
	}
	return nil
}
