package blockers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/store"
)

const (
	// schemaVersion is that of the tree below.
	schemaVersion = 2
	// patience is how long an operation waits for others. One of them takes some milliseconds.
	patience = 5 * time.Second
	// glance is how long it waits before it looks whether its caller still wants it.
	glance = 250 * time.Millisecond
)

// The database, as buckets (name/) and keys. A number is 8 bytes, big endian; B7 has the number 7.
//
//	meta/
//	    schema                       version of this tree, decimal
//	records/
//	    <number>                     record (JSON)
//	switches/
//	    project, session/<session>   "on" or "off"
var (
	bucketRecords  = []byte("records")
	bucketSwitches = []byte("switches")

	buckets = []string{string(bucketRecords), string(bucketSwitches)} // besides meta
)

// view runs fn on a snapshot of what is stored. Where nothing is, fn is not called.
func (d *Desk) view(ctx context.Context, fn func(*bolt.Tx) error) error {
	err := d.with(ctx, true, func(db *boltfile.DB) error { return db.View(ctx, fn) })
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// read gives the blockers of all records that are wanted, oldest first, and then tries to write what blockers.md still
// lacks. A record that cannot be read is named in the error, and the others are given all the same.
func (d *Desk) read(ctx context.Context, want func(*record) bool) ([]boulder.Blocker, error) {
	var found []boulder.Blocker
	unfinished := false
	err := d.view(ctx, func(tx *bolt.Tx) error {
		all, err := records(tx)
		for _, r := range all {
			unfinished = unfinished || len(r.unlisted()) > 0
			if want(r) {
				found = append(found, r.Blocker)
			}
		}
		return err
	})
	if unfinished {
		if err := d.Flush(ctx); err != nil {
			d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
		}
	}
	return found, err
}

// update runs fn in a transaction that is on disk when update returns, and then writes what blockers.md lacks. That this
// could not be done is no error of an operation: it is tried again with the next one.
func (d *Desk) update(ctx context.Context, fn func(*bolt.Tx) error) error {
	return d.with(ctx, false, func(db *boltfile.DB) error {
		if err := db.Update(ctx, fn); err != nil {
			return err
		}
		d.failpoint("committed")
		if err := d.flush(ctx, db); err != nil {
			d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
		}
		return nil
	})
}

var errNothing = errors.New("nothing is stored")

// with opens the database for the time of fn. A reader gets errNothing where there is none.
func (d *Desk) with(ctx context.Context, readOnly bool, fn func(*boltfile.DB) error) (err error) {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	defer func() {
		if _, list := errors.AsType[*listError](err); !list && isFileError(err) {
			err = fmt.Errorf("blockers in %s: %w", d.cfg.Path, err)
		}
	}()
	if err := d.place(readOnly); err != nil {
		return err
	}
	db, err := d.open(ctx, readOnly)
	if err != nil {
		return err
	}
	err = fn(db)
	return errors.Join(err, db.Close())
}

// listError is about the list for people, and not about the database, which has what could not be written.
type listError struct{ error }

func (e *listError) Unwrap() error { return e.error }

// isFileError tells faults of the file from what operations say about their arguments.
func isFileError(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	_, version := errors.AsType[*store.VersionError](err)
	_, errno := errors.AsType[syscall.Errno](err)
	return path || link || version || errno || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnusable)
}

// open waits for others, and looks from time to time whether its caller still wants it.
func (d *Desk) open(ctx context.Context, readOnly bool) (*boltfile.DB, error) {
	options := boltfile.Options{Version: schemaVersion, Buckets: buckets, ReadOnly: readOnly, Logger: d.cfg.Logger}
	for began := time.Now(); ; {
		options.Timeout = max(min(glance, d.patience-time.Since(began)), 1)
		db, err := boltfile.Open(d.cfg.Path, options)
		switch {
		case readOnly && errors.Is(err, fs.ErrNotExist):
			return nil, errNothing
		case !errors.Is(err, store.ErrHeld):
			return db, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Since(began) >= d.patience:
			return nil, err
		}
	}
}

// place makes sure that the state directory is one.
func (d *Desk) place(readOnly bool) error {
	dir := filepath.Dir(d.cfg.Path)
	if dir == filepath.Join(d.cfg.Root, store.DirName) {
		// A link would let the files of a project choose where its state is.
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%w: %s is not a directory", store.ErrUnusable, dir)
		}
		if !readOnly {
			if _, err := store.EnsureDir(d.cfg.Root); err != nil {
				return err
			}
		}
	}
	return nil
}
