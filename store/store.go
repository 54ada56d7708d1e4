// Package store keeps boulders in one bbolt file: every commit is one transaction that is on disk when it returns,
// every read is one consistent snapshot.
//
// The bucket tree is drawn in schema.go. Only one process can hold the file for writing; package control lets
// others look at it meanwhile.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Options of [Open]. The zero value is ready to use.
type Options struct {
	// Timeout is how long to wait while another process holds the file, in steps of 50 ms. Defaults to not waiting.
	// A command that is about to write should wait a second: one that only looks holds the file for some milliseconds.
	Timeout time.Duration
	// ReadOnly opens a file that exists, for reading. Any number of processes may do so at once while none writes.
	ReadOnly bool
	// Redact takes secrets out of a record, which is JSON, before it is stored; what it returns has to decode as the same
	// type. Keys of records are ids and not given to it. Defaults to storing records as they are.
	Redact func(record []byte) []byte
	// Logger defaults to none.
	Logger *slog.Logger
}

// DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	bolt   *bolt.DB
	path   string
	file   *os.File // that bbolt has open
	place  fs.FileInfo
	least  int64 // size in bytes that the file has at least; guarded by writing
	log    *slog.Logger
	redact func([]byte) []byte

	writing  sync.Mutex // held by whoever changes what is stored
	journal  journal    // guarded by writing
	unfolded atomic.Pointer[unfolded]

	mu    sync.Mutex
	ended error // why nothing can be written any more; guarded by mu

	stuck bool // bbolt may hold its own locks for ever; guarded by mu

	closed atomic.Bool
}

// Open opens the database, and makes it if it is not there. The file is for its owner only, whatever the umask.
//
// Errors wrap [ErrHeld], [ErrUnusable], a [VersionError], or what the operating system says. With ReadOnly, a file
// that is not there, or has nothing in it yet, is [fs.ErrNotExist].
func Open(path string, opts Options) (*DB, error) {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db, err := open(path, opts, log)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return db, nil
}

func open(path string, opts Options, log *slog.Logger) (*DB, error) {
	path, err := filepath.Abs(path) // the working directory may change, and the file's place is looked at later
	if err != nil {
		return nil, err
	}
	fresh, err := inspect(path, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	b, file, err := openBolt(path, opts)
	if err != nil {
		return nil, errors.Join(explain(err), discard(path, fresh, err))
	}
	place, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	db := &DB{bolt: b, path: path, file: file, place: place, log: log, redact: opts.Redact}
	db.unfolded.Store(&unfolded{})
	if err := db.prepare(fresh); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	log.Debug("store opened", "path", path, "read_only", opts.ReadOnly, "took", time.Since(began))
	return db, nil
}

// inspect looks at the file before bbolt does. fresh means that it is not there, or empty.
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
	case info.Size() == 0 && readOnly:
		// Its maker has not come further, or crashed; bbolt would try to write the first pages.
		return false, fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	}
	return info.Size() == 0, nil
}

// discard removes what a failed write left of a new file: without its first pages it would be taken for a damaged one.
func discard(path string, fresh bool, err error) error {
	if wrote, ok := errors.AsType[*fs.PathError](err); !fresh || !ok || wrote.Op != "write" {
		return nil
	}
	return os.Remove(path)
}

// openBolt opens the file with bbolt and gives its errors our names.
func openBolt(path string, opts Options) (b *bolt.DB, file *os.File, err error) {
	// bbolt checks the two meta pages only. Torn pages behind them make it panic, and pages that a cut file does not
	// have any more are a memory fault; both are properties of the file and no reason to end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // on from here, as it was at the end
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(fmt.Errorf("%w: %v", ErrUnusable, p), unlock(file), file.Close())
		}
	}()
	b, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:  max(opts.Timeout, 1), // 0 would wait for ever
		ReadOnly: opts.ReadOnly,
		// Writing the free list with every commit costs up to a tenth of its CPU time, which is hidden behind the disk;
		// leaving it out makes every Open scan the file: 3.7 ms instead of 0.16 ms at 37 MB (measured in memory, plan
		// of 5,000). `manager status` opens far more often than it would gain.
		NoFreelistSync: false,
		// The array is 5 % faster while the list is short, and slow when months of use have fragmented it; the map is
		// not (bbolt's own advice).
		FreelistType:    bolt.FreelistMapType,
		NoStatistics:    true,
		InitialMmapSize: mappedAhead(opts.ReadOnly),
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, perm)
			file = f
			return f, err
		},
	})
	var pathErr *fs.PathError
	var errno syscall.Errno
	switch {
	case err == nil:
		b.AllocSize = growth
		return b, file, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, nil, ErrHeld
	case errors.As(err, &pathErr), errors.As(err, &errno):
		return nil, nil, err
	}
	return nil, nil, fmt.Errorf("%w: %w", ErrUnusable, err)
}

// growth is by how much the file grows at once, in bytes. bbolt syncs it whenever it does. By default it grows to the
// size of the mapping until that is 16 MiB, and in steps of 16 MiB from then on.
const growth = 1 << 20

// mappedAhead is how much of the file is mapped at least, in bytes; what is not there yet costs addresses only. bbolt
// otherwise doubles the mapping from 32 KiB on, and copies everything that the transaction has read before it does: 7 % of
// the processor time of a run of 1,000 sub-tasks (measured).
func mappedAhead(readOnly bool) int {
	if readOnly {
		return 0
	}
	return 64 << 20
}

// prepare makes the schema of a new file, and checks that of an old one or brings it up to date. A file that is opened for
// reading stays at an old schema, which the reads know: to look must neither wait nor write.
func (db *DB) prepare(fresh bool) error {
	var version int
	ctx := context.Background()
	err := db.view(ctx, func(s *snapshot) (err error) {
		if err := db.checkSize(s.Tx); err != nil {
			return err
		}
		version, err = checkSchema(s.Tx)
		return err
	})
	if err == nil && version > 0 {
		err = db.loadJournal(ctx)
	}
	if _, damaged := errors.AsType[*CorruptError](err); damaged || errors.Is(err, errNoJournal) {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	switch {
	case err != nil:
		return err
	case db.bolt.IsReadOnly() && version == 0:
		return fmt.Errorf("nothing is stored yet: %w", fs.ErrNotExist)
	case db.bolt.IsReadOnly():
		return nil
	}
	if err := ensurePrivate(db.path); err != nil {
		return err
	}
	switch {
	case version == 0:
		if err := db.update(ctx, initSchema); err != nil {
			return fmt.Errorf("make schema: %w", err)
		}
		if err := db.loadJournal(ctx); err != nil {
			return err
		}
	case version < schemaVersion:
		if err := db.migrate(version); err != nil {
			return err
		}
	}
	if fresh {
		return syncDir(filepath.Dir(db.path))
	}
	return nil
}

// checkSize refuses a file that was cut: bbolt maps it into memory, and reading behind its end would be a fault.
func (db *DB) checkSize(tx *bolt.Tx) error {
	info, err := os.Stat(db.path)
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("%w: it has %d bytes and should have %d", ErrUnusable, info.Size(), tx.Size())
	}
	return nil
}

func ensurePrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() == 0o600 {
		return err
	}
	return os.Chmod(path, 0o600)
}

// syncDir makes a new file's name durable: syncing the file alone keeps its content only.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close waits for transactions to end and gives the file up. It may be called again.
//
// A file that has lost its place is written back as for [DB.Commit], and the error says so.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := errors.Join(db.finish(), db.closeFile()); err != nil {
		return fmt.Errorf("close store %s: %w", db.path, err)
	}
	return nil
}

// finish leaves the journal empty, so that nobody who opens the file has to look into it.
func (db *DB) finish() (err error) {
	ended := db.whyEnded() != nil
	switch {
	case ended, db.bolt.IsReadOnly():
	case !db.journal.open:
		err = db.checkPlace()
	default:
		err = db.fold(context.Background(), nil, false)
	}
	if err != nil && !errors.Is(err, ErrMoved) {
		db.log.Warn("store: journal not folded", "path", db.path, "error", err)
		err = nil // the journal is on disk, and is read together with the tree
	}
	return err
}

// closeFile gives the file up. Where bbolt panicked its Close might wait for ever, so its mapping of the file is left.
func (db *DB) closeFile() error {
	if db.isStuck() {
		return errors.Join(unlock(db.file), db.file.Close())
	}
	return db.bolt.Close()
}

func (db *DB) isStuck() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.stuck
}

// view runs fn on a snapshot. Keys and values that fn sees are memory of the file: they must not leave it undecoded.
func (db *DB) view(ctx context.Context, fn func(*snapshot) error) (err error) {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if db.isStuck() {
		return db.whyEnded()
	}
	begun := false
	defer db.guard(&err, func() bool { return begun })()
	u := db.unfolded.Load() // before the transaction: what is folded in between is passed over, and nothing is missed
	return db.bolt.View(func(tx *bolt.Tx) error {
		begun = true
		return fn(snapshotOf(tx, u))
	})
}

// ready fails if nothing can be written.
func (db *DB) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := db.whyEnded(); err != nil {
		return err
	}
	return db.checkPlace()
}

// update runs fn in a transaction of its own, never in a shared one: db.Batch waits for company, and gives a single
// writer 95 commits a second.
func (db *DB) update(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := db.ready(ctx); err != nil {
		return err
	}
	defer db.guard(&err, func() bool { return false })() // rolling back reads pages as well, and may have panicked itself
	written := false
	err = db.bolt.Update(func(tx *bolt.Tx) error {
		err := fn(tx)
		written = err == nil
		return err
	})
	if err != nil && written {
		return db.notCommitted(err)
	}
	return err
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
		db.log.Error("store: transaction panicked", "path", db.path, "panic", p, "stack", string(debug.Stack()))
		*err = &CorruptError{Bucket: "the file", Key: "page", Err: fmt.Errorf("%v", p)}
		if !unwound() {
			db.end(*err)
			db.mu.Lock()
			db.stuck = true
			db.mu.Unlock()
		}
	}
}
