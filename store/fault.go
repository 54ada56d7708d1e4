package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// explain adds to an error of the operating system what it means here and what to do about it.
func explain(err error) error {
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

// notCommitted is what update returns when bbolt could not commit.
//
// Where a page could not be written, as on a full disk, nothing refers to what was, and the next commit may go through:
// bbolt writes with pwrite and maps the file for reading only, so that a full disk is an error of a call and no memory
// fault. Anything else, above all a failed fdatasync, leaves open what is on disk: the kernel forgets pages that it could
// not write, and the next fdatasync would report success without them. Nothing more is written by this handle then.
func (db *DB) notCommitted(err error) error {
	err = explain(err)
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op == "write" {
		return err
	}
	err = fmt.Errorf("%w: %w", errUnsure, err)
	db.end(err)
	return err
}

var errUnsure = errors.New("the disk failed while a commit was made, and it is not known whether it holds it; " +
	"nothing more is written until the database is opened again")

// end makes err the answer to every later write, if it is not nil. The first one stays.
func (db *DB) end(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.ended == nil {
		db.ended = err
	}
}

// whyEnded is nil while the database can be written.
func (db *DB) whyEnded() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.ended
}
