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
	"github.com/bouldermgr/manager/internal/notify"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Notify says whom to tell how a run stands.
//
//	notify:
//	  command: [notify-send, manager]   # or a line for the shell
//	  webhook: $NOTIFY_URL              # or the address itself
//	  on: [blocked, failed]
//	  timeout: 10s
type Notify struct {
	// Command is a program with its arguments, or one text, which is a line for the shell. Defaults to none.
	Command []string `yaml:"command"`
	// Webhook is an address, or the variable of the environment that has it. Defaults to none.
	Webhook string `yaml:"webhook"`
	// On are the events that are told: finished, blocked, failed, budget, limited. Defaults to all of them.
	On []notify.Event `yaml:"on"`
	// Timeout bounds a notification. Defaults to [notify.DefaultTimeout].
	Timeout time.Duration `yaml:"timeout"`
}

// Program is what [Notify.Command] runs, with its arguments; nil: nothing, as an empty line in a project's file over
// the user's.
func (c *Notify) Program() []string {
	switch {
	case len(c.Command) != 1:
		return c.Command
	case c.Command[0] == "":
		return nil
	}
	return []string{"sh", "-c", c.Command[0]}
}

// wholeVariable is a value that is taken from the environment.
var wholeVariable = text.Regexp(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})$`)

// check reports what is well-formed and makes no sense. The webhook is in no message.
func (c *Notify) check(file *yamlfile.File) {
	if len(c.Command) > 1 && strings.TrimSpace(c.Command[0]) == "" {
		file.Report("notify.command", "notify.command begins with nothing", "its first word is the program")
	}
	if c.Webhook != "" && !wholeVariable().MatchString(c.Webhook) {
		if _, err := c.Address(nil); err != nil {
			file.Report("notify.webhook", err.Error(), "")
		}
	}
}

// Wants reports whether an event is to be told.
func (c *Notify) Wants(e notify.Event) bool {
	return c.On == nil || slices.Contains(c.On, e)
}

// Address is the webhook's, from the environment if the configuration names a variable; nil: there is none.
func (c *Notify) Address(getenv func(string) string) (*url.URL, error) {
	address, key := c.Webhook, "notify.webhook"
	if names := wholeVariable().FindStringSubmatch(address); names != nil {
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

// Blockers says whether what only the user can answer is diverted, and how.
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
	if _, err := blockers.Open(b.Register("/project")); err != nil {
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "open blockers: "), "\n") {
			value, _, _ := strings.Cut(line, ":")
			file.Report("blockers."+value, "blockers: "+line, "")
		}
	}
}

// Register is the configuration of a register, without what the process adds to it.
func (b *Blockers) Register(root string) blockers.Config {
	return blockers.Config{
		Root: root, File: b.File, Enabled: b.Enabled, Policy: b.Policy, Max: b.MaxPerSession,
		Cooldown: cmp.Or(b.Cooldown, -1), Marker: b.Marker, Soft: b.Soft,
	}
}

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
		checkCommand(file, "slots.setup", i, line)
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
