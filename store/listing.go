package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Item is one boulder as a list shows it, kept ready so that nobody has to read its log for that.
type Item struct {
	BoulderID  string         `json:"boulder_id"`
	Task       string         `json:"task"` // the request; its first 1,000 characters
	Status     boulder.Status `json:"status"`
	Reason     string         `json:"reason,omitempty"`
	Active     bool           `json:"active"` // begun or taken up last
	Tally      boulder.Tally  `json:"tally"`
	Usage      boulder.Usage  `json:"usage"`
	CreatedAt  time.Time      `json:"created_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
	ArchivedAt time.Time      `json:"archived_at,omitzero"`
}

// maxListed is how many characters of a request a list keeps. One line of a terminal shows fewer.
const maxListed = 1000

// shown is what a list shows of a boulder, apart from whether it is the active one.
func shown(b *boulder.Boulder) Item {
	return Item{
		BoulderID: b.ID, Task: text.Cut(b.Task, maxListed), Status: b.Status, Reason: b.Reason, Tally: b.Tally,
		Usage: b.Usage, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, ArchivedAt: b.ArchivedAt,
	}
}

// itemOf is [shown] without secrets. They are taken out before the request is cut: of a half of one nobody knows what it is.
func (db *DB) itemOf(b *boulder.Boulder) (item Item, err error) {
	whole := shown(b)
	whole.Task = b.Task
	record, err := json.Marshal(whole)
	if err == nil {
		err = json.Unmarshal(db.file.Clean(record), &item)
	}
	item.Task = text.Cut(item.Task, maxListed)
	return item, err
}

// Listing returns all boulders as a list shows them, the newest first. With a joined error that names the ones that cannot
// be read as [CorruptError], the others are returned all the same.
func (db *DB) Listing(ctx context.Context) (all []Item, err error) {
	err = db.view(ctx, "list boulders", func(tx *bolt.Tx) (err error) {
		all, err = listing(ctx, tx)
		return err
	})
	return all, err
}

func listing(ctx context.Context, tx *bolt.Tx) (all []Item, err error) {
	active := activeID(tx)
	var faults []error
	err = tx.Bucket(bucketList).ForEach(func(k, v []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var e entry
		if err := decode(bucketList, string(k), k, v, &e); err != nil {
			s, loadErr := load(tx, string(k)) // the log says the same
			if loadErr != nil {
				faults = append(faults, err)
				return nil //nolint:nilerr // it is among the faults
			}
			e.Item = shown(&s.Boulder)
		}
		e.Active = e.BoulderID == active
		all = append(all, e.Item)
		return nil
	})
	slices.SortFunc(all, func(a, b Item) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.BoulderID, a.BoulderID))
	})
	return all, errors.Join(append(faults, err)...)
}

// activeID is the boulder that was begun or taken up last, whether it is over or not. It is empty if nothing was run here.
func activeID(tx *bolt.Tx) string {
	if id := string(tx.Bucket(bucketMeta).Get(keyActive)); known(tx, id) {
		return id
	}
	return ""
}

func known(tx *bolt.Tx, id string) bool {
	return id != "" && (tx.Bucket(bucketList).Get([]byte(id)) != nil || lastSeq(tx, id) > 0)
}

// Resolve finds the boulder that the user means: by its id, or by a beginning or an end that no other id has. With "" it is
// the active one, or if there is none, or it is archived, the newest one that is not archived. Errors wrap
// [boulder.ErrNotFound] or an [AmbiguousError], or name what cannot be read as [CorruptError].
func (db *DB) Resolve(ctx context.Context, ref string) (id string, err error) {
	err = db.file.View(ctx, func(tx *bolt.Tx) error {
		if known(tx, ref) {
			id = ref
			return nil
		}
		all, err := listing(ctx, tx)
		if ref != "" {
			all = slices.DeleteFunc(all, func(i Item) bool {
				return !strings.HasPrefix(i.BoulderID, ref) && !strings.HasSuffix(i.BoulderID, ref)
			})
			switch len(all) {
			case 0:
				return errors.Join(fmt.Errorf("%w: %q (see `manager list`)", boulder.ErrNotFound, ref), err)
			case 1:
				id = all[0].BoulderID
				return nil
			}
			found := &AmbiguousError{Ref: ref}
			for _, i := range all {
				found.Candidates = append(found.Candidates, i.BoulderID)
			}
			return found
		}
		active := activeID(tx)
		archived := func(i Item) bool { return !i.ArchivedAt.IsZero() }
		left := slices.DeleteFunc(slices.Clone(all), archived)
		switch {
		case active != "" && !slices.ContainsFunc(all, func(i Item) bool { return i.Active && archived(i) }):
			id = active // if it cannot be read, whoever asks for more of it is told
			return nil
		case len(left) > 0:
			id = left[0].BoulderID
			return nil
		case err == nil && len(all) > 0:
			return ErrAllArchived
		}
		return cmp.Or(err, fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound))
	})
	return id, err
}

// NewestUnfinished returns the id of the boulder to go on with where none is named: the active one, or if that is over the
// newest that is not. The error wraps [boulder.ErrNotFound] if all are over. Boulders that cannot be read are passed over,
// and named if nothing else is found.
func (db *DB) NewestUnfinished(ctx context.Context) (string, error) {
	all, err := db.Listing(ctx)
	left := slices.DeleteFunc(slices.Clone(all), func(i Item) bool { return i.Status.Terminal() })
	if i := slices.IndexFunc(left, func(i Item) bool { return i.Active }); i >= 0 {
		return left[i].BoulderID, nil
	}
	switch {
	case len(left) > 0:
		return left[0].BoulderID, nil
	case len(all) == 0 && err != nil:
		return "", err
	}
	return "", errors.Join(err, fmt.Errorf("%w: none is unfinished", boulder.ErrNotFound))
}
