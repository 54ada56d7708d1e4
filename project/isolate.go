package project

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/workspace"
)

// slots are those of the workspace, as the executor wants them.
type slots struct{ *workspace.Slots }

// Prepare implements executor.Slots.
func (s slots) Prepare(ctx context.Context, c boulder.SlotClaim) (executor.Slot, error) {
	slot, err := s.Slots.Prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	return slot, nil
}

// setUp is how slots are set up here.
func (p *Project) setUp() *workspace.SetUp {
	c := p.cfg.Slots
	run := func(ctx context.Context, dir string, env []string, line string) boulder.Gate {
		usual, err := p.environ()
		if err != nil {
			return boulder.Gate{Command: line, ExitCode: -1, Output: err.Error()}
		}
		p.note("Setting up a slot: %s", p.secrets.Text(line))
		return executor.RunCommand(ctx, dir, slices.Concat(usual, env), line, p.gateTimeout(), p.secrets.Text)
	}
	return &workspace.SetUp{Copy: c.Copy, Commands: c.Setup, When: c.SetupWhen, Env: c.Environ(), Run: run}
}

// gateTimeout bounds a command of the user.
func (p *Project) gateTimeout() time.Duration {
	return cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout)
}

// TakeBack implements executor.Slots.
func (s slots) TakeBack(ctx context.Context, change boulder.Span) error {
	_, err := s.Slots.TakeBack(ctx, change.From, change.To, false)
	return err
}

// generated are the commands of [boulder.Boulder.Generated] that nobody has to configure.
func generated() map[string]string {
	return map[string]string{
		"go.sum": "go mod tidy", "package-lock.json": "npm install --package-lock-only --ignore-scripts",
		"pnpm-lock.yaml": "pnpm install --lockfile-only", "Cargo.lock": "cargo update --workspace", "uv.lock": "uv lock",
		"poetry.lock": "poetry lock",
	}
}

// isolate decides whether a new boulder may work in slots, makes what they begin with, and takes in what else keeps sub-tasks
// apart. What the request says goes before the plan, and that before the configuration. Where there can be no slots it runs
// in place, and the user is told why.
func (p *Project) isolate(ctx context.Context, req *Request) (err error) {
	var plan boulder.Plan
	if req.Plan != nil {
		plan = *req.Plan
	}
	req.Isolation = cmp.Or(req.Isolation, plan.Isolation, p.cfg.Isolation, p.opts.Isolation)
	req.Scope, req.Generated = cmp.Or(plan.Scope, p.cfg.Scope), generated()
	maps.Copy(req.Generated, p.cfg.Generated)
	maps.Copy(req.Generated, plan.Generated)
	req.IntegrationGates = p.cfg.IntegrationGates
	if len(plan.IntegrationGates) > 0 {
		req.IntegrationGates = plan.IntegrationGates
	}
	if req.Isolation != boulder.IsolationAlways && req.Isolation != boulder.IsolationAuto || req.Loop != nil {
		return nil
	}
	req.InPlace, err = p.slots.Unsupported(ctx)
	switch {
	case err != nil:
		return err
	case req.InPlace != "" && req.Isolation == boulder.IsolationAlways:
		p.warn("the sub-tasks work in place, without slots: %s", req.InPlace)
	case req.InPlace != "" && p.NoDiffs() == "": // else that is told
		p.note("The sub-tasks work in place: %s.", req.InPlace)
	}
	if req.InPlace != "" {
		return nil
	}
	req.SlotBase, err = p.slots.Base(ctx, req.CleanBase, time.Now())
	return err
}
