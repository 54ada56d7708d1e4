package project

import (
	"cmp"
	"context"

	"github.com/bouldermgr/manager/boulder"
)

// Reset returns the latest end of a limit that a provider has named, in any boulder of the project, for a model that a
// request would use, the first of a list; and that model. A request without a model may use any. The cool-down is zero if there is none.
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
	there, err := p.Read(ctx)
	if err != nil {
		return "", latest, err
	}
	defer there.Close()
	all, err := there.Listing(ctx)
	for _, item := range all {
		b, unreadable := there.Get(ctx, item.BoulderID)
		if unreadable != nil {
			continue // named by the listing's error
		}
		for m, c := range b.Boulder.Cooldowns {
			if (used[m] || used[""]) && c.Lifted.IsZero() && !c.Endless() && latest.Until.Before(c.Until) {
				model, latest = m, c
			}
		}
	}
	return model, latest, err
}
