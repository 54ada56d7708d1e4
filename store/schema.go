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

// The database, as buckets (name/) and keys. Values are JSON, with a line after it that is the checksum of the key and of
// the JSON: 8 hexadecimal digits of CRC-32C.
//
//	meta/
//	    schema                      version of this tree, decimal
//	    active                      id of the boulder that was begun or taken up last; absent before the first
//	list/
//	    <boulder id>                entry: what a list shows of a boulder, and how long its log is
//	log/
//	    <boulder id> 00 <seq, 8 bytes, big-endian>   boulder.Event with everything that it carries
//	snapshots/
//	    <boulder id>                boulder.Snapshot; absent while the log is short
//
// The log is the truth, and only ever grows. What else there is of a boulder follows from it, and is kept because it is
// faster to read.
const schemaVersion = 4

var (
	bucketMeta      = []byte("meta")
	bucketList      = []byte("list")
	bucketLog       = []byte("log")
	bucketSnapshots = []byte("snapshots")

	keyActive = []byte("active")
)

type entry struct {
	Item
	Seq uint64 `json:"seq"` // number of its last event
	// Behind is how many bytes of events there are that are not in the snapshot, and Snapshot how many that has.
	Behind   int `json:"behind"`
	Snapshot int `json:"snapshot"`
}

func logKey(id string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(logPrefix(id), seq)
}

// logPrefix begins the keys of all events of a boulder. Ids have no byte 0.
func logPrefix(id string) []byte { return append([]byte(id), 0) }

func readable(key []byte) string {
	if len(key) < 9 {
		return strconv.Quote(string(key))
	}
	at := len(key) - 8
	return string(key[:at-1]) + "/" + strconv.FormatUint(binary.BigEndian.Uint64(key[at:]), 10)
}

// sumSize is that of a checksum, with the line break before it.
const sumSize = 9

func sumOf(key, text []byte) string {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return fmt.Sprintf("\n%08x", crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, text))
}

// put stores a value as JSON, without secrets and with its checksum. size is that of the JSON.
func (db *DB) put(b *bolt.Bucket, key []byte, v any) (size int, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	text = db.file.Clean(text)
	return len(text), b.Put(key, append(text, sumOf(key, text)...))
}

var (
	errMissing = errors.New("it is missing")
	errRotten  = errors.New("its bytes are not those that were written; put a copy of the database in its place, or " +
		"start the boulder again (other boulders are not affected)")
)

// decode reads a value into v while its transaction is open; what v gets does not point into the file. name: for the error.
func decode(bucket []byte, name string, key, value []byte, v any) error {
	err := errMissing
	switch at := len(value) - sumSize; {
	case value == nil:
	case at < 0 || string(value[at:]) != sumOf(key, value[:at]):
		err = errRotten
	default:
		err = json.Unmarshal(value[:at], v)
	}
	if err == nil {
		return nil
	}
	return &CorruptError{Bucket: string(bucket), Key: name, Err: err}
}

// What is wrong with the file, see package boltfile.
var (
	ErrHeld     = boltfile.ErrHeld
	ErrUnusable = boltfile.ErrUnusable
	ErrFull     = boltfile.ErrFull
	ErrMoved    = boltfile.ErrMoved
)

type (
	// VersionError says that the file was written by another manager.
	VersionError = boltfile.VersionError
	// CorruptError names a record that cannot be read.
	CorruptError = boltfile.CorruptError
)

// ErrConflict is returned by [DB.Commit] for events that do not follow what is stored: the remedy is to load it again.
var ErrConflict = errors.New("the boulder was changed by another process in the meantime; resume it to continue")

const (
	DirName  = ".manager"   // the directory of a project that holds manager's state
	FileName = "manager.db" // the database in it
)

// EnsureDir makes the directory .manager in a project, for its owner only whatever the umask and kept out of git, and
// returns its path. It may be called again. A symbolic link is refused: the project's files may come from
// anybody, and must not choose where state is written.
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
	if _, err = dir.Lstat(".gitignore"); errors.Is(err, fs.ErrNotExist) { // what the user wrote into it stays
		err = statedir.Write(project, DirName+"/.gitignore", []byte("*\n"))
	}
	return path, err
}
