package project

import (
	"context"
	"errors"
	"fmt"
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

// announcing tells who asks next that a boulder is at work, before the next copy does.
type announcing struct {
	Elsewhere
	server *control.Server
}

func (a announcing) Submit(ctx context.Context, req Request) (string, error) {
	id, err := a.Elsewhere.Submit(ctx, req)
	if err == nil {
		a.server.Began(id) // twice, if a copy was faster
	}
	return id, err
}

var errGoesOn = errors.New("the boulders go on, and are copied when this is started again")

// ServeElsewhere hands on what other processes hand over, while the database has a copy of what is run elsewhere: for
// them it is as in [State.Serve]. It returns when ctx ends or [State.Stop] was called, which stops nothing that runs
// elsewhere. What cannot be copied for now is told once.
func (s *State) ServeElsewhere(ctx context.Context, e Elsewhere) error {
	s.server.SetSteerer(announcing{e, s.server})
	told := ""
	for {
		running, err := e.Copy(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), errGoesOn)
		}
		trouble := ""
		if err != nil {
			trouble = err.Error()
		}
		switch {
		case trouble == told:
		case trouble != "":
			s.p.warn("%s", trouble)
		default:
			s.p.note("All is copied again.")
		}
		told = trouble
		s.server.SetRunning(running, trouble)
		for _, id := range running { // answers that came while the question was on its way
			if err := s.p.deliver(ctx, &Access{Reader: s.DB, Orders: e}, id); err != nil {
				s.p.log.Warn("an answer was not handed over", "error", err)
			}
		}
		s.server.Notify()
		select {
		case <-time.After(copyEvery):
		case <-s.stopped.Done():
			return fmt.Errorf("%w: %w", orchestrator.ErrStopped, errGoesOn)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), errGoesOn)
		}
	}
}
