package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/workspace"
)

var (
	_ orchestrator.Planner = (*taskledger.Planner)(nil)
	_ orchestrator.Judge   = (*progressledger.Judge)(nil)
	_ orchestrator.Runner  = (*executor.Executor)(nil)
	_ executor.Workspace   = (*workspace.Workspace)(nil)
)

// deps is everything that planning and running need, put together for one project.
type deps struct {
	app       *app
	project   string
	config    *config
	log       *slog.Logger
	host      *opencode.Host
	attached  *opencode.Client // with --attach
	work      *workspace.Workspace
	base      string // the commit that the project is at; empty outside git
	registry  *providers.Registry
	completer providers.Completer
	ledger    string  // the ledger model, for people and records
	direct    bool    // the ledger's provider is asked directly, not through OpenCode
	view      runView // of the run; nil before it begins

	lockTimeout time.Duration // how long to wait for the state, if not just a moment
}

// wire puts everything together. Nothing is started yet: the OpenCode server comes with its first use, or with Warm.
func (a *app) wire(ctx context.Context, attach string) (_ *deps, err error) {
	d := &deps{app: a, log: a.logger()}
	if d.project, err = a.project(); err != nil {
		return nil, err
	}
	if d.config, err = a.loadConfig(d.project); err != nil {
		return nil, err
	}
	if err := a.learnSecrets(d.config); err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.Go(func() error { return d.connect(ctx, attach) })
	g.Go(func() error { return d.look(ctx) })
	if err := g.Wait(); err != nil {
		if d.host != nil {
			d.close()
		}
		return nil, err
	}
	if err := d.openLedger(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// look finds out whether the project is in git, and at which commit.
func (d *deps) look(ctx context.Context) (err error) {
	if d.work, err = workspace.Open(ctx, d.project); err != nil {
		return err
	}
	d.base, err = d.work.Head(ctx)
	return err
}

// connect prepares the way to an OpenCode server: one that runs, or one of our own.
func (d *deps) connect(ctx context.Context, attach string) error {
	if attach != "" {
		client, err := opencode.Attach(ctx, attach, opencode.AttachConfig{
			Username: d.app.Getenv("OPENCODE_SERVER_USERNAME"), Password: d.app.Getenv("OPENCODE_SERVER_PASSWORD"), Logger: d.log,
		})
		switch {
		case errors.Is(err, opencode.ErrBadAddress):
			return usagef("attach: %w", err)
		case errors.Is(err, opencode.ErrUnauthorized):
			return fmt.Errorf("attach: %w: set OPENCODE_SERVER_PASSWORD to the server's password", err)
		case err != nil:
			return fmt.Errorf("attach: %w: is `opencode serve` running there?", err)
		}
		d.attached, d.host = client, opencode.AttachedHost(client)
		if err := opencode.CheckVersion(client.Version()); err != nil {
			return fmt.Errorf("attach: %w", err)
		}
		return nil
	}
	d.host = opencode.NewHost(d.startServer)
	d.app.interrupts.onHurry(d.kill)
	return nil
}

// binary is the OpenCode to start.
func (d *deps) binary() string {
	for _, b := range []string{d.app.opencodeBinary, d.app.Getenv("MANAGER_OPENCODE"), d.config.OpenCode} {
		if b != "" {
			return b
		}
	}
	return "opencode"
}

// startServer starts a server of our own and refuses a version that was not tested.
func (d *deps) startServer(ctx context.Context) (*opencode.Server, error) {
	env, err := d.app.marked(d.project)
	if err != nil {
		return nil, err
	}
	s, err := opencode.Start(ctx, opencode.ServerConfig{
		Binary: d.binary(), Dir: d.project, Env: env, Logger: d.log,
		ConfigContent: withOwnConfig(d.app.Getenv("OPENCODE_CONFIG_CONTENT")),
	})
	if err != nil {
		return nil, err
	}
	if err := opencode.CheckVersion(s.Version()); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		s.Stop(stopCtx)
		return nil, err
	}
	return s, nil
}

// withOwnConfig adds the ledgers' agent, and that a refused permission does not end a turn, to the configuration that the user
// gave in the environment. One that cannot be read is left to OpenCode to complain about.
func withOwnConfig(content string) string {
	merged := map[string]any{}
	if content != "" && json.Unmarshal([]byte(content), &merged) != nil {
		return content
	}
	agents, ok := merged["agent"].(map[string]any)
	if !ok {
		agents = map[string]any{}
	}
	for name, agent := range ocprovider.AgentConfig()["agent"].(map[string]any) {
		agents[name] = agent
	}
	merged["agent"] = agents
	experimental, ok := merged["experimental"].(map[string]any)
	if !ok {
		experimental = map[string]any{}
	}
	if _, said := experimental["continue_loop_on_deny"]; !said {
		experimental["continue_loop_on_deny"] = true // else one of several refusals ends the turn (seen)
	}
	merged["experimental"] = experimental
	out, err := json.Marshal(merged)
	if err != nil {
		return content
	}
	return string(out)
}

// openLedger decides which model plans and judges, and how it is reached: directly where its provider's key is set, else
// through OpenCode.
func (d *deps) openLedger() error {
	var err error
	if d.registry, err = d.providers(); err != nil {
		return err
	}
	name, err := modelOf(d.app.ledgerModel, d.config.LedgerModel)
	if err != nil {
		return err
	}
	if name == "" {
		if ref, ok := d.registry.Default(); ok {
			name = ref.String()
		}
	}
	if name != "" {
		ref, err := providers.ParseModel(name)
		if err != nil {
			return &usageError{err}
		}
		if d.registry.Has(ref.Provider) {
			d.ledger, d.direct = name, true
			d.completer, err = d.registry.Completer(ref)
			return err
		}
	}
	// Through OpenCode: the ledger model if one is named, else the model of the sub-tasks, else OpenCode's own choice.
	if name == "" {
		if name, err = d.model(); err != nil {
			return err
		}
	}
	cfg := ocprovider.Config{Host: d.host, Directory: d.project, Agent: ocprovider.Agent}
	var ref providers.ModelRef
	if name != "" {
		if ref, err = providers.ParseModel(name); err != nil {
			return &usageError{err}
		}
		cfg.Model = opencode.ModelRef{ProviderID: ref.Provider, ModelID: ref.Model}
	}
	d.ledger, d.completer = name, providers.WithPrices(ocprovider.New(cfg), ref, d.config.Prices)
	return nil
}

// providers lists the model providers whose keys are in the environment, and the configured endpoints.
func (d *deps) providers() (*providers.Registry, error) {
	sources, err := d.sources()
	if err != nil {
		return nil, err
	}
	return providers.NewRegistry(providers.RegistryConfig{
		Getenv: d.app.Getenv, Retry: providers.RetryPolicy{Logger: d.log}, Prices: d.config.Prices,
	}, sources...)
}

func (d *deps) planner() (orchestrator.Planner, error) {
	planner, err := taskledger.New(taskledger.Config{Completer: d.completer, Model: d.ledger, Logger: d.log})
	return cleanPlanner{planner, d.app.secrets}, err
}

// orchestrator puts the parts of a run together.
func (d *deps) orchestrator(db orchestrator.Store) (*orchestrator.Orchestrator, error) {
	planner, err := d.planner()
	if err != nil {
		return nil, err
	}
	judge, err := progressledger.New(progressledger.Config{Completer: d.completer, Logger: d.log})
	if err != nil {
		return nil, err
	}
	env, err := d.app.marked(d.project)
	if err != nil {
		return nil, err
	}
	rules := d.config.rules()
	runner, err := executor.New(executor.Config{
		Host: d.host, Project: d.project, Workspace: d.work, Rules: &rules,
		GateTimeout: time.Duration(d.config.GateTimeout), Env: env, Asks: d.config.asks(), Price: d.price,
		Redact: d.app.secrets,
		Logger: d.log,
	})
	if err != nil {
		return nil, err
	}
	limits, err := d.config.limits()
	if err != nil {
		return nil, err
	}
	return orchestrator.New(orchestrator.Config{
		Project: d.project, Planner: planner, Judge: cleanJudge{judge, d.app.secrets}, Runner: runner, Store: db, Limits: &limits, Logger: d.log,
	})
}

// price is what the configuration says about a model of which OpenCode knows no price.
func (d *deps) price(model string, u boulder.Usage) (float64, bool) {
	ref, err := providers.ParseModel(model)
	if err != nil {
		return 0, false
	}
	return d.config.Prices.Cost(ref, providers.Usage{
		Input: u.Input, CachedInput: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning,
	})
}

// budget is that of the run: what the command line says, and for the rest the configuration.
func (d *deps) budget(flag *boulder.Budget) *boulder.Budget {
	configured := d.config.budget()
	if flag == nil || configured == nil {
		return cmp.Or(flag, configured)
	}
	merged := overlay(*configured, *flag)
	return &merged
}

// model is what the user named for sub-tasks that name none; empty if they did not.
func (d *deps) model() (string, error) { return modelOf(d.app.model, d.config.Model) }

// close ends the OpenCode server, if it is ours.
func (d *deps) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	d.host.Stop(ctx)
	if d.attached != nil {
		d.attached.Close()
	}
}

// kill ends the OpenCode server without asking it, if it is ours.
func (d *deps) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.host.Stop(ctx)
}

// planPath is where a plan is written and looked for unless another file is named.
func planPath(project string) string { return filepath.Join(project, store.DirName, "plan.yaml") }

// exists reports whether a path can be looked at.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// models refuses a plan that names a model OpenCode does not have: better now than after an hour. It returns the model of the
// sub-tasks that name none: by --model, the configuration, or OpenCode's own; empty leaves the choice to OpenCode.
func (d *deps) models(ctx context.Context, plan *boulder.Plan) (string, error) {
	fallback, err := d.model()
	if err != nil {
		return "", err
	}
	slow := time.AfterFunc(time.Second, func() { d.app.note("Waiting for OpenCode …") })
	defer slow.Stop()
	conn, err := d.host.Connect(ctx)
	if err != nil {
		return "", startFault(err)
	}
	dir := conn.Client.In(d.project)
	catalogue, err := dir.Catalogue(ctx)
	if err != nil {
		return "", fmt.Errorf("ask OpenCode for its models: %w", err)
	}
	if err := checkAgents(ctx, dir, plan); err != nil {
		return "", err
	}
	wanted := map[string]string{fallback: "--model or the configuration", plan.Model: "the plan's model"}
	for _, s := range plan.SubTasks {
		if _, ok := wanted[s.Model]; !ok {
			wanted[s.Model] = fmt.Sprintf("sub-task %q", s.ID)
		}
	}
	if _, named := wanted[d.ledger]; !d.direct && !named {
		wanted[d.ledger] = "--ledger-model or the configuration"
	}
	delete(wanted, "")
	for name, who := range wanted {
		if err := checkModel(catalogue, name, who); err != nil {
			return "", err
		}
	}
	if fallback != "" || !slices.ContainsFunc(plan.SubTasks, func(s boulder.Spec) bool { return s.Model == "" && plan.Model == "" }) {
		return fallback, nil
	}
	ref, err := dir.DefaultModel(ctx)
	if err != nil {
		return "", fmt.Errorf("ask OpenCode for its model: %w", err)
	}
	if ref.IsZero() {
		return "", nil
	}
	return ref.String(), nil
}

// checkAgents refuses a plan that names an agent OpenCode does not have.
func checkAgents(ctx context.Context, dir *opencode.Directory, plan *boulder.Plan) error {
	named := func(s boulder.Spec) bool { return s.Agent != "" }
	if !slices.ContainsFunc(plan.SubTasks, named) {
		return nil
	}
	agents, err := dir.Agents(ctx)
	if err != nil {
		return fmt.Errorf("ask OpenCode for its agents: %w", err)
	}
	for _, s := range plan.SubTasks {
		has := slices.ContainsFunc(agents, func(a opencode.Agent) bool { return a.Name == s.Agent })
		if s.Agent != "" && !has {
			return usagef("sub-task %q names the agent %s, which OpenCode does not have: `opencode agent list` lists them", s.ID, s.Agent)
		}
	}
	return nil
}

func checkModel(catalogue opencode.Catalogue, name, who string) error {
	ref, err := providers.ParseModel(name)
	if err != nil {
		return &usageError{fmt.Errorf("%s: %w", who, err)}
	}
	if _, ok := catalogue.Model(opencode.ModelRef{ProviderID: ref.Provider, ModelID: ref.Model}); !ok {
		return usagef("%s names the model %s, which OpenCode does not offer: %s", who, name, offered(catalogue, ref.Provider))
	}
	return nil
}

// offered says what could have been meant.
func offered(c opencode.Catalogue, provider string) string {
	var connected []string
	for _, p := range c.Providers {
		if p.ID == provider {
			return fmt.Sprintf("`opencode models %s` lists those of %s", provider, provider)
		}
		connected = append(connected, p.ID)
	}
	if len(connected) == 0 {
		return "no provider is connected: log in with `opencode auth login`"
	}
	return fmt.Sprintf("provider %s is not connected (connected: %v): log in with `opencode auth login`", provider, connected)
}

// startFault adds what to do to an OpenCode that cannot be started.
func startFault(err error) error {
	if errors.Is(err, opencode.ErrNoBinary) {
		return fmt.Errorf("%w: see `manager doctor`", err)
	}
	return err
}
