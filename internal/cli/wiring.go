package cli

import (
	"cmp"
	"context"
	"github.com/bouldermgr/manager/internal/config"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/blockers"
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
	config    *config.Config
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
	runner    *executor.Executor
	diverter  *diverter

	lockTimeout time.Duration // how long to wait for the state, if not just a moment
}

// wire puts everything together. Nothing is started yet: the OpenCode server comes with its first use, or with Warm.
func (a *app) wire(ctx context.Context, attach string) (_ *deps, err error) {
	d := &deps{app: a, log: a.logger()}
	if d.project, err = a.project(); err != nil {
		return nil, err
	}
	if !sameFile(cmp.Or(a.dir, "."), d.project) {
		a.note("Working in the project above: %s", d.project)
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
	if d.work, err = workspace.Open(ctx, d.project, cmp.Or(d.config.Blockers.File, blockers.DefaultFile)); err != nil {
		return err
	}
	d.base, err = d.work.Head(ctx)
	return err
}

// openLedger decides which model plans and judges, and how it is reached: directly where its provider's key is set,
// else through OpenCode.
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
	if d.diverter, err = d.newDiverter(); err != nil {
		return nil, err
	}
	rules := d.config.Rules()
	d.runner, err = executor.New(executor.Config{
		Host: d.host, Project: d.project, Workspace: d.work, Rules: &rules,
		GateTimeout: time.Duration(d.config.GateTimeout), Env: env, Asks: d.config.OnAsk, Price: d.price,
		Redact: d.app.secrets, Diverter: d.diverter, Logger: d.log,
	})
	if err != nil {
		return nil, err
	}
	limits := d.config.Limits()
	return orchestrator.New(orchestrator.Config{
		Project: d.project, Planner: planner, Judge: cleanJudge{judge, d.app.secrets}, Runner: d.runner, Store: db,
		Limits: &limits, BlockerTool: d.diverter.briefed, Logger: d.log,
	})
}

// budget is that of the run: what the command line says, and for the rest the configuration.
func (d *deps) budget(flag *boulder.Budget) *boulder.Budget {
	configured := d.config.Budget()
	if flag == nil || configured == nil {
		return cmp.Or(flag, configured)
	}
	merged := overlay(*configured, *flag)
	return &merged
}

// planPath is where a plan is written and looked for unless another file is named.
func planPath(project string) string { return filepath.Join(project, store.DirName, "plan.yaml") }

// exists reports whether a path can be looked at.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
