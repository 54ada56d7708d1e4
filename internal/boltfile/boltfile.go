// Package boltfile opens the bbolt files of manager, all in the same way: they are regular files, for their owner only,
// that are complete and on disk before they have their name; what another version, another program or a damaged disk
// wrote is refused or named; a panic of bbolt over a damaged page is an error, and no end of the process.
package boltfile

import (
	"context"
	"crypto/rand"
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

// Options of [Open].
type Options struct {
	// Version of the tree, and the Buckets that are its top, besides meta, which holds the version.
	Version int
	Buckets []string
	// Timeout is how long to wait while another process holds the file, in steps of 50 ms. Defaults to not waiting.
	Timeout time.Duration
	// ReadOnly opens a file that exists, for reading. Any number of processes may do so at once while none writes.
	ReadOnly bool
	// Logger defaults to none.
	Logger *slog.Logger
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

	mu     sync.Mutex
	ended  error // why nothing can be written any more
	stuck  bool  // bbolt may hold its own locks for ever
	closed bool
}

// Open opens a file, and makes it if it is not there; its directory must exist.
//
// Errors wrap [ErrHeld], [ErrUnusable], a [VersionError], or what the operating system says. With ReadOnly, a file that
// is not there, or has nothing in it yet, is [fs.ErrNotExist].
func Open(path string, opts Options) (*DB, error) {
	path, err := filepath.Abs(path) // the working directory may change, and the file's place is looked at later
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	fresh, err := inspect(path, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	if fresh {
		err = Explain(create(path, opts))
	} else if !opts.ReadOnly {
		err = heal(path, opts)
	}
	if err != nil {
		return nil, err
	}
	db, err := open(path, opts)
	if err != nil {
		return nil, err
	}
	if !opts.ReadOnly {
		err = os.Chmod(path, 0o600)
	}
	return db, errors.Join(err, closeAfter(err, db))
}

func closeAfter(err error, db *DB) error {
	if err == nil {
		return nil
	}
	return db.Close()
}

// inspect looks at the file before bbolt does. fresh means that it is to be made.
func inspect(path string, readOnly bool) (fresh bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !readOnly:
		return true, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		// A symbolic link would let the files of a project choose where its state is written.
		return false, fmt.Errorf("%w: it is not a regular file", ErrUnusable)
	case info.Size() == 0 && readOnly: // bbolt would try to write the first pages
		return false, fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	}
	return info.Size() == 0, nil
}

// create makes a file: under another name first, so that a full disk, a crash or a power cut leaves nothing that would be
// taken for a damaged one.
func create(path string, opts Options) (err error) {
	temp := beside(path, "new")
	defer func() {
		if left := os.Remove(temp); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
	}()
	db, err := openBolt(temp, opts)
	if err != nil {
		return err
	}
	err = db.bolt.Update(func(tx *bolt.Tx) error {
		for _, name := range append([]string{bucketMeta}, opts.Buckets...) {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte(strconv.Itoa(opts.Version)))
	})
	if err := errors.Join(err, db.bolt.Close(), os.Chmod(temp, 0o600)); err != nil { // the umask may have taken rights
		return err
	}
	return place(temp, path)
}

// place gives a file that is complete its name, unless another process was faster.
func place(temp, path string) error {
	if info, err := os.Lstat(path); err == nil && info.Size() == 0 {
		return errors.Join(os.Rename(temp, path), SyncDir(path))
	}
	err := os.Link(temp, path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EPERM): // the file system has no links
		err = os.Rename(temp, path)
	}
	return errors.Join(err, SyncDir(path))
}

// beside is the name of another file in the directory of path: no other has it, and it is hidden.
func beside(path, what string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text()+"."+what)
}

// SyncDir makes the name of a file durable: syncing the file alone keeps its content only.
func SyncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func open(path string, opts Options) (*DB, error) {
	for {
		db, err := openBolt(path, opts)
		if err != nil {
			return nil, Explain(err)
		}
		if err = db.inPlace(); err == nil {
			if err = db.prepare(); err == nil {
				return db, nil
			}
		}
		if err = errors.Join(err, db.Close()); !errors.Is(err, errReplaced) {
			return nil, err
		}
	}
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
		// not (bbolt's own advice).
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag|syscall.O_NOFOLLOW, perm)
			db.file = f
			return f, err
		},
	})
	_, path1 := errors.AsType[*fs.PathError](err)
	_, errno := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrHeld
	case path1, errno:
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
}

// abandon gives up a file that bbolt panicked over. Closing it is not enough: the mapping that bbolt left behind keeps the
// lock.
func abandon(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// checkSize fails if the file was cut: bbolt maps it into memory, and reading behind its end would be a fault.
func (db *DB) checkSize(tx *bolt.Tx) error {
	info, err := db.file.Stat()
	if err == nil && info.Size() < tx.Size() {
		err = fmt.Errorf("it has %d bytes and should have %d", info.Size(), tx.Size())
		err = &CorruptError{Bucket: "the file", Key: "page", Err: err}
	}
	return err
}

// prepare refuses a file that was cut, or is not of this schema.
func (db *DB) prepare() error {
	err := db.View(context.Background(), func(tx *bolt.Tx) error {
		if err := db.checkSize(tx); err != nil {
			return err
		}
		return db.checkSchema(tx)
	})
	if _, damaged := errors.AsType[*CorruptError](err); damaged {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return err
}

func (db *DB) checkSchema(tx *bolt.Tx) error {
	meta := tx.Bucket([]byte(bucketMeta))
	if meta == nil || meta.Get([]byte(keySchema)) == nil {
		return fmt.Errorf("%w: it belongs to another program", ErrUnusable)
	}
	text := string(meta.Get([]byte(keySchema)))
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version < 1:
		return fmt.Errorf("%w: its schema version is %q", ErrUnusable, text)
	case version != db.opts.Version:
		return &VersionError{Found: version, Known: db.opts.Version}
	}
	for _, name := range db.opts.Buckets {
		if tx.Bucket([]byte(name)) == nil {
			return fmt.Errorf("%w: bucket %s is missing", ErrUnusable, name)
		}
	}
	return nil
}

// Path of the file, absolute.
func (db *DB) Path() string { return db.path }

// View runs fn on a snapshot. Keys and values that fn sees are memory of the file: they must not leave it undecoded.
func (db *DB) View(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if db.isStuck() {
		return db.whyEnded()
	}
	begun := false
	defer db.guard(&err, func() bool { return begun })()
	return db.bolt.View(func(tx *bolt.Tx) error {
		begun = true
		return fn(tx)
	})
}

// Update runs fn in a transaction of its own, and returns when it is on disk. After an error the disk is as it was.
// Cancelling ctx stops one that has not begun, and no other.
func (db *DB) Update(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := db.whyEnded(); err != nil {
		return err
	}
	if err := db.checkPlace(); err != nil {
		return err
	}
	defer db.guard(&err, func() bool { return false })() // rolling back reads pages as well, and may have panicked itself
	written := false
	err = db.bolt.Update(func(tx *bolt.Tx) error {
		if err := db.checkSize(tx); err != nil {
			return db.end(err, false)
		}
		err := fn(tx)
		written = err == nil
		return err
	})
	if err != nil && written {
		return db.notCommitted(err)
	}
	return err
}

// notCommitted is what Update returns when bbolt could not commit.
//
// Where a page could not be written, as on a full disk, nothing refers to what was, and the next commit may go through:
// bbolt writes with pwrite and maps the file for reading only, so that a full disk is an error of a call and no memory
// fault. Anything else, above all a failed fdatasync, leaves open what is on disk: the kernel forgets pages that it could
// not write, and the next fdatasync would report success without them. Nothing more is written by this handle then.
func (db *DB) notCommitted(err error) error {
	err = Explain(err)
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op == "write" || errors.Is(err, bolterrors.ErrDatabaseReadOnly) {
		return err
	}
	return db.end(fmt.Errorf("%w: %w", errUnsure, err), false)
}

// guard turns a panic over a damaged page, which bbolt has no other way to report, into an error; and a fault over a page
// that is not there, because somebody has cut the file, into such a panic. It is deferred as a call of what it returns.
// unwound says whether bbolt has certainly rolled the transaction back, and given its locks free.
func (db *DB) guard(err *error, unwound func() bool) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		p := recover()
		if p == nil {
			return
		}
		db.opts.Logger.Error("transaction panicked", "path", db.path, "panic", p, "stack", string(debug.Stack()))
		*err = &CorruptError{Bucket: "the file", Key: "page", Err: fmt.Errorf("%v", p)}
		if !unwound() {
			*err = db.end(*err, true)
		}
	}
}

// end makes err the answer to every later write. The first one stays.
func (db *DB) end(err error, stuck bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.ended == nil {
		db.ended = err
	}
	db.stuck = db.stuck || stuck
	return err
}

// whyEnded is nil while the database can be written.
func (db *DB) whyEnded() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return bolterrors.ErrDatabaseNotOpen
	}
	return db.ended
}

func (db *DB) isStuck() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.stuck
}

// Close waits for transactions to end and gives the file up. It may be called again. A file that has lost its place is
// written back, and the error says so.
func (db *DB) Close() error {
	db.mu.Lock()
	done, ended, stuck := db.closed, db.ended, db.stuck
	db.closed = true
	db.mu.Unlock()
	switch {
	case done:
		return nil
	case stuck: // bbolt's Close might wait for ever, so its mapping of the file is left
		return abandon(db.file)
	case ended != nil, db.opts.ReadOnly:
		return db.bolt.Close()
	}
	err := db.checkPlace()
	if !errors.Is(err, ErrMoved) {
		err = nil // what is committed is on disk
	}
	return errors.Join(err, db.bolt.Close())
}

var errReplaced = errors.New("the file was replaced while it was being opened")

// inPlace fails if the path does not lead to the open file.
func (db *DB) inPlace() error {
	opened, err := db.file.Stat()
	if err != nil {
		return err
	}
	info, err := os.Lstat(db.path)
	if err == nil && !os.SameFile(info, opened) {
		return errReplaced
	}
	return err
}

// checkPlace fails if the file has lost its place, and saves what is in it.
func (db *DB) checkPlace() error {
	err := db.inPlace()
	if !errors.Is(err, errReplaced) && !errors.Is(err, fs.ErrNotExist) {
		return Explain(err)
	}
	return db.end(db.rescue(errors.Is(err, errReplaced)), false)
}

// rescue writes a copy of the open file, which has lost its name, to the old place, or beside it if something else is there.
func (db *DB) rescue(taken bool) error {
	path := db.path
	if taken {
		path += ".rescued-" + stamp()
	}
	dir := filepath.Dir(path)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	} else if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
	}
	if err == nil {
		err = db.View(context.Background(), func(tx *bolt.Tx) error { return copyTo(tx, path) })
	}
	if err != nil {
		return fmt.Errorf("%w, and could not be written back: %w", ErrMoved, Explain(err))
	}
	db.opts.Logger.Warn("database written back", "path", path)
	return fmt.Errorf("%w; everything that was stored until then is in %s now: go on with `manager resume`", ErrMoved, path)
}

// copyTo writes the whole database to a file that is not there yet. It appears under its name when it is on disk.
func copyTo(tx *bolt.Tx, path string) (err error) {
	temp := beside(path, "copy")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if left := os.Remove(temp); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
	}()
	_, err = tx.WriteTo(f)
	if err := errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	return place(temp, path)
}

// stamp makes the name of a file unique: a copy never replaces another one.
func stamp() string { return time.Now().UTC().Format("20060102T150405.000000000Z") }
