package cli

import (
	"cmp"
	"fmt"
	"github.com/bouldermgr/manager/internal/config"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/detect"
)

// doneFlag is --done-when: `todos,tests`; repeatable.
type doneFlag []string

var _ pflag.Value = (*doneFlag)(nil)

func (f *doneFlag) String() string { return "" }

// Type is what the flag's help calls a value.
func (f *doneFlag) Type() string { return "CRITERIA" }

// Set takes one value of the flag.
func (f *doneFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if !boulder.IsDoneWord(word) {
			return fmt.Errorf("there is no criterion %q: use %s", word, strings.Join(boulder.DoneWords(), ", "))
		}
		if !slices.Contains(*f, word) {
			*f = append(*f, word)
		}
	}
	return nil
}

// doneUsage is the flag's help, up to what counts without it.
const doneUsage = "`CRITERIA` by which a sub-task that names none is done: todos, diagnostics, tests, promise, judge"

// doneness says when sub-tasks are done that do not say it themselves, and knows the commands behind that.
type doneness struct {
	words  []string // empty: the judge alone
	checks boulder.Checks
	// noTests says why no command is known that runs the tests; empty: one is.
	noTests string
}

// doneness finds out what --done-when, the configuration and the files of the project say.
func (d *deps) doneness(flag doneFlag) doneness {
	tests := d.lookFor(d.config.Tests, detect.Tests(os.DirFS(d.project)), "tests", "a go.mod, a script \"test\" in "+
		"package.json, a Cargo.toml, files or a configuration of pytest, and a target \"test\" in a Makefile")
	lint := d.lookFor(d.config.Lint, detect.Lint(os.DirFS(d.project)), "lint", "")
	words := []string(flag)
	if len(words) == 0 {
		words = d.config.DoneWhen
	}
	return doneness{
		words: words, checks: boulder.Checks{Tests: tests.run, Lint: lint.run}, noTests: tests.why,
	}
}

// lookedFor are the commands for a criterion, or why there is none.
type lookedFor struct {
	run []string
	why string
}

// lookFor takes the configured config.Commands, or else those of the detected ones whose program is installed: one that cannot
// be run would be red for ever.
func (d *deps) lookFor(configured config.Commands, detected []detect.Command, key, places string) lookedFor {
	if configured.Set {
		if len(configured.List) == 0 {
			return lookedFor{why: fmt.Sprintf("the configuration says that there is none (%s: [])", key)}
		}
		return lookedFor{run: configured.List}
	}
	var found lookedFor
	for _, c := range detected {
		if d.installed(c.Program) {
			found.run = append(found.run, c.Run)
			d.log.Debug("found a command", "for", key, "command", c.Run, "because", c.Why)
		} else {
			found.why = fmt.Sprintf("%s, but %s is not installed", c.Why, c.Program)
		}
	}
	if len(found.run) > 0 {
		found.why = ""
	} else if found.why == "" {
		found.why = "there is none of " + places
	}
	return found
}

// installed reports whether the shell that runs gates would find a program.
func (d *deps) installed(program string) bool {
	for _, dir := range filepath.SplitList(d.app.Getenv("PATH")) {
		info, err := os.Stat(filepath.Join(cmp.Or(dir, "."), program))
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return true
		}
	}
	return false
}

// check refuses a plan, and without one what the run says, if tests are to decide and no command runs them.
func (done doneness) check(plan *boulder.Plan) error {
	if len(done.checks.Tests) > 0 {
		return nil
	}
	who := ""
	switch {
	case plan == nil && slices.Contains(done.words, boulder.DoneTests):
		who = "--done-when or the configuration"
	case plan == nil:
		return nil
	default:
		for _, s := range plan.SubTasks {
			if slices.Contains(done.of(plan, s), boulder.DoneTests) {
				who = fmt.Sprintf("sub-task %q", s.ID)
				break
			}
		}
	}
	if who == "" {
		return nil
	}
	return usagef("%s: done when tests pass, but no command is known that runs them (%s): name it in the configuration,"+
		" as in `tests: make check`, or leave that criterion out", who, done.noTests)
}

// of are the criteria of a sub-task: its own, else those of its plan, else those of the run.
func (done doneness) of(plan *boulder.Plan, s boulder.Spec) []string {
	for _, words := range [][]string{s.DoneWhen, plan.DoneWhen, done.words} {
		if len(words) > 0 {
			return words
		}
	}
	return nil
}
