package project

import (
	"cmp"
	"context"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// Reset returns the latest end of a limit that a provider has named for a model that a request would use, the first of a list,
// with the newest refusal of it in any boulder of the project; and that model. A request without a model may use any. The
// cool-down is zero if there is none.
func (p *Project) Reset(ctx context.Context, req *Request) (model string, latest boulder.Cooldown, err error) {
	run, err := p.Model()
	if err != nil {
		return "", latest, err
	}
	used := map[string]bool{cmp.Or(req.Model, run).First(): true}
	if req.Plan != nil {
		clear(used)
		for _, s := range req.Plan.SubTasks {
			used[cmp.Or(s.Model, req.Plan.Model, req.Model, run).First()] = true
		}
	}
	newest := map[string]boulder.Cooldown{}
	err = p.each(ctx, func(b *boulder.Snapshot) {
		for m, c := range b.Boulder.Cooldowns {
			if newest[m].Since.Before(c.Since) {
				newest[m] = c
			}
		}
	})
	for m, c := range newest {
		if (used[m] || used[""]) && c.Lifted.IsZero() && !c.Reset.IsZero() && latest.Until.Before(c.Until) {
			model, latest = m, c
		}
	}
	return model, latest, err
}

// ModelUses lists the model of sub-tasks that name none, those of the ledgers, and those of boulders that are not over, with
// the newest refusal of each in any boulder. Of one that is over it counts until its end, if that is known.
func (p *Project) ModelUses(ctx context.Context, model boulder.Models, now time.Time) ([]orchestrator.ModelUse, error) {
	s := boulder.NewState()
	s.Boulder.Cooldowns = map[string]boulder.Cooldown{}
	use := func(models boulder.Models, atWork string) {
		s.SubTasks = append(s.SubTasks, &boulder.SubTask{Model: atWork, Models: models})
	}
	use(model.Or(p.cfg.Models.Fallback), model.First())
	s.Boulder.LedgerModel = p.ledgers
	err := p.each(ctx, func(b *boulder.Snapshot) {
		over := b.Boulder.Status.Terminal()
		for m, c := range b.Boulder.Cooldowns {
			holds := !over || !c.Endless() && now.Before(c.Until)
			if known, is := s.Boulder.Cooldowns[m]; holds && (!is || known.Since.Before(c.Since)) {
				s.Boulder.Cooldowns[m] = c
			}
		}
		for _, t := range b.SubTasks {
			if !over && !t.Status.Terminal() {
				use(t.Wanted(), t.Model)
			}
		}
		if !over {
			use(b.Boulder.LedgerModel, b.Boulder.Ledger())
		}
	})
	return orchestrator.ModelUses(s, now), err
}

// each passes each boulder of the project to of.
func (p *Project) each(ctx context.Context, of func(*boulder.Snapshot)) error {
	there, err := p.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	all, err := there.Listing(ctx)
	for _, item := range all {
		if b, unreadable := there.Get(ctx, item.BoulderID); unreadable == nil { // else named by the listing's error
			of(&b)
		}
	}
	return err
}
