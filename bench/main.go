// Command bench measures the manager's own cost: time and memory against doing the same with OpenCode alone, and
// whether the cost of a sub-task stays the same in large plans. Every number is a ratio of medians of one run of this
// program, in which the two sides took turns on the same machine, so it does not depend on how fast that machine is.
//
// The model is scripted and answers at once: what is measured is everything except models. OpenCode is the real one.
// All processes work in a temporary directory with a home of their own, and talk to the loopback interface only.
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
)

// errMissed says that a limit was missed. The table tells which.
var errMissed = errors.New("a limit was missed")

// As the first argument these make the program something else, see [runBare], [runFake], [runTurns], [runSteps] and
// [runList].
const (
	bareCommand  = "bare"
	fakeCommand  = "fake"
	turnsCommand = "turns"
	stepsCommand = "steps"
	listCommand  = "list"
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
		case turnsCommand:
			return runTurns(ctx, args[1:])
		case stepsCommand:
			return runSteps(ctx, args[1:])
		case listCommand:
			return runList(ctx, args[1:])
		}
	}
	return runAll(ctx, args, os.Stdout)
}

// options of a run.
type options struct {
	manager, opencode string // paths of the binaries
	source            string // the module's root, where LangGraph is
	only              string
	verbose           bool
}

// suite is a group of measurements that share their surroundings.
type suite struct {
	name    string
	measure func(context.Context, *world) ([]comparison, error)
}

func suites() []suite {
	return []suite{
		{"fanout", measureFanOut},
		{"chain", measureChain},
		{"loop", measureLoop},
		{"status", measureStatus},
		{"judging", measureJudging},
		{"memory", measureMemory},
		{"watch", measureWatch},
		{"steps", measureSteps},
		{"list", measureList},
		{"blockers", measureBlockers},
	}
}

func suiteNames() string {
	var names []string
	for _, s := range suites() {
		names = append(names, s.name)
	}
	return strings.Join(names, ",")
}

func runAll(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.manager, "manager", "bin/manager", "`path` of the manager")
	flags.StringVar(&o.opencode, "opencode", "tools/node_modules/.bin/opencode", "`path` of OpenCode")
	flags.StringVar(&o.source, "source", ".", "`path` of the module's root")
	flags.StringVar(&o.only, "only", "", "measure only these, a `list` out of "+suiteNames())
	flags.BoolVar(&o.verbose, "v", false, "print every single result on stderr")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	fmt.Fprintln(out, w.machine(ctx))
	all, err := w.measure(ctx, chosen)
	if err := errors.Join(err, printTable(out, all), w.printReports(out)); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(c comparison) bool { return !c.pass() }) {
		return errMissed
	}
	return nil
}

// measure gives what was measured, also if it was interrupted.
func (w *world) measure(ctx context.Context, chosen []suite) (all []comparison, err error) {
	for _, s := range chosen {
		w.note("measuring %s …", s.name)
		comparisons, err := s.measure(ctx, w)
		if ctx.Err() != nil {
			return all, errors.New("interrupted")
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, comparisons...)
	}
	return all, nil
}

func choose(only string) ([]suite, error) {
	all := suites()
	if only == "" {
		return all, nil
	}
	var chosen []suite
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(s suite) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no measurement %q: see -h", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// absolute makes the paths usable from every working directory, and proves that something is there.
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
