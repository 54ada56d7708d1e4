// Package cli is the command line: commands, flags, configuration, the wiring of all other packages, and the views for
// people and for programs. stdout is data, stderr is progress and diagnostics.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// Env is the world that a command line runs in.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	// Signals asks to stop: the first politely, the second at once.
	Signals <-chan os.Signal
	// Executable is the path of the program, to start it in the background.
	Executable string
	// Extend gives further commands, with a function that connects the project for them. Defaults to none.
	Extend func(connect func(context.Context) (*project.Project, error)) []*cobra.Command
}

// Name is what the program is called.
func (e Env) Name() string { return filepath.Base(cmp.Or(e.Executable, "manager")) }

// Getenv returns a variable of the environment; the last one of a name counts.
func (e Env) Getenv(name string) string {
	return project.Getenv(e.Environ, name)
}

// app is what all commands share: the environment and the flags that are everywhere.
type app struct {
	Env
	interrupts       interrupts
	secrets          *secret.Redactor // nil: known by their form only
	*project.Project                  // that the command works in
	openErr          error            // what is wrong with its configuration
	view             *view.Run        // of the run; nil before it begins
	typed            *bufio.Scanner   // what the user types; nil: nobody was asked yet
	nextLine         chan string      // not nil: a line is being read; closed: there is none

	json, quiet, noColor, verbose bool
	dir, configFile               string
	opts                          project.Options // those that are flags

	// Flags of several commands.
	yes, approveReplans, detach, blockers bool
	budget                                budgetFlag
	iterations                            int
	ref                                   string // the boulder that is meant
}

// Main runs one command line and returns its exit code.
func Main(env Env) int {
	a := &app{Env: env, secrets: secret.New(env.Environ)}
	var stdoutErr atomic.Pointer[error]
	a.Stdout, a.Stderr = guarded{env.Stdout, a.secrets, &stdoutErr}, guarded{env.Stderr, a.secrets, nil}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if env.Signals != nil {
		go func() { // until the process ends
			for s := range env.Signals {
				a.interrupts.take(s, func() { cancel(errInterrupted) })
			}
		}()
	}
	root := a.root()
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := func() error {
		defer func() { // whatever the end
			if a.Project != nil {
				a.Project.Close()
			}
		}()
		return root.ExecuteContext(ctx)
	}()
	if failed := stdoutErr.Load(); failed != nil {
		err = outputError(err, *failed)
	}
	if err != nil && !errors.Is(err, errSilent) {
		fmt.Fprintln(a.Stderr, text.Wrap("manager: "+project.Message(err), a.on(a.Stderr).Lines()))
	}
	return exitCode(err)
}

// Command is the tree of all commands, to read and to document, not to run.
func Command() *cobra.Command { return new(app).root() }

func (a *app) root() *cobra.Command {
	version := false
	cmd := &cobra.Command{
		Use:   a.Name(),
		Short: "Split a task into sub-tasks and get them done by OpenCode sessions",
		Long: `manager takes a task that is too big for one agent session, has a model split it into dependent
sub-tasks, shows that plan for editing, runs every sub-task as a fresh OpenCode session, judges each result on
evidence that it gathered itself, and keeps every step in a database, so that a crash costs nothing.

A boulder is one task and everything needed to finish it. BOULDER is its id, or a beginning or end of it that no
other has; SUBTASK is an id, or a number: 2 is the one shown as [2/3].`,
		Example: `  manager plan "TASK"     print the plan and write .manager/plan.yaml
  manager run             execute .manager/plan.yaml
  manager run "TASK"      plan, ask, execute
  manager status -f       follow the run from another terminal
  manager resume          continue after a crash or an interrupt`,
		SilenceUsage: true, SilenceErrors: true,
		Args:              noSuchCommand,
		PersistentPreRunE: a.prepare,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.runVersion()
			}
			return cmd.Help()
		},
	}
	cmd.Flags().BoolVar(&version, "version", false, "show the version")
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if args := c.Flags().Args(); len(args) > 0 && c.HasSubCommands() { // the flag may be one of the command meant
			return noSuchCommand(c, args)
		}
		return usagef("%v: see `%s --help`", err, c.CommandPath())
	})
	f := cmd.PersistentFlags()
	f.StringVarP(&a.dir, "directory", "C", "", "work in `DIR`; file arguments are relative to it")
	f.BoolVar(&a.json, "json", false, "print one JSON object per line on stdout")
	f.StringVar(&a.opts.Model, "model", "", "`PROVIDER/MODEL` for the sub-tasks")
	f.StringVar(&a.opts.LedgerModel, "ledger-model", "", "`PROVIDER/MODEL` for planning and judging")
	f.StringVar(&a.configFile, "config", "", "read the configuration from `FILE` only")
	f.StringVar(&a.opts.OpenCode, "opencode", "",
		"`PATH` of the OpenCode binary (else $MANAGER_OPENCODE, the configuration, $PATH)")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	f.BoolVar(&a.noColor, "no-color", false, "no colours (also with $NO_COLOR)")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "more detail on stderr")
	group := func(title string, commands ...*cobra.Command) {
		cmd.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
		}
		cmd.AddCommand(commands...)
	}
	group("Plan and run", a.newPlanCmd(), a.newRunCmd(), a.newLoopCmd(), a.newResumeCmd())
	group("Look", a.newStatusCmd(), a.newLogsCmd(), a.newShowCmd(), a.newDiffCmd(), a.newReportCmd(), a.newGraphCmd(), a.newListCmd())
	group("Steer", a.newPauseCmd(), a.newNoteCmd(), a.newRetryCmd(), a.newRedoCmd(), a.newKeepCmd(), a.newSkipCmd(), a.newCancelCmd())
	group("Unattended", a.newTopCmd(), a.newUICmd(), a.newBlockersCmd(), a.newServeCmd(), a.newAttachCmd(), a.newWaitCmd(), a.newWatchCmd())
	group("Manage", a.newDoctorCmd(), a.newDemoCmd(), a.newLandCmd(), a.newArchiveCmd(), a.newExportCmd(), a.newImportCmd(), a.newReplayCmd(),
		a.newMCPCmd(), a.newSchemaCmd(), a.newInitCmd(), a.newConfigCmd(), a.newValidateCmd(), a.newVersionCmd())
	if a.Extend != nil {
		group("Other machines", a.Extend(func(ctx context.Context) (*project.Project, error) { return a.Project, a.connect(ctx) })...)
	}
	a.takeAsUsed(cmd)
	cmd.SetHelpCommandGroupID("Manage")
	cmd.InitDefaultHelpCmd()
	help, _, _ := cmd.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		c, rest, _ := cmd.Find(args)
		return noSuchCommand(c, rest)
	}
	cmd.SetCompletionCommandGroupID("Manage")
	return cmd
}

// prepare comes before every command.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if strings.HasPrefix(cmd.Name(), "__") { // the shell asks for completions while the user types
		return nil
	}
	if err := cmd.ValidateFlagGroups(); err != nil { // cobra's own check is no usage error
		return usagef("%w", err)
	}
	if path := a.file(a.configFile); path != "" && !exists(path) {
		return usagef("--config: there is no file %s", path)
	}
	name := strings.Fields(cmd.CommandPath() + " .")[1] // below manager; the end for itself
	strict := slices.Contains([]string{"ui", "blockers", "watch", "land", "mcp", "config", "init"}, name)
	if err := a.open(); a.Project == nil || err != nil && strict {
		return err
	}
	a.sweep()
	return nil
}

// sweep ends what a manager left behind in this project that was killed, before the command itself begins. It is no
// reason to refuse the command if that fails.
func (a *app) sweep() {
	swept, err := orphan.Sweep(filepath.Join(a.Dir(), store.DirName))
	if err != nil {
		fmt.Fprintf(a.Stderr, "manager: %v\n", err)
	}
	if swept.Managers == 0 {
		return
	}
	if terminal(a.Stderr) {
		fmt.Fprint(bare(a.Stderr), ansi.ShowCursor) // a live view that was killed has left it hidden
	}
	if n := swept.Processes; n > 0 {
		a.note("A manager was killed here. What it left running is ended now (processes: %d).", n)
	}
}

// outputError is the end of a command that could not write all of its output: an error, unless the reader has seen
// enough, as in `manager logs | head`.
func outputError(err, failed error) error {
	switch gone := errors.Is(failed, syscall.EPIPE); {
	case gone && errors.Is(err, failed):
		return nil
	case gone || err != nil && !errors.Is(err, errSilent):
		return err
	}
	return fmt.Errorf("write to stdout: %w", failed)
}

// file is where a file argument points to: like everything else, relative to the directory of -C.
func (a *app) file(name string) string {
	if a.dir == "" || name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(a.dir, name)
}

// source is the file that an argument names, or with - stdin.
func (a *app) source(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.Stdin), nil
	}
	return os.Open(a.file(name))
}

func terminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) interactive() bool { return !a.yes && !a.json && terminal(a.Stdin) && terminal(a.Stderr) }

func (a *app) color(stream io.Writer) bool {
	return !a.noColor && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb" && terminal(stream)
}

// logger writes diagnostics to stderr: warnings, and with --verbose everything.
func (a *app) logger() *slog.Logger {
	level := slog.LevelError
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
}

func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	}
}

// Exit codes of the command line contract.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2   // usage, bad plan file or bad configuration
	exitPartial     = 3   // finished, but some sub-tasks failed
	exitWaiting     = 4   // stopped, waiting for the user
	exitHeld        = 5   // the state is held by another process
	exitInterrupted = 130 // a signal stopped it, or the user cancelled it
)

var (
	errInterrupted = view.ErrInterrupted // also by a signal
	// errPartial ends a run that is over and not completed. The view has told why.
	errPartial = errors.New("some sub-tasks failed, or a gate does not hold on the final files")
	// errLoopFailed is the same of a loop.
	errLoopFailed = errors.New("the loop ended without success")
	// errSilent ends a command that has said all there is to say.
	errSilent = errors.New("failed")
)

func notCompleted(b *boulder.Boulder) error {
	if b.Loop != nil {
		return errLoopFailed
	}
	return errPartial
}

func usagef(format string, args ...any) error {
	return &project.UsageError{Err: fmt.Errorf(format, args...)}
}

// exitCode is the one place that maps errors to exit codes.
func exitCode(err error) int {
	var usage *project.UsageError
	var file *taskledger.FileError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted), errors.Is(err, orchestrator.ErrStopped), errors.Is(err, context.Canceled),
		errors.Is(err, orchestrator.ErrCancelled):
		return exitInterrupted
	case errors.Is(err, store.ErrHeld), errors.Is(err, control.ErrNotReady):
		return exitHeld
	case errors.As(err, &usage), errors.As(err, &file), errors.Is(err, boulder.ErrNotFound), errors.Is(err, boulder.ErrFinished),
		errors.Is(err, blockers.ErrNoAnswer), errors.Is(err, taskledger.ErrNoList),
		errors.Is(err, orchestrator.ErrUnstartable), errors.Is(err, orchestrator.ErrNoFork), errors.Is(err, boulder.ErrSlots),
		errors.Is(err, store.ErrBadExport), errors.Is(err, store.ErrExists):
		return exitUsage
	case errors.Is(err, orchestrator.ErrWaiting), errors.Is(err, boulder.ErrNoCredit):
		return exitWaiting
	case errors.Is(err, errPartial), errors.Is(err, errLoopFailed):
		return exitPartial
	}
	return exitError
}

// open opens the project, once. With an error there is a project as well if only its configuration is not in order: to look
// and to give orders it need not be.
func (a *app) open() error {
	if a.Project == nil {
		o := a.opts
		o.Config, o.Environ, o.Logger, o.Secrets = a.file(a.configFile), a.Environ, a.logger(), a.secrets
		o.Isolation, o.Command = boulder.IsolationAuto, a.Name()+" "+strings.Join(a.Args, " ")
		o.Note, o.Warn = func(text string) { a.note("%s", text) }, func(text string) { a.warn("%s", text) }
		a.Project, a.openErr = project.Open(a.dir, o)
		if a.Project != nil {
			a.interrupts.set(&a.interrupts.kill, a.Kill)
		}
	}
	return a.openErr
}

// connect opens the project for commands that plan or run.
func (a *app) connect(ctx context.Context) error {
	if a.openErr != nil {
		return a.openErr
	}
	if !sameFile(cmp.Or(a.dir, "."), a.Dir()) {
		a.note("Working in the project above: %s", a.Dir())
	}
	return a.Connect(ctx)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Signals delivers what asks the program to stop: Ctrl-C, SIGTERM, and the closing of its terminal. One that was
// ignored when the program was started, as nohup and `&` in a script do, stays ignored.
//
// From then on a reader of stdout or stderr that goes away (`manager run | head`) does not take the run with it. SIGPIPE is
// not ignored for that: commands would inherit it, and `yes | head -1` would never end in a gate.
func Signals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// hurryAfter is how long after a second signal everything that was started may still end in good order. Ending a turn and
// its tools takes OpenCode a tenth of a second; one that hangs would take until several calls time out.
const hurryAfter = 2 * time.Second

// interrupts asks whatever goes on to stop: the first signal politely, if it can be asked so, and each other one at once.
type interrupts struct {
	mu      sync.Mutex
	signals int
	stop    func() // politely; nil: at once
	kill    func() // what is not gone some time after the second signal; nil: nothing was started
}

// take takes in a signal; end stops at once.
func (i *interrupts) take(s os.Signal, end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// A terminal that is closed sends SIGHUP twice, by itself and through its shell, and nobody is there to be in a hurry: it
	// is never more than the first signal.
	if s == syscall.SIGHUP && i.signals > 0 {
		return
	}
	if i.signals++; i.signals == 1 && i.stop != nil {
		i.stop()
	} else {
		end()
	}
	if i.signals == 2 && i.kill != nil {
		time.AfterFunc(hurryAfter, i.kill)
	}
}

// onFirst has the first signal call stop, which must not block, until the function that it returns is called.
func (i *interrupts) onFirst(stop func()) (giveBack func()) {
	i.set(&i.stop, stop)
	return func() { i.set(&i.stop, nil) }
}

func (i *interrupts) set(what *func(), do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*what = do
}
