// Package config reads the configuration: the user's file, and the project's over it. All mistakes of a file are told at
// once, each with its line. Flags win over what is here; what neither says has the documented default (docs/rules.md).
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"syscall"

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

// Config is what the files say. The zero value is the configuration of nobody.
type Config struct {
	Model       string `yaml:"model"`        // for sub-tasks that name none
	LedgerModel string `yaml:"ledger_model"` // for planning and judging
	OpenCode    string `yaml:"opencode"`     // path of the binary

	// AllowModelGates runs the gates of a plan that a model wrote and nobody looked at. Defaults to false: they are
	// told to the agent as hints.
	AllowModelGates bool            `yaml:"allow_model_gates"`
	Gates           []string        `yaml:"gates"`    // of every sub-task, besides its own
	NoWorse         []string        `yaml:"no_worse"` // the same, for gates that may stay as red as they were
	GateTimeout     yamlfile.Period `yaml:"gate_timeout"`

	// DoneWhen are the criteria of sub-tasks for which neither they nor their plan name any. Defaults to the judge.
	DoneWhen []string `yaml:"done_when"`
	// Tests and Lint are the commands behind the criteria tests and diagnostics. Default to what is found in the project.
	Tests Commands     `yaml:"tests"`
	Lint  Commands     `yaml:"lint"`
	Loops loopSettings `yaml:"loop"`

	// OnAsk is what an agent is told that asks for a permission: reject, which is the default, or allow.
	OnAsk executor.Asks `yaml:"on_ask"`

	Limit limitSettings `yaml:"limits"`
	Rule  ruleSettings  `yaml:"rules"`
	Watch Watch         `yaml:"watch"`

	Blockers Blockers `yaml:"blockers"`
	Notify   Notify   `yaml:"notify"`

	RunBudget yamlfile.Budget `yaml:"budget"`

	// Prices are for calls of which neither the provider nor OpenCode tells what they cost.
	Prices providers.Prices `yaml:"prices"`
	// Endpoints are further OpenAI-compatible servers for the ledgers.
	Endpoints []openai.Endpoint `yaml:"endpoints"`

	places map[string]string // of the commands
}

// limitSettings overwrites [orchestrator.Limits].
type limitSettings struct {
	Global    number            `yaml:"global"`
	PerModel  number            `yaml:"per_model"`
	Providers map[string]number `yaml:"providers"`
	Models    []struct {        // looked at before the defaults
		Pattern string `yaml:"pattern"`
		Limit   number `yaml:"limit"`
	} `yaml:"models"`
	Attempts    number `yaml:"attempts"`
	Evaluations number `yaml:"evaluations"`
	Troubles    number `yaml:"troubles"`
	Backoff     period `yaml:"backoff"`
	Stalls      number `yaml:"stalls"`
	Replans     number `yaml:"replans"`
	IdleTurns   number `yaml:"idle_turns"`
	Cooldowns   number `yaml:"cooldowns"`
	CoolBase    period `yaml:"cool_base"`
	CoolMax     period `yaml:"cool_max"`
	Warn        share  `yaml:"warn"`
}

// ruleSettings overwrites [enforcer.Rules].
type ruleSettings struct {
	Admission   deadline `yaml:"admission"`
	Silence     deadline `yaml:"silence"`
	ToolSilence deadline `yaml:"tool_silence"`
	WallClock   deadline `yaml:"wall_clock"`
	Offline     deadline `yaml:"offline"`

	ProviderRetries threshold `yaml:"provider_retries"`
	ProviderWait    deadline  `yaml:"provider_wait"`

	Window        number    `yaml:"window"`
	SameOutput    threshold `yaml:"same_output"`
	SamePolling   threshold `yaml:"same_polling"`
	Polling       []pattern `yaml:"polling"`
	SameError     threshold `yaml:"same_error"`
	SameErrorStop threshold `yaml:"same_error_stop"`
	Idle          threshold `yaml:"idle"`
	IdleStop      threshold `yaml:"idle_stop"`
	Alternate     threshold `yaml:"alternate"`
	Compactions   threshold `yaml:"compactions"`
	MinOutput     threshold `yaml:"min_output"`
}

// loopSettings overwrites the bounds of `manager loop`.
type loopSettings struct {
	Iterations number   `yaml:"iterations"`
	Failures   number   `yaml:"failures"`
	Cooldown   deadline `yaml:"cooldown"`
}

// Watch overwrites [enforcer.WatchPolicy], and has defaults of the flags of `manager watch`.
type Watch struct {
	Attach   string   `yaml:"attach"`
	DoneWhen []string `yaml:"done_when"`

	Idle          deadline  `yaml:"idle"`
	AbortWindow   deadline  `yaml:"abort_window"`
	Cooldown      deadline  `yaml:"cooldown"`
	Countdown     deadline  `yaml:"countdown"`
	MaxFailures   threshold `yaml:"failures"`
	FailureReset  deadline  `yaml:"failure_reset"`
	Resets        threshold `yaml:"resets"`
	MaxIterations number    `yaml:"iterations"`
	Compactions   threshold `yaml:"compactions"`
}

// Policy is the defaults with what the configuration changes.
func (w Watch) Policy() enforcer.Policy {
	p := enforcer.WatchPolicy()
	overlay(w, &p)
	if p.MaxFailures < 0 { // whoever wants no end for want of progress wants none for want of words either
		p.SameAnswers = -1
	}
	return p
}

// Load reads files, the later ones over the earlier. A mistake in one is a [*yamlfile.Error]; what the file system says
// is wrapped. Unless they are required, files that are not there count as empty.
func Load(required bool, paths ...string) (*Config, error) {
	var c Config
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
	return &c, nil
}

// read lays a file over c.
func (c *Config) read(name string, data []byte) error {
	file, readable := yamlfile.Decode(name, data, c)
	if readable {
		c.check(file)
	}
	return file.Err()
}

// check reports values that are well-formed and make no sense.
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
	reportWords := func(path string, words []string) {
		for i, word := range words {
			if !boulder.IsDoneWord(word) {
				file.Report(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s does not know %q", path, word),
					"use "+strings.Join(boulder.DoneWords(), ", "))
			}
		}
	}
	for path, ref := range map[string]string{"model": c.Model, "ledger_model": c.LedgerModel} {
		if _, err := providers.ParseModel(ref); ref != "" {
			reportAll(path, err)
		}
	}
	c.checkLimits(file)
	reportAll("limits", c.Limits().Validate())
	if c.Rules().Window < 1 {
		file.Report("rules.window", "rules.window must be at least 1", "without a call there is nothing to compare")
	}
	c.checkCommands(file)
	for i, line := range c.NoWorse {
		if slices.Contains(c.Gates, line) {
			file.Report(fmt.Sprintf("no_worse[%d]", i), fmt.Sprintf("the command %q is in gates and in no_worse", line),
				"one of gates must be green, one of no_worse may stay as red as it was; keep it in one of them")
		}
	}
	reportAll("prices", c.Prices.Validate())
	loop := c.Loop()
	reportAll("loop", loop.Validate())
	reportWords("done_when", c.DoneWhen)
	reportWords("watch.done_when", c.Watch.DoneWhen)
	c.Blockers.check(file)
	c.Notify.check(file)
	for i, e := range c.Endpoints {
		if err := e.Validate(); err != nil {
			file.Report(fmt.Sprintf("endpoints[%d]", i), err.Error(), "")
		}
	}
	switch c.OnAsk {
	case "", executor.AsksReject, executor.AsksAllow:
	default:
		file.Report("on_ask", fmt.Sprintf("on_ask is %q", c.OnAsk), "use reject or allow")
	}
}

// Commands gives the commands that are run to judge the work, each with where it stands, as `config.yaml:3`.
func (c *Config) Commands() map[string]string { return c.places }

// checkCommands reports what the shell cannot read.
func (c *Config) checkCommands(file *yamlfile.File) {
	before := c.places
	c.places = map[string]string{}
	for key, lines := range map[string][]string{
		"gates": c.Gates, "no_worse": c.NoWorse, "tests": c.Tests.List, "lint": c.Lint.List,
	} {
		for i, line := range lines {
			if !file.Has(key) { // it is of an earlier file
				c.places[line] = before[line]
				continue
			}
			path := fmt.Sprintf("%s[%d]", key, i)
			c.places[line] = file.Place(path)
			if what := command.Syntax(line); what != "" {
				file.Report(path, "the shell cannot read the command: "+text.Cut(what, 200), "correct it: `sh -n -c` has to accept it")
			}
		}
	}
}

func (c *Config) checkLimits(file *yamlfile.File) {
	for _, name := range slices.Sorted(maps.Keys(c.Limit.Providers)) {
		if path := "limits.providers." + name; c.Limit.Providers[name].value == nil {
			file.Report(path, path+" has no number", "")
		}
	}
	for i, m := range c.Limit.Models {
		if m.Limit.value == nil || m.Pattern == "" {
			file.Report(fmt.Sprintf("limits.models[%d].limit", i), "limits.models needs a pattern and a limit",
				`as in {pattern: "*opus*", limit: 2}`)
		}
	}
}

// Limits are the defaults with what the configuration changes.
func (c *Config) Limits() orchestrator.Limits {
	l, from := orchestrator.DefaultLimits(), c.Limit
	of := from.Providers
	var models []orchestrator.ModelLimit
	for _, m := range from.Models {
		n, _ := m.Limit.value.(int)
		models = append(models, orchestrator.ModelLimit{Pattern: m.Pattern, Limit: n})
	}
	from.Providers, from.Models = nil, nil
	overlay(from, &l)
	for name, limit := range of {
		if l.Providers == nil {
			l.Providers = map[string]int{}
		}
		l.Providers[name], _ = limit.value.(int)
	}
	l.Models = append(models, l.Models...)
	return l
}

// Rules are the defaults with what the configuration changes.
func (c *Config) Rules() enforcer.Rules {
	r := enforcer.DefaultRules()
	overlay(c.Rule, &r)
	if c.Rule.Polling != nil {
		r.Polling = []*regexp.Regexp{matchesNothing()} // with no pattern at all the defaults would count
	}
	for _, p := range c.Rule.Polling {
		r.Polling = append(r.Polling, p.Regexp)
	}
	return r
}

var matchesNothing = text.Regexp(`[^\s\S]`)

// Loop is the defaults of `manager loop` with what the configuration changes.
func (c *Config) Loop() boulder.Loop {
	p := enforcer.LoopPolicy()
	l := boulder.Loop{Iterations: p.MaxIterations, Failures: p.MaxFailures, Cooldown: p.Cooldown}
	overlay(c.Loops, &l)
	return l
}

// Budget is that of a run; nil if none is configured.
func (c *Config) Budget() *boulder.Budget { return c.RunBudget.Budget() }
