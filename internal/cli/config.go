package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
	"github.com/bouldermgr/manager/store"
)

// config is the configuration file. Flags win over it; what neither says has the documented default.
type config struct {
	Model       string `yaml:"model"`        // for sub-tasks that name none
	LedgerModel string `yaml:"ledger_model"` // for planning and judging
	OpenCode    string `yaml:"opencode"`     // path of the binary

	// AllowModelGates runs the gates of a plan that a model wrote and nobody looked at. Defaults to false: they are told
	// to the agent as hints.
	AllowModelGates bool             `yaml:"allow_model_gates"`
	GateTimeout     boulder.Duration `yaml:"gate_timeout"`

	Limits struct {
		Global      *int                      `yaml:"global"`
		PerModel    *int                      `yaml:"per_model"`
		Providers   map[string]int            `yaml:"providers"`
		Models      []orchestrator.ModelLimit `yaml:"models"` // looked at before the defaults
		Attempts    *int                      `yaml:"attempts"`
		Evaluations *int                      `yaml:"evaluations"`
		Troubles    *int                      `yaml:"troubles"`
	} `yaml:"limits"`
	Turn struct {
		WallClock   boulder.Duration `yaml:"wall_clock"`
		Silence     boulder.Duration `yaml:"silence"`
		ToolSilence boulder.Duration `yaml:"tool_silence"`
	} `yaml:"turn"`
	// Endpoints are further OpenAI-compatible servers for the ledgers.
	Endpoints []openai.Endpoint `yaml:"endpoints"`
}

// loadConfig reads --config, or else the user's file and the project's over it.
func (a *app) loadConfig(project string) (*config, error) {
	var c config
	paths, required := a.configPaths(project), false
	if a.configFile != "" {
		paths, required = []string{a.file(a.configFile)}, true
	}
	for _, path := range paths {
		if err := readConfig(path, &c, required); err != nil {
			return nil, err
		}
	}
	_, err := c.limits() // what cannot be run with is told before anything is started
	return &c, err
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

// readConfig lays a file over c.
func readConfig(path string, c *config, required bool) error {
	data, err := os.ReadFile(path)
	// A file where .manager should be is no fault of the configuration; the store says what to do about it.
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !required {
		return nil
	}
	if err != nil {
		return usagef("configuration: %v", err)
	}
	if err := yaml.UnmarshalWithOptions(data, c, yaml.Strict()); err != nil {
		return usagef("configuration %s: %s", path, yaml.FormatError(err, false, true))
	}
	for _, ref := range []string{c.Model, c.LedgerModel} {
		if ref == "" {
			continue
		}
		if _, err := providers.ParseModel(ref); err != nil {
			return usagef("configuration %s: %v", path, err)
		}
	}
	return nil
}

// limits are the defaults with what the configuration changes.
func (c *config) limits() (orchestrator.Limits, error) {
	l := orchestrator.DefaultLimits()
	for name, set := range map[string]struct {
		from *int
		to   *int
	}{
		"global": {c.Limits.Global, &l.Global}, "per_model": {c.Limits.PerModel, &l.PerModel},
		"attempts": {c.Limits.Attempts, &l.Attempts}, "evaluations": {c.Limits.Evaluations, &l.Evaluations},
		"troubles": {c.Limits.Troubles, &l.Troubles},
	} {
		if set.from == nil {
			continue
		}
		if *set.from < 1 {
			return l, usagef("configuration: limits.%s is %d: with less than 1 nothing could run", name, *set.from)
		}
		*set.to = *set.from
	}
	l.Providers = maps.Clone(c.Limits.Providers)
	l.Models = append(append([]orchestrator.ModelLimit{}, c.Limits.Models...), l.Models...)
	if err := l.Validate(); err != nil {
		return l, usagef("configuration: %v", err)
	}
	return l, nil
}

// rules are the deadlines of a turn.
func (c *config) rules() enforcer.Rules {
	r := enforcer.DefaultRules()
	for _, set := range []struct {
		from boulder.Duration
		to   *time.Duration
	}{{c.Turn.WallClock, &r.WallClock}, {c.Turn.Silence, &r.Silence}, {c.Turn.ToolSilence, &r.ToolSilence}} {
		if set.from > 0 {
			*set.to = time.Duration(set.from)
		}
	}
	return r
}

// modelOf returns the first model that is named, checked.
func modelOf(refs ...string) (string, error) {
	for _, ref := range refs {
		if ref == "" {
			continue
		}
		if _, err := providers.ParseModel(ref); err != nil {
			return "", &usageError{fmt.Errorf("--model: %w", err)}
		}
		return ref, nil
	}
	return "", nil
}
