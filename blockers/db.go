package blockers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

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

// access is what an operation does with the database.
type access int

const (
	reading  access = iota // where nothing is stored, there is nothing to do
	changing               // likewise
	making                 // the database is made if it is not there
)

// with opens the database for the time of fn. What fn changes is on disk when with returns. Then what blockers.md lacks is
// written; that this could not be done is no error: it is tried again with the next operation.
func (d *Desk) with(ctx context.Context, how access, fn func(*bolt.Tx) error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var said error // by fn; everything else is about the file
	defer func() {
		if err != nil && !errors.Is(err, said) && ctx.Err() == nil {
			err = fmt.Errorf("blockers in %s: %w", d.cfg.Path, err)
		}
	}()
	db, err := d.open(ctx, how)
	if how != making && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	noted := func(tx *bolt.Tx) error {
		said = fn(tx)
		return said
	}
	if how == reading {
		return db.View(ctx, noted)
	}
	if err := db.Update(ctx, noted); err != nil {
		return err
	}
	d.failpoint("committed")
	if err := db.Update(ctx, d.flush); err != nil {
		d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
	}
	return nil
}

// open waits for others, and looks from time to time whether its caller still wants it.
func (d *Desk) open(ctx context.Context, how access) (*boltfile.DB, error) {
	if dir := filepath.Dir(d.cfg.Path); dir == filepath.Join(d.cfg.Root, store.DirName) {
		// A link would let the files of a project choose where its state is.
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("%w: %s is not a directory", store.ErrUnusable, dir)
		}
		if how == making {
			if _, err := store.EnsureDir(d.cfg.Root); err != nil {
				return nil, err
			}
		}
	}
	if how == changing {
		if _, err := os.Lstat(d.cfg.Path); err != nil {
			return nil, err
		}
	}
	options := boltfile.Options{
		Version: schemaVersion, Buckets: buckets, ReadOnly: how == reading, Logger: d.cfg.Logger,
	}
	for began := time.Now(); ; {
		options.Timeout = max(min(glance, d.patience-time.Since(began)), 1)
		db, err := boltfile.Open(d.cfg.Path, options)
		switch {
		case !errors.Is(err, store.ErrHeld):
			return db, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Since(began) >= d.patience:
			return nil, err
		}
	}
}
