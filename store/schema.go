package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/statedir"
)

// The database: buckets (name/) and keys. A value is JSON, then a line with the CRC-32C of key and JSON, 8 hex digits.
//
//	meta/
//	    schema                      version of this tree, decimal
//	    active                      id of the boulder created or resumed last; absent before the first
//	    blockers                    highest number of a blocker, decimal; absent before the first
//	list/
//	    <boulder id>                entry: the boulder in lists, and the length of its log
//	log/
//	    <boulder id> 00 <seq, 8 bytes, big-endian>   boulder.Event with all fields
//	snapshots/
//	    <boulder id>                boulder.Snapshot; absent while the log is short
//
// The log is the truth and append-only. Everything else is derived from it, to be read faster.
const schemaVersion = 5

var (
	bucketMeta      = []byte("meta")
	bucketList      = []byte("list")
	bucketLog       = []byte("log")
	bucketSnapshots = []byte("snapshots")

	keyActive   = []byte("active")
	keyBlockers = []byte("blockers")
)

type entry struct {
	Item
	Seq uint64 `json:"seq"` // of the last event
	// Behind is the size of the events after the snapshot, Snapshot that of the snapshot, both in bytes.
	Behind   int `json:"behind"`
	Snapshot int `json:"snapshot"`
}

func logKey(id string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(logPrefix(id), seq)
}

// logPrefix returns the common key prefix of a boulder's events. Ids do not contain byte 0.
func logPrefix(id string) []byte { return append([]byte(id), 0) }

func keyName(key []byte) string {
	if len(key) < 9 {
		return strconv.Quote(string(key))
	}
	at := len(key) - 8
	return string(key[:at-1]) + "/" + strconv.FormatUint(binary.BigEndian.Uint64(key[at:]), 10)
}

const sumSize = 9 // a newline and the checksum

func sumOf(key, text []byte) string {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return fmt.Sprintf("\n%08x", crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, text))
}

// put stores a value as JSON, redacted and with its checksum. size is the length of the JSON.
func (db *DB) put(b *bolt.Bucket, key []byte, v any) (size int, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	text = db.file.Clean(text)
	return len(text), b.Put(key, append(text, sumOf(key, text)...))
}

var (
	errMissing  = errors.New("it is missing")
	errChecksum = errors.New("its bytes are not those that were written; put a copy of the database in its place, or " +
		"start the boulder again (other boulders are not affected)")
)

// decode decodes a value within its transaction; v does not alias the file. name is for the error.
func decode(bucket []byte, name string, key, value []byte, v any) error {
	err := errMissing
	switch at := len(value) - sumSize; {
	case value == nil:
	case at < 0 || string(value[at:]) != sumOf(key, value[:at]):
		err = errChecksum
	default:
		err = json.Unmarshal(value[:at], v)
	}
	if err == nil {
		return nil
	}
	return &CorruptError{Bucket: string(bucket), Key: name, Err: err}
}

// Errors about the file, see package boltfile.
var (
	ErrHeld     = boltfile.ErrHeld
	ErrUnusable = boltfile.ErrUnusable
	ErrFull     = boltfile.ErrFull
	ErrMoved    = boltfile.ErrMoved
)

type (
	// VersionError says that another version of manager wrote the file.
	VersionError = boltfile.VersionError
	// CorruptError names a record that cannot be read.
	CorruptError = boltfile.CorruptError
)

// ErrConflict is returned by [DB.Commit] for events that do not follow the stored ones. Load the boulder again.
var ErrConflict = errors.New("the boulder was changed by another process in the meantime; resume it to continue")

const (
	DirName  = ".manager"   // of manager's state, in a project
	FileName = "manager.db" // the database in it
)

// EnsureDir creates .manager in a project if needed, private to its owner and ignored by git, and returns its path. A
// symbolic link is refused: untrusted project files must not choose where state is written.
func EnsureDir(project string) (path string, err error) {
	path = filepath.Join(project, DirName)
	defer func() {
		if err != nil {
			err = fmt.Errorf("state directory %s: %w", path, boltfile.Explain(err))
		}
	}()
	dir, err := statedir.Open(project, DirName)
	if err != nil {
		return path, err
	}
	defer dir.Close()
	if err = dir.Chmod(".", 0o700); err != nil {
		return path, err
	}
	if _, err = dir.Lstat(".gitignore"); errors.Is(err, fs.ErrNotExist) { // the user's own stays
		err = statedir.Write(project, DirName+"/.gitignore", []byte("*\n"))
	}
	return path, err
}
