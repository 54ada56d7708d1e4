package config

import (
	"cmp"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Blockers says whether what only a person can answer is diverted, and how.
//
//	blockers:
//	  enabled: true
//	  questions: ask
//	  wait: 5m
//	  permissions: # the last that fits decides, as in OpenCode's configuration
//	    - {permission: bash, pattern: "git push *", action: ask, wait: 30m}
//	    - {permission: external_directory, action: deny}
type Blockers struct {
	// Enabled diverts where no switch of `manager blockers on|off` and no flag says otherwise. Defaults to false.
	Enabled bool `yaml:"enabled"`
	// File is the list for people, relative to the project. Defaults to blockers.md.
	File string `yaml:"file"`
	// MaxPerSession is how many blockers one session may have. Defaults to 50.
	MaxPerSession int `yaml:"max_per_session"`
	// Cooldown is how long the same question of a session is the same blocker; 0: not at all. Defaults to 30 s.
	Cooldown time.Duration `yaml:"cooldown,off"`
	// Marker is what agents write when nothing is left to be done. Defaults to BLOCKER_DIVERTER_DONE!
	Marker string `yaml:"marker"`
	// Soft is what agents may choose themselves. Defaults to a name, a format, a library for a detail.
	Soft []string `yaml:"soft"`
	blockers.Policy
}

// check reports what is well-formed and makes no sense. Paths are checked by their form alone, so that the same
// configuration is right in every project.
func (b *Blockers) check(file *yamlfile.File) {
	if b.MaxPerSession == 0 {
		file.Report("blockers.max_per_session", "blockers.max_per_session must be at least 1",
			"to record none, leave the diverter off")
		return
	}
	if _, err := blockers.Open(b.Desk("/project")); err != nil {
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "open blockers: "), "\n") {
			value, _, _ := strings.Cut(line, ":")
			file.Report("blockers."+value, "blockers: "+line, "")
		}
	}
}

// Desk is the configuration of a desk, without what the process adds to it.
func (b *Blockers) Desk(root string) blockers.Config {
	return blockers.Config{
		Root: root, File: b.File, Enabled: b.Enabled, Policy: b.Policy, Max: b.MaxPerSession,
		Cooldown: cmp.Or(b.Cooldown, -1), Marker: b.Marker, Soft: b.Soft,
	}
}
