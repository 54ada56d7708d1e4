package project

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/internal/config"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/detect"
)

// Criteria says when sub-tasks are done that do not say it themselves, and knows the commands behind that.
type Criteria struct {
	Words  []string // empty: the judge alone
	Checks boulder.Checks
	// NoTests says why no command is known that runs the tests; empty: one is.
	NoTests string
}

// Criteria finds out what --done-when, the configuration and the files of the project say.
func (p *Project) Criteria(flag []string) Criteria {
	tests := p.lookFor(p.cfg.Tests, detect.Tests(os.DirFS(p.dir)), "tests", "a go.mod, a script \"test\" in "+
		"package.json, a Cargo.toml, files or a configuration of pytest, and a target \"test\" in a Makefile")
	lint := p.lookFor(p.cfg.Lint, detect.Lint(os.DirFS(p.dir)), "lint", "")
	words := flag
	if len(words) == 0 {
		words = p.cfg.DoneWhen
	}
	return Criteria{
		Words: words, Checks: boulder.Checks{Tests: tests.run, Lint: lint.run}, NoTests: tests.why,
	}
}

// lookedFor are the commands for a criterion, or why there is none.
type lookedFor struct {
	run []string
	why string
}

// lookFor takes the configured config.Commands, or else those of the detected ones whose program is installed: one that cannot
// be run would be red for ever.
func (p *Project) lookFor(configured config.Commands, detected []detect.Command, key, places string) lookedFor {
	if configured.Set {
		if len(configured.List) == 0 {
			return lookedFor{why: fmt.Sprintf("the configuration says that there is none (%s: [])", key)}
		}
		return lookedFor{run: configured.List}
	}
	var found lookedFor
	for _, c := range detected {
		if p.installed(c.Program) {
			found.run = append(found.run, c.Run)
			p.log.Debug("found a command", "for", key, "command", c.Run, "because", c.Why)
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
func (p *Project) installed(program string) bool {
	for _, dir := range filepath.SplitList(p.getenv("PATH")) {
		info, err := os.Stat(filepath.Join(cmp.Or(dir, "."), program))
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Check refuses a plan, and without one what the run says, if tests are to decide and no command runs them.
func (done Criteria) Check(plan *boulder.Plan) error {
	if len(done.Checks.Tests) > 0 {
		return nil
	}
	who := ""
	switch {
	case plan == nil && slices.Contains(done.Words, boulder.DoneTests):
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
		" as in `tests: make check`, or leave that criterion out", who, done.NoTests)
}

// of are the criteria of a sub-task: its own, else those of its plan, else those of the run.
func (done Criteria) of(plan *boulder.Plan, s boulder.Spec) []string {
	for _, words := range [][]string{s.DoneWhen, plan.DoneWhen, done.Words} {
		if len(words) > 0 {
			return words
		}
	}
	return nil
}
