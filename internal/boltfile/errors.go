package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

var (
	// ErrHeld is returned by [Open] while another process, or another handle of this one, holds the file.
	ErrHeld = errors.New("the state is held by another process")
	// ErrUnusable is returned by [Open] for a file that is damaged or not manager's. Nothing was written to it.
	ErrUnusable = errors.New("the file is damaged or not a database of manager; nothing was changed: " +
		"move it away to start afresh, or put a copy in its place")
	// ErrFull is returned when there is no room. The disk is as it was: what was committed before is all there, and the same
	// handle can commit again once there is room.
	ErrFull = errors.New("the disk is full, or a quota is used up (nothing that was stored before is lost): " +
		"free some space, then go on")
	// ErrMoved is returned by [DB.Update] when the file is not at its place any more: it was deleted, moved or replaced while
	// it was open, by `git clean -fdx` for one. Nothing is written then, as nobody would find it. What was stored until then
	// is written back beside or at that place, as far as the disk allows; the error says where it is.
	ErrMoved = errors.New("the database was deleted, moved or replaced while it was in use")
)

var errUnsure = errors.New("the disk failed while a commit was made, and it is not known whether it holds it; " +
	"nothing more is written until the database is opened again")

// VersionError is returned by [Open] for a database of another schema version. Nothing was written to it.
type VersionError struct {
	Found int // schema version of the file
	Known int // schema version that this code reads
}

func (e *VersionError) Error() string {
	if e.Found > e.Known {
		return fmt.Sprintf("the database was written by a newer manager (schema %d, this one knows up to %d): "+
			"update manager, or use the newer one in this project", e.Found, e.Known)
	}
	return fmt.Sprintf("the database was written by a pre-release of manager (schema %d, this one reads %d): "+
		"finish its work with that one, then move the file away; nothing was changed", e.Found, e.Known)
}

// CorruptError names a record that is stored but cannot be read.
type CorruptError struct {
	Bucket string // path of the bucket, as drawn in the schema: log
	Key    string // for people: 01k7x/17
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record %s in %s cannot be read: %v", e.Key, e.Bucket, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Explain adds to an error of the operating system what it means here and what to do about it.
func Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w (manager keeps its state in the project: make the file and its directory writable, or "+
			"choose another project with -C)", err)
	}
	return err
}
