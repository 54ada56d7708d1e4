// Package project is the front door of manager: a Go API for everything that its commands do with the project in a
// directory. [Open] reads the configuration. OpenCode starts, and the state is opened, with the first use.
package project

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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/config"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

// Options tune a [Project]. The zero value is usable.
type Options struct {
	// Config is the configuration file to read. Defaults to the user's, overridden by the project's.
	Config string
	// Model is for sub-tasks that name none. Defaults to the configuration, then to OpenCode's own.
	Model boulder.Models
	// Effort is of models of sub-tasks that are named without one. Defaults to the configuration.
	Effort string
	// LedgerModel is for planning and judging. Defaults to the configuration, then to Model.
	LedgerModel boulder.Models
	// Agent is OpenCode's agent for sub-tasks that name none. Defaults to the configuration, then to OpenCode's own.
	Agent string
	// OpenCode is the path of the binary. Defaults to $MANAGER_OPENCODE, the configuration, $PATH.
	OpenCode string
	// Attach is the URL of an OpenCode server to use. Defaults to starting one when it is needed.
	Attach string
	// LockTimeout is how long to wait while another process holds the state. Defaults to a second.
	LockTimeout time.Duration
	// Isolation applies if nothing else sets it. Defaults to off, since isolated results need a [Project.Land].
	Isolation boulder.Isolation
	// Environ is the environment of started processes. Defaults to that of this process.
	Environ []string
	// Command is the command line that other processes are shown for this one. Defaults to the name of the program.
	Command string
	// Note and Warn are called with messages for the user, on any goroutine. Default to nothing.
	Note, Warn func(text string)
	// Logger gets diagnostics. Defaults to none.
	Logger *slog.Logger
	// Secrets redacts all that is stored or shown. Defaults to one that knows the usual forms of keys, and the values
	// of variables in Environ whose names sound secret.
	Secrets *Redactor
}

// Redactor recognizes secrets and removes them from texts. It may be told more of them at any time.
type Redactor = secret.Redactor

// NewRedactor returns one that knows the usual forms of keys, and the values of variables in an environment (NAME=value
// each) whose names sound secret.
func NewRedactor(environ []string) *Redactor { return secret.New(environ) }

// Project is a directory in which manager works. The methods that prepare it ([Project.Connect] and its parts,
// [Project.KeepLedger], [Project.Hold], [Project.Watch]) are called on one goroutine; afterwards all others may be called
// from any.
type Project struct {
	opts    Options
	dir     string
	cfg     *config.Config
	log     *slog.Logger
	secrets *secret.Redactor

	insideOnce   sync.Once  // see slotsInstead
	filesMu      sync.Mutex // serializes work on the user's files, see [Project.lockFiles]
	mu           sync.Mutex
	registration *orphan.Registration // of processes that must not outlive this one; nil before the first start

	// Set by Connect.
	host       *opencode.Host
	attached   *opencode.Client // with Options.Attach
	files      atomic.Pointer[files]
	base       string                         // HEAD; empty outside git
	ledgers    boulder.Models                 // of the ledgers; empty: OpenCode chooses it
	kept       string                         // who names ledgers, if the boulder to resume does
	completers map[string]providers.Completer // by model of ledgers
	direct     map[string]bool                // likewise: its provider is called directly, not through OpenCode
	runner     *executor.Executor
	diverter   *diverter

	tryService bool // attach may fall back to the background service of OpenCode 2
}

// files is the user's git as it was when it was last opened: what git ignores, or how it works, may change.
type files struct {
	work  *workspace.Workspace
	slots *workspace.Slots
}

func (p *Project) work() *workspace.Workspace { return p.files.Load().work }
func (p *Project) slots() *workspace.Slots    { return p.files.Load().slots }

// Open finds the project that dir belongs to and reads its configuration. It starts and writes nothing. The error is a
// [*UsageError] or [*yamlfile.Error]; if only the configuration is bad, Open also returns a project with the defaults.
func Open(dir string, o Options) (*Project, error) {
	root, err := Find(dir)
	if err != nil {
		return nil, err
	}
	p := prepare(root, o)
	c, err := config.Load(o.Config != "", p.configFiles()...)
	if _, told := errors.AsType[*yamlfile.Error](err); err != nil && !told {
		err = usagef("configuration: %v", err)
	}
	if err != nil {
		return p, err
	}
	p.cfg = c
	return p, p.learnSecrets()
}

func prepare(root string, o Options) *Project {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	o.Environ = command.WithoutRepository(o.Environ)
	if o.Secrets == nil {
		o.Secrets = secret.New(o.Environ)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Command = cmp.Or(o.Command, filepath.Base(os.Args[0]))
	return &Project{opts: o, dir: root, cfg: config.Default(), log: o.Logger, secrets: o.Secrets}
}

// Find returns the absolute directory of the project that dir belongs to, with symbolic links resolved as OpenCode and
// git do: the nearest directory with a state directory, from dir up to the root of the git repository, else that root if it
// has a shared configuration, else dir itself.
func Find(dir string) (string, error) {
	dir = cmp.Or(dir, ".")
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", usagef("cannot work in %s: there is no such directory", dir)
	case err != nil:
		return "", usagef("cannot work in %s: %s", dir, text.Error(err))
	}
	info, err := os.Stat(abs)
	if err != nil || !info.IsDir() {
		return "", usagef("cannot work in %s: it is not a directory", dir)
	}
	for at := abs; ; at = filepath.Dir(at) {
		if info, err := os.Lstat(filepath.Join(at, store.DirName)); err == nil && (at == abs || ours(at, info)) {
			return at, nil
		}
		git := exists(filepath.Join(at, ".git"))
		if git && exists(filepath.Join(at, sharedConfig)) {
			return at, nil
		}
		if git || at == filepath.Dir(at) {
			return abs, nil
		}
	}
}

// ours reports whether a state directory in a parent of the working directory may be used. Its configuration names
// commands to run, so another user must not be able to create it, as in /tmp.
func ours(parent string, state fs.FileInfo) bool {
	above, err := os.Stat(parent)
	return err == nil && above.Mode().Perm()&0o002 == 0 && state.IsDir() && statedir.Owned(state)
}

// Dir returns the absolute path of the project.
func (p *Project) Dir() string { return p.dir }

// PlanPath returns the default plan file.
func (p *Project) PlanPath() string { return filepath.Join(p.dir, store.DirName, "plan.yaml") }

// Config returns the effective configuration.
func (p *Project) Config() *config.Config { return p.cfg }

// Logger returns the logger of the options.
func (p *Project) Logger() *slog.Logger { return p.log }

func (p *Project) stateDir() string { return filepath.Join(p.dir, store.DirName) }

func (p *Project) getenv(name string) string { return Getenv(p.opts.Environ, name) }

// Getenv returns a variable of an environment; of several with the same name, the last one.
func Getenv(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

func (p *Project) note(format string, args ...any) {
	if p.opts.Note != nil {
		p.opts.Note(text.Format(format, args...))
	}
}

func (p *Project) warn(format string, args ...any) {
	if p.opts.Warn != nil {
		p.opts.Warn(text.Format(format, args...))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Close stops what the project has started, OpenCode first, and waits up to 15 s for it.
func (p *Project) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	p.closeDiverter(ctx)
	if p.host != nil {
		p.host.Stop(ctx)
	}
	if p.attached != nil {
		p.attached.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.registration != nil {
		if err := p.registration.Release(); err != nil { // kills processes that still run
			p.warn("%v", err)
		}
		p.registration = nil
	}
}

// environ returns the environment of started processes, with a mark by which they are found if this process dies. There
// is no mark without a state directory (`doctor`, `plan -o`), where no agent runs tools.
func (p *Project) environ() ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.registration == nil {
		if !exists(p.stateDir()) {
			return p.AgentEnv(), nil
		}
		r, err := orphan.Register(p.stateDir())
		if err != nil {
			return nil, err
		}
		p.registration = r
	}
	return append(p.AgentEnv(), p.registration.Env()), nil
}

// AgentEnv returns the environment of OpenCode and commands: the variables of the options that the configuration lists,
// without a proxy for this machine.
func (p *Project) AgentEnv() []string {
	if p.cfg.Environment == nil {
		return command.Environ(p.opts.Environ)
	}
	return command.Environ(slices.DeleteFunc(slices.Clone(p.opts.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.ContainsFunc(p.cfg.Environment, func(pattern string) bool {
			listed, _ := path.Match(pattern, name) // patterns were checked with the configuration
			return listed
		})
	}))
}

// Kill kills OpenCode at once if this process started it, for a user in a hurry.
func (p *Project) Kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p.host != nil {
		p.host.Stop(ctx)
	}
}

// UsageError is a request, plan file or configuration that cannot be used. Its text says what is wrong and what to do.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// ConfigPaths lists the configuration files, later ones overriding earlier ones. They need not exist.
func (p *Project) ConfigPaths() (paths []string) {
	for _, f := range p.configFiles() {
		paths = append(paths, f.Path)
	}
	return paths
}

func (p *Project) configFiles() (files []config.File) {
	if p.opts.Config != "" {
		return []config.File{{Path: p.opts.Config}}
	}
	if home := ConfigHome(p.getenv); home != "" {
		files = append(files, config.File{Path: filepath.Join(home, "manager", "config.yaml")})
	}
	return append(files, config.File{Path: filepath.Join(p.dir, sharedConfig), Trusted: p.trusts},
		config.File{Path: filepath.Join(p.stateDir(), "config.yaml")})
}

// sharedConfig is the name of the configuration that comes with a repository. See trust.go.
const sharedConfig = "manager.yaml"

// ConfigHome returns the user's configuration directory, also that of OpenCode, or "" if the environment names none.
func ConfigHome(getenv func(string) string) string {
	home := getenv("XDG_CONFIG_HOME")
	if home == "" && getenv("HOME") != "" {
		home = filepath.Join(getenv("HOME"), ".config")
	}
	return home
}
