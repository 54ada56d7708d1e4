package project

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// Starter starts the project's background server, and returns once it answers.
type Starter func(context.Context) (*Access, error)

// Continue has a boulder continue, and returns the process that runs it: the one that has it paused, else the project's
// server, which start starts if there is none. It refuses a boulder whose plan waits for approval: whoever continues it has
// not seen that.
func (p *Project) Continue(ctx context.Context, id string, start Starter) (pid int, err error) {
	b, err := p.Snapshot(ctx, id)
	switch {
	case err != nil:
		return 0, err
	case b.Asked() != "":
		return 0, usagef("the plan of boulder %s waits for your approval: `manager resume %[1]s` on a terminal, or the page",
			boulder.ShortID(b.Boulder.ID))
	case b.Boulder.Status.Terminal():
		return 0, usagef("boulder %s is over: redo parts of it with `manager redo SUBTASK -b %[1]s`", boulder.ShortID(b.Boulder.ID))
	}
	there, err := p.Dial(ctx)
	if err == nil {
		defer there.Close()
		switch {
		case slices.Contains(there.Holder.Running, id):
			_, err = p.Order(ctx, func(*Access) (boulder.Snapshot, boulder.Order, error) {
				return b, boulder.Order{Do: boulder.OrderResume}, nil
			})
			return there.Holder.PID, err
		case !there.Holder.Serves:
			return 0, fmt.Errorf("%w: process %d, `%s`, which runs one boulder alone", store.ErrHeld, there.Holder.PID, there.Holder.Command)
		}
	} else if !errors.Is(err, ErrNotServed) {
		return 0, err
	}
	_, pid, err = p.HandOver(ctx, Request{Resume: id}, start)
	return pid, err
}

// StartPlan hands a plan file to the project's server, as `manager run --detach FILE` does: its gates run, since the user has
// written or seen it. It refuses a stale plan, and, unless the user wants it again, one that was completed: see [RanError].
func (p *Project) StartPlan(ctx context.Context, file string, again bool, start Starter) (id string, pid int, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return "", 0, err
	}
	if err := p.OpenWorkspace(ctx); err != nil {
		return "", 0, err
	}
	head, err := p.work().Head(ctx)
	if err != nil {
		return "", 0, err
	}
	req := Request{Settings: boulder.Settings{Base: head, PlanFile: file}}
	if req.Plan, err = p.ReadPlan(file); err != nil {
		return "", 0, err
	}
	if moved, stale := p.otherCommit(ctx, req.Plan, head, file); stale {
		return "", 0, usagef("%s: plan again, or run it all the same with `manager run --allow-stale %s`", moved, file)
	}
	if b, err := p.CompletedRun(ctx, file, req.Plan); err == nil && b != nil && !again {
		return "", 0, &RanError{File: file, Boulder: b}
	}
	return p.HandOver(ctx, req, start)
}

// RanError says that a plan file was completed, and has not changed since. The user has to be asked whether it runs again.
type RanError struct {
	File    string // as the user knows it
	Boulder *boulder.Boulder
}

func (e *RanError) Error() string {
	b, id := e.Boulder, boulder.ShortID(e.Boulder.ID)
	return fmt.Sprintf("%s was completed on %s, as boulder %s%s", e.File, text.Stamp(b.UpdatedAt), id,
		text.If(b.Unlanded(), fmt.Sprintf(", whose results have not landed (manager land %s)", id)))
}
