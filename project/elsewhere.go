package project

import (
	"context"
	"slices"
	"time"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
)

// Elsewhere runs the boulders of a project outside of this process. Its methods may be called from any goroutine.
type Elsewhere interface {
	control.Steerer
	control.Submitter
	// Copy brings the database up to date, and returns the boulders that are at work, as far as is known with an error.
	Copy(ctx context.Context) (running []string, err error)
}

// copyEvery is how often [State.ServeElsewhere] brings the database up to date.
const copyEvery = 500 * time.Millisecond

// ServeElsewhere hands on what other processes hand over, while the database has a copy of what is run elsewhere: for them it is as
// in [State.Serve]. It returns when ctx ends or [State.Stop] was called. What cannot be copied for now is told once.
func (s *State) ServeElsewhere(ctx context.Context, e Elsewhere) error {
	s.server.SetSteerer(e)
	var known []string
	told := ""
	for {
		running, err := e.Copy(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && err.Error() != told {
			s.p.warn("%v", err)
			told = err.Error()
		}
		if err == nil {
			told = ""
		}
		for _, id := range running {
			if !slices.Contains(known, id) {
				s.server.Began(id)
			}
		}
		for _, id := range known {
			if !slices.Contains(running, id) {
				s.server.Ended(id)
			}
		}
		known = running
		for _, id := range running { // answers that came while the question was on its way
			if err := s.p.deliver(ctx, &Desk{Reader: s.DB, Orders: e}, id); err != nil {
				s.p.log.Warn("an answer was not handed over", "error", err)
			}
		}
		s.server.Notify()
		select {
		case <-time.After(copyEvery):
		case <-s.stopped.Done():
			return orchestrator.ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
