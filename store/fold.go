package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// fold writes entries into the tree, and keeps what could not be read. Of a record that changed many times it writes
// the newest state only.
func fold(tx *bolt.Tx, u *unfolded) error {
	for _, d := range u.damaged {
		if err := keepDamage(tx, d); err != nil {
			return err
		}
	}
	var ids []string
	for _, e := range u.entries {
		if !slices.Contains(ids, e.id) {
			ids = append(ids, e.id)
		}
	}
	for _, id := range ids {
		records := latest(u.entries, func(in place, of string) bool { return in >= inRevisions && of == id })
		if err := putWork(tx, id, &records); err != nil {
			return err
		}
	}
	top := latest(u.entries, func(in place, _ string) bool { return in < inRevisions })
	for in := inMeta; in < inRevisions; in++ {
		if err := putAll(tx.Bucket(bucketOf[in]), string(bucketOf[in]), top[in]); err != nil {
			return err
		}
	}
	return nil
}

// putWork writes records of one boulder, whose buckets it makes if they are not there.
func putWork(tx *bolt.Tx, id string, records *[places][]record) error {
	b := tx.Bucket(bucketWork).Bucket([]byte(id))
	if b == nil {
		var err error
		if b, err = makeWork(tx, id); err != nil {
			return err
		}
	}
	for in := inRevisions; in < places; in++ {
		bucket := b.Bucket(bucketOf[in])
		if bucket == nil {
			return missingBucket(id, in)
		}
		if err := putAll(bucket, workName(id, in), records[in]); err != nil {
			return err
		}
	}
	return nil
}

// makeWork makes the buckets of a new boulder.
func makeWork(tx *bolt.Tx, id string) (*bolt.Bucket, error) {
	if _, err := tx.Bucket(bucketCreated).NextSequence(); err != nil {
		return nil, err
	}
	b, err := tx.Bucket(bucketWork).CreateBucket([]byte(id))
	if err != nil {
		return nil, err
	}
	for in := inRevisions; in < places; in++ {
		if _, err := b.CreateBucket(bucketOf[in]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fillAppend is how full pages of the event log and of the list are left when they split. Their keys only ever grow, so
// no page but the last gets another one, and bbolt's default would leave half of each empty (8 % of a whole file,
// measured).
const fillAppend = 0.95

// fillGrow is the same for records that are written for the first time with many others, and grow by up to a third until
// they are final: sub-tasks and attempts. A run of 1,000 sub-tasks writes 15 % fewer pages than with bbolt's default.
const fillGrow = 0.75

func putAll(b *bolt.Bucket, name string, records []record) error {
	for _, r := range records {
		switch r.in {
		case inEvents, inCreated:
			b.FillPercent = fillAppend
		case inSubTasks, inAttempts:
			b.FillPercent = fillGrow
		}
		var err error
		if r.value == nil {
			err = b.Delete(r.key)
		} else {
			err = b.Put(r.key, r.value)
		}
		if err != nil {
			return fmt.Errorf("write record %s in %s: %w", readable(bucketOf[r.in], r.key), name, err)
		}
	}
	return nil
}

// keepDamage stores what a damaged entry has instead of its bytes, so that its place in the journal can be used again
// and its boulder still says that something is missing.
func keepDamage(tx *bolt.Tx, d badEntry) error {
	b, err := tx.CreateBucketIfNotExists(bucketDamaged)
	if err != nil {
		return err
	}
	return b.Put(append(number64(d.number), d.id...), d.raw)
}

// keptDamage is what keepDamage has stored.
func keptDamage(tx *bolt.Tx) (all []badEntry) {
	b := tx.Bucket(bucketDamaged)
	if b == nil {
		return nil
	}
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if len(k) > 8 {
			all = append(all, badEntry{number: binary.BigEndian.Uint64(k), id: string(bytes.Clone(k[8:]))})
		}
	}
	return all
}
