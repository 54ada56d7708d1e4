package project

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
		if p.installed(c.Program) {
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
	who := ""
	if plan == nil {
		if slices.Contains(done.Words, boulder.DoneTests) {
			who = "--done-when or the configuration"
		}
	} else {
		for _, s := range plan.SubTasks {
			words := s.DoneWhen
			if len(words) == 0 {
				words = plan.DoneWhen
			}
			if len(words) == 0 {
				words = done.Words
			}
			if who == "" && slices.Contains(words, boulder.DoneTests) {
				who = fmt.Sprintf("sub-task %q", s.ID)
			}
		}
	}
	if who == "" || len(done.Checks.Tests) > 0 {
		return nil
	}
	return usagef("%s: done when tests pass, but no command is known that runs them (%s): name it in the configuration,"+
		" as in `tests: make check`, or leave that criterion out", who, done.NoTests)
}
