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
func (db *DB) itemOf(b *boulder.Boulder) (Item, error) {
	record, err := json.Marshal([]string{b.Task, b.Reason})
	if err != nil {
		return Item{}, err
	}
	var texts []string
	if err := json.Unmarshal(db.clean(record), &texts); err != nil || len(texts) != 2 {
		return Item{}, fmt.Errorf("take secrets out of the request: %w", err)
	}
	item := shown(b)
	item.Task, item.Reason = text.Cut(texts[0], maxListed), texts[1]
	return item, nil
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

var errNothingRun = fmt.Errorf("%w: nothing has been run here yet", boulder.ErrNotFound)

// activeID is the boulder that was begun or taken up last, whether it is over or not. It is empty if nothing was run here.
func activeID(tx *bolt.Tx) string {
	id := string(tx.Bucket(bucketMeta).Get(keyActive))
	if id == "" || !known(tx, id) {
		return ""
	}
	return id
}

func known(tx *bolt.Tx, id string) bool {
	return tx.Bucket(bucketList).Get([]byte(id)) != nil || lastSeq(tx, id) > 0
}

// Resolve finds the boulder that the user means: by its id, or by a beginning or an end that no other id has. With "" it is
// the active one, or if there is none, or it is archived, the newest one that is not archived. Errors wrap
// [boulder.ErrNotFound] or an [AmbiguousError], or name what cannot be read as [CorruptError].
func (db *DB) Resolve(ctx context.Context, ref string) (id string, err error) {
	err = db.file.View(ctx, func(tx *bolt.Tx) error {
		if id = ref; ref != "" && known(tx, ref) {
			return nil
		}
		all, err := listing(ctx, tx)
		if ref == "" {
			id, err = unnamed(activeID(tx), all, err)
			return err
		}
		var found []string
		for i := range all {
			if id := all[i].BoulderID; strings.HasPrefix(id, ref) || strings.HasSuffix(id, ref) {
				found = append(found, id)
			}
		}
		switch len(found) {
		case 0:
			return errors.Join(fmt.Errorf("%w: %q (see `manager list`)", boulder.ErrNotFound, ref), err)
		case 1:
			id = found[0]
			return nil
		}
		return &AmbiguousError{Ref: ref, Candidates: found}
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// unnamed is the boulder that is meant where none is named; err says what of the list cannot be read.
func unnamed(active string, all []Item, err error) (string, error) {
	newest := slices.IndexFunc(all, func(i Item) bool { return i.ArchivedAt.IsZero() })
	archived := func(i Item) bool { return i.BoulderID == active && !i.ArchivedAt.IsZero() }
	switch {
	case active != "" && !slices.ContainsFunc(all, archived):
		return active, nil // if it cannot be read, whoever asks for more of it is told
	case newest >= 0:
		return all[newest].BoulderID, nil
	case err == nil && len(all) > 0:
		return "", ErrAllArchived
	}
	return "", cmp.Or(err, errNothingRun)
}

// NewestUnfinished returns the id of the boulder to go on with where none is named: the active one, or if that is over the
// newest that is not. The error wraps [boulder.ErrNotFound] if all are over. Boulders that cannot be read are passed over,
// and named if nothing else is found.
func (db *DB) NewestUnfinished(ctx context.Context) (id string, err error) {
	err = db.view(ctx, "find unfinished boulder", func(tx *bolt.Tx) error {
		all, err := listing(ctx, tx)
		for _, item := range all {
			if !item.Status.Terminal() && (id == "" || item.Active) {
				id = item.BoulderID
			}
		}
		switch {
		case id != "":
			return nil
		case all == nil && err != nil:
			return err
		}
		return errors.Join(err, fmt.Errorf("%w: none is unfinished", boulder.ErrNotFound))
	})
	return id, err
}
