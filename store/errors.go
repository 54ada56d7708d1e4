package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

var (
	// ErrHeld is returned by [Open] while another process, or another handle of this one, holds the file.
	ErrHeld = errors.New("the state is held by another process")
	// ErrUnusable is returned by [Open] for a file that is damaged or not manager's. Nothing was written to it.
	ErrUnusable = errors.New("the file is damaged or not a database of manager; nothing was changed: " +
		"move it away to start afresh, or put a copy in its place")
	// ErrFull is returned by [Open] and [DB.Commit] when there is no room. The disk is as it was: what was committed before
	// is all there, and the same handle can commit again once there is room.
	ErrFull = errors.New("the disk is full, or a quota is used up (nothing that was stored before is lost): " +
		"free some space, then go on")
	// ErrConflict is returned by [DB.Commit] for changes that do not follow what is stored: the boulder was changed by
	// somebody else since it was loaded. The remedy is to load it again.
	ErrConflict = errors.New("the boulder was changed by somebody else in the meantime; resume it to go on")
	// ErrAllArchived is returned by [DB.Resolve] where no boulder is named and all are archived. It is a
	// [boulder.ErrNotFound].
	ErrAllArchived = fmt.Errorf("%w: everything that was run here is archived (see `manager list --archived`)",
		boulder.ErrNotFound)
)

// VersionError is returned by [Open] for a database that a newer manager wrote. Nothing was written to it.
type VersionError struct {
	Found int // schema version of the file
	Known int // newest schema version that this code reads
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the database was written by a newer manager (schema %d, this one knows up to %d): "+
		"update manager, or use the newer one in this project", e.Found, e.Known)
}

// CorruptError names a record that is stored but cannot be read. The records around it are not affected.
type CorruptError struct {
	Bucket string // path of the bucket, as drawn in schema.go: work/<boulder id>/attempts
	Key    string // for people: parser/2
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record %s in %s cannot be read: %v", e.Key, e.Bucket, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// AmbiguousError is returned by [DB.Resolve] for a text that fits more than one boulder.
type AmbiguousError struct {
	Ref        string
	Candidates []string // ids, the newest first
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q fits %d boulders, give more of the id: %s", e.Ref, len(e.Candidates),
		strings.Join(e.Candidates, ", "))
}
