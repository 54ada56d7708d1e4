// Package blockers takes what only the user can answer: questions that agents report with the blocker tool, and
// permissions and questions that OpenCode asked for while the user was away.
//
// A [Register] rules on them by a [Policy], in the same way for all sessions. What it records for a sub-task of a run is
// an event of its boulder, see [Register.Bind]. For all other sessions it has a small database, which any process opens
// for a moment; the switches are in there too, and how much of which boulder blockers.md has.
package blockers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/store"
)

const (
	// FileName is the database in the state directory, of blockers outside of runs.
	FileName = "blockers.db"
	// DefaultFile is the list for people, below the project.
	DefaultFile = store.DirName + "/blockers.md"

	schemaVersion = 3
	// patience is how long an operation waits for others, which take milliseconds each.
	patience = 5 * time.Second
)

// The database, as buckets (name/) and keys. A number is 8 bytes, big endian; W7 has the number 7.
//
//	meta/
//	    schema                       version of this tree, decimal
//	records/
//	    <number>                     record (JSON)
//	switches/
//	    project, session/<session>   "on" or "off"
//	listed/
//	    <boulder>                    the event up to which blockers.md has its blockers and answers, decimal
var (
	bucketRecords  = []byte("records")
	bucketSwitches = []byte("switches")
	bucketListed   = []byte("listed")
)

// Config of a [Register]. Root is required.
type Config struct {
	Root string // the project's directory; the database is [FileName] in its .manager, created on demand
	// File is the list for people, relative to Root. Defaults to [DefaultFile].
	File string
	// Enabled turns diversion on where no switch is set, as [boulder.BlockerScope.Diverted] does for a boulder.
	Enabled bool
	// Max is how many blockers one session may have. Defaults to 50 (seed 003, maxBlockersPerRun); below 0: none.
	Max int
	// Cooldown is how long a repeat of a settled question is a duplicate. Defaults to 30 s (seed 003, FR-019); below 0: never.
	Cooldown time.Duration
	Policy   Policy
	// Marker is what a diverted agent writes when nothing is left to do. Defaults to [boulder.DoneMarker].
	Marker string
	// Soft is what agents may choose themselves. Defaults to a name, a format, a library for a detail.
	Soft []string
	// Redact removes secrets from every text before it is stored. Defaults to none.
	Redact func(string) string
	Now    func() time.Time // Defaults to time.Now.
	Logger *slog.Logger     // Defaults to none. Logs ids, never what a blocker says.
}

var (
	// ErrOff means that diversion is off. Nothing was recorded.
	ErrOff = errors.New("the blocker diverter is off; nothing was recorded")
	// ErrOver means that the turn of the sub-task is over. Nothing was recorded.
	ErrOver = errors.New("the turn is over; nothing was recorded")
	// ErrTooMany means that the session has [Config.Max] blockers. Nothing was recorded.
	ErrTooMany = errors.New("this session has as many blockers as it may have; nothing was recorded")
	// ErrNotFound means that no blocker has this id.
	ErrNotFound = errors.New("no such blocker")
	// ErrSettled means that the blocker was answered or skipped before.
	ErrSettled = errors.New("it is settled already")
	// ErrNoAnswer means that the settlement makes no sense.
	ErrNoAnswer = errors.New("that is no answer")
)

// Register records blockers. Safe for concurrent use. Methods wait up to five seconds for other processes at the database, then fail with
// [store.ErrHeld]. A damaged or foreign file is left alone ([store.ErrUnusable], [store.VersionError]).
type Register struct {
	cfg      Config
	path     string // of the database
	patience time.Duration
	inUse    chan struct{} // holds an element while the database is open
	// failpoint is called between steps, by name, for tests that end the process there.
	failpoint func(step string)

	mu    sync.Mutex
	turns map[boulder.BlockerScope]*turn // those at work, see turnOf
}

// turn is a turn of a sub-task. Its lock is held while something is recorded.
type turn struct {
	sync.Mutex
	book boulder.BlockerBook // nil once it is over
}

// Bind makes book take what an attempt records, until unbind is called: before a turn begins, and after it. unbind
// waits for what is being recorded; what comes later is refused with [ErrOver].
func (d *Register) Bind(scope boulder.BlockerScope, book boulder.BlockerBook) (unbind func()) {
	key, t := turnOf(scope), &turn{book: book}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns[key] = t
	return func() {
		t.Lock()
		t.book = nil
		t.Unlock()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.turns[key] == t {
			delete(d.turns, key)
		}
	}
}

// turnOf returns the key of an attempt's turn, which may have several sessions.
func turnOf(scope boulder.BlockerScope) boulder.BlockerScope {
	scope.SessionID, scope.Diverted = "", false
	return scope
}

// within calls fn with the book of a scope and what is in it: one call at a time for each turn and, outside of runs, for
// all processes. There, [access] says what happens if there is no database.
func (d *Register) within(
	ctx context.Context, how access, scope boulder.BlockerScope, fn func(boulder.BlockerBook, []boulder.Blocker) error,
) error {
	run := func(book boulder.BlockerBook) error {
		all, err := book.Blockers(ctx)
		if err != nil {
			return err
		}
		return fn(book, all)
	}
	if scope.BoulderID == "" {
		return d.with(ctx, how, func(tx *bolt.Tx) error { return run(outside{d.cfg.Logger, tx, scope.SessionID}) })
	}
	d.mu.Lock()
	t := d.turns[turnOf(scope)]
	d.mu.Unlock()
	if t == nil {
		return ErrOver
	}
	t.Lock()
	defer t.Unlock()
	if t.book == nil {
		return ErrOver
	}
	return run(t.book)
}

// Open validates cfg and returns a register. It neither reads nor creates files; the first record creates them.
func Open(cfg Config) (*Register, error) {
	cfg.File, cfg.Max, cfg.Cooldown = cmp.Or(cfg.File, DefaultFile), cmp.Or(cfg.Max, 50), cmp.Or(cfg.Cooldown, 30*time.Second)
	cfg.Marker = cmp.Or(cfg.Marker, boulder.DoneMarker)
	if len(cfg.Soft) == 0 {
		cfg.Soft = []string{"a name", "a format", "a library for a detail"}
	}
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Root == "" {
		return nil, errors.New("open blockers: the project's directory is needed")
	}
	if err := checkFile(cfg.File); err != nil {
		return nil, fmt.Errorf("open blockers: the list %q: %w", cfg.File, err)
	}
	if len(strings.TrimSpace(cfg.Marker)) < 5 || strings.ContainsFunc(cfg.Marker, unicode.IsControl) {
		return nil, fmt.Errorf("open blockers: marker: %q is too easily written by chance: use one line of at least 5 characters", cfg.Marker)
	}
	if err := cfg.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("open blockers: %w", err)
	}
	cfg.File = filepath.Clean(cfg.File)
	path := filepath.Join(cfg.Root, store.DirName, FileName)
	return &Register{
		cfg: cfg, path: path, patience: patience, inUse: make(chan struct{}, 1), failpoint: func(string) {}, turns: map[boulder.BlockerScope]*turn{},
	}, nil
}

// Diversion returns what agents are told while they are diverted.
func (d *Register) Diversion() boulder.Diversion {
	return boulder.Diversion{Tool: boulder.BlockerTool, Marker: d.cfg.Marker, Soft: d.cfg.Soft}
}

// checkFile refuses names that lead out of the project, or to other files of manager's or git's.
func checkFile(name string) error {
	slashed := filepath.ToSlash(name)
	switch {
	case path.Clean(slashed) == DefaultFile:
		return nil
	case !filepath.IsLocal(name):
		return errors.New("it has to be in the project: give a path relative to it, without \"..\"")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("it has control characters in it")
	case strings.HasSuffix(slashed, "/") || filepath.Clean(name) == ".":
		return errors.New("it is a directory and not a file")
	}
	for part := range strings.SplitSeq(slashed, "/") {
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, store.DirName) {
			return fmt.Errorf("%s is not for people to edit: choose another place", part)
		}
	}
	return nil
}

// now is in UTC and has no monotonic reading, so that it is equal after it was stored.
func (d *Register) now() time.Time { return d.cfg.Now().UTC().Round(0) }

type access int

const (
	reading  access = iota // does nothing if there is no database
	changing               // likewise
	making                 // creates the database
)

// with runs fn on the open database, and syncs its changes. Then it flushes, which may fail: that is only logged.
func (d *Register) with(ctx context.Context, how access, fn func(*bolt.Tx) error) error {
	var fnErr error // other errors are about the file
	lacking := false
	run := func(tx *bolt.Tx) error {
		if fnErr = fn(tx); fnErr == nil {
			all, _ := records(tx)
			_, items := unlisted(all)
			lacking = len(items) > 0
		}
		return fnErr
	}
	err := d.transact(ctx, how, run)
	if how != making && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !errors.Is(err, fnErr) && ctx.Err() == nil {
		return fmt.Errorf("blockers in %s: %w", d.path, err)
	}
	if err == nil && lacking {
		d.failpoint("committed")
		if err := d.Flush(ctx); err != nil {
			d.cfg.Logger.Warn("blockers: list not written", "file", d.cfg.File, "error", err)
		}
	}
	return err
}

// transact opens the database for one transaction. The goroutines of this process take turns in order of arrival: for the
// file lock, at which bbolt looks every 50 ms, many that wait would have to be lucky.
func (d *Register) transact(ctx context.Context, how access, run func(*bolt.Tx) error) error {
	select {
	case d.inUse <- struct{}{}:
		defer func() { <-d.inUse }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	db, err := d.open(ctx, how)
	if err != nil {
		return err
	}
	do := db.Update
	if how == reading {
		do = db.View
	}
	return errors.Join(do(ctx, run), db.Close())
}

func (d *Register) open(ctx context.Context, how access) (*boltfile.DB, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// A link would let the project's files choose where its state is.
	if info, err := os.Lstat(filepath.Dir(d.path)); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is not a directory", store.ErrUnusable, filepath.Dir(d.path))
	}
	if how == making {
		if _, err := store.EnsureDir(d.cfg.Root); err != nil {
			return nil, err
		}
	}
	if how == changing {
		if _, err := os.Lstat(d.path); err != nil {
			return nil, err
		}
	}
	wait := d.patience
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	db, err := boltfile.Open(d.path, boltfile.Tree{
		Version: schemaVersion, Buckets: []string{string(bucketRecords), string(bucketSwitches), string(bucketListed)},
	}, boltfile.Options{ReadOnly: how == reading, Timeout: max(wait, 1), Logger: d.cfg.Logger})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return db, err
}
