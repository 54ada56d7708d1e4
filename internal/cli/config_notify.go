package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/bouldermgr/manager/internal/notify"
)

// notifyConfig says whom to tell how a run stands.
//
//	notify:
//	  command: [notify-send, manager]   # or a line for the shell
//	  webhook: $NOTIFY_URL              # or the address itself
//	  on: [blocked, failed]
//	  timeout: 10s
type notifyConfig struct {
	// Command is a program with its arguments, or a line for the shell. Defaults to none.
	Command commandLine `yaml:"command"`
	// Webhook is an address, or the variable of the environment that has it. Defaults to none.
	Webhook string `yaml:"webhook"`
	// On are the events that are told: finished, blocked, failed, budget. Defaults to all of them.
	On []string `yaml:"on"`
	// Timeout bounds a notification. Defaults to [notify.DefaultTimeout].
	Timeout period `yaml:"timeout"`
}

// commandLine is a program with its arguments.
type commandLine []string

// UnmarshalYAML reads a list, or a line for the shell.
func (x *commandLine) UnmarshalYAML(node ast.Node) error {
	const wanted = `a command as [notify-send, manager], or a line for the shell`
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		text, ok := scalarText(node)
		if !ok {
			return wrongValue(node, wanted)
		}
		*x = nil
		if text != "" { // else: none, in a project's file over a person's
			*x = commandLine{"sh", "-c", text}
		}
		return nil
	}
	*x = commandLine{}
	for _, item := range list.Values {
		text, ok := scalarText(item)
		if !ok {
			return wrongValue(node, wanted)
		}
		*x = append(*x, text)
	}
	return nil
}

// wholeVariable is a value that is taken from the environment.
var wholeVariable = regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})$`)

// check refuses values that are well-formed and make no sense. The webhook is in no error.
func (c *notifyConfig) check() error {
	if len(c.Command) > 0 && strings.TrimSpace(c.Command[0]) == "" {
		return errors.New("notify.command begins with nothing: its first word is the program")
	}
	for _, on := range c.On {
		if !slices.Contains(notify.Events(), notify.Event(on)) {
			return fmt.Errorf("notify.on has %q: use finished, blocked, failed or budget", on)
		}
	}
	if c.Webhook != "" && !wholeVariable.MatchString(c.Webhook) {
		if _, err := notify.ParseWebhook(c.Webhook); err != nil {
			return fmt.Errorf("notify.webhook: %w", err)
		}
	}
	return nil
}

// wants reports whether an event is to be told.
func (c *notifyConfig) wants(e notify.Event) bool {
	return c.On == nil || slices.Contains(c.On, string(e))
}

// address is the webhook's, from the environment if the configuration names a variable; empty: there is none.
func (c *notifyConfig) address(getenv func(string) string) (string, error) {
	names := wholeVariable.FindStringSubmatch(c.Webhook)
	if names == nil {
		return c.Webhook, nil
	}
	name := names[1] + names[2]
	address := getenv(name)
	if address == "" {
		return "", usagef("notify.webhook is $%s, and that is not set: set it, or take the webhook out of the configuration",
			name)
	}
	if _, err := notify.ParseWebhook(address); err != nil {
		return "", usagef("notify.webhook is $%s: %v", name, err)
	}
	return address, nil
}

// notifier is who tells; nil if nobody is to be told.
func (d *deps) notifier() (*notify.Notifier, error) {
	c := d.config.Notify
	address, err := c.address(d.app.Getenv)
	if err != nil {
		return nil, err
	}
	if len(c.Command) == 0 && address == "" || c.On != nil && len(c.On) == 0 {
		return nil, nil
	}
	d.app.learnWebhook(address)
	env, err := d.app.marked(d.project)
	if err != nil {
		return nil, err
	}
	return notify.New(notify.Config{
		Command: c.Command, Dir: d.project, Env: env, Webhook: address, Timeout: time.Duration(c.Timeout), Logger: d.log,
	})
}

// learnWebhook makes an address a secret: it is the only key to what it leads to.
func (a *app) learnWebhook(address string) {
	u, err := notify.ParseWebhook(address)
	if err != nil || a.secrets == nil {
		return
	}
	password, _ := u.User.Password()
	a.secrets.Add("the webhook's address", address, u.RequestURI(), password)
}

// webhookIn finds the address in a configuration file, whether that can be read or not.
var webhookIn = regexp.MustCompile(`\bwebhook["']?\s*:\s*["']?(https?://[^\s"'},]+)`)

// learnWebhooksOf makes the webhook of a configuration file a secret before the file is read: what is wrong with a file is
// shown with the lines around it.
func (a *app) learnWebhooksOf(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return // whoever reads it says so
	}
	for _, found := range webhookIn.FindAllSubmatch(data, -1) {
		a.learnWebhook(string(found[1]))
	}
}
