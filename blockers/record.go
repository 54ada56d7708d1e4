package blockers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// record is a blocker as it is stored.
type record struct {
	Blocker boulder.Blocker `json:"blocker"`
	// Delivered: the boulder has the answer.
	Delivered bool `json:"delivered,omitempty"`
	// Grants are the keys of what a person gives who allows it. They are made of the ask as it was, and not of what is left
	// of it here.
	Grants []string `json:"grants,omitempty"`
}

const (
	markHard = "hard"
	markSoft = "soft"
)

// idOf and numberOf relate B7 and 7.
func idOf(n uint64) string { return "B" + strconv.FormatUint(n, 10) }

func numberOf(id string) (uint64, error) {
	digits, ok := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(id)), "B")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%w: %q (an id is B1, B2, …)", ErrNotFound, id)
	}
	return n, nil
}

// statusBucket is the index of a status.
func statusBucket(s boulder.BlockerStatus) []byte {
	switch s {
	case boulder.BlockerAnswered:
		return bucketAnswered
	case boulder.BlockerSkipped:
		return bucketSkipped
	}
	return bucketPending
}

func sessionKey(session string) []byte { return append([]byte(session), 0) }

func attemptKey(boulderID, subTaskID string, attempt int) []byte {
	key := append(append([]byte(boulderID), 0), append([]byte(subTaskID), 0)...)
	return append(key, numberKey(uint64(attempt))...) //nolint:gosec // attempts are counted from 1
}

// add stores a new record with an id of its own, and everything that leads to it.
func add(tx *bolt.Tx, r *record) (n uint64, err error) {
	if n, err = tx.Bucket(bucketRecords).NextSequence(); err != nil {
		return 0, err
	}
	b, number := &r.Blocker, numberKey(n)
	b.ID = idOf(n)
	if err := tx.Bucket(bucketSessions).Put(append(sessionKey(b.SessionID), number...), []byte{}); err != nil {
		return 0, err
	}
	if b.BoulderID != "" {
		key := append(attemptKey(b.BoulderID, b.SubTaskID, b.Attempt), number...)
		if err := tx.Bucket(bucketAttempts).Put(key, []byte{}); err != nil {
			return 0, err
		}
	}
	return n, put(tx, n, r)
}

// PassOver keeps the ids up to this one from being given to new blockers. Boulders know blockers by their ids, and may know
// some that are not here: they were imported, or the database was moved away.
func (d *Desk) PassOver(ctx context.Context, id string) error {
	n, err := numberOf(id)
	if err != nil {
		return err
	}
	behind := true
	err = d.view(ctx, func(tx *bolt.Tx) error {
		behind = tx.Bucket(bucketRecords).Sequence() < n
		return nil
	})
	if err != nil || !behind {
		return err
	}
	return d.update(ctx, func(tx *bolt.Tx) error {
		records := tx.Bucket(bucketRecords)
		return records.SetSequence(max(records.Sequence(), n))
	})
}

// put stores a record, and its number under its status only.
func put(tx *bolt.Tx, n uint64, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	mark := markSoft
	if r.Blocker.Hard {
		mark = markHard
	}
	number, is := numberKey(n), statusBucket(r.Blocker.Status)
	for _, name := range [][]byte{bucketPending, bucketAnswered, bucketSkipped} {
		b := tx.Bucket(name)
		switch {
		case bytes.Equal(name, is):
			err = b.Put(number, []byte(mark))
		default:
			err = b.Delete(number)
		}
		if err != nil {
			return err
		}
	}
	return tx.Bucket(bucketRecords).Put(number, data)
}

// get reads one record. It is [ErrNotFound] or a [store.CorruptError] otherwise.
func get(tx *bolt.Tx, n uint64) (*record, error) {
	data := tx.Bucket(bucketRecords).Get(numberKey(n))
	if data == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, idOf(n))
	}
	return decode(n, data)
}

func decode(n uint64, data []byte) (*record, error) {
	r := &record{}
	err := json.Unmarshal(data, r)
	if err == nil && r.Blocker.ID != idOf(n) {
		err = fmt.Errorf("it says that it is %q", r.Blocker.ID)
	}
	if err != nil {
		return nil, &store.CorruptError{Bucket: string(bucketRecords), Key: idOf(n), Err: err}
	}
	return r, nil
}

// numbersAt collects the numbers at the ends of all keys with a prefix, the smallest first within the rest of the key.
func numbersAt(b *bolt.Bucket, prefix []byte) []uint64 {
	var numbers []uint64
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		numbers = append(numbers, numberAt(k))
	}
	return numbers
}

// numberAt is the number that a key ends with.
func numberAt(key []byte) uint64 {
	var n uint64
	for _, c := range key[max(len(key)-8, 0):] {
		n = n<<8 | uint64(c)
	}
	return n
}

// read reads records. One that cannot be read is named in the error, and the others come all the same.
func read(tx *bolt.Tx, numbers []uint64, want func(*record) bool) ([]boulder.Blocker, error) {
	var found []boulder.Blocker
	var faults []error
	for _, n := range numbers {
		r, err := get(tx, n)
		switch {
		case err != nil:
			faults = append(faults, err)
		case want == nil || want(r):
			found = append(found, r.Blocker)
		}
	}
	return found, errors.Join(faults...)
}
