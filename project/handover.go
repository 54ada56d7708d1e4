package project

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/workspace"
)

// HandOver has the process that holds the state do what is asked for, or if none does, the server that start begins. It returns
// when the first of it is on disk.
func (p *Project) HandOver(
	ctx context.Context, req Request, start func(context.Context) (*Desk, error),
) (id string, pid int, err error) {
	ledger, err := modelOf(p.opts.LedgerModel)
	if err != nil {
		return "", 0, err
	}
	req.LedgerModel = ledger.String()
	if req.Base == "" && req.Resume == "" { // that of the server may be an older one
		work, err := workspace.Open(ctx, p.dir, p.blockersFile())
		if err == nil {
			req.Base, err = work.Head(ctx)
		}
		if err != nil {
			return "", 0, err
		}
	}
	there, err := p.Dial(ctx)
	switch {
	case errors.Is(err, control.ErrNotServed):
		if there, err = start(ctx); err != nil {
			return "", 0, fmt.Errorf("start a server: %w", err)
		}
	case err != nil:
		return "", 0, err
	case there.Holder.Serves && p.opts.Attach != "":
		return "", 0, usagef("process %d serves this project already, with an OpenCode server of its own choice: "+
			"leave --attach out, or stop it", there.Holder.PID)
	}
	id, err = there.Submit(ctx, req)
	switch {
	case errors.Is(err, control.ErrNoSubmitter):
		err = fmt.Errorf("%w: %w: process %d, `%s`", store.ErrHeld, err, there.Holder.PID, there.Holder.Command)
	case err != nil && req.Resume != "" && req.Plan == nil: // a server takes up by itself what a crashed process was at
		if now, dialErr := p.Dial(ctx); dialErr == nil && slices.Contains(now.Holder.AtWork(), req.Resume) {
			id, err = req.Resume, nil
		}
	}
	return id, there.Holder.PID, err
}

// ParsePlan reads a plan that does not come from a file, as [Project.ReadPlan] does; name stands for it in messages.
func (p *Project) ParsePlan(name string, data []byte) (*boulder.Plan, error) {
	plan, err := taskledger.Parse(name, data)
	if err != nil {
		return nil, err
	}
	return p.cleanPlan(name, plan)
}
