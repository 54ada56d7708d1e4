package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// State is the project's database, held by this process, the orchestrator that works on it, and the socket on which
// other processes look at it and steer it.
type State struct {
	DB *store.DB
	*control.Server
	p   *Project
	run *orchestrator.Orchestrator
}

// Hold opens the project's database for this process alone. If another process holds it, the error wraps
// [store.ErrHeld] and says who. serves: the process takes tasks of others.
func (p *Project) Hold(ctx context.Context, serves bool) (*State, error) {
	limits := p.cfg.Limits()
	dir, err := store.EnsureDir(p.dir)
	if err != nil {
		return nil, err
	}
	db, err := p.openState(ctx, dir)
	if err != nil {
		return nil, err
	}
	who := control.Holder{
		PID: os.Getpid(), Since: time.Now(), Limits: &limits, Command: p.secrets.Text(p.opts.Command), Serves: serves,
	}
	server, err := control.Serve(ctx, filepath.Join(dir, control.SocketName), who, db, p.log)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &State{DB: db, Server: server, p: p}, nil
}

// Release gives the database free. What was committed is on disk already, so an error changes nothing.
func (s *State) Release() {
	if err := errors.Join(s.Server.Close(), s.DB.Close()); err != nil {
		s.p.log.Warn("the state was not closed cleanly", "error", err)
	}
}

// Orchestrator is what runs boulders on the state. Agents that may be at work for boulders that were cancelled while no
// process ran them are stopped first.
func (s *State) Orchestrator(ctx context.Context) (*orchestrator.Orchestrator, error) {
	if s.run != nil {
		return s.run, nil
	}
	run, err := s.p.orchestrator(s.DB)
	if err != nil {
		return nil, err
	}
	if err := s.p.stopLeft(ctx, run, s.DB); err != nil {
		return nil, err
	}
	s.run = run
	return run, nil
}

// stopLeft stops the agents that may be at work for boulders that were cancelled while no process ran them.
func (p *Project) stopLeft(ctx context.Context, run *orchestrator.Orchestrator, r Reader) error {
	all, err := r.Listing(ctx)
	if err != nil { // no reason not to run something else
		p.log.Warn("what is stored here cannot be listed: agents of cancelled boulders may be at work", "error", err)
	}
	for _, item := range all {
		if item.Status != boulder.Cancelled || !item.ArchivedAt.IsZero() {
			continue
		}
		if err := run.StopLeft(ctx, item.BoulderID); err != nil {
			return err
		}
	}
	return nil
}

// CheckSeal refuses a plan that was made for another state of the project.
func (p *Project) CheckSeal(plan *boulder.Plan, allowStale bool) error {
	if plan.Edited() {
		p.note("The plan was edited after it was made; it runs as it is written.")
	}
	if plan.Seal == nil || plan.Seal.Base == p.base || plan.Seal.Base == "" {
		return nil
	}
	moved := fmt.Sprintf("the plan was made for commit %s, and the project is at %s",
		Short(plan.Seal.Base), cmp.Or(Short(p.base), "no commit"))
	if allowStale {
		p.note("Note: %s.", moved)
		return nil
	}
	return usagef("%s: plan again with `manager plan`, or run it all the same with --allow-stale", moved)
}

// Short is a commit as people read it.
func Short(commit string) string { return commit[:min(len(commit), 10)] }

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

// Model is what the user named for sub-tasks that name none; empty if they did not.
func (p *Project) Model() (string, error) { return p.model() }

// Client connects to OpenCode, which it starts if need be.
func (p *Project) Client(ctx context.Context) (*opencode.Client, error) {
	conn, err := p.host.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}
