package blockers

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/bouldermgr/manager/store"
)

const (
	// schemaVersion is that of the tree below.
	schemaVersion = 1
	// patience is how long an operation waits for others. One of them takes some milliseconds.
	patience = 5 * time.Second
	// glance is how long it waits before it looks whether its caller still wants it.
	glance = 250 * time.Millisecond
)

// The database, as buckets (name/) and keys. A number is 8 bytes, big endian; B7 has the number 7. Everything but records,
// outbox and switches can be derived from the records.
//
//	meta/
//	    schema                                       version of this tree, decimal
//	records/
//	    <number>                                     record (JSON)
//	sessions/
//	    <session> 0 <number>                         of which session
//	attempts/
//	    <boulder> 0 <sub-task> 0 <attempt> <number>  of which attempt, if it is of one
//	pending/  answered/  skipped/
//	    <number>                                     "hard" or "soft"
//	asks/
//	    <sha256 of session and ask>                  number of the newest record of it
//	grants/
//	    <sha256 of sub-task, permission, pattern>    number of the record whose answer gave the permission
//	undelivered/
//	    <boulder> 0 <number>                         settled, and the boulder was not told
//	outbox/
//	    <number of its own>                          item for blockers.md (JSON) that is not known to be in it for good
//	switches/
//	    project, session/<session>                   "on" or "off"
var (
	bucketMeta        = []byte("meta")
	bucketRecords     = []byte("records")
	bucketSessions    = []byte("sessions")
	bucketAttempts    = []byte("attempts")
	bucketPending     = []byte("pending")
	bucketAnswered    = []byte("answered")
	bucketSkipped     = []byte("skipped")
	bucketAsks        = []byte("asks")
	bucketGrants      = []byte("grants")
	bucketUndelivered = []byte("undelivered")
	bucketOutbox      = []byte("outbox")
	bucketSwitches    = []byte("switches")

	keySchema = []byte("schema")

	buckets = [][]byte{
		bucketMeta, bucketRecords, bucketSessions, bucketAttempts, bucketPending, bucketAnswered, bucketSkipped, bucketAsks,
		bucketGrants, bucketUndelivered, bucketOutbox, bucketSwitches,
	}
)

func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// view runs fn on a snapshot of what is stored. Where nothing is, fn is not called.
func (d *Desk) view(ctx context.Context, fn func(*bolt.Tx) error) error {
	err := d.with(ctx, true, func(db *bolt.DB) error { return db.View(fn) })
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// look is a view that afterwards tries to write what blockers.md still lacks.
func (d *Desk) look(ctx context.Context, fn func(*bolt.Tx) error) error {
	unfinished := false
	err := d.view(ctx, func(tx *bolt.Tx) error {
		first, _ := tx.Bucket(bucketOutbox).Cursor().First()
		unfinished = first != nil
		return fn(tx)
	})
	if unfinished && err == nil {
		if err := d.Flush(ctx); err != nil {
			d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
		}
	}
	return err
}

// update runs fn in a transaction that is on disk when update returns, and then writes what blockers.md lacks. That this
// could not be done is no error of an operation: it stays in the outbox.
func (d *Desk) update(ctx context.Context, fn func(*bolt.Tx) error) error {
	return d.with(ctx, false, func(db *bolt.DB) error {
		if err := db.Update(fn); err != nil {
			return err
		}
		d.failpoint("committed")
		if err := d.flush(db); err != nil {
			d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
		}
		return nil
	})
}

var errNothing = errors.New("nothing is stored")

// with opens the database for the time of fn. A reader gets errNothing where there is none.
func (d *Desk) with(ctx context.Context, readOnly bool, fn func(*bolt.DB) error) (err error) {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	defer func() {
		if _, list := errors.AsType[*listError](err); !list && isFileError(err) {
			err = fmt.Errorf("blockers in %s: %w", d.cfg.Path, explain(err))
		}
	}()
	if err := d.place(readOnly); err != nil {
		return err
	}
	var file *os.File
	defer guard(&err, func() { file.Close() })()
	db, err := d.open(ctx, d.cfg.Path, readOnly, &file)
	if err != nil {
		return err
	}
	if err := prepare(db, d.cfg.Path); err != nil {
		return errors.Join(err, db.Close())
	}
	err = fn(db)
	return errors.Join(err, db.Close())
}

// guard turns a panic over a damaged page, or a memory fault over one that was cut off, into an error: both are
// properties of the file. The transaction may not have given its locks back, for which bbolt's Close would wait for ever:
// abandon gives the file itself up.
func guard(err *error, abandon func()) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			abandon()
			*err = fmt.Errorf("%w: %v", store.ErrUnusable, p)
		}
	}
}

// isFileError tells faults of the file from what operations say about their arguments.
func isFileError(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	_, version := errors.AsType[*store.VersionError](err)
	_, errno := errors.AsType[syscall.Errno](err)
	return path || link || version || errno || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnusable)
}

// open opens the file with bbolt and gives its errors this project's names.
func (d *Desk) open(ctx context.Context, path string, readOnly bool, file **os.File) (*bolt.DB, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist) && readOnly:
		return nil, errNothing
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: it is not a regular file", store.ErrUnusable)
	case info.Size() == 0 && readOnly:
		return nil, errNothing
	}
	options := bolt.Options{
		ReadOnly: readOnly, FreelistType: bolt.FreelistMapType, NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			*file, err = openRegular(name, flag, mode)
			return *file, err
		},
	}
	for began := time.Now(); ; {
		options.Timeout = max(min(glance, d.patience-time.Since(began)), 1)
		db, err := bolt.Open(path, 0o600, &options)
		switch {
		case errors.Is(err, bolterrors.ErrTimeout) && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, bolterrors.ErrTimeout) && time.Since(began) < d.patience:
		case errors.Is(err, bolterrors.ErrTimeout):
			return nil, store.ErrHeld
		case err == nil || isFileError(err):
			return db, err
		default:
			return nil, fmt.Errorf("%w: %w", store.ErrUnusable, err)
		}
	}
}

// openRegular opens what was a regular file when it was looked at, unless it was replaced by a link since.
func openRegular(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(name); err == nil && !os.SameFile(info, opened) {
			err = fmt.Errorf("%w: it was replaced while it was being opened", store.ErrUnusable)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// prepare refuses what is none of ours, and makes the schema in a new file.
func prepare(db *bolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	version := 0
	err = db.View(func(tx *bolt.Tx) (err error) {
		if info.Size() < tx.Size() { // reading behind its end would be a fault
			return fmt.Errorf("%w: it has %d bytes and should have %d", store.ErrUnusable, info.Size(), tx.Size())
		}
		version, err = schemaOf(tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case version == 0 && db.IsReadOnly():
		return errNothing
	case version > 0:
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil { // a umask may have taken the owner's rights
		return err
	}
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
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
	if meta == nil || tx.Bucket(bucketRecords) == nil {
		return 0, fmt.Errorf("%w: it belongs to another program", store.ErrUnusable)
	}
	version, err := strconv.Atoi(string(meta.Get(keySchema)))
	switch {
	case err != nil || version < 1:
		return 0, fmt.Errorf("%w: its schema version is %q", store.ErrUnusable, meta.Get(keySchema))
	case version > schemaVersion:
		return 0, &store.VersionError{Found: version, Known: schemaVersion}
	}
	for _, name := range buckets {
		if tx.Bucket(name) == nil {
			return 0, fmt.Errorf("%w: it has no bucket %q", store.ErrUnusable, name)
		}
	}
	return version, nil
}

// place makes sure that the state directory is one, and the database is there if it is about to be written.
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
	if _, err := os.Lstat(d.cfg.Path); readOnly || !errors.Is(err, fs.ErrNotExist) {
		return nil // and what else is wrong, open finds
	}
	return d.make()
}

// make makes the database: under another name first, so that a full disk or a crash leaves nothing that would be taken for
// a damaged one.
func (d *Desk) make() error {
	temp := filepath.Join(filepath.Dir(d.cfg.Path), "."+filepath.Base(d.cfg.Path)+"-"+rand.Text()+".tmp")
	err := d.create(temp)
	d.failpoint("made")
	if err == nil {
		err = os.Link(temp, d.cfg.Path)
	}
	if left := os.Remove(temp); !errors.Is(left, fs.ErrNotExist) {
		err = errors.Join(err, left)
	}
	switch {
	case errors.Is(err, fs.ErrExist): // another process was faster
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission):
		return nil // the file system has no links: it is made in its place when it is opened
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(d.cfg.Path))
}

func (d *Desk) create(path string) error {
	var file *os.File
	db, err := d.open(context.Background(), path, false, &file)
	if err != nil {
		return err
	}
	return errors.Join(prepare(db, path), db.Close())
}

// syncDir makes a new file's name durable: syncing the file alone keeps its content only.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
