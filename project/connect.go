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
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/project/internal/config"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/workspace"
)

var (
	_ orchestrator.Planner  = (*taskledger.Planner)(nil)
	_ orchestrator.Preparer = (*taskledger.Planner)(nil)
	_ orchestrator.Judge    = (*progressledger.Judge)(nil)
	_ orchestrator.Checker  = (*progressledger.Judge)(nil)
	_ orchestrator.Runner   = (*executor.Executor)(nil)
	_ orchestrator.Looker   = (*executor.Executor)(nil)
	_ executor.Workspace    = (*workspace.Workspace)(nil)
	_ executor.Slots        = Slots{}

	_ orchestrator.Integrator = (*executor.Executor)(nil)
)

// Connect prepares planning and running: the project's git, access to OpenCode, and the ledgers' model. OpenCode starts
// only with its first use or [Project.Warm].
func (p *Project) Connect(ctx context.Context) (err error) {
	if err = p.CheckTrust(); err != nil {
		return err
	}
	if _, err = p.Model(); err != nil {
		return err
	}
	if err = p.OpenWorkspace(ctx); err != nil {
		return err
	}
	if p.base, err = p.work().Head(ctx); err != nil { // first: a watch needs it while it waits for OpenCode
		return err
	}
	if err = p.ConnectOpenCode(ctx); err != nil {
		return err
	}
	if err = p.OpenLedger(); err == nil {
		p.warnOfProxies(p.LedgerProxied())
	}
	return err
}

// OpenWorkspace opens the project's git repository and its slots.
func (p *Project) OpenWorkspace(ctx context.Context) error {
	work, err := workspace.Open(ctx, p.dir, p.blockersFiles()...)
	if err != nil {
		return err
	}
	p.files.Store(&files{work, p.slotsOf(work, p.cfg.Slots)})
	return nil
}

// slotsOf returns slots with a set-up.
func (p *Project) slotsOf(work *workspace.Workspace, setUp config.Slots) *workspace.Slots {
	slots := work.Slots()
	slots.SetUp, slots.Home, slots.Pool = p.setUp(setUp), p.slotHome, p.cfg.Limits.Global
	if p.cfg.Slots.Pool != nil {
		slots.Pool = *p.cfg.Slots.Pool
	}
	if p.cfg.Slots.Dir == "" { // what is configured is not replaced
		slots.Instead = p.slotsInstead
	}
	slots.OnKept = func(dir string, files []string) {
		p.warn("%s is kept, since git cannot store what is in it: %s; take what you need, then remove it",
			dir, text.Short(strings.Join(files, "; "), 600))
	}
	return slots
}

// lockFiles locks the user's files and reopens the workspace as it is now. Unless it fails, unlock p.filesMu.
func (p *Project) lockFiles(ctx context.Context) error {
	p.filesMu.Lock()
	err := p.OpenWorkspace(ctx)
	if err != nil {
		p.filesMu.Unlock()
	}
	return err
}

func (p *Project) blockersFiles() []string { return blockers.Files(p.cfg.Blockers.File) }

// OpenLedger chooses the model that plans and judges: the configured ledger model, else that of the sub-tasks. It
// calls the provider directly if its key is set, else through OpenCode. A key alone selects no provider: the project's
// content goes only where the user chose.
func (p *Project) OpenLedger() error {
	registry, err := providers.NewRegistry(providers.RegistryConfig{
		Getenv: p.getenv, Logger: p.log, Prices: p.cfg.Prices,
	}, p.Sources()...)
	if err != nil {
		return err
	}
	// An effort that the sub-tasks' model has in OpenCode may be none of the provider's.
	all, err := modelsOf("--ledger-model", p.opts.LedgerModel, p.cfg.LedgerModel, p.opts.Model.Bare(), p.cfg.Model.Bare())
	if err != nil {
		return err
	}
	p.ledgers, p.completers, p.direct = all.Or(p.cfg.Models.Fallback), map[string]providers.Completer{}, map[string]bool{}
	names := p.ledgers.All()
	if len(names) == 0 {
		names = []string{""} // OpenCode chooses it, as for sub-tasks
	}
	for _, name := range names {
		ref, _ := providers.ParseModel(name) // zero for none
		if ref.Effort = p.ledgers.Effort(name); ref.Effort == boulder.DefaultEffort {
			ref.Effort = ""
		}
		asked := p.throughOpenCodeTo(ref)
		if p.direct[name] = registry.Has(ref.Provider); p.direct[name] {
			if asked, err = registry.Completer(ref); err != nil {
				return usagef("--ledger-model or the configuration: %w", err)
			}
		}
		p.completers[name] = cleanCompleter{asked, p.secrets}
	}
	return nil
}

// KeepLedger keeps the stored ledger model of the boulder to resume ([Access.Find]), unless options or configuration
// name one. Call it before [Project.Connect]. Later steps of the resume report a missing boulder.
func (p *Project) KeepLedger(ctx context.Context, ref string) {
	there, err := p.Read(ctx)
	if err != nil {
		return
	}
	defer there.Close()
	if b, err := there.Find(ctx, ref); err == nil {
		if p.opts.LedgerModel == "" && p.cfg.LedgerModel == "" {
			p.opts.LedgerModel, p.kept = b.Boulder.LedgerModel, "the boulder, for planning and judging (--ledger-model changes it),"
		}
	}
}

// modelsOf checks the first models of names that are not empty. Errors name flag, from which the first come.
func modelsOf(flag string, names ...boulder.Models) (boulder.Models, error) {
	models, err := providers.ParseModels(string(cmp.Or(names...)))
	if err != nil {
		err = usagef("%s: %w", flag, err)
	}
	return models, err
}

func (p *Project) planner() *taskledger.Planner {
	return &taskledger.Planner{
		Completer: p.completers[p.Ledger()], Model: p.Ledger(), Others: p.completers, Logger: p.log, Note: p.opts.Note, Warn: func(text string) { p.warn("%s", text) },
	}
}

func (p *Project) judge() *progressledger.Judge {
	return &progressledger.Judge{Completer: p.completers[p.Ledger()], Others: p.completers, Logger: p.log}
}

func (p *Project) orchestrator(db *store.DB) (*orchestrator.Orchestrator, error) {
	c, err := p.parts(p.Slots(), p.passedBefore(db))
	if err != nil {
		return nil, err
	}
	c.Store = db
	c.BlockerID = func(int) string { return db.BlockerID() }
	return orchestrator.New(c)
}

// Slots returns the slots of isolated boulders. Call [Project.OpenWorkspace] or [Project.Connect] before.
func (p *Project) Slots() Slots { return Slots{p.slots()} }

// Parts returns the configuration to run the project's boulders with, without a store. Call [Project.Connect] before.
func (p *Project) Parts(slots executor.Slots) (c orchestrator.Config, err error) {
	return p.parts(slots, nil)
}

func (p *Project) parts(slots executor.Slots, passed executor.PassedBefore) (c orchestrator.Config, err error) {
	env, err := p.environ()
	if err != nil {
		return c, err
	}
	p.diverter = p.newDiverter()
	run := p.looks()
	run.Slots, run.BlockersFiles, run.GateTimeout, run.Env = slots, p.blockersFiles(), p.cfg.GateTimeout, env
	run.Asks, run.Diverter, run.PassedBefore = p.cfg.OnAsk, p.diverter, passed
	p.runner, err = executor.New(run)
	return orchestrator.Config{
		Project: p.dir, Planner: p.planner(), Judge: p.judge(), Runner: p.runner,
		Limits: &p.cfg.Limits, Diversion: p.diverter.briefed,
		Logger: p.log,
	}, err
}

// looks is the configuration of an executor that only looks at the project.
func (p *Project) looks() executor.Config {
	return executor.Config{
		Host: p.host, Project: p.dir, Workspace: p.work(), Rules: &p.cfg.Rules, Price: p.price,
		Attach: func(ctx context.Context, address string) (*opencode.Client, error) { return p.attach(ctx, address, 0) },
		Redact: p.secrets, Logger: p.log, Lacking: p.slotsLine,
	}
}

// Budget returns the budget of a run: the limits of flag, and the configured ones where flag has none.
func (p *Project) Budget(flag *boulder.Budget) *boulder.Budget {
	configured := p.cfg.Budget
	if flag == nil || configured == nil {
		return cmp.Or(flag, configured)
	}
	return new(Overlay(*configured, *flag))
}

// Overlay returns b with the limits that over sets.
func Overlay(b, over boulder.Budget) boulder.Budget {
	return boulder.Budget{
		Tokens: cmp.Or(over.Tokens, b.Tokens), Cost: cmp.Or(over.Cost, b.Cost), Time: cmp.Or(over.Time, b.Time),
		Attempts: cmp.Or(over.Attempts, b.Attempts), Calls: cmp.Or(over.Calls, b.Calls),
	}
}

// Base returns the project's HEAD as of [Project.Connect], or "" outside git.
func (p *Project) Base() string { return p.base }

// Ledger returns the model that plans and judges while it can be used, or "" if OpenCode chooses it.
func (p *Project) Ledger() string { return p.ledgers.First() }

// LedgerIsDirect reports whether the ledgers call its provider directly, not through OpenCode.
func (p *Project) LedgerIsDirect() bool { return p.direct[p.Ledger()] }

// throughOpenCode returns the models of the ledgers that OpenCode is asked for.
func (p *Project) throughOpenCode() boulder.Models {
	return boulder.JoinModels(slices.DeleteFunc(p.ledgers.Entries(), func(m string) bool { return p.direct[boulder.Models(m).First()] })...)
}

// NoDiffs says why the project has no diffs, or returns "" if it has.
func (p *Project) NoDiffs() string { return p.work().Reason() }

// Warm starts OpenCode in the background.
func (p *Project) Warm() { p.host.Warm() }

// Client connects to OpenCode, and starts it if necessary.
func (p *Project) Client(ctx context.Context) (*opencode.Client, error) {
	conn, err := p.host.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

// ConnectOpenCode attaches to the OpenCode server that the options name, or prepares to start one.
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

// DefaultServer is where OpenCode 1 listens without a configured port, if that one is free.
const DefaultServer = "http://127.0.0.1:4096"

// attach connects to a running OpenCode server. timeout bounds each call; 0 is the client's default.
func (p *Project) attach(ctx context.Context, address string, timeout time.Duration) (*opencode.Client, error) {
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{
		Username: p.getenv("OPENCODE_SERVER_USERNAME"), Logger: p.log, CallTimeout: timeout, Slow: p.slow,
		Password: cmp.Or(p.getenv("OPENCODE_SERVER_PASSWORD"), p.getenv("OPENCODE_PASSWORD")), // OpenCode 2 has both
	})
	if p.tryService && (errors.Is(err, opencode.ErrUnavailable) || errors.Is(err, opencode.ErrUnauthorized)) {
		if service, found := p.service(ctx, timeout); found != nil || service != nil {
			client, err = service, found
		}
	}
	_, otherVersion := errors.AsType[*opencode.VersionError](err)
	switch {
	case errors.Is(err, opencode.ErrBadAddress):
		return nil, usagef("attach: %w", err)
	case otherVersion:
		return nil, err
	case errors.Is(err, opencode.ErrUnauthorized):
		hint := "set OPENCODE_SERVER_PASSWORD to the server's password"
		if p.tryService {
			hint += ", or say with --attach which server is meant"
		}
		return nil, fmt.Errorf("%w: %s", err, hint)
	case err != nil:
		return nil, fmt.Errorf("%w: is `opencode serve` running there?", err)
	}
	return client, nil
}

// service connects to the background service of OpenCode 2, whose clients are its terminal interfaces. The service
// registers itself in a file that only its user can read. Returns nil without an error if none runs.
func (p *Project) service(ctx context.Context, timeout time.Duration) (*opencode.Client, error) {
	state := p.getenv("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(p.getenv("HOME"), ".local", "state")
	}
	var registered struct{ URL, Password string }
	data, err := os.ReadFile(filepath.Join(state, "opencode", "service.json"))
	if err != nil || json.Unmarshal(data, &registered) != nil {
		return nil, nil //nolint:nilerr // there is none, or it cannot be found
	}
	client, err := opencode.Attach(ctx, registered.URL, opencode.AttachConfig{
		Password: registered.Password, Logger: p.log, CallTimeout: timeout, Slow: p.slow,
	})
	if errors.Is(err, opencode.ErrUnavailable) || errors.Is(err, opencode.ErrBadAddress) {
		return nil, nil // the registration of a service that has ended
	}
	return client, err
}

// Binary returns the path of the OpenCode to start.
func (p *Project) Binary() string {
	return cmp.Or(p.opts.OpenCode, p.getenv("MANAGER_OPENCODE"), p.cfg.OpenCode, "opencode")
}

func (p *Project) startServer(ctx context.Context) (*opencode.Server, error) {
	env, err := p.environ()
	if err != nil {
		return nil, err
	}
	return opencode.Start(ctx, opencode.ServerConfig{
		Binary: p.Binary(), Dir: p.dir, Env: env, Logger: p.log, Slow: p.slow,
		ConfigContent: func(generation int) string {
			return withOwnConfig(generation, Getenv(env, "OPENCODE_CONFIG_CONTENT"))
		},
	})
}

func (p *Project) slow(text string) { p.warn("%s", p.secrets.Text(text)) }

// withOwnConfig adds the ledgers' agent to the configuration from the user's environment, and keeps a refused
// permission from ending a turn. An unreadable configuration stays as it is, for OpenCode to report. OpenCode 2 ignores
// the latter, and takes the section of the last document as a whole: one of ours could hide the user's.
func withOwnConfig(generation int, content string) string {
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
	if generation != 2 {
		if experimental := section("experimental"); experimental["continue_loop_on_deny"] == nil {
			experimental["continue_loop_on_deny"] = true // else refusing one of several parallel asks ends the turn (seen)
		}
	}
	out, _ := json.Marshal(merged) // it came from JSON
	return string(out)
}
