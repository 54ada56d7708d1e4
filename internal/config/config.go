// Package config reads the configuration: the user's file, and the project's over it. All mistakes of a file are told at
// once, each with its line. Flags win over what is here; what neither says has the documented default (docs/rules.md).
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
)

// Config is what the files say, over the defaults of [Default].
type Config struct {
	Model       string `yaml:"model"`        // for sub-tasks that name none
	LedgerModel string `yaml:"ledger_model"` // for planning and judging
	Agent       string `yaml:"agent"`        // of OpenCode, for sub-tasks that name none
	OpenCode    string `yaml:"opencode"`     // path of the binary
	// OpenCodeMemory is how many bytes an OpenCode that manager started may use before another takes its place. Defaults to
	// any number.
	OpenCodeMemory int64 `yaml:"opencode_memory,count"`
	// Environment names the variables that OpenCode and commands get, as PATH or NPM_*. Nil: all.
	Environment []string `yaml:"environment"`

	// AllowModelGates runs the gates of a plan that a model wrote, without a review. Defaults to false: they are
	// told to the agent as hints.
	AllowModelGates bool          `yaml:"allow_model_gates"`
	Gates           []string      `yaml:"gates"`        // of every sub-task, besides its own
	NoWorse         []string      `yaml:"no_worse"`     // the same, for gates that may stay as red as they were
	GateTimeout     time.Duration `yaml:"gate_timeout"` // 0: the executor's default

	// Isolation says whether the sub-tasks of a run work in slots of their own. Defaults to what [project.Options] says.
	Isolation        boulder.Isolation `yaml:"isolation"`
	IntegrationGates []string          `yaml:"integration_gates"` // of every combined tree, besides the sub-tasks' gates
	Scope            boulder.Scope     `yaml:"scope"`             // defaults to warn
	Generated        map[string]string `yaml:"generated"`         // added to the known ones, see [boulder.Boulder.Generated]
	Slots            Slots             `yaml:"slots"`
	Land             Land              `yaml:"land"` // what becomes of results at the end of a run: files, branch, pr, or [LandAsk]

	// DoneWhen are the criteria of sub-tasks for which neither they nor their plan name any. Defaults to what
	// [project.Project.Criteria] finds out.
	DoneWhen []string `yaml:"done_when,criterion"`
	// Tests and Lint are the commands behind the criteria tests and diagnostics. Nil: what is found in the project; empty:
	// none.
	Tests []string     `yaml:"tests"`
	Lint  []string     `yaml:"lint"`
	Loop  boulder.Loop `yaml:"loop"`

	// OnAsk is what an agent is told that asks for a permission: reject, which is the default, or allow.
	OnAsk executor.Asks `yaml:"on_ask"`

	Limits   orchestrator.Limits `yaml:"limits"` // the models that the files name come before the defaults
	Rules    enforcer.Rules      `yaml:"rules"`
	Watch    Watch               `yaml:"watch"`
	Blockers Blockers            `yaml:"blockers"`
	Notify   Notify              `yaml:"notify"`
	Tracing  Tracing             `yaml:"tracing"`
	Budget   *boulder.Budget     `yaml:"budget"` // of a run; nil: none

	// Prices are for calls of which neither the provider nor OpenCode tells what they cost.
	Prices providers.Prices `yaml:"prices"`
	// Endpoints are further OpenAI-compatible servers for the ledgers.
	Endpoints []openai.Endpoint `yaml:"endpoints"`

	origins map[string]string // of all that a file says, by path
}

// Land is a way in which results land: [LandAsk], or as [boulder.Landed] has it.
type Land string

// LandAsk has the user asked on a terminal; elsewhere nothing lands by itself. Without a value of [Config.Land] it is
// so, too, but results that were isolated by [boulder.IsolationAuto] are written into the files where the user cannot
// be asked.
const LandAsk Land = "ask"

// Words are those that there are.
func (Land) Words() []string {
	return []string{string(LandAsk), boulder.LandedFiles, boulder.LandedBranch, boulder.LandedPR}
}

// Tracing says where the trace of a run is sent when it ends.
type Tracing struct {
	Endpoint string `yaml:"endpoint"` // URL that speaks OTLP over HTTP, as http://127.0.0.1:4318. Defaults to none
}

// Watch is the policy of `manager watch`, and has defaults of its flags.
type Watch struct {
	Attach   string   `yaml:"attach"`
	DoneWhen []string `yaml:"done_when,criterion"`
	enforcer.Policy
}

// Default is the configuration of who has none.
func Default() *Config {
	loop := enforcer.LoopPolicy()
	return &Config{
		Limits: orchestrator.DefaultLimits(), Rules: enforcer.DefaultRules(), Watch: Watch{Policy: enforcer.WatchPolicy()},
		Loop:     boulder.Loop{Iterations: loop.MaxIterations, Failures: loop.MaxFailures, Cooldown: loop.Cooldown},
		Blockers: Blockers{MaxPerSession: 50, Cooldown: 30 * time.Second},
	}
}

// Load reads files, the later ones over the earlier. A mistake in one is a [*yamlfile.Error]; what the file system says
// is wrapped. Unless they are required, files that are not there count as empty.
func Load(required bool, paths ...string) (*Config, error) {
	c := Default()
	models := c.Limits.Models
	c.Limits.Models = nil
	for _, path := range paths {
		data, err := yamlfile.Read(path)
		// A file where .manager should be is no fault of the configuration; the store says what to do about it.
		if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !required {
			continue
		}
		if err == nil {
			err = c.read(path, data)
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
	for path := range file.Paths() { // a list takes the place of the one before
		maps.DeleteFunc(c.origins, func(before, _ string) bool { return strings.HasPrefix(before, path+"[") })
	}
	for path := range file.Paths() {
		c.origins[path] = file.Place(path)
	}
	c.check(file)
	return file.Err()
}

func (c *Config) check(file *yamlfile.File) {
	// reportAll tells each of several errors.
	reportAll := func(path string, err error) {
		if err == nil {
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			file.Report(path, path+": "+line, "")
		}
	}
	for path, ref := range map[string]string{"model": c.Model, "ledger_model": c.LedgerModel} {
		if _, err := providers.ParseModel(ref); ref != "" {
			reportAll(path, err)
		}
	}
	for i, m := range c.Limits.Models {
		if path := fmt.Sprintf("limits.models[%d]", i); m.Pattern == "" || !file.Has(path+".limit") && file.Has(path) {
			file.Report(path, "limits.models needs a pattern and a limit", `as in {pattern: "*opus*", limit: 2}`)
		}
	}
	for i, name := range c.Environment {
		if !variables().MatchString(name) {
			file.Report(fmt.Sprintf("environment[%d]", i), fmt.Sprintf("environment has %q", name), "names of variables as PATH or NPM_*")
		}
	}
	reportAll("limits", c.Limits.Validate())
	if c.Rules.Window < 1 {
		file.Report("rules.window", "rules.window must be at least 1", "without a call there is nothing to compare")
	}
	for key, lines := range c.Commands() {
		for i, line := range lines {
			if file.Has(key) { // else it is of an earlier file
				checkCommand(file, key, i, line)
			}
		}
	}
	c.Slots.check(file)
	for i, line := range c.NoWorse {
		if slices.Contains(c.Gates, line) {
			file.Report(fmt.Sprintf("no_worse[%d]", i), fmt.Sprintf("the command %q is in gates and in no_worse", line),
				"one of gates must be green, one of no_worse may stay as red as it was; keep it in one of them")
		}
	}
	reportAll("prices", c.Prices.Validate())
	reportAll("loop", c.Loop.Validate())
	if u, err := url.Parse(c.Tracing.Endpoint); c.Tracing.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		file.Report("tracing.endpoint", "tracing.endpoint is no http or https address", "as in http://127.0.0.1:4318")
	}
	c.Blockers.check(file)
	c.Notify.check(file)
	for i, e := range c.Endpoints {
		if err := e.Validate(); err != nil {
			file.Report(fmt.Sprintf("endpoints[%d]", i), err.Error(), "")
		}
		if slices.ContainsFunc(c.Endpoints[:i], func(before openai.Endpoint) bool { return before.Name == e.Name }) {
			file.Report(fmt.Sprintf("endpoints[%d]", i), fmt.Sprintf("endpoint %s is defined twice", e.Name), "give it another name")
		}
	}
}

var variables = text.Regexp(`^[A-Za-z0-9_*]+$`)

// Commands are those that are run to judge the work, by their keys.
func (c *Config) Commands() map[string][]string {
	return map[string][]string{
		"gates": c.Gates, "no_worse": c.NoWorse, "integration_gates": c.IntegrationGates, "tests": c.Tests, "lint": c.Lint,
	}
}

// Place is where an entry of a list stands, as `config.yaml:3`.
func (c *Config) Place(key string, i int) string {
	return cmp.Or(c.origins[fmt.Sprintf("%s[%d]", key, i)], c.origins[key])
}

func checkCommand(file *yamlfile.File, key string, i int, line string) {
	path := fmt.Sprintf("%s[%d]", key, i)
	if strings.TrimSpace(line) == "" {
		file.Report(path, key+" has an empty command", "write one as `go test ./...`, or remove it")
	} else if what := command.Syntax(line); what != "" {
		file.Report(path, "the shell cannot read the command: "+text.Cut(what, 200), "correct it: `sh -n -c` has to accept it")
	}
}
