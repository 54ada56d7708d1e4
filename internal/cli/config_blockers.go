package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/bouldermgr/manager/blockers"
)

// blockersConfig says whether what only a person can answer is diverted, and how.
//
//	blockers:
//	  enabled: true
//	  questions: ask
//	  wait: 5m
//	  permissions: # the last that fits decides, as in OpenCode's configuration
//	    - {permission: bash, pattern: "git push *", action: ask, wait: 30m}
//	    - {permission: external_directory, action: deny}
type blockersConfig struct {
	// Enabled diverts where no switch of `manager blockers on|off` and no flag says otherwise. Defaults to false.
	Enabled bool `yaml:"enabled"`
	// File is the list for people, relative to the project. Defaults to blockers.md.
	File string `yaml:"file"`
	// MaxPerSession is how many blockers one session may have. Defaults to 50.
	MaxPerSession number `yaml:"max_per_session"`
	// Cooldown is how long the same question of a session is the same blocker. Defaults to 30 s.
	Cooldown deadline `yaml:"cooldown"`
	// Permissions are rules of which the last that fits decides. What none fits is refused and recorded.
	Permissions []blockerRule `yaml:"permissions"`
	// Questions is what becomes of OpenCode's questions: deny, which is the default, or ask.
	Questions string `yaml:"questions"`
	// Wait is how long a person may answer an ask. Defaults to 10 minutes.
	Wait period `yaml:"wait"`
}

// blockerRule is a [blockers.Rule].
type blockerRule struct {
	Permission string `yaml:"permission"`
	Pattern    string `yaml:"pattern"`
	Action     action `yaml:"action"`
	Wait       period `yaml:"wait"`
}

// action is what becomes of an ask.
type action blockers.Action

// UnmarshalYAML reads it.
func (x *action) UnmarshalYAML(node ast.Node) error {
	text, ok := scalarText(node)
	switch blockers.Action(text) {
	case blockers.Allow, blockers.Deny, blockers.AskMe:
	default:
		ok = false
	}
	if !ok {
		return wrongValue(node, "allow, deny or ask")
	}
	*x = action(text)
	return nil
}

// check refuses values that are well-formed and make no sense.
func (c *blockersConfig) check() error {
	// Paths are checked by their form alone, so that the same configuration is right in every project.
	if c.MaxPerSession.set && c.MaxPerSession.n < 1 {
		return errors.New("blockers.max_per_session must be at least 1; to record none, leave the diverter off")
	}
	if _, err := blockers.Open(c.desk("/project", "/project/blockers.db")); err != nil {
		return fmt.Errorf("blockers: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", "; "), "open blockers: "))
	}
	return nil
}

// desk is the configuration of a desk, without what the process adds to it.
func (c *blockersConfig) desk(root, path string) blockers.Config {
	out := blockers.Config{
		Root: root, Path: path, File: c.File, Enabled: c.Enabled,
		Policy: blockers.Policy{Questions: blockers.Action(c.Questions), Wait: time.Duration(c.Wait)},
	}
	c.MaxPerSession.into(&out.Max)
	if c.Cooldown.off {
		out.Cooldown = -1
	} else {
		c.Cooldown.into(&out.Cooldown)
	}
	for _, r := range c.Permissions {
		out.Policy.Permissions = append(out.Policy.Permissions, blockers.Rule{
			Permission: r.Permission, Pattern: r.Pattern, Action: blockers.Action(r.Action), Wait: time.Duration(r.Wait),
		})
	}
	return out
}
