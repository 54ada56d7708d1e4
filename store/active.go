package store

import (
	"context"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// Active returns the id of the active boulder: the one that was begun or taken up last, whether it is over or not. The
// error wraps [boulder.ErrNotFound] if there is none: nothing was run here yet.
func (db *DB) Active(ctx context.Context) (id string, err error) {
	err = db.view(ctx, func(s *snapshot) error {
		id = activeID(s)
		return nil
	})
	if err == nil && id == "" {
		err = fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound)
	}
	return id, wrap("find the active boulder", err)
}

// activeID is empty if there is no active boulder.
func activeID(s *snapshot) string {
	id := string(s.table(inMeta).get(keyActive))
	if id != "" && s.table(inBoulders).get([]byte(id)) == nil {
		return ""
	}
	return id
}

// takesUp reports whether a process has begun a boulder, or taken it up, which makes it the active one.
func takesUp(events []boulder.Event) bool {
	for i := range events {
		switch events[i].Body.(type) {
		case boulder.Created, boulder.TakenUp:
			return true
		}
	}
	return false
}
