// Package boltfile opens all bbolt files of manager in the same way. They are regular files, private to their owner,
// and complete and on disk before they get their name. Files of other versions or programs are refused, damage is
// refused or named, and a panic of bbolt over a damaged page becomes an error.
package boltfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Tree describes a database: its schema version, and its top-level buckets besides meta, which holds the version.
type Tree struct {
	Version int
	Buckets []string
}

// Options of [Open]. The zero value is ready to use.
type Options struct {
	// Timeout is how long to wait while another process holds the file, in steps of 50 ms. Defaults to not waiting.
	// Writers should wait a second: a reader holds the file for some milliseconds.
	Timeout time.Duration
	// ReadOnly opens an existing file for reading. Several processes may do so at once while none writes.
	ReadOnly bool
	// Redact removes secrets from a JSON record before it is stored; its result must decode as the same type. It also gets
	// plain texts, but no keys, which are ids. Defaults to storing records unchanged.
	Redact func(record []byte) []byte
	Logger *slog.Logger // defaults to none
}

const (
	bucketMeta = "meta"
	keySchema  = "schema"
)

// DB is an open file. Its methods may be called from any goroutine.
type DB struct {
	bolt *bolt.DB
	file *os.File // opened by bbolt
	path string
	opts Options

	mu       sync.Mutex
	writeErr error // why nothing can be written any more
	readErr  error // why nothing can be read either: closed, or bbolt panicked and may hold its locks forever
}

// Open opens a file, and creates it if needed; its directory must exist. Errors wrap [ErrHeld], [ErrUnusable], a
// [VersionError] or the operating system's error. With ReadOnly, a missing or empty file is [fs.ErrNotExist].
func Open(path string, tree Tree, opts Options) (*DB, error) {
	path, err := filepath.Abs(path) // inPlace needs it after a change of the working directory
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	for {
		if err := prepare(path, tree, opts); err != nil {
			return nil, Explain(err)
		}
		db, err := openBolt(path, opts)
		if err != nil {
			return nil, Explain(err)
		}
		if err = db.check(tree); err == nil {
			return db, nil
		}
		if err = errors.Join(err, db.release()); !errors.Is(err, errReplaced) {
			return nil, err
		}
	}
}

// prepare checks a file before bbolt opens it. For writing, it also creates or repairs it.
func prepare(path string, tree Tree, opts Options) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !opts.ReadOnly:
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		// A link would let untrusted project files choose where state is written.
		return fmt.Errorf("%w: it is not a regular file", ErrUnusable)
	case info.Size() == 0 && opts.ReadOnly: // bbolt would try to write its first pages
		return fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	case opts.ReadOnly:
		return nil
	case info.Size() > 0:
		return repair(path, tree, opts)
	default:
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return write(path, publish, fillWith(opts, func(tx *bolt.Tx) error {
		for _, name := range append([]string{bucketMeta}, tree.Buckets...) {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte(strconv.Itoa(tree.Version)))
	}))
}

// openBolt opens the file with bbolt and translates its errors.
func openBolt(path string, opts Options) (db *DB, err error) {
	db = &DB{path: path, opts: opts}
	// bbolt checks only the two meta pages. It panics over torn pages behind them, and faults on pages missing from a
	// truncated file. Neither is a reason to end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // set until return
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(fmt.Errorf("%w: %v", ErrUnusable, p), abandon(db.file))
		}
	}()
	db.bolt, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:  max(opts.Timeout, 1), // 0 would wait forever
		ReadOnly: opts.ReadOnly,
		// The array is 5 % faster for a short list, but slow once months of use have fragmented it; the map is not (bbolt's
		// own advice). The list is stored (no NoFreelistSync): otherwise bbolt would read all pages in its own goroutine,
		// where a damaged page ends the process.
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag|syscall.O_NOFOLLOW, perm)
			db.file = f
			return f, err
		},
	})
	_, ofSystem := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrHeld
	case ofSystem:
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
}

// abandon gives up a file after a panic of bbolt. It unlocks, because bbolt's remaining mapping would keep the lock.
func abandon(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// release closes the file after its transactions. bbolt does not unlock a file opened for reading: a process being
// started shares the open file for a moment, and would keep the lock that long.
func (db *DB) release() error {
	db.mu.Lock()
	before := db.readErr
	db.readErr = bolterrors.ErrDatabaseNotOpen
	db.mu.Unlock()
	switch {
	case errors.Is(before, bolterrors.ErrDatabaseNotOpen):
		return nil
	case before != nil: // bbolt's Close might block forever, so its mapping stays
		return abandon(db.file)
	case !db.opts.ReadOnly:
		return db.bolt.Close()
	}
	same, err := syscall.Dup(int(db.file.Fd()))
	if err != nil {
		return errors.Join(err, db.bolt.Close())
	}
	return errors.Join(db.bolt.Close(), syscall.Flock(same, syscall.LOCK_UN), syscall.Close(same))
}

// check refuses a file that was replaced meanwhile or truncated, or has another schema.
func (db *DB) check(tree Tree) error {
	if err := db.inPlace(); err != nil {
		return errReplaced
	}
	err := db.View(context.Background(), func(tx *bolt.Tx) error {
		if err := db.checkSize(tx); err != nil {
			return err
		}
		return tree.check(tx)
	})
	if _, damaged := errors.AsType[*CorruptError](err); damaged {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err == nil && !db.opts.ReadOnly {
		err = db.file.Chmod(0o600)
	}
	return err
}

// checkSize refuses a truncated file: bbolt maps it into memory, and reading behind its end would fault.
func (db *DB) checkSize(tx *bolt.Tx) error {
	info, err := db.file.Stat()
	if err == nil && info.Size() < tx.Size() {
		err = damaged(fmt.Errorf("it has %d bytes and should have %d", info.Size(), tx.Size()))
	}
	return err
}

func damaged(err error) error { return &CorruptError{Bucket: "the file", Key: "page", Err: err} }

func (t Tree) check(tx *bolt.Tx) error {
	meta := tx.Bucket([]byte(bucketMeta))
	if meta == nil || meta.Get([]byte(keySchema)) == nil {
		return fmt.Errorf("%w: it belongs to another program", ErrUnusable)
	}
	text := string(meta.Get([]byte(keySchema)))
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version < 1:
		return fmt.Errorf("%w: its schema version is %q", ErrUnusable, text)
	case version != t.Version:
		return &VersionError{Found: version, Known: t.Version}
	}
	for _, name := range t.Buckets {
		if tx.Bucket([]byte(name)) == nil {
			return fmt.Errorf("%w: bucket %s is missing", ErrUnusable, name)
		}
	}
	return nil
}

// Path returns the absolute path of the file.
func (db *DB) Path() string { return db.path }

// Clean removes secrets from JSON or a text.
func (db *DB) Clean(text []byte) []byte {
	if db.opts.Redact == nil || text == nil {
		return text
	}
	return db.opts.Redact(text)
}

// View runs fn on a snapshot. Keys and values are memory of the file: fn must decode or copy what it keeps.
func (db *DB) View(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := db.checkUsable(ctx, false); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer db.recoverPanic(&err)
	return db.bolt.View(fn)
}

// Update runs fn in a transaction, and returns when it is on disk. An error leaves the disk as it was. Cancelling ctx
// stops only an update that has not begun.
func (db *DB) Update(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := db.checkUsable(ctx, true); err != nil {
		return err
	}
	if err := db.rescueIfMoved(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer db.recoverPanic(&err)
	written := false
	err = db.bolt.Update(func(tx *bolt.Tx) error {
		if err := db.checkSize(tx); err != nil {
			return db.failWrites(err)
		}
		err := fn(tx)
		written = err == nil
		return err
	})
	if err == nil || !written {
		return err
	}
	// After a failed page write, as on a full disk, nothing refers to the new pages, and the next commit may succeed.
	// (bbolt writes with pwrite and maps the file for reading only, so a full disk is no memory fault.) After any other
	// error, above all a failed fdatasync, the disk's content is unknown: the kernel drops pages that it could not write,
	// and the next fdatasync would succeed without them. So this handle writes nothing more.
	err = Explain(err)
	path, ok := errors.AsType[*fs.PathError](err)
	if ok && path.Op == "write" || errors.Is(err, bolterrors.ErrDatabaseReadOnly) {
		return err
	}
	return db.failWrites(fmt.Errorf("%w: %w", errUnsure, err))
}

// recoverPanic, when deferred, turns a panic into an error: bbolt panics over a damaged page, or one missing from a
// truncated file. The handle is unusable afterwards.
func (db *DB) recoverPanic(err *error) {
	if p := recover(); p != nil {
		db.opts.Logger.Error("transaction panicked", "path", db.path, "panic", p, "stack", string(debug.Stack()))
		*err = damaged(fmt.Errorf("%v", p))
		db.mu.Lock()
		defer db.mu.Unlock()
		db.readErr = cmp.Or(db.readErr, *err)
	}
}

// failWrites makes err the result of all later writes, unless there is one already.
func (db *DB) failWrites(err error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.writeErr = cmp.Or(db.writeErr, err)
	return err
}

// checkUsable returns why the file cannot be read, or written, any more; nil if it can.
func (db *DB) checkUsable(ctx context.Context, writes bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case db.readErr != nil:
		return db.readErr
	case writes:
		return db.writeErr
	}
	return nil
}

// Close waits for transactions and closes the file. It may be called again. A file that was moved is written back.
func (db *DB) Close() error {
	var moved error
	if !db.opts.ReadOnly && db.checkUsable(context.Background(), true) == nil {
		if err := db.rescueIfMoved(); errors.Is(err, ErrMoved) { // otherwise all commits are on disk
			moved = err
		}
	}
	return errors.Join(moved, db.release())
}
