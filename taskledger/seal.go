package taskledger

import (
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Seal gives a copy of a plan with a seal: base is the commit that it was made on (empty outside git), model the ledger
// model that made it (empty if none was asked), now the time. In the copy, what may be left out is filled in, so that
// it has the hash that [Parse] will find.
func Seal(plan *boulder.Plan, base string, origin boulder.Origin, model string, now time.Time) *boulder.Plan {
	p := new(plan.Clone())
	fill(p)
	p.Seal = &boulder.Seal{
		Base: base, Hash: p.Hash(), Origin: origin, Model: model, CreatedAt: now.UTC().Truncate(time.Second),
	}
	return p
}
