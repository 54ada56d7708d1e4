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
	// ErrUnusable is returned by [Open] for a file that is damaged or not manager's. It was not changed.
	ErrUnusable = errors.New("the file is damaged or not a database of manager; nothing was changed: " +
		"move it away to start afresh, or put a copy in its place")
	// ErrFull is returned if there is no space. All earlier commits are intact, and the handle can commit once there is.
	ErrFull = errors.New("the disk is full, or a quota is used up (nothing that was stored before is lost): " +
		"free some space, then continue")
	// ErrMoved is returned by [DB.Update] if the open file was deleted, moved or replaced, as by `git clean -fdx`. The
	// update is discarded. Earlier commits are written back to the old path or next to it, if possible; the error says
	// where.
	ErrMoved = errors.New("the database was deleted, moved or replaced while it was in use")
)

var errUnsure = errors.New("the disk failed while a commit was made, and it is not known whether it holds it; " +
	"nothing more is written until the database is opened again")

// VersionError is returned by [Open] for a database of another schema version. It was not changed.
type VersionError struct {
	Found int // of the file
	Known int // the supported one
}

func (e *VersionError) Error() string {
	if e.Found > e.Known {
		return fmt.Sprintf("the database was written by a newer manager (schema %d, this one knows up to %d): "+
			"update manager, or use the newer one in this project", e.Found, e.Known)
	}
	return fmt.Sprintf("the database was written by a pre-release of manager (schema %d, this one reads %d): "+
		"finish its work with that one, then move the file away; nothing was changed", e.Found, e.Known)
}

// CorruptError names a stored record that cannot be read.
type CorruptError struct {
	Bucket string // path of the bucket, as drawn in the schema: log
	Key    string // for the user: 01k7x/17
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record %s in %s cannot be read: %v", e.Key, e.Bucket, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Explain adds to an operating system error what it means here and what to do.
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
