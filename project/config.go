package project

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/internal/config"
	"github.com/bouldermgr/manager/internal/notify"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/providers"
)

// loadConfig reads --config, or else the user's file and the project's over it.
func (p *Project) loadConfig() (*config.Config, error) {
	paths, required := p.ConfigPaths(), p.opts.Config != ""
	c, err := config.Load(required, paths...)
	if _, told := errors.AsType[*yamlfile.Error](err); told {
		return nil, err
	}
	if err != nil {
		return nil, usagef("configuration: %v", err)
	}
	p.learnWebhook(c.Notify.Webhook)
	return c, nil
}

// ConfigPaths lists where the configuration is looked for, the later winning over the earlier.
func (p *Project) ConfigPaths() []string {
	if p.opts.Config != "" {
		return []string{p.opts.Config}
	}
	home := p.getenv("XDG_CONFIG_HOME")
	if home == "" && p.getenv("HOME") != "" {
		home = filepath.Join(p.getenv("HOME"), ".config")
	}
	var paths []string
	if home != "" {
		paths = append(paths, filepath.Join(home, "manager", "config.yaml"))
	}
	return append(paths, filepath.Join(p.stateDir(), "config.yaml"))
}

// modelOf returns the first model that is named, checked.
func modelOf(refs ...string) (string, error) {
	for _, ref := range refs {
		if ref == "" {
			continue
		}
		if _, err := providers.ParseModel(ref); err != nil {
			return "", usagef("--model: %w", err)
		}
		return ref, nil
	}
	return "", nil
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
		Command: c.Command, Dir: p.dir, Env: env, Webhook: address, Timeout: time.Duration(c.Timeout), Logger: p.log,
	}, nil
}

// learnWebhook makes an address a secret: it is the only key to what it leads to.
func (p *Project) learnWebhook(address string) {
	u, err := notify.ParseWebhook(address)
	if err != nil || p.secrets == nil {
		return
	}
	password, _ := u.User.Password()
	p.secrets.Add("the webhook's address", address, u.RequestURI(), password)
}
