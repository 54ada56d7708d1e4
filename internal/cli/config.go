package cli

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/internal/config"
	"github.com/bouldermgr/manager/internal/notify"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/store"
)

// loadConfig reads --config, or else the user's file and the project's over it.
func (a *app) loadConfig(project string) (*config.Config, error) {
	paths, required := a.configPaths(project), false
	if a.configFile != "" {
		paths, required = []string{a.file(a.configFile)}, true
	}
	c, err := config.Load(required, paths...)
	if _, told := errors.AsType[*yamlfile.Error](err); told {
		return nil, err
	}
	if err != nil {
		return nil, usagef("configuration: %v", err)
	}
	a.learnWebhook(c.Notify.Webhook)
	return c, nil
}

// configPaths lists where a configuration is looked for, the later winning over the earlier.
func (a *app) configPaths(project string) []string {
	home := a.Getenv("XDG_CONFIG_HOME")
	if home == "" && a.Getenv("HOME") != "" {
		home = filepath.Join(a.Getenv("HOME"), ".config")
	}
	var paths []string
	if home != "" {
		paths = append(paths, filepath.Join(home, "manager", "config.yaml"))
	}
	return append(paths, filepath.Join(project, store.DirName, "config.yaml"))
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

// notifier is who tells; nil if nobody is to be told.
func (d *deps) notifier() (*notify.Notifier, error) {
	c := d.config.Notify
	address, err := c.Address(d.app.Getenv)
	if err != nil {
		return nil, &usageError{err}
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
