package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/project/internal/notify"
)

// Notify says where notifications about runs are sent. See docs/report.md.
type Notify struct {
	// Command is a program with its arguments, or a single text: a line for the shell. Defaults to none.
	Command []string `yaml:"command"`
	// Webhook is an address, or $NAME of the environment variable that holds it. Defaults to none.
	Webhook string `yaml:"webhook"`
	// On are the events to send: finished, blocked, failed, budget, limited. Defaults to all of them.
	On []notify.Event `yaml:"on"`
	// Timeout bounds a notification. Defaults to [notify.DefaultTimeout].
	Timeout time.Duration `yaml:"timeout"`
}

// Program is the program to run with its arguments, or nil if there is none. An empty command in the project's file
// switches off the one in the user's file.
func (c *Notify) Program() []string {
	switch {
	case len(c.Command) != 1:
		return c.Command
	case c.Command[0] == "":
		return nil
	}
	return []string{"sh", "-c", c.Command[0]}
}

// variableRef matches a value that is nothing but a variable of the environment.
var variableRef = text.Regexp(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})$`)

// check reports values that cannot work. No message contains the webhook, which may be secret.
func (c *Notify) check(file *yamlfile.File) {
	if len(c.Command) > 1 && strings.TrimSpace(c.Command[0]) == "" {
		file.Report("notify.command", "notify.command begins with nothing", "its first word is the program")
	}
	if c.Webhook != "" && !variableRef().MatchString(c.Webhook) {
		if _, err := c.Address(nil); err != nil {
			file.Report("notify.webhook", err.Error(), "")
		}
	}
}

// Wants reports whether the user wants to be notified of an event.
func (c *Notify) Wants(e notify.Event) bool {
	return c.On == nil || slices.Contains(c.On, e)
}

// Address returns the webhook's address, or nil. A variable that Webhook names is read from the environment.
func (c *Notify) Address(getenv func(string) string) (*url.URL, error) {
	address, key := c.Webhook, "notify.webhook"
	if names := variableRef().FindStringSubmatch(address); names != nil {
		name := names[1] + names[2]
		key += " is $" + name
		if address = getenv(name); address == "" {
			return nil, fmt.Errorf("%s, and that is not set: set it, or take the webhook out of the configuration", key)
		}
	}
	if address == "" {
		return nil, nil
	}
	u, err := notify.ParseWebhook(address)
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return u, err
}

// Blockers says whether questions to the user are recorded instead of asked, and how. See docs/blockers.md.
type Blockers struct {
	// Enabled applies unless `manager blockers on|off` or --blockers says otherwise. Defaults to false.
	Enabled bool `yaml:"enabled"`
	// File is the list for people, relative to the project. Defaults to .manager/blockers.md.
	File string `yaml:"file"`
	// MaxPerSession is how many blockers one session may have. Defaults to 50.
	MaxPerSession int `yaml:"max_per_session"`
	// Cooldown is how long a session's repeated question counts as the same blocker; 0: never. Defaults to 30 s.
	Cooldown time.Duration `yaml:"cooldown,off"`
	// Marker is what agents write when no work is left. Defaults to BLOCKER_DIVERTER_DONE!
	Marker string `yaml:"marker"`
	// Soft lists what agents may choose themselves. Defaults to a name, a format, a library for a detail.
	Soft []string `yaml:"soft"`
	blockers.Policy
}

// check reports values that cannot work. It opens a register on a made-up root, so that only the form of paths counts.
func (b *Blockers) check(file *yamlfile.File) {
	if b.MaxPerSession == 0 {
		file.Report("blockers.max_per_session", "blockers.max_per_session must be at least 1",
			"to record none, leave the diverter off")
		return
	}
	if _, err := blockers.Open(b.Register("/project")); err != nil {
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "open blockers: "), "\n") {
			value, _, _ := strings.Cut(line, ":")
			file.Report("blockers."+value, "blockers: "+line, "")
		}
	}
}

// Register returns the configuration of a register, without the fields that the process sets.
func (b *Blockers) Register(root string) blockers.Config {
	return blockers.Config{
		Root: root, File: b.File, Enabled: b.Enabled, Policy: b.Policy, Max: b.MaxPerSession,
		Cooldown: cmp.Or(b.Cooldown, -1), Marker: b.Marker, Soft: b.Soft,
	}
}

// Slots says what the slots of isolated boulders get in addition to the files that git tracks. See docs/isolation.md.
type Slots struct {
	// Dir is the directory below which each project gets one for its slots; relative to the project, and outside of it. Defaults to
	// manager in the user's cache directory.
	Dir string `yaml:"dir"`
	// Copy are patterns, as in .gitignore, of ignored files to copy. Defaults to those in .worktreeinclude.
	Copy []string `yaml:"copy"`
	// Setup are commands that run once in a slot, and again after a file that matches SetupWhen has changed.
	Setup     []string          `yaml:"setup"`
	SetupWhen []string          `yaml:"setup_when"`
	Env       map[string]string `yaml:"env"` // for gates and the commands of Setup
	// Pool is how many slots stay for the next run at most; 0: none. Defaults to as many as may run at once.
	Pool *int `yaml:"pool"`
	// Keep are patterns, as in .gitignore, of ignored files that stay in these slots.
	Keep []string `yaml:"keep"`
}

func (s *Slots) check(file *yamlfile.File) {
	for i, line := range s.Setup {
		checkCommand(file, "slots.setup", i, line)
	}
	if len(s.SetupWhen) > 0 && len(s.Setup) == 0 {
		file.Report("slots.setup_when", "slots.setup_when without slots.setup", "name the commands to run when these files change")
	}
	if s.Pool != nil && *s.Pool < 0 {
		file.Report("slots.pool", fmt.Sprintf("slots.pool is %d", *s.Pool), "0 keeps no slots for the next run")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			file.Report("slots.env", fmt.Sprintf("slots.env has %q, which cannot be the name of a variable", name), "")
		}
	}
}

// Environ returns Env as NAME=VALUE, sorted.
func (s *Slots) Environ() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	return env
}
