package watch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

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
	bucketMeta      = []byte("meta")
	bucketSessions  = []byte("sessions")
	bucketDecisions = []byte("decisions")

	keySchema = []byte("schema")
)

// Store keeps the records of watched sessions. One process has it open for writing. Its methods may be called from any
// goroutine.
type Store struct {
	// Clean takes secrets out of a record, which is JSON, before it is stored. Set it before the first Save; nil stores
	// records as they are.
	Clean func(record []byte) []byte

	bolt  *bolt.DB
	path  string
	place fs.FileInfo
}

// OpenStore opens the database at path, and makes it if it is not there; its directory must exist. Whoever else has it
// is waited for no longer than patience. Errors wrap [store.ErrHeld], [store.ErrUnusable], a [store.VersionError], or
// what the operating system says. With readOnly a file that is not there is [fs.ErrNotExist].
func OpenStore(path string, readOnly bool, patience time.Duration) (*Store, error) {
	s, err := openStore(path, readOnly, patience)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

func openStore(path string, readOnly bool, patience time.Duration) (_ *Store, err error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist) && !readOnly:
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a link would let the files of a project choose where its state is written
		return nil, fmt.Errorf("%w: it is not a regular file", store.ErrUnusable)
	case info.Size() == 0 && readOnly:
		return nil, fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	}
	s := &Store{path: path}
	defer guard(&err)()
	s.bolt, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:  max(patience, 1), // 0 waits for ever
		ReadOnly: readOnly, FreelistType: bolt.FreelistMapType, NoStatistics: true,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, store.ErrHeld
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %w", store.ErrUnusable, err)
	case err != nil:
		return nil, err
	}
	if err := s.prepare(readOnly); err != nil {
		return nil, errors.Join(err, s.bolt.Close())
	}
	return s, nil
}

// guard turns a panic over a damaged page, or a memory fault over one that was cut off, into an error: both are
// properties of the file.
func guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			*err = fmt.Errorf("%w: %v", store.ErrUnusable, p)
		}
	}
}

func (s *Store) prepare(readOnly bool) (err error) {
	if s.place, err = os.Lstat(s.path); err != nil {
		return err
	}
	version := 0
	err = s.bolt.View(func(tx *bolt.Tx) (err error) {
		version, err = schemaOf(tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case version == 0 && readOnly:
		return fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	case version > 0:
		return nil
	}
	if err := os.Chmod(s.path, 0o600); err != nil { // a umask may have taken the owner's rights
		return err
	}
	return s.bolt.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketSessions, bucketDecisions} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(schemaVersion)))
	})
}

// schemaOf is 0 for a database without any bucket.
func schemaOf(tx *bolt.Tx) (int, error) {
	if name, _ := tx.Cursor().First(); name == nil {
		return 0, nil
	}
	meta := tx.Bucket(bucketMeta)
	if meta == nil || tx.Bucket(bucketSessions) == nil || tx.Bucket(bucketDecisions) == nil {
		return 0, fmt.Errorf("%w: it belongs to another program", store.ErrUnusable)
	}
	version, err := strconv.Atoi(string(meta.Get(keySchema)))
	switch {
	case err != nil || version < 1:
		return 0, fmt.Errorf("%w: its schema version is %q", store.ErrUnusable, meta.Get(keySchema))
	case version > schemaVersion:
		return 0, &store.VersionError{Found: version, Known: schemaVersion}
	}
	return version, nil
}

// Close gives the file up.
func (s *Store) Close() error { return s.bolt.Close() }

// Save stores records, and adds decisions to their sessions' histories, in one transaction that is on disk when it
// returns.
func (s *Store) Save(records []Record, entries ...Entry) (err error) {
	if info, err := os.Lstat(s.path); err != nil || !os.SameFile(info, s.place) {
		return fmt.Errorf("save %s: %w", s.path, store.ErrMoved)
	}
	defer guard(&err)()
	err = s.bolt.Update(func(tx *bolt.Tx) error {
		for _, r := range records {
			data, err := s.encode(r)
			if err != nil {
				return fmt.Errorf("session %s: %w", r.SessionID, err)
			}
			if err := tx.Bucket(bucketSessions).Put([]byte(r.SessionID), data); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if err := s.addEntry(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save %s: %w", s.path, err)
	}
	return nil
}

func (s *Store) encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && s.Clean != nil {
		data = s.Clean(data)
	}
	return data, err
}

func (s *Store) addEntry(tx *bolt.Tx, e Entry) error {
	b, err := tx.Bucket(bucketDecisions).CreateBucketIfNotExists([]byte(e.SessionID))
	if err != nil {
		return err
	}
	number, err := b.NextSequence()
	if err != nil {
		return err
	}
	data, err := s.encode(e)
	if err != nil {
		return err
	}
	if err := b.Put(binary.BigEndian.AppendUint64(nil, number), data); err != nil {
		return err
	}
	if number > maxHistory {
		return b.Delete(binary.BigEndian.AppendUint64(nil, number-maxHistory))
	}
	return nil
}

// Forget removes everything about a session.
func (s *Store) Forget(sessionID string) error {
	return s.bolt.Update(func(tx *bolt.Tx) error {
		err := tx.Bucket(bucketDecisions).DeleteBucket([]byte(sessionID))
		if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		return tx.Bucket(bucketSessions).Delete([]byte(sessionID))
	})
}

// Records gives all sessions, by their ids in order. One that cannot be read is named in the error, and the others come
// all the same.
func (s *Store) Records() (records []Record, err error) {
	defer guard(&err)()
	var faults []error
	err = s.bolt.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSessions).ForEach(func(key, value []byte) error {
			r, fault := decode[Record](value, string(bucketSessions), string(key))
			if fault != nil {
				faults = append(faults, fault)
			} else {
				records = append(records, r)
			}
			return nil
		})
	})
	return records, errors.Join(append(faults, err)...)
}

// History gives the decisions about a session, the oldest first; none for a session that is not known.
func (s *Store) History(sessionID string) (entries []Entry, err error) {
	defer guard(&err)()
	var faults []error
	err = s.bolt.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketDecisions).Bucket([]byte(sessionID))
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, value []byte) error {
			e, fault := decode[Entry](value, string(bucketDecisions)+"/"+sessionID, fmt.Sprintf("%x", key))
			if fault != nil {
				faults = append(faults, fault)
			} else {
				entries = append(entries, e)
			}
			return nil
		})
	})
	return entries, errors.Join(append(faults, err)...)
}

// decode reads one value.
func decode[T any](value []byte, bucket, key string) (v T, fault error) {
	if err := json.Unmarshal(value, &v); err != nil {
		return v, &store.CorruptError{Bucket: bucket, Key: key, Err: err}
	}
	return v, nil
}
