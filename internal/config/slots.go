package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Slots are what the slots of isolated boulders get besides the files that git knows.
//
//	slots:
//	  copy: [.env]
//	  setup: [npm ci]
//	  setup_when: [package-lock.json]
//	  env: {NODE_ENV: test}
type Slots struct {
	// Copy are patterns of ignored files to copy, as in .gitignore. Defaults to those of the file .worktreeinclude.
	Copy []string `yaml:"copy"`
	// Setup are commands that a slot needs once, and again when a file that a pattern of SetupWhen fits has changed.
	Setup     []string `yaml:"setup"`
	SetupWhen []string `yaml:"setup_when"`
	// Env are variables for gates and for the commands of Setup.
	Env map[string]string `yaml:"env"`
}

func (s *Slots) check(file *yamlfile.File) {
	for i, line := range s.Setup {
		checkCommand(file, "slots.setup", fmt.Sprintf("slots.setup[%d]", i), line)
	}
	if len(s.SetupWhen) > 0 && len(s.Setup) == 0 {
		file.Report("slots.setup_when", "slots.setup_when without slots.setup", "name the commands to run when these files change")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			file.Report("slots.env", fmt.Sprintf("slots.env has %q, which cannot be the name of a variable", name), "")
		}
	}
}

// Environ is Env as a process has it.
func (s *Slots) Environ() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	return env
}
