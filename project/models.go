package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
	"github.com/bouldermgr/manager/providers/gemini"
	"github.com/bouldermgr/manager/providers/openai"
)

// slowBoot is longer than OpenCode 2 takes for a directory on an idle machine.
const slowBoot = 5 * time.Second

// CheckModels refuses a plan with a model or agent that OpenCode does not have, before the run spends an hour. It
// returns the model of sub-tasks that name none: from flags, configuration or OpenCode; empty lets OpenCode choose.
func (p *Project) CheckModels(ctx context.Context, plan *boulder.Plan) (boulder.Models, error) {
	return p.checkModels(ctx, plan, boulder.Settings{})
}

// checkModels is [Project.CheckModels] for a run whose settings name a model, an effort and an agent, or none. A server that
// dies meanwhile is replaced once.
func (p *Project) checkModels(ctx context.Context, plan *boulder.Plan, s boulder.Settings) (boulder.Models, error) {
	unnamed, err := p.lookUpModels(ctx, plan, s)
	if !errors.Is(err, opencode.ErrUnavailable) {
		return unnamed, err
	}
	if conn, down := p.host.Connect(ctx); down == nil { // what refuses connections may not be known to be gone yet
		select {
		case <-conn.Down:
		case <-time.After(slowBoot):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return p.lookUpModels(ctx, plan, s)
}

func (p *Project) lookUpModels(ctx context.Context, plan *boulder.Plan, s boulder.Settings) (boulder.Models, error) {
	unnamed, err := modelsOf("--model", s.Model, p.opts.Model, p.cfg.Model)
	if err != nil {
		return "", err
	}
	effort := cmp.Or(s.Effort, p.Effort())
	if effort != "" {
		if err := providers.CheckEffort(effort); err != nil {
			return "", usagef("--effort: %w", err)
		}
	}
	slow := time.AfterFunc(time.Second, func() { p.note("Waiting for OpenCode …") })
	defer slow.Stop()
	conn, err := p.host.Connect(ctx)
	if err != nil {
		if errors.Is(err, opencode.ErrNoBinary) {
			err = fmt.Errorf("%w: see `manager doctor`", err)
		}
		return "", err
	}
	dir := conn.Client.In(p.dir)
	boots := time.AfterFunc(slowBoot, func() { p.note("Waiting for OpenCode to load the project's configuration and plugins …") })
	defer boots.Stop()
	catalogue, err := dir.Catalogue(ctx)
	if err != nil {
		return "", fmt.Errorf("ask OpenCode for its models: %w", err)
	}
	p.secrets.Add("a key of OpenCode's", catalogue.Keys...)
	if err := p.checkAgents(ctx, dir, plan, s.Agent); err != nil {
		return "", err
	}
	from := cmp.Or(text.If(s.Model != "" && s.Model != p.opts.Model, "the request"), "--model or the configuration")
	needed := func(s boulder.Spec) bool { return s.Model == "" && plan.Model == "" }
	if unnamed == "" && slices.ContainsFunc(plan.SubTasks, needed) {
		from = "OpenCode's configuration"
		chosen, err := dir.DefaultModel(ctx)
		if err != nil {
			return "", fmt.Errorf("ask OpenCode for its model: %w", err)
		}
		unnamed = boulder.Models(chosen)
	}
	wanted, err := p.named(plan, unnamed, from)
	if err != nil {
		return "", err
	}
	var used []string
	for name := range wanted {
		provider, _, _ := strings.Cut(name, "/")
		used = append(used, provider)
	}
	p.warnOfProxies(p.Proxied(catalogue, used))
	for _, entry := range slices.Sorted(maps.Keys(wanted)) {
		name := boulder.Models(entry).First()
		if !catalogue.Has(opencode.Model(name)) {
			return "", usagef("%s names the model %s, which OpenCode does not offer: %s", wanted[entry], name, offered(catalogue, name))
		}
		if effort := boulder.Models(entry).Effort(name); lacks(catalogue, name, effort) {
			return "", usagef("%s names the effort %s, which %s", wanted[entry], effort, efforts(catalogue, name, effort))
		}
	}
	return unnamed, p.checkEffort(catalogue, plan, unnamed, effort)
}

// named returns who names a model that OpenCode is to have, by model. unnamed are those of sub-tasks that name none, and from is who
// names these.
func (p *Project) named(plan *boulder.Plan, unnamed boulder.Models, from string) (map[string]string, error) {
	wanted := map[string]string{}
	want := func(models boulder.Models, who string) error {
		for _, err := range providers.CheckModels(models) {
			return usagef("%s: %w", who, err)
		}
		for _, entry := range models.Entries() {
			wanted[entry] = cmp.Or(wanted[entry], who)
		}
		return nil
	}
	errs := []error{want(unnamed, from), want(plan.Model, "the plan's model")}
	for _, s := range plan.SubTasks {
		errs = append(errs, want(s.Model, fmt.Sprintf("sub-task %q", s.ID)))
	}
	errs = append(errs, want(p.throughOpenCode(), cmp.Or(p.kept, "--ledger-model or the configuration")), want(p.cfg.Models.Fallback, "models.fallback"),
		want(boulder.Models(p.cfg.Plan.LookModel), "plan.look_model"))
	if on, model := p.cfg.Reviews(); on {
		errs = append(errs, want(boulder.Models(cmp.Or(model, p.Ledger())), "review"))
	}
	for model := range p.cfg.Models.Describe {
		errs = append(errs, want(boulder.Models(model), "models.describe"))
	}
	return wanted, errors.Join(errs...)
}

// checkEffort refuses an effort that is not named with a model, if the model to use with it lacks it. One that takes the place
// of that model goes without.
func (p *Project) checkEffort(catalogue opencode.Catalogue, plan *boulder.Plan, unnamed boulder.Models, effort string) error {
	told := map[string]bool{}
	for _, s := range plan.SubTasks {
		effort, who := cmp.Or(s.Effort, plan.Effort, effort), "--effort or the configuration"
		switch {
		case s.Effort != "":
			who = fmt.Sprintf("sub-task %q", s.ID)
		case plan.Effort != "":
			who = "the plan's effort"
		}
		models := cmp.Or(s.Model, plan.Model, unnamed).Or(p.cfg.Models.Fallback)
		for i, name := range models.All() {
			switch entry := models.Entries()[i]; {
			case strings.Contains(entry, "#") || !lacks(catalogue, name, effort):
			case i == 0:
				return usagef("%s names the effort %s, which %s", who, effort, efforts(catalogue, name, effort))
			case !told[name+"#"+effort]:
				told[name+"#"+effort] = true
				p.note("The effort %s is one that %s; while that takes another model's place, its default is used.", effort, efforts(catalogue, name, effort))
			}
		}
		if models == "" && effort != "" && effort != boulder.DefaultEffort {
			return usagef("%s names the effort %s, but OpenCode chooses the model: name one, too", who, effort)
		}
	}
	return nil
}

func lacks(c opencode.Catalogue, model, effort string) bool {
	return effort != "" && effort != boulder.DefaultEffort && !slices.Contains(c.Efforts[opencode.Model(model)], effort)
}

// efforts says of a model which efforts it has instead of one that it lacks.
func efforts(c opencode.Catalogue, model, effort string) string {
	all := c.Efforts[opencode.Model(model)]
	if len(all) == 0 {
		return model + " does not have: it has none"
	}
	near := text.Nearest(effort, all)
	return fmt.Sprintf("%s does not have: it has %s%s", model, strings.Join(all, ", "), text.If(near != "", "; did you mean "+near+"?"))
}

// Effort returns the effort of models of sub-tasks that are named without one, or "".
func (p *Project) Effort() string { return cmp.Or(p.opts.Effort, p.cfg.Effort) }

// agent returns the agent of sub-tasks that name none; empty lets OpenCode choose.
func (p *Project) agent() string { return cmp.Or(p.opts.Agent, p.cfg.Agent) }

func (p *Project) checkAgents(ctx context.Context, dir *opencode.Directory, plan *boulder.Plan, agent string) error {
	wanted := map[string]string{cmp.Or(agent, p.agent()): cmp.Or(text.If(agent != "" && agent != p.opts.Agent, "the request"), "--agent or the configuration")}
	for _, s := range plan.SubTasks {
		if _, ok := wanted[s.Agent]; !ok {
			wanted[s.Agent] = fmt.Sprintf("sub-task %q", s.ID)
		}
	}
	delete(wanted, "")
	if len(wanted) == 0 {
		return nil
	}
	agents, err := dir.Agents(ctx)
	if err != nil {
		return fmt.Errorf("ask OpenCode for its agents: %w", err)
	}
	for name, who := range wanted {
		if !slices.Contains(agents, name) {
			return usagef("%s names the agent %s, which OpenCode does not have: `opencode agent list` lists them", who, name)
		}
	}
	return nil
}

// offered says of a model that OpenCode does not have what to use instead.
func offered(c opencode.Catalogue, name string) string {
	connected, wanted := c.Providers(), opencode.Model(name)
	provider, has, near := wanted.ProviderID, slices.Contains(connected, wanted.ProviderID), ""
	if has {
		near = text.Prefixed(provider+"/", text.Nearest(wanted.ModelID, modelsAt(c, provider)))
	} else if other := text.Nearest(provider, connected); slices.Contains(modelsAt(c, other), wanted.ModelID) {
		near = other + "/" + wanted.ModelID
	}
	switch {
	case has:
		return fmt.Sprintf("%s`opencode models %s` lists those of %[2]s", text.If(near != "", "did you mean "+near+"? "), provider)
	case near != "":
		return "did you mean " + near + "?"
	case slices.Contains(c.Missing, provider):
		return fmt.Sprintf("its configuration defines the provider %s, but it lists no model of it: is a key missing, or is it "+
			"not in enabled_providers?", provider)
	case len(connected) == 0:
		return "no provider is connected: log in with `opencode auth login`"
	}
	return fmt.Sprintf("provider %s is not connected (connected: %s): log in with `opencode auth login`",
		provider, strings.Join(connected, ", "))
}

// Hosted says where a project goes of which [OnlyHosted] holds, if no model is named.
const Hosted = "no provider of yours is connected, so OpenCode sends what it reads in your project to its own hosted free model"

// OnlyHosted reports whether OpenCode's own provider is the only one. If then no model is configured, OpenCode 1.18.33 silently
// takes a free one there (opencode/big-pickle).
func OnlyHosted(c opencode.Catalogue) bool { return slices.Equal(c.Providers(), []string{"opencode"}) }

// GoesToHosted reports whether sub-tasks of a plan name no model, and [OnlyHosted] holds. It does not say what else is wrong.
func (p *Project) GoesToHosted(ctx context.Context, plan *boulder.Plan, s boulder.Settings) bool {
	unnamed, err := modelsOf("--model", s.Model, p.opts.Model, p.cfg.Model)
	if err != nil || unnamed != "" || plan.Model != "" ||
		!slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool { return s.Model == "" }) {
		return false
	}
	client, err := p.Client(ctx)
	if err != nil {
		return false
	}
	dir := client.In(p.dir)
	catalogue, err := dir.Catalogue(ctx)
	if err != nil || !OnlyHosted(catalogue) {
		return false
	}
	chosen, err := dir.DefaultModel(ctx)
	return err == nil && chosen == ""
}

// modelsAt returns the ids of the models of a provider.
func modelsAt(c opencode.Catalogue, provider string) (ids []string) {
	for _, m := range c.Models {
		if m.ProviderID == provider {
			ids = append(ids, m.ModelID)
		}
	}
	return ids
}

// Model returns the models that flags or configuration set for sub-tasks that name none, or "".
func (p *Project) Model() (boulder.Models, error) {
	return modelsOf("--model", p.opts.Model, p.cfg.Model)
}

// price computes the cost of a call from the configured prices, for models whose price OpenCode does not know.
func (p *Project) price(model string, u boulder.Usage) (float64, bool) {
	ref, err := providers.ParseModel(model)
	if err != nil {
		return 0, false
	}
	return p.cfg.Prices.Cost(ref, u)
}

// Sources lists all providers that the ledgers can call directly. A configured endpoint replaces the built-in provider
// of the same name; the others come last.
func (p *Project) Sources() []providers.Source {
	opts := openai.Options{Logger: p.log}
	all := []providers.Source{
		anthropic.Source(p.getenv, opts), openai.Source(p.getenv, opts), gemini.Source(p.getenv, opts), openai.XAI(opts),
	}
	for _, e := range p.cfg.Endpoints {
		if i := slices.IndexFunc(all, func(s providers.Source) bool { return s.Name == e.Name }); i >= 0 {
			all[i] = e.Source(opts)
		} else {
			all = append(all, e.Source(opts))
		}
	}
	return all
}
