// Package boltfile opens the bbolt files of manager, all in the same way: they are regular files, for their owner only,
// that are complete and on disk before they have their name; what another version, another program or a damaged disk
// wrote is refused or named; a panic of bbolt over a damaged page is an error, and no end of the process.
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

// Tree is what a database of ours is: the version of its tree, and its top buckets besides meta, which holds the version.
type Tree struct {
	Version int
	Buckets []string
}

// Options of [Open]. The zero value is ready to use.
type Options struct {
	// Timeout is how long to wait while another process holds the file, in steps of 50 ms. Defaults to not waiting.
	// A command that is about to write should wait a second: one that only looks holds the file for some milliseconds.
	Timeout time.Duration
	// ReadOnly opens a file that exists, for reading. Any number of processes may do so at once while none writes.
	ReadOnly bool
	// Redact takes secrets out of a record, which is JSON, before it is stored; what it returns has to decode as the same
	// type. It is given texts as well. Keys of records are ids and not given to it. Defaults to storing records as they are.
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
	file *os.File // that bbolt has open
	path string
	opts Options

	mu    sync.Mutex
	ended error // why nothing can be written any more
	gone  error // why nothing can be read either: it is closed, or bbolt panicked, and may hold its own locks for ever
}

// Open opens a file, and makes it if it is not there; its directory must exist. Errors wrap [ErrHeld], [ErrUnusable], a
// [VersionError], or what the operating system says; [fs.ErrNotExist] also for a file to read with nothing in it yet.
func Open(path string, tree Tree, opts Options) (*DB, error) {
	path, err := filepath.Abs(path) // the working directory may change, and the file's place is looked at later
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

// prepare looks at the file before bbolt does. One that is to be written is made, or put right.
func prepare(path string, tree Tree, opts Options) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !opts.ReadOnly:
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		// A symbolic link would let the files of a project choose where its state is written.
		return fmt.Errorf("%w: it is not a regular file", ErrUnusable)
	case info.Size() == 0 && opts.ReadOnly: // bbolt would try to write the first pages
		return fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	case opts.ReadOnly:
		return nil
	case info.Size() > 0:
		return heal(path, tree, opts)
	default:
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return write(path, place, fillWith(opts, func(tx *bolt.Tx) error {
		for _, name := range append([]string{bucketMeta}, tree.Buckets...) {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte(strconv.Itoa(tree.Version)))
	}))
}

// openBolt opens the file with bbolt and gives its errors our names.
func openBolt(path string, opts Options) (db *DB, err error) {
	db = &DB{path: path, opts: opts}
	// bbolt checks the two meta pages only. Torn pages behind them make it panic, and pages that a cut file does not
	// have any more are a memory fault; both are properties of the file and no reason to end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // on from here, as it was at the end
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(fmt.Errorf("%w: %v", ErrUnusable, p), abandon(db.file))
		}
	}()
	db.bolt, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:  max(opts.Timeout, 1), // 0 would wait for ever
		ReadOnly: opts.ReadOnly,
		// The array is 5 % faster while the list is short, and slow when months of use have fragmented it; the map is
		// not (bbolt's own advice). The list is stored (no NoFreelistSync): to find it, bbolt would read all pages in a
		// goroutine of its own, where a damaged one ends the process.
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

// abandon gives up a file that bbolt panicked over. Closing it is not enough: the mapping that is left keeps the lock.
func abandon(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// release closes the file when its transactions have ended. Of a reader, bbolt does not unlock it: a process that is being
// started shares the open file for a moment, and would keep the lock as long.
func (db *DB) release() error {
	db.mu.Lock()
	before := db.gone
	db.gone = bolterrors.ErrDatabaseNotOpen
	db.mu.Unlock()
	switch {
	case errors.Is(before, bolterrors.ErrDatabaseNotOpen):
		return nil
	case before != nil: // bbolt's Close might wait for ever, so its mapping of the file is left
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

// check refuses a file that was replaced meanwhile, was cut, or is not of this schema.
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

// checkSize fails if the file was cut: bbolt maps it into memory, and reading behind its end would be a fault.
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

// Path of the file, absolute.
func (db *DB) Path() string { return db.path }

// Clean takes secrets out of JSON, or of a text.
func (db *DB) Clean(text []byte) []byte {
	if db.opts.Redact == nil || text == nil {
		return text
	}
	return db.opts.Redact(text)
}

// View runs fn on a snapshot. Keys and values that fn sees are memory of the file: they must not leave it undecoded.
func (db *DB) View(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := db.refusal(ctx, false); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer db.caught(&err)
	return db.bolt.View(fn)
}

// Update runs fn in a transaction of its own, and returns when it is on disk. After an error the disk is as it was.
// Cancelling ctx stops one that has not begun, and no other.
func (db *DB) Update(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := db.refusal(ctx, true); err != nil {
		return err
	}
	if err := db.checkPlace(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer db.caught(&err)
	written := false
	err = db.bolt.Update(func(tx *bolt.Tx) error {
		if err := db.checkSize(tx); err != nil {
			return db.end(err)
		}
		err := fn(tx)
		written = err == nil
		return err
	})
	if err == nil || !written {
		return err
	}
	// Where a page could not be written, as on a full disk, nothing refers to what was, and the next commit may go through:
	// bbolt writes with pwrite and maps the file for reading only, so that a full disk is an error of a call and no memory
	// fault. Anything else, above all a failed fdatasync, leaves open what is on disk: the kernel forgets pages that it
	// could not write, and the next fdatasync would report success without them. Nothing more is written by this handle.
	err = Explain(err)
	path, ok := errors.AsType[*fs.PathError](err)
	if ok && path.Op == "write" || errors.Is(err, bolterrors.ErrDatabaseReadOnly) {
		return err
	}
	return db.end(fmt.Errorf("%w: %w", errUnsure, err))
}

// caught, deferred, makes an error of a panic over a damaged page, which bbolt has no other way to report, or over one that
// is not there because the file was cut. The handle is of no more use then.
func (db *DB) caught(err *error) {
	if p := recover(); p != nil {
		db.opts.Logger.Error("transaction panicked", "path", db.path, "panic", p, "stack", string(debug.Stack()))
		*err = damaged(fmt.Errorf("%v", p))
		db.mu.Lock()
		defer db.mu.Unlock()
		db.gone = cmp.Or(db.gone, *err)
	}
}

// end makes err the answer to every later write. The first one stays.
func (db *DB) end(err error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.ended = cmp.Or(db.ended, err)
	return err
}

// refusal is why nothing can be written any more, or be read; nil while it can.
func (db *DB) refusal(ctx context.Context, writes bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case db.gone != nil:
		return db.gone
	case writes:
		return db.ended
	}
	return nil
}

// Close waits for transactions and gives the file up. It may be called again. A file that lost its place is written back.
func (db *DB) Close() error {
	var moved error
	if !db.opts.ReadOnly && db.refusal(context.Background(), true) == nil {
		if err := db.checkPlace(); errors.Is(err, ErrMoved) { // in every other case, what is committed is on disk
			moved = err
		}
	}
	return errors.Join(moved, db.release())
}
