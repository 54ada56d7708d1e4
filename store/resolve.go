package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Resolve finds the boulder that a person means: by its id, by a beginning or an end that no other id has, or, with "",
// the newest one. Errors wrap [boulder.ErrNotFound] or an [AmbiguousError].
func (db *DB) Resolve(ctx context.Context, ref string) (string, error) {
	var found []string
	err := db.view(ctx, func(tx *bolt.Tx) error {
		found = matches(tx, ref)
		return nil
	})
	switch {
	case err != nil:
		return "", wrap("find boulder", err)
	case len(found) == 0 && ref == "":
		return "", fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound)
	case len(found) == 0:
		return "", fmt.Errorf("%w: %q (see `manager list`)", boulder.ErrNotFound, ref)
	case len(found) > 1:
		return "", &AmbiguousError{Ref: ref, Candidates: found}
	}
	return found[0], nil
}

// matches returns the ids that ref may mean, the newest first; one only if it is exact or empty.
func matches(tx *bolt.Tx, ref string) []string {
	var found []string
	for id := range newest(tx) {
		if id == ref || ref == "" {
			return []string{id}
		}
		if strings.HasPrefix(id, ref) || strings.HasSuffix(id, ref) {
			found = append(found, id)
		}
	}
	return found
}

// NewestUnfinished returns the id of the newest boulder that is not over, or an error that wraps
// [boulder.ErrNotFound]. Heads that cannot be read are passed over, and named if nothing else is found.
func (db *DB) NewestUnfinished(ctx context.Context) (string, error) {
	var id string
	var faults []error
	err := db.view(ctx, func(tx *bolt.Tx) error {
		for b, err := range heads(ctx, tx) {
			switch {
			case err != nil:
				faults = append(faults, err)
			case !b.Status.Terminal():
				id = b.ID
				return nil
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return "", wrap("find unfinished boulder", err)
	case id == "":
		return "", errors.Join(append(faults, fmt.Errorf("%w: none is unfinished", boulder.ErrNotFound))...)
	}
	return id, nil
}
