package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/bouldermgr/manager/boulder"
)

// work is what is stored of one boulder, apart from its head.
type work struct {
	id     string
	tables tables
	damage error // names entries of the journal that cannot be read
}

// head reads the head record of a boulder.
func head(s *snapshot, id string) (boulder.Boulder, error) {
	value := s.table(inBoulders).get([]byte(id))
	if value == nil {
		return boulder.Boulder{}, fmt.Errorf("boulder %q: %w", id, boulder.ErrNotFound)
	}
	b, err := decodeHead(id, value)
	if err == nil && versionOf(s.Tx) < tallied {
		b.Tally = countSubTasks(s, id)
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

// openWork finds the buckets of a boulder.
func openWork(s *snapshot, id string) (work, error) {
	w := work{id: id, damage: s.damageOf(id)}
	fresh := latest(s.entries, func(in place, of string) bool { return in >= inRevisions && of == id })
	file, found := s.Bucket(bucketWork).Bucket([]byte(id)), false
	for in := inRevisions; in < places; in++ {
		t := table{fresh: fresh[in]}
		if file != nil {
			if t.file = file.Bucket(bucketOf[in]); t.file == nil {
				return work{}, missingBucket(id, in)
			}
		}
		w.tables[in], found = t, found || t.file != nil || len(t.fresh) > 0
	}
	if !found {
		return work{}, cmp.Or(w.damage, fmt.Errorf("boulder %q: %w", id, boulder.ErrNotFound))
	}
	return w, nil
}

func missingBucket(id string, in place) error {
	return &CorruptError{
		Bucket: workName(id, 0), Key: string(bucketOf[in]), Err: errors.New("the bucket is missing"),
	}
}

// workName is the path of a bucket of a boulder, or of them all if in is 0.
func workName(id string, in place) string {
	switch {
	case in == 0:
		return string(bucketWork) + "/" + id
	case in < inRevisions:
		return string(bucketOf[in])
	}
	return string(bucketWork) + "/" + id + "/" + string(bucketOf[in])
}

// get reads one record, which must be there.
func get[T any](w work, in place, key []byte) (T, error) {
	record, err := decode[T](w.tables[in].get(key))
	return record, w.fault(in, key, err)
}

// fault names the record that an error is about.
func (w work) fault(in place, key []byte, err error) error {
	if err == nil {
		return nil
	}
	return &CorruptError{Bucket: workName(w.id, in), Key: readable(bucketOf[in], key), Err: err}
}

// scan reads the records of a bucket whose keys begin with prefix, in key order. One that cannot be read comes as an
// error, and the next one follows.
func scan[T any](w work, in place, prefix []byte) iter.Seq2[T, error] {
	return scanFrom[T](w, in, prefix, prefix)
}

// scanFrom is scan that begins at a key.
func scanFrom[T any](w work, in place, prefix, from []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for k, v := range w.tables[in].from(from) {
			if !bytes.HasPrefix(k, prefix) {
				return
			}
			record, err := decode[T](v)
			if !yield(record, w.fault(in, k, err)) {
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
