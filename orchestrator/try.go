package orchestrator

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
)

func (r *run) startTry() {
	if r.busy(tryRef) {
		return
	}
	b := &r.state.Boulder
	what := boulder.Trial{BoulderID: b.ID, Base: b.Line.Base, Isolation: b.Isolation, Gates: b.IntegrationGates}
	for _, t := range r.state.SubTasks {
		if t.Unfinished() {
			what.SubTasks = append(what.SubTasks, *t)
		}
	}
	r.launchWork(tryRef, r.untilStop(func(ctx context.Context) error {
		return r.o.cfg.Runner.(Trier).Try(ctx, what, r.reporter(ctx, tryRef))
	}), func(err error) error {
		if err != nil && !r.cutShort(err) {
			r.end(err)
		}
		return nil
	})
}
