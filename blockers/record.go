package blockers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

type record struct {
	boulder.Blocker `json:"blocker"`
	// Delivered: the boulder has the answer.
	Delivered bool `json:"delivered,omitempty"`
	// Same identifies repeats of an ask or of a verdict on a turn. Like Grants, it is computed from the uncut ask.
	Same string `json:"ask,omitempty"`
	// Grants are the grant keys that the user gives by allowing the ask.
	Grants []string `json:"grants,omitempty"`
	// Listed is the latest status that blockers.md shows; empty: not listed yet.
	Listed boulder.BlockerStatus `json:"listed,omitempty"`
}

func idOf(n uint64) string { return "B" + strconv.FormatUint(n, 10) }

func keyOf(id string) ([]byte, error) {
	digits, ok := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(id)), "B")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n == 0 {
		return nil, fmt.Errorf("%w: %q (an id is B1, B2, …)", ErrNotFound, id)
	}
	return binary.BigEndian.AppendUint64(nil, n), nil
}

// records returns all readable records, oldest first. The error names the others.
func records(tx *bolt.Tx) (all []*record, faults error) {
	err := tx.Bucket(bucketRecords).ForEach(func(k, v []byte) error {
		r, err := decode(k, v)
		if faults = errors.Join(faults, err); err == nil {
			all = append(all, r)
		}
		return nil
	})
	return all, errors.Join(faults, err)
}

func decode(key, data []byte) (*record, error) {
	id := fmt.Sprintf("%x", key)
	if len(key) == 8 {
		id = idOf(binary.BigEndian.Uint64(key))
	}
	r := &record{}
	err := json.Unmarshal(data, r)
	if err == nil && r.ID != id {
		err = fmt.Errorf("it says that it is %q", r.ID)
	}
	if err != nil {
		return nil, &store.CorruptError{Bucket: string(bucketRecords), Key: id, Err: err}
	}
	return r, nil
}

func put(tx *bolt.Tx, r *record) error {
	key, err := keyOf(r.ID)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketRecords).Put(key, data)
}

// withRecord calls fn with a record and, with [changing], stores fn's changes. Errors wrap [ErrNotFound].
func (d *Register) withRecord(ctx context.Context, how access, id string, fn func(*record) error) error {
	key, err := keyOf(id)
	if err != nil {
		return err
	}
	found := false
	err = d.with(ctx, how, func(tx *bolt.Tx) error {
		data := tx.Bucket(bucketRecords).Get(key)
		if data == nil {
			return nil
		}
		found = true
		r, err := decode(key, data)
		if err == nil {
			err = fn(r)
		}
		if err != nil || how == reading {
			return err
		}
		return put(tx, r)
	})
	if err == nil && !found {
		return fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return err
}

// PassOver reserves the ids up to this one. Boulders refer to blockers by id, and may know ids that are missing here:
// they were imported, or the database was moved away.
func (d *Register) PassOver(ctx context.Context, id string) error {
	key, err := keyOf(id)
	if err != nil {
		return err
	}
	return d.with(ctx, making, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords)
		return b.SetSequence(max(b.Sequence(), binary.BigEndian.Uint64(key)))
	})
}
