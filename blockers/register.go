// Package blockers keeps what only the user can answer: questions that agents report with the blocker tool, and
// permissions and questions that OpenCode asked for while the user was away.
//
// A [Register] writes each down twice: in a database of its own, which is the truth, and in blockers.md, which is the
// user's to edit. It rules on asks by a [Policy], takes the user's answers, and knows which of them have not reached
// their sub-task. Any number of processes may have a register on the same files: each operation opens the database,
// waits for whoever has it, and gives it up again.
package blockers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/store"
)

const (
	// FileName is the database in the state directory.
	FileName = "blockers.db"
	// DefaultFile is the list for people, in the project.
	DefaultFile = "blockers.md"

	schemaVersion = 2
	// patience is how long an operation waits for others. One of them takes some milliseconds.
	patience = 5 * time.Second
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
)

// Config of a [Register]. Root is needed.
type Config struct {
	Root string // the project's directory; the database is [FileName] in its .manager, which is made when it is needed
	// File is the list for people, relative to Root. Defaults to [DefaultFile].
	File string
	// Enabled says whether asks are diverted and the tool records where no switch says otherwise. Boulders that were
	// started with it do so without ([boulder.BlockerScope.Diverted]).
	Enabled bool
	// Max is how many blockers one session may have. Defaults to 50 (seed 003, maxBlockersPerRun); below 0: none.
	Max int
	// Cooldown is how long the same question of a session is the same blocker. Defaults to 30 s (seed 003, FR-019); below
	// 0: not at all.
	Cooldown time.Duration
	Policy   Policy
	// Marker is what a diverted agent writes when nothing is left to be done. Defaults to [boulder.DoneMarker].
	Marker string
	// Soft is what agents may choose themselves. Defaults to a name, a format, a library for a detail.
	Soft []string
	// Redact takes secrets out of every text before it is stored. Defaults to leaving texts alone.
	Redact func(string) string
	Now    func() time.Time // Defaults to time.Now.
	Logger *slog.Logger     // Defaults to none. It is told ids and never what a blocker says.
}

var (
	// ErrOff is returned for what comes up where diversion is switched off. Nothing was recorded.
	ErrOff = errors.New("the blocker diverter is off; nothing was recorded")
	// ErrTooMany is returned for a blocker of a session that has [Config.Max] of them. Nothing was recorded.
	ErrTooMany = errors.New("this session has as many blockers as it may have; nothing was recorded")
	// ErrNotFound is returned for an id that is not there.
	ErrNotFound = errors.New("no such blocker")
	// ErrSettled is returned for an answer to what has one, or was skipped.
	ErrSettled = errors.New("it is settled already")
	// ErrNoAnswer is returned for a settlement that makes no sense.
	ErrNoAnswer = errors.New("that is no answer")
)

// Register is where blockers are recorded and answered. Its methods may be called from any goroutine. They wait up to five
// seconds for others who use the database, and then fail with [store.ErrHeld]; of a file that is damaged, foreign or
// from a newer manager they say so ([store.ErrUnusable], [store.VersionError]) and leave it alone.
type Register struct {
	cfg      Config
	path     string // of the database
	patience time.Duration
	// failpoint is called between steps, by name. For tests, which end the process there.
	failpoint func(step string)
}

// Open makes a register. It reads and makes no files: that is left to the operations, and nothing is made before something is
// recorded. The error says what is wrong with the configuration.
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
	return &Register{cfg: cfg, path: path, patience: patience, failpoint: func(string) {}}, nil
}

// Diversion is what agents are told while they are diverted.
func (d *Register) Diversion() boulder.Diversion {
	return boulder.Diversion{Tool: boulder.BlockerTool, Marker: d.cfg.Marker, Soft: d.cfg.Soft}
}

// checkFile refuses a name that could lead out of the project, or to manager's or git's own files.
func checkFile(name string) error {
	slashed := filepath.ToSlash(name)
	switch {
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

// now is in UTC and without a monotonic part, so that it is the same after it was stored.
func (d *Register) now() time.Time { return d.cfg.Now().UTC().Round(0) }

type access int

const (
	reading  access = iota // where nothing is stored, there is nothing to do
	changing               // likewise
	making                 // the database is made if it is not there
)

// with opens the database for the time of fn. What fn changes is on disk when with returns. Then what blockers.md lacks is
// written; that this could not be done is no error: it is tried again with the next operation.
func (d *Register) with(ctx context.Context, how access, fn func(*bolt.Tx) error) error {
	var said error // by fn; everything else is about the file
	lacking := false
	run := func(tx *bolt.Tx) error {
		if said = fn(tx); said == nil {
			all, _ := records(tx)
			_, items := unlisted(all)
			lacking = len(items) > 0
		}
		return said
	}
	db, err := d.open(ctx, how)
	if how != making && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		do := db.Update
		if how == reading {
			do = db.View
		}
		err = errors.Join(do(ctx, run), db.Close())
	}
	if err != nil && !errors.Is(err, said) && ctx.Err() == nil {
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

func (d *Register) open(ctx context.Context, how access) (*boltfile.DB, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// A link would let the files of a project choose where its state is.
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
		Version: schemaVersion, Buckets: []string{string(bucketRecords), string(bucketSwitches)},
	}, boltfile.Options{ReadOnly: how == reading, Timeout: max(wait, 1), Logger: d.cfg.Logger})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return db, err
}
