// Package cli is the command line: it maps commands and flags to calls of package project, and prints the results with
// package view. stdout is data, stderr is progress and diagnostics.
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
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	runcmd "github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// Env is the environment of a command line.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	// Signals asks to stop: the first one gracefully, the second one at once.
	Signals <-chan os.Signal
	// Executable is the path of the program, to start it in the background.
	Executable string
	// Extend returns additional commands. They call connect for a connected project. Defaults to none.
	Extend func(connect func(context.Context) (*project.Project, error)) []*cobra.Command
}

// Name returns the name of the program.
func (e Env) Name() string { return filepath.Base(cmp.Or(e.Executable, "manager")) }

// Getenv returns a variable of the environment; of several with the same name, the last one.
func (e Env) Getenv(name string) string {
	return project.Getenv(e.Environ, name)
}

// app has what all commands share.
type app struct {
	Env
	interrupts interrupts
	secrets    *secret.Redactor                       // nil: finds secrets by their form only
	project    *project.Project                       // nil before open
	openErr    error                                  // why the configuration cannot be used
	view       *view.Run                              // of the run; nil before it begins
	above      atomic.Pointer[func(line string) bool] // prints above what is drawn on stderr, and reports whether anything is; nil: nothing is
	typed      *bufio.Scanner                         // input of the user; nil before the first question
	nextLine   chan string                            // set while a line is being read; closed at the end of input

	json, quiet, noColor, verbose bool
	dir, configFile               string
	opts                          project.Options // set by flags

	// Flags of several commands.
	yes, approveReplans, detach, blockers bool
	budget                                budgetFlag
	iterations                            int
	keepPlan                              bool
	planFile                              string
	ref                                   string // --boulder
}

// Main runs one command line and returns its exit code.
func Main(env Env) int {
	env.Environ = runcmd.WithoutRepository(env.Environ) // in a hook or an alias, git says which one it is about
	a := &app{Env: env, secrets: secret.New(env.Environ)}
	var stdoutErr atomic.Pointer[error]
	a.Stdout, a.Stderr = guarded{env.Stdout, a.secrets, &stdoutErr, false}, guarded{env.Stderr, a.secrets, nil, false}
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
	err := func() error {
		defer func() { // after a panic, too
			if a.project != nil {
				a.project.Close()
			}
		}()
		return root.ExecuteContext(ctx)
	}()
	if failed := stdoutErr.Load(); failed != nil {
		err = outputError(err, *failed)
	}
	if err != nil && !errors.Is(err, errSilent) {
		to := a.Stderr
		if _, whole := errors.AsType[*project.DistrustError](err); whole {
			to = unguarded(to)
		}
		fmt.Fprintln(to, "manager: "+text.Safe(project.Message(err)))
	}
	return exitCode(err)
}

// Command returns the tree of all commands for documentation, not for execution.
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
other has; SUBTASK is an id, or its number: 2 is the one shown as [2].`,
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
	cmd.SetFlagErrorFunc(badFlag)
	a.addGlobalFlags(cmd.PersistentFlags())
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
	group("Manage", a.newDoctorCmd(), a.newDemoCmd(), a.newLandCmd(), a.newArchiveCmd(), a.newGCCmd(), a.newExportCmd(), a.newImportCmd(), a.newReplayCmd(),
		a.newMCPCmd(), a.newSchemaCmd(), a.newInitCmd(), a.newConfigCmd(), a.newTrustCmd(), a.newValidateCmd(), a.newUninstallCmd(), a.newVersionCmd())
	if a.Extend != nil {
		group("Other machines", a.Extend(func(ctx context.Context) (*project.Project, error) { return a.project, a.connect(ctx) })...)
	}
	a.deriveArgs(cmd)
	cmd.SetHelpCommandGroupID("Manage")
	cmd.InitDefaultHelpCmd()
	help, _, _ := cmd.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		c, rest, _ := cmd.Find(args)
		return noSuchCommand(c, rest)
	}
	cmd.SetCompletionCommandGroupID("Manage")
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	printHelp := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Long = a.flow(c.Long)
		printHelp(c, args)
	})
	cmd.InitDefaultCompletionCmd()
	powershell, _, _ := cmd.Find([]string{"completion", "powershell"})
	powershell.Parent().RemoveCommand(powershell) // runs on no supported system
	for _, c := range cmd.Commands() {
		if !c.Runnable() { // cobra would print the help and exit with 0 for an unknown subcommand
			c.Args, c.RunE = noSuchCommand, func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	cmd.AddCommand(newWordsTopic())
	return cmd
}

func (a *app) addGlobalFlags(f *pflag.FlagSet) {
	f.StringVarP(&a.dir, "directory", "C", "", "work in `DIR`; file arguments are relative to it")
	f.BoolVar(&a.json, "json", false, "print one JSON object per line on stdout")
	f.StringVar((*string)(&a.opts.Model), "model", "", "`PROVIDER/MODEL[,...]` for the sub-tasks; each further one while those before it cannot be used")
	f.StringVar(&a.opts.Effort, "effort", "", "effort `NAME` of models that are named without one (as in PROVIDER/MODEL#NAME)")
	f.StringVar((*string)(&a.opts.LedgerModel), "ledger-model", "", "`PROVIDER/MODEL[,...]` for planning and judging, likewise")
	f.StringVar(&a.configFile, "config", "", "read the configuration from `FILE` only")
	f.StringVar(&a.opts.OpenCode, "opencode", "",
		"`PATH` of the OpenCode binary (else $MANAGER_OPENCODE, the configuration, $PATH)")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	f.BoolVar(&a.noColor, "no-color", false, "no colours (also with $NO_COLOR)")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "more detail on stderr")
}

// prepare runs before every command.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if strings.HasPrefix(cmd.Name(), "__") { // shell completion, while the user types
		return nil
	}
	if err := cmd.ValidateFlagGroups(); err != nil { // cobra checks too, but without a usage error
		return usagef("%w", err)
	}
	if path := a.file(a.configFile); path != "" && !exists(path) {
		return usagef("--config: there is no file %s", path)
	}
	name := strings.Fields(cmd.CommandPath() + " .")[1] // the top-level command; "." for manager itself
	strict := slices.Contains([]string{"ui", "blockers", "watch", "land", "mcp", "config", "init"}, name)
	if err := a.open(); a.project == nil || err != nil && strict {
		return err
	}
	a.sweep()
	return nil
}

// sweep ends processes that a killed manager left running in this project. A failure does not stop the command.
func (a *app) sweep() {
	swept, err := orphan.Sweep(filepath.Join(a.project.Dir(), store.DirName))
	if err != nil {
		fmt.Fprintf(a.Stderr, "manager: %s\n", text.Safe(text.Error(err)))
	}
	if swept.Managers == 0 {
		return
	}
	if terminal(a.Stderr) {
		fmt.Fprint(unguarded(a.Stderr), ansi.ShowCursor) // a killed live view leaves it hidden
	}
	if n := swept.Processes; n > 0 {
		a.note("A manager was killed here. What it left running is ended now (processes: %d).", n)
	}
}

// outputError returns a command's error after a failed write; a closed pipe (`manager logs | head`) is not one by
// itself.
func outputError(err, failed error) error {
	switch gone := errors.Is(failed, syscall.EPIPE); {
	case gone && errors.Is(err, failed):
		return nil
	case gone || err != nil && !errors.Is(err, errSilent):
		return err
	}
	return fmt.Errorf("write to stdout: %w", failed)
}

// file resolves a file argument relative to -C.
func (a *app) file(name string) string {
	if a.dir == "" || name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(a.dir, name)
}

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

// logger writes diagnostics to stderr: errors, and with --verbose everything.
func (a *app) logger() *slog.Logger {
	level := slog.LevelError
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
}

// flow lets a terminal break the paragraphs of a text that was written for another width.
func (a *app) flow(s string) string {
	if terminal(a.Stdout) {
		return text.Flow(s)
	}
	return s
}

func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.tell(text.Safe(text.Format(format, args...)))
	}
}

// tell prints a line on stderr, above the picture that is drawn there.
func (a *app) tell(line string) {
	if above := a.above.Load(); above == nil || !(*above)(line) {
		fmt.Fprintln(a.Stderr, line)
	}
}

// Exit codes of the command line contract.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2   // usage, bad plan file or bad configuration
	exitPartial     = 3   // finished, but not everything is done
	exitWaiting     = 4   // stopped, waiting for the user
	exitHeld        = 5   // the state is held by another process
	exitInterrupted = 130 // a signal stopped it, or the user cancelled it
)

var (
	errInterrupted = view.ErrInterrupted // also by a signal
	errPartial     = errors.New("not everything is done")
	errSilent      = errors.New("failed") // the command has printed everything already
)

func usagef(format string, args ...any) error {
	return &project.UsageError{Err: fmt.Errorf(format, args...)}
}

// exitCode is the only place that maps errors to exit codes.
func exitCode(err error) int {
	var usage *project.UsageError
	var file *taskledger.FileError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted), errors.Is(err, orchestrator.ErrStopped), errors.Is(err, context.Canceled),
		errors.Is(err, orchestrator.ErrCancelled):
		return exitInterrupted
	case errors.Is(err, store.ErrHeld), errors.Is(err, project.ErrNotReady):
		return exitHeld
	case errors.As(err, &usage), errors.As(err, &file), errors.Is(err, boulder.ErrNotFound), errors.Is(err, boulder.ErrFinished),
		errors.Is(err, blockers.ErrNoAnswer), errors.Is(err, taskledger.ErrNoList),
		errors.Is(err, orchestrator.ErrUnstartable), errors.Is(err, orchestrator.ErrNoFork), errors.Is(err, boulder.ErrSlots),
		errors.Is(err, store.ErrBadExport), errors.Is(err, store.ErrExists):
		return exitUsage
	case errors.Is(err, orchestrator.ErrWaiting), errors.Is(err, boulder.ErrNoCredit), errors.Is(err, errMarred):
		return exitWaiting
	case errors.Is(err, errPartial):
		return exitPartial
	}
	return exitError
}

// open opens the project, once. If only the configuration is invalid, it sets the project all the same, for looking at
// it.
func (a *app) open() error {
	if a.project == nil {
		o := a.opts
		o.Config, o.Environ, o.Logger, o.Secrets = a.file(a.configFile), a.Environ, a.logger(), a.secrets
		o.Isolation, o.Command = boulder.IsolationAuto, a.Name()+" "+strings.Join(a.Args, " ")
		o.Note, o.Warn = func(text string) { a.note("%s", text) }, func(text string) { a.warn("%s", text) }
		a.project, a.openErr = project.Open(a.dir, o)
		if a.project != nil {
			a.interrupts.set(&a.interrupts.kill, a.project.Kill)
		}
	}
	return a.openErr
}

// connect opens the project for commands that plan or run.
func (a *app) connect(ctx context.Context) error {
	if a.openErr != nil {
		return a.openErr
	}
	if !sameFile(cmp.Or(a.dir, "."), a.project.Dir()) {
		a.note("Working in the project above: %s", a.project.Dir())
	}
	if err := a.askTrust(ctx); err != nil {
		return err
	}
	return a.project.Connect(ctx)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Signals delivers Ctrl-C, SIGTERM and SIGHUP, except those that were ignored at the start, as nohup does.
//
// It also catches SIGPIPE, so that a closed stdout (`manager run | head`) does not kill the run. Ignoring it would not
// do: commands would inherit that, and `yes | head -1` in a gate would never end.
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

// hurryAfter is how long processes may take to end after a second signal. OpenCode ends a turn in a tenth of a second,
// but a hanging one would take until several calls time out.
const hurryAfter = 2 * time.Second

// interrupts turns signals into stops: the first one graceful if possible, all others at once.
type interrupts struct {
	mu      sync.Mutex
	signals int
	stop    func() // stops gracefully; nil: the first signal stops at once
	kill    func() // called hurryAfter the second signal; nil: nothing was started
}

// take handles a signal. end stops at once.
func (i *interrupts) take(s os.Signal, end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// A closing terminal sends SIGHUP twice, directly and through the shell: only the first one counts.
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

// onFirst makes the first signal call stop, which must not block, until giveBack is called.
func (i *interrupts) onFirst(stop func()) (giveBack func()) {
	i.set(&i.stop, stop)
	return func() { i.set(&i.stop, nil) }
}

func (i *interrupts) set(what *func(), do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*what = do
}
