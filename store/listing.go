package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Item is one boulder in a list. It is stored, so that a list need not read the log.
type Item struct {
	BoulderID  string         `json:"boulder_id"`
	Task       string         `json:"task"` // the request, cut to 1,000 characters
	Status     boulder.Status `json:"status"`
	Reason     string         `json:"reason,omitempty"`
	Active     bool           `json:"active"` // created or resumed last
	Tally      boulder.Tally  `json:"tally"`
	Usage      boulder.Usage  `json:"usage"`
	CreatedAt  time.Time      `json:"created_at"`
	UpdatedAt  time.Time      `json:"updated_at"`
	StartAt    time.Time      `json:"start_at,omitzero"` // when it may begin
	ArchivedAt time.Time      `json:"archived_at,omitzero"`
	Asks       bool           `json:"asks,omitempty"`     // a plan or a replan awaits approval
	Raised     int            `json:"raised,omitempty"`   // blockers so far
	Unlanded   bool           `json:"unlanded,omitempty"` // see [boulder.Boulder.Unlanded]
	ForkOf     string         `json:"fork_of,omitempty"`  // the boulder whose results it began with
}

const maxListed = 1000 // characters of a request; a terminal line shows fewer

func itemOf(b *boulder.Boulder) Item {
	forkOf := ""
	if b.ForkOf != nil {
		forkOf = b.ForkOf.BoulderID
	}
	return Item{
		BoulderID: b.ID, Task: text.Cut(b.Task, maxListed), Status: b.Status, Reason: b.Reason, Tally: b.Tally,
		Usage: b.Usage, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, StartAt: b.StartAt, ArchivedAt: b.ArchivedAt, Asks: b.Asks(),
		Raised: b.BlockersRaised, Unlanded: b.Unlanded(), ForkOf: forkOf,
	}
}

// Listing returns all boulders, newest first, without the unreadable ones: a joined error names each as [CorruptError].
func (db *DB) Listing(ctx context.Context) (all []Item, err error) {
	err = db.view(ctx, "list boulders", func(tx *bolt.Tx) error {
		active := string(tx.Bucket(bucketMeta).Get(keyActive))
		var faults []error
		err := tx.Bucket(bucketList).ForEach(func(k, v []byte) error {
			var e entry
			if err := decode(bucketList, string(k), k, v, &e); err != nil {
				s, loadErr := load(tx, string(k)) // the log holds the same
				if loadErr != nil {
					faults = append(faults, err)
					return nil //nolint:nilerr // it is among the faults
				}
				e.Item = itemOf(&s.Boulder)
			}
			e.Active = e.BoulderID == active
			all = append(all, e.Item)
			return nil
		})
		return errors.Join(append(faults, err)...)
	})
	slices.SortFunc(all, func(a, b Item) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.BoulderID, a.BoulderID))
	})
	return all, err
}
