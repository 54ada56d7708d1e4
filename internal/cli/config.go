package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
	"github.com/bouldermgr/manager/store"
)

// config is the configuration file. Flags win over it; what neither says has the documented default (docs/rules.md).
type config struct {
	Model       string `yaml:"model"`        // for sub-tasks that name none
	LedgerModel string `yaml:"ledger_model"` // for planning and judging
	OpenCode    string `yaml:"opencode"`     // path of the binary

	// AllowModelGates runs the gates of a plan that a model wrote and nobody looked at. Defaults to false: they are
	// told to the agent as hints.
	AllowModelGates bool     `yaml:"allow_model_gates"`
	Gates           []string `yaml:"gates"`    // of every sub-task, besides its own
	NoWorse         []string `yaml:"no_worse"` // the same, for gates that may stay as red as they were
	GateTimeout     period   `yaml:"gate_timeout"`

	// DoneWhen are the criteria of sub-tasks for which neither they nor their plan name any. Defaults to the judge.
	DoneWhen []string `yaml:"done_when"`
	// Tests and Lint are the commands behind the criteria tests and diagnostics. Default to what is found in the project.
	Tests commands   `yaml:"tests"`
	Lint  commands   `yaml:"lint"`
	Loop  loopConfig `yaml:"loop"`

	// OnAsk is what an agent is told that asks for a permission: reject, which is the default, or allow.
	OnAsk string `yaml:"on_ask"`

	Limits limitsConfig `yaml:"limits"`
	Rules  rulesConfig  `yaml:"rules"`
	Watch  watchConfig  `yaml:"watch"`

	Blockers blockersConfig `yaml:"blockers"`
	Notify   notifyConfig   `yaml:"notify"`

	Budget budgetConfig `yaml:"budget"` // of a run

	// Prices are for calls of which neither the provider nor OpenCode tells what they cost.
	Prices providers.Prices `yaml:"prices"`
	// Endpoints are further OpenAI-compatible servers for the ledgers.
	Endpoints []openai.Endpoint `yaml:"endpoints"`
}

// limitsConfig overwrites [orchestrator.Limits].
type limitsConfig struct {
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

// rulesConfig overwrites [enforcer.Rules].
type rulesConfig struct {
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

// loopConfig overwrites the bounds of `manager loop`.
type loopConfig struct {
	Iterations number   `yaml:"iterations"`
	Failures   number   `yaml:"failures"`
	Cooldown   deadline `yaml:"cooldown"`
}

// loop is the defaults with what the configuration changes.
func (c *config) loop() boulder.Loop {
	p, from := enforcer.LoopPolicy(), c.Loop
	l := boulder.Loop{Iterations: p.MaxIterations, Failures: p.MaxFailures, Cooldown: p.Cooldown}
	from.Iterations.into(&l.Iterations)
	from.Failures.into(&l.Failures)
	from.Cooldown.into(&l.Cooldown)
	return l
}

// budgetConfig is a [boulder.Budget].
type budgetConfig struct {
	Tokens   quantity `yaml:"tokens"`
	Cost     dollars  `yaml:"cost"`
	Time     period   `yaml:"time"`
	Attempts quantity `yaml:"attempts"`
	Calls    quantity `yaml:"calls"`
}

// loadConfig reads --config, or else the user's file and the project's over it.
func (a *app) loadConfig(project string) (*config, error) {
	var c config
	paths, required := a.configPaths(project), false
	if a.configFile != "" {
		paths, required = []string{a.file(a.configFile)}, true
	}
	for _, path := range paths {
		a.learnWebhooksOf(path)
		if err := readConfig(path, &c, required); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// check refuses values that are well-formed and make no sense.
func (c *config) check() error {
	if _, err := c.limits(); err != nil {
		return err
	}
	if c.Rules.Window.set && c.Rules.Window.n < 1 {
		return errors.New("rules.window must be at least 1: without a call there is nothing to compare")
	}
	for _, command := range c.NoWorse {
		if slices.Contains(c.Gates, command) {
			return fmt.Errorf("the command %q is in gates and in no_worse: one of gates must be green, one of no_worse may"+
				" stay as red as it was; keep it in one of them", command)
		}
	}
	if err := c.Prices.Validate(); err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	loop := c.loop()
	if err := errors.Join(checkDoneWhen(c.DoneWhen), loop.Validate(), c.Watch.check(), c.Blockers.check(),
		c.Notify.check()); err != nil {
		return err
	}
	for _, e := range c.Endpoints {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	switch executor.Asks(c.OnAsk) {
	case "", executor.AsksReject, executor.AsksAllow:
	default:
		return fmt.Errorf("on_ask is %q: use reject or allow", c.OnAsk)
	}
	return nil
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

// readConfig lays a file over c. What cannot be run with is told before anything is started, with the file that says
// it.
func readConfig(path string, c *config, required bool) error {
	data, err := os.ReadFile(path)
	// A file where .manager should be is no fault of the configuration; the store says what to do about it.
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !required {
		return nil
	}
	if err != nil {
		return usagef("configuration: %v", err)
	}
	if err := parseConfig(path, data, c); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return usagef("configuration %s: %w", path, err)
	}
	return nil
}

func parseConfig(path string, data []byte, c *config) error {
	if err := yaml.UnmarshalWithOptions(data, c, yaml.Strict()); err != nil {
		return configFault(path, data, err)
	}
	for _, m := range []struct{ key, ref string }{{"model", c.Model}, {"ledger_model", c.LedgerModel}} {
		if m.ref == "" {
			continue
		}
		if _, err := providers.ParseModel(m.ref); err != nil {
			return usagef("configuration %s: %s: %v", path, m.key, err)
		}
	}
	return nil
}

// limits are the defaults with what the configuration changes.
func (c *config) limits() (orchestrator.Limits, error) {
	l, from := orchestrator.DefaultLimits(), &c.Limits
	for _, x := range []struct {
		from number
		to   *int
	}{
		{from.Global, &l.Global}, {from.PerModel, &l.PerModel}, {from.Attempts, &l.Attempts},
		{from.Evaluations, &l.Evaluations}, {from.Troubles, &l.Troubles}, {from.Stalls, &l.Stalls},
		{from.Replans, &l.Replans}, {from.IdleTurns, &l.IdleTurns}, {from.Cooldowns, &l.Cooldowns},
	} {
		x.from.into(x.to)
	}
	from.Backoff.into(&l.Backoff)
	from.CoolBase.into(&l.CoolBase)
	from.CoolMax.into(&l.CoolMax)
	from.Warn.into(&l.Warn)
	if err := from.perModel(&l); err != nil {
		return l, err
	}
	if err := l.Validate(); err != nil {
		return l, fmt.Errorf("limits: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return l, nil
}

// perModel adds the limits of providers and models.
func (from *limitsConfig) perModel(l *orchestrator.Limits) error {
	for _, name := range slices.Sorted(maps.Keys(from.Providers)) {
		if !from.Providers[name].set {
			return fmt.Errorf("limits.providers.%s has no number", name)
		}
		if l.Providers == nil {
			l.Providers = map[string]int{}
		}
		l.Providers[name] = from.Providers[name].n
	}
	var models []orchestrator.ModelLimit
	for _, m := range from.Models {
		if !m.Limit.set || m.Pattern == "" {
			return errors.New("limits.models needs a pattern and a limit, as in " + `{pattern: "*opus*", limit: 2}`)
		}
		models = append(models, orchestrator.ModelLimit{Pattern: m.Pattern, Limit: m.Limit.n})
	}
	l.Models = append(models, l.Models...)
	return nil
}

// rules are the defaults with what the configuration changes.
func (c *config) rules() enforcer.Rules {
	r, from := enforcer.DefaultRules(), &c.Rules
	for _, x := range []struct {
		from deadline
		to   *time.Duration
	}{
		{from.Admission, &r.Admission}, {from.Silence, &r.Silence}, {from.ToolSilence, &r.ToolSilence},
		{from.WallClock, &r.WallClock}, {from.Offline, &r.Offline}, {from.ProviderWait, &r.ProviderWait},
	} {
		x.from.into(x.to)
	}
	for _, x := range []struct {
		from threshold
		to   *int
	}{
		{from.ProviderRetries, &r.ProviderRetries}, {from.SameOutput, &r.SameOutput}, {from.SamePolling, &r.SamePolling},
		{from.SameError, &r.SameError}, {from.SameErrorStop, &r.SameErrorStop}, {from.Idle, &r.Idle},
		{from.IdleStop, &r.IdleStop}, {from.Alternate, &r.Alternate}, {from.Compactions, &r.Compactions},
		{from.MinOutput, &r.MinOutput},
	} {
		x.from.into(x.to)
	}
	from.Window.into(&r.Window)
	if from.Polling != nil {
		r.Polling = []*regexp.Regexp{matchesNothing} // with no pattern at all the defaults would count
	}
	for _, p := range from.Polling {
		r.Polling = append(r.Polling, p.Regexp)
	}
	return r
}

var matchesNothing = regexp.MustCompile(`[^\s\S]`)

// budget is that of a run; nil if none is configured.
func (c *config) budget() *boulder.Budget {
	from := c.Budget
	b := boulder.Budget{
		Tokens: int64(from.Tokens), Cost: float64(from.Cost), Time: boulder.Duration(from.Time),
		Attempts: int(min(from.Attempts, math.MaxInt32)), Calls: int64(from.Calls),
	}
	if b == (boulder.Budget{}) {
		return nil
	}
	return &b
}

// asks is the policy for permissions that an agent asks for; empty is the default.
func (c *config) asks() executor.Asks { return executor.Asks(c.OnAsk) }

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
