package blockers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// record is a blocker of a session outside of runs.
type record struct {
	boulder.Blocker `json:"blocker"`
	// Listed is the latest status that blockers.md shows; empty: not listed yet.
	Listed boulder.BlockerStatus `json:"listed,omitempty"`
}

// prefix begins the ids of these blockers; those of runs begin with another letter.
const prefix = "W"

func idOf(n uint64) string { return prefix + strconv.FormatUint(n, 10) }

func keyOf(id string) ([]byte, error) {
	digits, ok := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(id)), prefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n == 0 {
		return nil, fmt.Errorf("%w: %q (an id is B1, B2, … or W1, W2, …)", ErrNotFound, id)
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

// outside is the book of a session outside of runs, within a transaction.
type outside struct {
	log     *slog.Logger
	tx      *bolt.Tx
	session string
}

// Blockers leaves out unreadable ones: those must not keep an agent from reporting.
func (o outside) Blockers(context.Context) (found []boulder.Blocker, _ error) {
	all, err := records(o.tx)
	if err != nil {
		o.log.Warn("blockers: not read", "error", err)
	}
	for _, r := range all {
		if r.SessionID == o.session {
			found = append(found, r.Blocker)
		}
	}
	return found, nil
}

func (o outside) Raise(_ context.Context, b boulder.Blocker) (boulder.Blocker, error) {
	number, err := o.tx.Bucket(bucketRecords).NextSequence()
	if err != nil {
		return b, err
	}
	b.ID = idOf(number)
	return b, put(o.tx, &record{Blocker: b})
}

func (o outside) EndWait(_ context.Context, id string, replied bool) error {
	key, err := keyOf(id)
	if err != nil {
		return err
	}
	r, err := decode(key, o.tx.Bucket(bucketRecords).Get(key))
	if err != nil {
		return err
	}
	r.Replied, r.Gone = r.Replied || replied, r.Gone || !replied
	return put(o.tx, r)
}
