package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
)

// check reports values that cannot work.
func (c *Config) check(file *yamlfile.File) {
	c.checkModels(file)
	c.checkLimits(file)
	c.checkCommands(file)
	c.Slots.check(file)
	c.Blockers.check(file)
	c.Notify.check(file)
	c.checkEndpoints(file)
}

// reportAll reports an error that may be several, joined.
func reportAll(file *yamlfile.File, path string, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		file.Report(path, path+": "+line, "")
	}
}

func (c *Config) checkModels(file *yamlfile.File) {
	for path, models := range map[string]boulder.Models{
		"model": c.Model, "ledger_model": c.LedgerModel, "models.fallback": c.Models.Fallback,
	} {
		for i, err := range providers.CheckModels(models) {
			file.Report(fmt.Sprintf("%s[%d]", path, i), path+": "+err.Error(), "")
		}
	}
	for _, model := range slices.Sorted(maps.Keys(c.Models.Describe)) {
		_, err := providers.ParseModels(model)
		if strings.Contains(model, ",") {
			err = fmt.Errorf("%q is no single model", model)
		}
		if err == nil && strings.TrimSpace(c.Models.Describe[model]) == "" {
			err = fmt.Errorf("%s: say what it is good at, as in %q", model, "hard refactoring, slow")
		}
		reportAll(file, "models.describe", err)
	}
	if c.Effort != "" {
		reportAll(file, "effort", providers.CheckEffort(c.Effort))
	}
	if _, err := providers.ParseModel(c.Plan.LookModel); c.Plan.LookModel != "" {
		reportAll(file, "plan.look_model", err)
	}
	if on, model := c.Reviews(); on && model != "" {
		_, err := providers.ParseModel(model)
		reportAll(file, "review", err)
	}
}

func (c *Config) checkLimits(file *yamlfile.File) {
	for i, m := range c.Limits.Models {
		if path := fmt.Sprintf("limits.models[%d]", i); m.Pattern == "" || !file.Has(path+".limit") && file.Has(path) {
			file.Report(path, "limits.models needs a pattern and a limit", `as in {pattern: "*opus*", limit: 2}`)
		}
	}
	reportAll(file, "limits", c.Limits.Validate())
	if c.Rules.Window < 1 {
		file.Report("rules.window", "rules.window must be at least 1", "without a call there is nothing to compare")
	}
	reportAll(file, "prices", c.Prices.Validate())
	reportAll(file, "loop", c.Loop.Validate())
}

func (c *Config) checkCommands(file *yamlfile.File) {
	for i, name := range c.Environment {
		if !envPattern().MatchString(name) {
			file.Report(fmt.Sprintf("environment[%d]", i), fmt.Sprintf("environment has %q", name), "names of variables as PATH or NPM_*")
		}
	}
	for key, lines := range c.Commands() {
		for i, line := range lines {
			if file.Has(key) { // else it comes from an earlier file, and was checked there
				checkCommand(file, key, i, line)
				if file.Has(fmt.Sprintf("%s[%d]", key, i)) || i == 0 {
					file.Command(fmt.Sprintf("%s[%d]", key, i), line)
				}
			}
		}
	}
	for i, line := range c.NoWorse {
		if slices.Contains(c.Gates, line) {
			file.Report(fmt.Sprintf("no_worse[%d]", i), fmt.Sprintf("the command %q is in gates and in no_worse", line),
				"one of gates must be green, one of no_worse may stay as red as it was; keep it in one of them")
		}
	}
}

func checkCommand(file *yamlfile.File, key string, i int, line string) {
	path := fmt.Sprintf("%s[%d]", key, i)
	if strings.TrimSpace(line) == "" {
		file.Report(path, key+" has an empty command", "write one as `go test ./...`, or remove it")
	} else if what := command.Syntax(line); what != "" {
		file.Report(path, "the shell cannot read the command: "+text.Cut(what, 200), "correct it: `sh -n -c` has to accept it")
	}
}

func (c *Config) checkEndpoints(file *yamlfile.File) {
	u, err := url.Parse(c.Tracing.Endpoint)
	if c.Tracing.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		file.Report("tracing.endpoint", "tracing.endpoint is no http or https address", "as in http://127.0.0.1:4318")
	}
	for i, e := range c.Endpoints {
		if err := e.Validate(); err != nil {
			file.Report(fmt.Sprintf("endpoints[%d]", i), err.Error(), "")
		}
		if slices.ContainsFunc(c.Endpoints[:i], func(before openai.Endpoint) bool { return before.Name == e.Name }) {
			file.Report(fmt.Sprintf("endpoints[%d]", i), fmt.Sprintf("endpoint %s is defined twice", e.Name), "give it another name")
		}
	}
}
