package project

import (
	"context"
	"errors"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/store"
)

var _ session.Diverter = (*diverter)(nil)

// diverter stands in for the person who is away, in the sessions that this process runs or watches. It is there whether
// diversion is on or not: that can be switched at any time.
type diverter struct {
	*blockers.Desk
	*mcptool.Server
}

// newDiverter makes one. Nothing is stored and nothing listens before it is needed.
func (p *Project) newDiverter() (*diverter, error) {
	desk, err := p.Blockers()
	if err != nil {
		return nil, err
	}
	return &diverter{desk, mcptool.New(mcptool.Config{Desk: desk, Logger: p.log})}, nil
}

// briefed is what the agents of a boulder are told; zero: it is not diverted now.
func (v *diverter) briefed(b boulder.Boulder) boulder.Diversion {
	if !v.On(boulder.BlockerScope{BoulderID: b.ID, Diverted: b.Diverted}) {
		return boulder.Diversion{}
	}
	return v.Diversion()
}

// closeDiverter takes the blocker tool back from a server that outlives this process, and stops serving it.
func (p *Project) closeDiverter(ctx context.Context) {
	if p.diverter == nil {
		return
	}
	if p.attached != nil {
		if err := p.runner.Withdraw(ctx); err != nil {
			p.log.Warn("the blocker tool stays known to OpenCode", "error", err)
		}
	}
	if err := p.diverter.Close(); err != nil {
		p.log.Warn("the blocker tool's server was not closed cleanly", "error", err)
	}
}

// Deliver hands the answers over that were given while nobody could take them, before a boulder is taken up again.
// What cannot be handed over now is tried again the next time.
func (p *Project) Deliver(ctx context.Context, db *store.DB, boulderID string) {
	desk, err := p.Blockers()
	if err == nil {
		var detail boulder.Snapshot
		detail, err = db.Get(ctx, boulderID)
		for _, t := range detail.SubTasks { // what it knows by these ids would not be waited for, were they given again
			for _, b := range t.Blockers {
				err = errors.Join(err, desk.PassOver(ctx, b.ID))
			}
		}
		err = errors.Join(err, deliver(ctx, desk, &Desk{Reader: db, Orders: onDisk{db}}, boulderID))
	}
	if err != nil {
		p.warn("answers to blockers: %v", err)
	}
}
