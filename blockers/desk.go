// Package blockers keeps what only a person can answer: questions that agents report with the blocker tool, and
// permissions and questions that OpenCode asked for while nobody was there.
//
// A [Desk] writes each down twice: in a database of its own, which is the truth, and in blockers.md, which is for people
// and theirs to edit. It rules on asks by a [Policy], takes people's answers, and knows which of them have not reached
// their sub-task. Any number of processes may have a desk on the same files: each operation opens the database, waits for
// whoever has it, and gives it up again.
package blockers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

const (
	// FileName is the database in the state directory.
	FileName = "blockers.db"
	// DefaultFile is the list for people, in the project.
	DefaultFile = "blockers.md"
	// DefaultTool is how OpenCode names the tool of a server called "manager".
	DefaultTool = "manager_blocker"
)

// Config of a [Desk]. Path and Root are needed.
type Config struct {
	Path string // of the database; where it is in Root's .manager that is made when it is needed
	Root string // the project's directory
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
	// Tool is what the blocker tool is called for agents, in what they are told. Defaults to [DefaultTool].
	Tool string
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

// Desk is where blockers are taken down and answered. Its methods may be called from any goroutine. They wait up to five
// seconds for others who use the database, and then fail with [store.ErrHeld]; of a file that is damaged, foreign or
// from a newer manager they say so ([store.ErrUnusable], [store.VersionError]) and leave it alone.
type Desk struct {
	cfg  Config
	list list
	// turn lets the goroutines of this process queue here: bbolt looks every 50 ms whether a file is free, so that many who
	// wait there are served late and out of order.
	turn     chan struct{}
	patience time.Duration // how long to wait for other processes
	// failpoint is called between steps, by name. For tests, which end the process there.
	failpoint func(step string)
}

// Open makes a desk. It reads and makes no files: that is left to the operations, and nothing is made before something is
// recorded. The error says what is wrong with the configuration.
func Open(cfg Config) (*Desk, error) {
	cfg.File, cfg.Tool = cmp.Or(cfg.File, DefaultFile), cmp.Or(cfg.Tool, DefaultTool)
	cfg.Max, cfg.Cooldown = cmp.Or(cfg.Max, 50), cmp.Or(cfg.Cooldown, 30*time.Second)
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Path == "" || cfg.Root == "" {
		return nil, errors.New("open blockers: the database's path and the project's directory are needed")
	}
	if err := checkFile(cfg.File); err != nil {
		return nil, fmt.Errorf("open blockers: the list %q: %w", cfg.File, err)
	}
	if err := cfg.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("open blockers: %w", err)
	}
	d := &Desk{cfg: cfg, turn: make(chan struct{}, 1), patience: patience, failpoint: func(string) {}}
	d.list = list{root: cfg.Root, name: filepath.ToSlash(filepath.Clean(cfg.File)), failpoint: func(step string) { d.failpoint(step) }}
	return d, nil
}

// checkFile refuses a name that could lead out of the project, or to manager's or git's own files.
func checkFile(name string) error {
	switch {
	case filepath.IsAbs(name) || !filepath.IsLocal(name):
		return errors.New("it has to be in the project: give a path relative to it, without \"..\"")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("it has control characters in it")
	case strings.HasSuffix(filepath.ToSlash(name), "/") || filepath.Clean(name) == ".":
		return errors.New("it is a directory and not a file")
	}
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(name)), "/") {
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, ".manager") {
			return fmt.Errorf("%s is not for people to edit: choose another place", part)
		}
	}
	return nil
}

// now is in UTC and without a monotonic part, so that it is the same after it was stored.
func (d *Desk) now() time.Time { return d.cfg.Now().UTC().Round(0) }
