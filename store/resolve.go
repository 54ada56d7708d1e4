package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// Resolve finds the boulder that a person means: by its id, or by a beginning or an end that no other id has. With "" it is
// the active one, or if there is none, or it is archived, the newest one that is not archived. Errors wrap
// [boulder.ErrNotFound] or an [AmbiguousError].
func (db *DB) Resolve(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return db.unnamed(ctx)
	}
	var found []string
	err := db.view(ctx, func(tx *bolt.Tx) error {
		found = matches(tx, ref)
		return nil
	})
	switch {
	case err != nil:
		return "", wrap("find boulder", err)
	case len(found) == 0:
		return "", fmt.Errorf("%w: %q (see `manager list`)", boulder.ErrNotFound, ref)
	case len(found) > 1:
		return "", &AmbiguousError{Ref: ref, Candidates: found}
	}
	return found[0], nil
}

// unnamed finds the boulder that is meant where none is named.
func (db *DB) unnamed(ctx context.Context) (string, error) {
	all, err := db.Listing(ctx)
	newest := ""
	for i := range all {
		switch item := &all[i]; {
		case !item.ArchivedAt.IsZero():
		case item.Active:
			return item.BoulderID, nil
		case newest == "":
			newest = item.BoulderID
		}
	}
	switch {
	case newest != "":
		return newest, nil
	case err != nil:
		return "", err
	case len(all) > 0:
		return "", fmt.Errorf("%w: everything that was run here is archived (see `manager list --archived`)", boulder.ErrNotFound)
	}
	return "", fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound)
}

// matches returns the ids that ref may mean, the newest first; one only if it is exact.
func matches(tx *bolt.Tx, ref string) []string {
	var found []string
	for id := range newest(tx) {
		if id == ref {
			return []string{id}
		}
		if strings.HasPrefix(id, ref) || strings.HasSuffix(id, ref) {
			found = append(found, id)
		}
	}
	return found
}

// NewestUnfinished returns the id of the boulder to go on with where none is named: the active one, or if that is over the
// newest that is not. The error wraps [boulder.ErrNotFound] if all are over. Boulders that cannot be read are passed over,
// and named if nothing else is found.
func (db *DB) NewestUnfinished(ctx context.Context) (string, error) {
	all, err := db.Listing(ctx)
	if all == nil && err != nil {
		return "", wrap("find unfinished boulder", err)
	}
	id := ""
	for i := range all {
		switch item := &all[i]; {
		case item.Status.Terminal():
		case item.Active:
			return item.BoulderID, nil
		case id == "":
			id = item.BoulderID
		}
	}
	if id == "" {
		return "", errors.Join(err, fmt.Errorf("%w: none is unfinished", boulder.ErrNotFound))
	}
	return id, nil
}
