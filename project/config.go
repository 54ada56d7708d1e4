package project

import (
	"path/filepath"

	"github.com/bouldermgr/manager/internal/notify"
)

// ConfigPaths lists where the configuration is looked for, the later winning over the earlier.
func (p *Project) ConfigPaths() []string {
	if p.opts.Config != "" {
		return []string{p.opts.Config}
	}
	var paths []string
	if home := ConfigHome(p.getenv); home != "" {
		paths = append(paths, filepath.Join(home, "manager", "config.yaml"))
	}
	return append(paths, filepath.Join(p.stateDir(), "config.yaml"))
}

// ConfigHome is the user's directory for configuration, of OpenCode as well; empty if the environment names none.
func ConfigHome(getenv func(string) string) string {
	home := getenv("XDG_CONFIG_HOME")
	if home == "" && getenv("HOME") != "" {
		home = filepath.Join(getenv("HOME"), ".config")
	}
	return home
}

// Notifier is who tells; nil if nobody is to be told.
func (p *Project) Notifier() (*notify.Notifier, error) {
	c := p.cfg.Notify
	address, err := c.Address(p.getenv)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	if len(c.Command) == 0 && address == "" || c.On != nil && len(c.On) == 0 {
		return nil, nil
	}
	p.learnWebhook(address)
	env, err := p.environ()
	if err != nil {
		return nil, err
	}
	return &notify.Notifier{
		Command: c.Command, Dir: p.dir, Env: env, Webhook: address, Timeout: c.Timeout, Logger: p.log,
	}, nil
}

// learnWebhook makes an address a secret: it is the only key to what it leads to.
func (p *Project) learnWebhook(address string) {
	u, err := notify.ParseWebhook(address)
	if err != nil {
		return
	}
	password, _ := u.User.Password()
	p.secrets.Add("the webhook's address", address, u.RequestURI(), password)
}
