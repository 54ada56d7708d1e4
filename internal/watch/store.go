package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/store"
)

const (
	// FileName is the database of watched sessions in the state directory. It is not the one of runs, so that both can be
	// open at the same time.
	FileName = "watch.db"
	// maxHistory is how many decisions of a session are kept, the newest.
	maxHistory = 500
	// schemaVersion is that of the tree below.
	schemaVersion = 1
)

// The database, as buckets (name/) and keys. Values are JSON.
//
//	meta/
//	    schema                   version of this tree, decimal
//	sessions/
//	    <session id>             Record
//	decisions/
//	    <session id>/
//	        <number, 8 bytes>    Entry, the oldest first
var (
	bucketSessions  = []byte("sessions")
	bucketDecisions = []byte("decisions")
)

// Store keeps the records of watched sessions. One process has it open for writing. Its methods may be called from any
// goroutine.
type Store struct {
	// Clean takes secrets out of a record, which is JSON, before it is stored. Set it before the first Save; nil stores
	// records as they are.
	Clean func(record []byte) []byte

	file *boltfile.DB
}

// OpenStore opens the database at path, and makes it if it is not there; its directory must exist. Whoever else has it
// is waited for no longer than patience. Errors wrap [store.ErrHeld], [store.ErrUnusable], a [store.VersionError], or
// what the operating system says. With readOnly a file that is not there is [fs.ErrNotExist].
func OpenStore(path string, readOnly bool, patience time.Duration) (*Store, error) {
	file, err := boltfile.Open(path, boltfile.Tree{
		Version: schemaVersion, Buckets: []string{string(bucketSessions), string(bucketDecisions)},
	}, boltfile.Options{Timeout: patience, ReadOnly: readOnly})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &Store{file: file}, nil
}

// Close gives the file up.
func (s *Store) Close() error { return s.file.Close() }

// Save stores records, and adds decisions to their sessions' histories, in one transaction that is on disk when it
// returns.
func (s *Store) Save(records []Record, entries ...Entry) error {
	err := s.file.Update(context.Background(), func(tx *bolt.Tx) error {
		for _, r := range records {
			if err := s.put(tx.Bucket(bucketSessions), []byte(r.SessionID), r); err != nil {
				return err
			}
		}
		for _, e := range entries {
			b, err := tx.Bucket(bucketDecisions).CreateBucketIfNotExists([]byte(e.SessionID))
			if err != nil {
				return err
			}
			number, err := b.NextSequence()
			if err = errors.Join(err, s.put(b, decisionKey(number), e)); err != nil {
				return err
			}
			if number > maxHistory {
				if err := b.Delete(decisionKey(number - maxHistory)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save %s: %w", s.file.Path(), err)
	}
	return nil
}

func decisionKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func (s *Store) put(b *bolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if s.Clean != nil {
		data = s.Clean(data)
	}
	return b.Put(key, data)
}

// Forget removes everything about a session.
func (s *Store) Forget(sessionID string) error {
	return s.file.Update(context.Background(), func(tx *bolt.Tx) error {
		err := tx.Bucket(bucketDecisions).DeleteBucket([]byte(sessionID))
		if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		return tx.Bucket(bucketSessions).Delete([]byte(sessionID))
	})
}

// Records gives all sessions, by their ids in order. One that cannot be read is named in the error, and the others come
// all the same.
func (s *Store) Records() ([]Record, error) { return all[Record](s, bucketSessions) }

// History gives the decisions about a session, the oldest first; none for a session that is not known.
func (s *Store) History(sessionID string) ([]Entry, error) {
	return all[Entry](s, bucketDecisions, []byte(sessionID))
}

// all are the values of a bucket.
func all[T any](s *Store, path ...[]byte) (values []T, err error) {
	var faults []error
	err = s.file.View(context.Background(), func(tx *bolt.Tx) error {
		b := tx.Bucket(path[0])
		for _, name := range path[1:] {
			if b = b.Bucket(name); b == nil {
				return nil
			}
		}
		return b.ForEach(func(key, data []byte) error {
			var v T
			if err := json.Unmarshal(data, &v); err != nil {
				name := string(key)
				if len(path) > 1 { // a number
					name = fmt.Sprintf("%x", key)
				}
				bucket := string(bytes.Join(path, []byte("/")))
				faults = append(faults, &store.CorruptError{Bucket: bucket, Key: name, Err: err})
				return nil
			}
			values = append(values, v)
			return nil
		})
	})
	return values, errors.Join(append(faults, err)...)
}
