// Package config reads the configuration: the user's file, overridden by the project's. It reports all mistakes of a
// file at once, each with its line. Flags override the files; docs/rules.md documents the defaults.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
)

// Config is the merged configuration: the files override [Default].
type Config struct {
	Model       boulder.Models `yaml:"model"`        // for sub-tasks that name none
	Effort      string         `yaml:"effort"`       // of models of sub-tasks that are named without one
	LedgerModel boulder.Models `yaml:"ledger_model"` // for planning and judging
	Models      Models         `yaml:"models"`
	Agent       string         `yaml:"agent"`    // of OpenCode, for sub-tasks that name none
	OpenCode    string         `yaml:"opencode"` // path of the binary
	// OpenCodeMemory is the bytes that an OpenCode started by manager may use before it is replaced. 0: no limit.
	OpenCodeMemory int64 `yaml:"opencode_memory,count"`
	// Environment lists the variables that OpenCode and commands get, such as PATH or NPM_*. Defaults to all.
	Environment []string `yaml:"environment"`

	Plan Plan `yaml:"plan"`
	// Review is true, false or the model of a look at the changes before the request is checked. Defaults to false.
	Review string `yaml:"review"`

	// AllowModelGates runs the gates of a model's plan without review. Defaults to false: they are only hints to agents.
	AllowModelGates bool          `yaml:"allow_model_gates"`
	Gates           []string      `yaml:"gates"`        // of every sub-task, in addition to its own
	NoWorse         []string      `yaml:"no_worse"`     // the same, for gates that may stay as red as they were
	GateTimeout     time.Duration `yaml:"gate_timeout"` // defaults to the executor's

	// Isolation says whether each sub-task of a run works in its own slot. Defaults to [project.Options].Isolation.
	Isolation        boulder.Isolation `yaml:"isolation"`
	IntegrationGates []string          `yaml:"integration_gates"` // of every combined tree, besides the sub-tasks' gates
	Scope            boulder.Scope     `yaml:"scope"`             // defaults to warn
	Generated        map[string]string `yaml:"generated"`         // besides the built-in ones, see [boulder.Boulder.Generated]
	Slots            Slots             `yaml:"slots"`
	Land             Land              `yaml:"land"` // how results land at the end: files, branch, pr or [LandAsk]

	// DoneWhen are the criteria where neither sub-task nor plan names any. Defaults to [project.Project.Criteria].
	DoneWhen boulder.DoneWhen `yaml:"done_when"`
	// Tests and Lint are the commands of the criteria tests and diagnostics. Nil: detected in the project. Empty: none.
	Tests []string     `yaml:"tests"`
	Lint  []string     `yaml:"lint"`
	Loop  boulder.Loop `yaml:"loop"`

	// OnAsk is the reply to an agent that asks for a permission: reject (the default) or allow.
	OnAsk executor.Asks `yaml:"on_ask"`

	Limits   orchestrator.Limits `yaml:"limits"` // model limits from the files come before the defaults
	Rules    enforcer.Rules      `yaml:"rules"`
	Watch    Watch               `yaml:"watch"`
	Blockers Blockers            `yaml:"blockers"`
	Notify   Notify              `yaml:"notify"`
	Tracing  Tracing             `yaml:"tracing"`
	Budget   *boulder.Budget     `yaml:"budget"` // of a run; nil: none

	// Prices apply to calls whose cost neither the provider nor OpenCode reports.
	Prices providers.Prices `yaml:"prices"`
	// Endpoints are additional OpenAI-compatible servers for the ledgers.
	Endpoints []openai.Endpoint `yaml:"endpoints"`

	// Warnings are about commands that prove nothing, or run otherwise than they look in the file.
	Warnings []yamlfile.Problem `yaml:"-"`

	// Untrusted is what does not count of a file that is not trusted; nil: all counts.
	Untrusted *Untrusted `yaml:"-"`
	// Foreign are files with the name of a configuration that are another program's. They do not count.
	Foreign []string `yaml:"-"`

	origins map[string]string // FILE:LINE of every value that a file sets, by path of keys
}

// Models is about all models.
type Models struct {
	Fallback boulder.Models `yaml:"fallback"` // while a model cannot be used that is named alone, of sub-tasks or ledgers
	// Describe says what models are good at, by provider/model, perhaps with an effort: then the planner may choose them.
	Describe map[string]string `yaml:"describe"`
}

// Land says how results land: [LandAsk], or a value of [boulder.Landed].How.
type Land string

// LandAsk asks the user on a terminal; without a terminal nothing lands. An empty [Config.Land] means the same, except
// that without a terminal the results of [boulder.IsolationAuto] are written into the user's files.
const LandAsk Land = "ask"

// Words lists the values that a configuration may name.
func (Land) Words() []string {
	return []string{string(LandAsk), boulder.LandedFiles, boulder.LandedBranch, boulder.LandedPR}
}

// Plan says what precedes a plan.
type Plan struct {
	Look      boulder.LookMode `yaml:"look"`       // defaults to auto
	LookModel string           `yaml:"look_model"` // of a look; defaults to the model of sub-tasks that name none
}

// Reviews reports whether a look reviews the changes, and by which model; empty: that of the ledgers.
func (c *Config) Reviews() (on bool, model string) {
	switch c.Review {
	case "", "false":
		return false, ""
	case "true":
		return true, ""
	}
	return true, c.Review
}

// Tracing says where the trace of a run is sent when the run ends.
type Tracing struct {
	Endpoint string `yaml:"endpoint"` // OTLP over HTTP, such as http://127.0.0.1:4318. Defaults to none
}

// Watch is the policy of `manager watch`, and defaults for its flags.
type Watch struct {
	Attach   string           `yaml:"attach"`
	DoneWhen boulder.DoneWhen `yaml:"done_when"`
	enforcer.Policy
}

// Default is the configuration without any file.
func Default() *Config {
	loop := enforcer.LoopPolicy()
	return &Config{
		Limits: orchestrator.DefaultLimits(), Rules: enforcer.DefaultRules(), Watch: Watch{Policy: enforcer.WatchPolicy()},
		Loop:     boulder.Loop{Iterations: loop.MaxIterations, Failures: loop.MaxFailures, Cooldown: loop.Cooldown},
		Blockers: Blockers{MaxPerSession: 50, Cooldown: 30 * time.Second},
	}
}

// Load reads files; later ones override earlier ones. A mistake in a file is a [*yamlfile.Error]; errors of the file
// system are wrapped. Unless required is set, missing files count as empty.
func Load(required bool, files ...File) (*Config, error) {
	c := Default()
	models := c.Limits.Models
	c.Limits.Models = nil
	for _, f := range files {
		data, err := yamlfile.Read(f.Path)
		// ENOTDIR: .manager is a file. That is not a mistake in the configuration; the store reports it.
		if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !required {
			continue
		}
		shared := f.Trusted != nil
		switch {
		case err != nil:
		case shared && another(f.Path, data):
			c.Foreign = append(c.Foreign, f.Path)
		case shared && !f.Trusted(data):
			err = c.readUntrusted(f.Path, data)
		default:
			err = c.read(f.Path, data)
		}
		if err != nil {
			return nil, err
		}
	}
	c.Limits.Models = append(c.Limits.Models, models...)
	if c.Budget != nil && *c.Budget == (boulder.Budget{}) {
		c.Budget = nil
	}
	return c, nil
}

func (c *Config) read(name string, data []byte) error {
	file, err := yamlfile.Decode(name, data, c)
	if err != nil {
		return err
	}
	if c.origins == nil {
		c.origins = map[string]string{}
	}
	for path := range file.Paths() { // a list replaces the one of an earlier file
		maps.DeleteFunc(c.origins, func(before, _ string) bool { return strings.HasPrefix(before, path+"[") })
	}
	for path := range file.Paths() {
		c.origins[path] = file.Place(path)
	}
	c.check(file)
	c.Warnings = append(c.Warnings, file.Warnings()...)
	return file.Err()
}

var envPattern = text.Regexp(`^[A-Za-z0-9_*]+$`)

// Commands are the configured commands that judge the work, by configuration key.
func (c *Config) Commands() map[string][]string {
	return map[string][]string{
		"gates": c.Gates, "no_worse": c.NoWorse, "integration_gates": c.IntegrationGates, "tests": c.Tests, "lint": c.Lint,
	}
}

// Place returns the file and line of an entry of a list, such as `config.yaml:3`.
func (c *Config) Place(key string, i int) string {
	return cmp.Or(c.origins[fmt.Sprintf("%s[%d]", key, i)], c.origins[key])
}
