// Command bench measures what users feel of the manager's own cost, compared with doing the same without it. Each line
// is a ratio of medians from one run of this program, in which the two sides took turns on the same machine.
//
// The model is scripted and answers at once, so everything except models is measured. OpenCode is the real one, except
// for the memory line. All processes work in a temporary directory with its own home, and use only the loopback
// interface.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// errMissed is returned if a limit was missed. The table shows which.
var errMissed = errors.New("a limit was missed")

// First arguments that turn the program into a helper process, see [runBare] and [runFake].
const (
	bareCommand = "bare"
	fakeCommand = "fake"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 {
		switch args[0] {
		case bareCommand:
			return runBare(ctx, args[1:])
		case fakeCommand:
			return runFake(ctx, args[1:])
		}
	}
	return runAll(ctx, args, os.Stdout)
}

type options struct {
	manager, opencode string // paths of the binaries
	source            string // the module's root
	only              string // names of suites
	verbose           bool
	once              bool // run everything once, small, without limits
}

// suite is a group of measurements that share a setup.
type suite struct {
	name    string
	measure func(context.Context, *world) ([]comparison, error)
}

func suites() []suite {
	return []suite{
		{"sessions", measureSessions},
		{"memory", measureMemory},
		{"status", measureStatus},
		{"growth", measureGrowth},
		{"blockers", measureBlockers},
		{"isolation", measureIsolation},
		{"pages", measurePages},
		{"langgraph", measureLangGraph},
	}
}

func runAll(ctx context.Context, args []string, out io.Writer) error {
	var names []string
	for _, s := range suites() {
		names = append(names, s.name)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.manager, "manager", "bin/manager", "`path` of the manager")
	flags.StringVar(&o.opencode, "opencode", "tools/node_modules/.bin/opencode", "`path` of OpenCode")
	flags.StringVar(&o.source, "source", ".", "`path` of the module's root")
	flags.StringVar(&o.only, "only", strings.Join(names, ","), "measure only these")
	flags.BoolVar(&o.verbose, "v", false, "print every single result on stderr")
	flags.BoolVar(&o.once, "once", false, "try every line once, small, without limits")
	if err := flags.Parse(args); err != nil {
		return err
	}
	only := strings.Split(o.only, ",")
	for _, name := range only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no measurement %q: see -h", name)
		}
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	fmt.Fprintln(out, w.machine(ctx))
	measured := make([][]comparison, len(suites()))
	group, ctx := errgroup.WithContext(ctx)
	if !o.once { // nothing is compared, so suites may run concurrently
		group.SetLimit(1)
	}
	for i, s := range suites() {
		if slices.Contains(only, s.name) {
			group.Go(func() (err error) {
				w.note("measuring %s …", s.name)
				if measured[i], err = s.measure(ctx, w); err != nil {
					err = fmt.Errorf("%s: %w", s.name, err)
				}
				return err
			})
		}
	}
	err = group.Wait()
	all := slices.Concat(measured...)
	if err := errors.Join(err, printTable(out, all)); err != nil {
		return err
	}
	if !o.once && slices.ContainsFunc(all, func(c comparison) bool { return !c.pass() }) {
		return errMissed
	}
	return nil
}

// absolute makes the paths absolute and checks that they exist.
func (o *options) absolute() error {
	for _, path := range []*string{&o.manager, &o.opencode, &o.source} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("%w: run make tools build first", err)
		}
		*path = abs
	}
	return nil
}
