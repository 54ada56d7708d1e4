package project

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
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
	done := Criteria{Words: flag}
	if len(flag) == 0 {
		done.Words = p.cfg.DoneWhen
	}
	files := os.DirFS(p.dir)
	done.Checks.Tests, done.NoTests = p.commands(p.cfg.Tests, detect.Tests(files), "tests", "a go.mod, a script \"test\" in "+
		"package.json, a Cargo.toml, files or a configuration of pytest, and a target \"test\" in a Makefile")
	done.Checks.Lint, _ = p.commands(p.cfg.Lint, detect.Lint(files), "lint", "")
	return done
}

// commands are the configured ones, or else those of the detected ones whose program is installed: one that cannot be run
// would be red for ever. Without any, why says so.
func (p *Project) commands(
	configured []string, detected []detect.Command, key, places string,
) (found []string, why string) {
	switch {
	case configured != nil && len(configured) == 0:
		return nil, fmt.Sprintf("the configuration says that there is none (%s: [])", key)
	case configured != nil:
		return configured, ""
	}
	why = "there is none of " + places
	for _, c := range detected {
		if command.Missing(context.Background(), p.dir, p.opts.Environ, c.Program) == "" {
			found = append(found, c.Run)
			p.log.Debug("found a command", "for", key, "command", c.Run, "because", c.Why)
		} else {
			why = fmt.Sprintf("%s, but %s is not installed", c.Why, c.Program)
		}
	}
	if len(found) > 0 {
		why = ""
	}
	return found, why
}

// Check refuses a plan, and without one what the run says, if tests are to decide and no command runs them.
func (done Criteria) Check(plan *boulder.Plan) error {
	who := ""
	switch {
	case len(done.Checks.Tests) > 0:
		return nil
	case plan == nil && slices.Contains(done.Words, boulder.DoneTests):
		who = "--done-when or the configuration"
	case plan != nil:
		for _, s := range plan.SubTasks {
			words := done.Words
			for _, own := range [][]string{plan.DoneWhen, s.DoneWhen} {
				if len(own) > 0 {
					words = own
				}
			}
			if who == "" && slices.Contains(words, boulder.DoneTests) {
				who = fmt.Sprintf("sub-task %q", s.ID)
			}
		}
	}
	if who == "" {
		return nil
	}
	return usagef("%s: done when tests pass, but no command is known that runs them (%s): name it in the configuration,"+
		" as in `tests: make check`, or leave that criterion out", who, done.NoTests)
}
