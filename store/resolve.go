package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// Resolve finds the boulder that a person means: by its id, or by a beginning or an end that no other id has. With "" it is
// the active one, or if there is none, or it is archived, the newest one that is not archived. Errors wrap
// [boulder.ErrNotFound] or an [AmbiguousError], or name what cannot be read as [CorruptError].
func (db *DB) Resolve(ctx context.Context, ref string) (id string, err error) {
	err = db.view(ctx, func(s *snapshot) (err error) {
		if ref == "" {
			id, err = unnamed(ctx, s)
		} else {
			id, err = named(s, ref)
		}
		return errors.Join(err, s.missing(id))
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// missing is an error if something speaks of a boulder whose head is not there.
func (s *snapshot) missing(id string) error {
	if id == "" || s.table(inBoulders).get([]byte(id)) != nil {
		return nil
	}
	return &CorruptError{Bucket: string(bucketBoulders), Key: id, Err: errMissing}
}

func named(s *snapshot, ref string) (string, error) {
	found := matches(s, ref)
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: %q (see `manager list`)", boulder.ErrNotFound, ref)
	case 1:
		return found[0], nil
	}
	return "", &AmbiguousError{Ref: ref, Candidates: found}
}

// unnamed finds the boulder that is meant where none is named.
func unnamed(ctx context.Context, s *snapshot) (string, error) {
	if id := activeID(s); id != "" && !archived(s, id) {
		return id, nil
	}
	all, err := listing(ctx, s)
	for i := range all {
		if all[i].ArchivedAt.IsZero() {
			return all[i].BoulderID, nil
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(all) > 0:
		return "", ErrAllArchived
	}
	return "", fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound)
}

// archived is false for a boulder that cannot be read: whoever asks for more of it is told.
func archived(s *snapshot, id string) bool {
	b, err := head(s, id)
	return err == nil && !b.ArchivedAt.IsZero()
}

// matches returns the ids that ref may mean, the newest first; one only if it is exact.
func matches(s *snapshot, ref string) []string {
	var found []string
	for id := range newest(s) {
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
func (db *DB) NewestUnfinished(ctx context.Context) (id string, err error) {
	err = db.view(ctx, func(s *snapshot) (err error) {
		id, err = newestUnfinished(ctx, s)
		return errors.Join(err, s.missing(id))
	})
	if err != nil {
		return "", wrap("find unfinished boulder", err)
	}
	return id, nil
}

func newestUnfinished(ctx context.Context, s *snapshot) (id string, err error) {
	all, err := listing(ctx, s)
	for i := range all {
		switch item := &all[i]; {
		case item.Status.Terminal():
		case item.Active:
			return item.BoulderID, nil
		case id == "":
			id = item.BoulderID
		}
	}
	switch {
	case id != "":
		return id, nil
	case all == nil && err != nil:
		return "", err
	}
	return "", errors.Join(err, fmt.Errorf("%w: none is unfinished", boulder.ErrNotFound))
}
