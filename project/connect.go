package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/workspace"
)

var (
	_ orchestrator.Planner = (*taskledger.Planner)(nil)
	_ orchestrator.Judge   = (*progressledger.Judge)(nil)
	_ orchestrator.Runner  = (*executor.Executor)(nil)
	_ executor.Workspace   = (*workspace.Workspace)(nil)
	_ executor.Slots       = Slots{}

	_ orchestrator.Integrator = (*executor.Executor)(nil)
)

// Connect puts together what planning and running need: the way to OpenCode, the ledgers' model, the project's git. No
// OpenCode is started: that comes with its first use, or with [Project.Warm].
func (p *Project) Connect(ctx context.Context) (err error) {
	if _, err = p.Model(); err != nil {
		return err
	}
	if err = p.OpenWorkspace(ctx); err != nil {
		return err
	}
	if p.base, err = p.work.Head(ctx); err != nil { // first: a watch keeps it while it waits for an OpenCode
		return err
	}
	if err = p.ConnectOpenCode(ctx); err != nil {
		return err
	}
	return p.OpenLedger()
}

// OpenWorkspace looks at the project's git.
func (p *Project) OpenWorkspace(ctx context.Context) (err error) {
	if p.work, err = workspace.Open(ctx, p.dir, p.blockersFile()); err == nil {
		p.slots = p.work.Slots()
		p.slots.SetUp = p.setUp()
	}
	return err
}

// enterGround looks at the project's git as it is now, for who has it alone until p.ground is unlocked.
func (p *Project) enterGround(ctx context.Context) error {
	p.ground.Lock()
	err := p.OpenWorkspace(ctx)
	if err != nil {
		p.ground.Unlock()
	}
	return err
}

func (p *Project) blockersFile() string { return cmp.Or(p.cfg.Blockers.File, blockers.DefaultFile) }

// OpenLedger decides which model plans and judges: the ledger model that the user named, else that of the sub-tasks. It is
// asked directly where its provider's key is set, else through OpenCode. A key alone chooses no provider: what is judged
// goes only to whom the user chose.
func (p *Project) OpenLedger() error {
	registry, err := providers.NewRegistry(providers.RegistryConfig{
		Getenv: p.getenv, Logger: p.log, Prices: p.cfg.Prices,
	}, p.Sources()...)
	if err != nil {
		return err
	}
	ref, err := modelOf("--ledger-model", p.opts.LedgerModel, p.cfg.LedgerModel, p.opts.Model, p.cfg.Model)
	if err != nil {
		return err
	}
	if p.direct = registry.Has(ref.Provider); p.direct {
		p.ledger = ref.String()
		direct, err := registry.Completer(ref)
		p.completer = cleanCompleter{direct, p.secrets}
		return err
	}
	p.ledger = ref.String() // empty: OpenCode's own choice, as for sub-tasks
	p.completer = cleanCompleter{providers.WithPrices(&ocprovider.Completer{
		Host: p.host, Directory: p.dir, Agent: ocprovider.Agent, Model: opencode.Model(p.ledger),
	}, ref, p.cfg.Prices), p.secrets}
	return nil
}

// KeepLedger has the boulder that is to be resumed ([Access.Find]) judged by the model that did so before, unless the
// options or the configuration name one. It comes before [Project.Connect]. That there is no such boulder is for
// [Project.Hold] to say.
func (p *Project) KeepLedger(ctx context.Context, ref string) {
	there, err := p.Read(ctx)
	if err != nil {
		return
	}
	defer there.Close()
	if b, err := there.Find(ctx, ref); err == nil {
		p.opts.LedgerModel = cmp.Or(p.opts.LedgerModel, p.cfg.LedgerModel, b.Boulder.LedgerModel)
	}
}

// modelOf is the first model that is named, the first one by a flag; zero if none is.
func modelOf(flag string, names ...string) (ref providers.ModelRef, err error) {
	if name := cmp.Or(names...); name != "" {
		if ref, err = providers.ParseModel(name); err != nil {
			err = usagef("%s: %w", flag, err)
		}
	}
	return ref, err
}

func (p *Project) planner() *taskledger.Planner {
	return &taskledger.Planner{Completer: p.completer, Model: p.ledger, Logger: p.log}
}

func (p *Project) judge() *progressledger.Judge {
	return &progressledger.Judge{Completer: p.completer, Logger: p.log}
}

// OtherJudge connects to the judge that the options name: by LedgerModel, or else by Model.
func (p *Project) OtherJudge(ctx context.Context) (orchestrator.Judge, error) {
	p.opts.LedgerModel = cmp.Or(p.opts.LedgerModel, p.opts.Model)
	if err := p.Connect(ctx); err != nil {
		return nil, err
	}
	return p.judge(), nil
}

func (p *Project) orchestrator(db orchestrator.Store) (*orchestrator.Orchestrator, error) {
	c, err := p.Parts(p.Slots())
	if err != nil {
		return nil, err
	}
	c.Store = db
	return orchestrator.New(c)
}

// Slots are those in which isolated boulders work. Call [Project.OpenWorkspace] or [Project.Connect] before.
func (p *Project) Slots() Slots { return Slots{p.slots} }

// Parts are what boulders of the project are run with, without a store. Call [Project.Connect] before.
func (p *Project) Parts(slots executor.Slots) (c orchestrator.Config, err error) {
	env, err := p.environ()
	if err != nil {
		return c, err
	}
	p.diverter = p.newDiverter()
	p.runner, err = executor.New(executor.Config{
		Host: p.host, Project: p.dir, Workspace: p.work, Slots: slots, BlockersFile: p.blockersFile(), Rules: &p.cfg.Rules,
		GateTimeout: p.cfg.GateTimeout, Env: env, Asks: p.cfg.OnAsk, Price: p.price,
		Attach: func(ctx context.Context, address string) (*opencode.Client, error) { return p.attach(ctx, address, 0) },
		Redact: p.secrets, Diverter: p.diverter, Logger: p.log,
	})
	return orchestrator.Config{
		Project: p.dir, Planner: p.planner(), Judge: p.judge(), Runner: p.runner,
		Limits: &p.cfg.Limits, Diversion: p.diverter.briefed, RaiseBlocker: p.diverter.RaiseFor,
		Logger: p.log,
	}, err
}

// Budget is that of a run: what is asked for, and for the rest the configuration.
func (p *Project) Budget(flag *boulder.Budget) *boulder.Budget {
	configured := p.cfg.Budget
	if flag == nil || configured == nil {
		return cmp.Or(flag, configured)
	}
	return new(Overlay(*configured, *flag))
}

// Overlay replaces the limits of a budget that another one names.
func Overlay(b, over boulder.Budget) boulder.Budget {
	return boulder.Budget{
		Tokens: cmp.Or(over.Tokens, b.Tokens), Cost: cmp.Or(over.Cost, b.Cost), Time: cmp.Or(over.Time, b.Time),
		Attempts: cmp.Or(over.Attempts, b.Attempts), Calls: cmp.Or(over.Calls, b.Calls),
	}
}

// Base is the commit that the project is at; empty outside git, and before [Project.Connect].
func (p *Project) Base() string { return p.base }

// Ledger is the model that plans and judges; empty: OpenCode's own choice.
func (p *Project) Ledger() string { return p.ledger }

// LedgerIsDirect reports whether the ledgers' provider is asked directly, and not through OpenCode.
func (p *Project) LedgerIsDirect() bool { return p.direct }

// NoDiffs says why there are no diffs of the project; empty: there are.
func (p *Project) NoDiffs() string { return p.work.Reason() }

// Warm begins to start OpenCode.
func (p *Project) Warm() { p.host.Warm() }

// Client connects to OpenCode, which it starts if need be.
func (p *Project) Client(ctx context.Context) (*opencode.Client, error) {
	conn, err := p.host.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

// ConnectOpenCode prepares the way to an OpenCode server: one that runs, or one of our own.
func (p *Project) ConnectOpenCode(ctx context.Context) error {
	if p.opts.Attach == "" {
		p.host = opencode.NewHost(p.startServer)
		p.host.Memory = p.cfg.OpenCodeMemory
		p.host.Logger = p.log
		return nil
	}
	client, err := p.attach(ctx, p.opts.Attach, 0)
	if err != nil {
		return err
	}
	p.attached, p.host = client, opencode.AttachedHost(client)
	return nil
}

// DefaultServer is where an OpenCode 1 listens if it is not told a port and nothing else does.
const DefaultServer = "http://127.0.0.1:4096"

// attach connects to an OpenCode server that runs. timeout bounds each call; 0 is the client's default.
func (p *Project) attach(ctx context.Context, address string, timeout time.Duration) (*opencode.Client, error) {
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{
		Username: p.getenv("OPENCODE_SERVER_USERNAME"), Logger: p.log, CallTimeout: timeout,
		Password: cmp.Or(p.getenv("OPENCODE_SERVER_PASSWORD"), p.getenv("OPENCODE_PASSWORD")), // OpenCode 2 has both
	})
	if p.near && (errors.Is(err, opencode.ErrUnavailable) || errors.Is(err, opencode.ErrUnauthorized)) {
		if service, found := p.service(ctx, timeout); found != nil || service != nil {
			client, err = service, found
		}
	}
	_, otherVersion := errors.AsType[*opencode.VersionError](err)
	switch {
	case errors.Is(err, opencode.ErrBadAddress):
		return nil, usagef("attach: %w", err)
	case otherVersion:
		return nil, fmt.Errorf("attach: %w", err)
	case errors.Is(err, opencode.ErrUnauthorized):
		hint := "set OPENCODE_SERVER_PASSWORD to the server's password"
		if p.near {
			hint += ", or say with --attach which server is meant"
		}
		return nil, fmt.Errorf("attach: %w: %s", err, hint)
	case err != nil:
		return nil, fmt.Errorf("attach: %w: is `opencode serve` running there?", err)
	}
	return client, nil
}

// service connects to the background service of OpenCode 2, of which its terminal interfaces are clients. It registers itself
// in a file that only its user can read. Nil, without an error: none runs.
func (p *Project) service(ctx context.Context, timeout time.Duration) (*opencode.Client, error) {
	state := p.getenv("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(p.getenv("HOME"), ".local", "state")
	}
	var registered struct{ URL, Password string }
	data, err := os.ReadFile(filepath.Join(state, "opencode", "service.json"))
	if err != nil || json.Unmarshal(data, &registered) != nil {
		return nil, nil //nolint:nilerr // none, or none that can be found
	}
	client, err := opencode.Attach(ctx, registered.URL, opencode.AttachConfig{
		Password: registered.Password, Logger: p.log, CallTimeout: timeout,
	})
	if errors.Is(err, opencode.ErrUnavailable) || errors.Is(err, opencode.ErrBadAddress) {
		return nil, nil // what it left
	}
	return client, err
}

// Binary is the OpenCode to start.
func (p *Project) Binary() string {
	return cmp.Or(p.opts.OpenCode, p.getenv("MANAGER_OPENCODE"), p.cfg.OpenCode, "opencode")
}

func (p *Project) startServer(ctx context.Context) (*opencode.Server, error) {
	env, err := p.environ()
	if err != nil {
		return nil, err
	}
	return opencode.Start(ctx, opencode.ServerConfig{
		Binary: p.Binary(), Dir: p.dir, Env: env, Logger: p.log,
		ConfigContent: withOwnConfig(Getenv(env, "OPENCODE_CONFIG_CONTENT")),
	})
}

// withOwnConfig adds the ledgers' agent, and that a refused permission does not end a turn, to the configuration that
// the user gave in the environment. One that cannot be read is left to OpenCode to complain about.
func withOwnConfig(content string) string {
	merged := map[string]any{}
	if content != "" && json.Unmarshal([]byte(content), &merged) != nil {
		return content
	}
	section := func(name string) map[string]any {
		found, ok := merged[name].(map[string]any)
		if !ok {
			found = map[string]any{}
			merged[name] = found
		}
		return found
	}
	maps.Copy(section("agent"), ocprovider.AgentConfig())
	if experimental := section("experimental"); experimental["continue_loop_on_deny"] == nil {
		experimental["continue_loop_on_deny"] = true // else one of several refusals ends the turn (seen)
	}
	out, _ := json.Marshal(merged) // it came from JSON
	return string(out)
}
