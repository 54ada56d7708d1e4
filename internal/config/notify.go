package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

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
	// Command is a program with its arguments, or a line for the shell. Defaults to none.
	Command commandLine `yaml:"command"`
	// Webhook is an address, or the variable of the environment that has it. Defaults to none.
	Webhook string `yaml:"webhook"`
	// On are the events that are told: finished, blocked, failed, budget, limited. Defaults to all of them.
	On []notify.Event `yaml:"on"`
	// Timeout bounds a notification. Defaults to [notify.DefaultTimeout].
	Timeout time.Duration `yaml:"timeout"`
}

type commandLine []string

// UnmarshalYAML reads a list, or a line for the shell; an empty one is none, in a project's file over the user's.
func (c *commandLine) UnmarshalYAML(n *yaml.Node) error {
	var line string
	if n.Kind != yaml.ScalarNode || n.Decode(&line) != nil {
		if n.Decode((*[]string)(c)) != nil {
			return errors.New("a command as [notify-send, manager], or a line for the shell")
		}
		return nil
	}
	if *c = nil; line != "" {
		*c = commandLine{"sh", "-c", line}
	}
	return nil
}

// wholeVariable is a value that is taken from the environment.
var wholeVariable = text.Regexp(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})$`)

// check reports what is well-formed and makes no sense. The webhook is in no message.
func (c *Notify) check(file *yamlfile.File) {
	if len(c.Command) > 0 && strings.TrimSpace(c.Command[0]) == "" {
		file.Report("notify.command", "notify.command begins with nothing", "its first word is the program")
	}
	for i, on := range c.On {
		if !slices.Contains(notify.Events(), on) {
			file.Report(fmt.Sprintf("notify.on[%d]", i), fmt.Sprintf("notify.on has %q", on),
				"use finished, blocked, failed, budget or limited")
		}
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
