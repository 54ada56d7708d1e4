package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// work is the bucket of one boulder.
type work struct {
	*bolt.Bucket
	id     string
	redact func([]byte) []byte // see [Options]
}

// head reads the head record of a boulder.
func head(tx *bolt.Tx, id string) (boulder.Boulder, error) {
	value := tx.Bucket(bucketBoulders).Get([]byte(id))
	if value == nil {
		return boulder.Boulder{}, fmt.Errorf("boulder %q: %w", id, boulder.ErrNotFound)
	}
	b, err := decodeHead(id, value)
	if err == nil && versionOf(tx) < tallied {
		b.Tally = countSubTasks(tx, id)
	}
	return b, err
}

func decodeHead(id string, value []byte) (boulder.Boulder, error) {
	b, err := decode[boulder.Boulder](value)
	if err != nil {
		err = &CorruptError{Bucket: string(bucketBoulders), Key: id, Err: err}
	}
	return b, err
}

// openWork finds the bucket of a boulder and those in it.
func openWork(tx *bolt.Tx, id string) (work, error) {
	w := work{Bucket: tx.Bucket(bucketWork).Bucket([]byte(id)), id: id}
	if w.Bucket == nil {
		return work{}, fmt.Errorf("boulder %q: %w", id, boulder.ErrNotFound)
	}
	for _, name := range workBuckets() {
		if w.Bucket.Bucket(name) == nil {
			return work{}, &CorruptError{Bucket: w.name(nil), Key: string(name), Err: errors.New("the bucket is missing")}
		}
	}
	return w, nil
}

// makeWork is openWork for a boulder that may be new.
func makeWork(tx *bolt.Tx, id string) (w work, isNew bool, err error) {
	all := tx.Bucket(bucketWork)
	if all.Bucket([]byte(id)) != nil {
		w, err = openWork(tx, id)
		return w, false, err
	}
	b, err := all.CreateBucket([]byte(id))
	if err != nil {
		return work{}, false, err
	}
	for _, name := range workBuckets() {
		if _, err := b.CreateBucket(name); err != nil {
			return work{}, false, err
		}
	}
	return work{Bucket: b, id: id}, true, nil
}

func workBuckets() [][]byte {
	return [][]byte{bucketRevisions, bucketSubTasks, bucketAttempts, bucketOpen, bucketTurns, bucketEvents}
}

func (w work) name(bucket []byte) string {
	return string(bytes.TrimSuffix(bytes.Join([][]byte{bucketWork, []byte(w.id), bucket}, []byte("/")), []byte("/")))
}

// put writes one record.
func (w work) put(bucket, key []byte, record any) error {
	value, err := encode(record, w.redact)
	if err == nil {
		err = w.Bucket.Bucket(bucket).Put(key, value)
	}
	if err != nil {
		return fmt.Errorf("write record %s in %s: %w", readable(bucket, key), w.name(bucket), err)
	}
	return nil
}

// encode gives a record as it is stored: without secrets, if redact is not nil.
func encode(record any, redact func([]byte) []byte) ([]byte, error) {
	var value []byte
	var err error
	if e, ok := record.(boulder.Event); ok {
		value, err = e.MarshalJSON() // json.Marshal would go through what comes of it once more
	} else {
		value, err = json.Marshal(record)
	}
	if err == nil && redact != nil {
		value = redact(value)
	}
	return value, err
}

// get reads one record, which must be there.
func get[T any](w work, bucket, key []byte) (T, error) {
	record, err := decode[T](w.Bucket.Bucket(bucket).Get(key))
	return record, w.fault(bucket, key, err)
}

// fault names the record that an error is about.
func (w work) fault(bucket, key []byte, err error) error {
	if err == nil {
		return nil
	}
	return &CorruptError{Bucket: w.name(bucket), Key: readable(bucket, key), Err: err}
}

// scan reads the records of a bucket whose keys begin with prefix, in key order. One that cannot be read comes as an
// error, and the next one follows.
func scan[T any](w work, bucket, prefix []byte) iter.Seq2[T, error] {
	return scanFrom[T](w, bucket, prefix, prefix)
}

// scanFrom is scan that begins at a key.
func scanFrom[T any](w work, bucket, prefix, from []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		c := w.Bucket.Bucket(bucket).Cursor()
		for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			record, err := decode[T](v)
			if !yield(record, w.fault(bucket, k, err)) {
				return
			}
		}
	}
}

// decode reads a value while its transaction is open; what it returns does not point into the file.
func decode[T any](value []byte) (record T, err error) {
	if value == nil {
		return record, errMissing
	}
	if err := json.Unmarshal(value, &record); err != nil {
		var none T
		return none, err
	}
	return record, nil
}

var errMissing = errors.New("it is missing")

// collect gathers the records that can be read, and the errors of those that cannot.
func collect[T any](records iter.Seq2[T, error]) ([]T, error) {
	var all []T
	var faults []error
	for record, err := range records {
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all = append(all, record)
	}
	return all, errors.Join(faults...)
}
