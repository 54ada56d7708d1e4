package config

import (
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
	MaxPerSession number `yaml:"max_per_session"`
	// Cooldown is how long the same question of a session is the same blocker. Defaults to 30 s.
	Cooldown deadline `yaml:"cooldown"`
	// Permissions are rules of which the last that fits decides. What none fits is refused and recorded.
	Permissions []struct {
		Permission string          `yaml:"permission"`
		Pattern    string          `yaml:"pattern"`
		Action     action          `yaml:"action"`
		Wait       yamlfile.Period `yaml:"wait"`
	} `yaml:"permissions"`
	// Questions is what becomes of OpenCode's questions: deny, which is the default, or ask.
	Questions string `yaml:"questions"`
	// Wait is how long a person may answer an ask. Defaults to 10 minutes.
	Wait yamlfile.Period `yaml:"wait"`
}

// check reports what is well-formed and makes no sense. Paths are checked by their form alone, so that the same
// configuration is right in every project.
func (b *Blockers) check(file *yamlfile.File) {
	if b.MaxPerSession.value == 0 {
		file.Report("blockers.max_per_session", "blockers.max_per_session must be at least 1",
			"to record none, leave the diverter off")
		return
	}
	if _, err := blockers.Open(b.Desk("/project", "/project/blockers.db")); err != nil {
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "open blockers: "), "\n") {
			file.Report("blockers", "blockers: "+line, "")
		}
	}
}

// Desk is the configuration of a desk, without what the process adds to it.
func (b *Blockers) Desk(root, path string) blockers.Config {
	out := blockers.Config{
		Root: root, Path: path, File: b.File, Enabled: b.Enabled,
		Policy: blockers.Policy{Questions: blockers.Action(b.Questions), Wait: time.Duration(b.Wait)},
	}
	out.Max, _ = b.MaxPerSession.value.(int)
	if d, named := b.Cooldown.value.(time.Duration); named {
		if out.Cooldown = d; d == 0 {
			out.Cooldown = -1 // off
		}
	}
	for _, r := range b.Permissions {
		out.Policy.Permissions = append(out.Policy.Permissions, blockers.Rule{
			Permission: r.Permission, Pattern: r.Pattern, Action: blockers.Action(r.Action), Wait: time.Duration(r.Wait),
		})
	}
	return out
}
