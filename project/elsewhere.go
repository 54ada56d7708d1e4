package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/control"
)

// Elsewhere runs the boulders of a project outside of this process. Its methods may be called from any goroutine.
type Elsewhere interface {
	Steerer
	Submitter
	// Copy updates the database and returns the running boulders; with an error, those known to run.
	Copy(ctx context.Context) (running []string, err error)
}

// copyEvery is how often [State.ServeElsewhere] updates the database.
const copyEvery = 500 * time.Millisecond

// announcer lists a submitted boulder as running at once, not only after the next copy.
type announcer struct {
	Elsewhere
	server *control.Server
}

func (a announcer) Submit(ctx context.Context, req Request) (string, error) {
	id, err := a.Elsewhere.Submit(ctx, req)
	if err == nil {
		a.server.Began(id)
	}
	return id, err
}

var errStillRunning = errors.New("the boulders continue, and are copied when this is started again")

// ServeElsewhere passes requests and orders of other processes on to e, and keeps a copy of its boulders in the
// database. To other processes it looks like [State.Serve]. It returns when ctx ends or after [State.Stop], neither of
// which stops the boulders elsewhere. A failing copy is reported once.
func (s *State) ServeElsewhere(ctx context.Context, e Elsewhere) error {
	s.server.SetSteerer(announcer{e, s.server})
	told, before := "", []string{}
	for {
		running, err := e.Copy(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), errStillRunning)
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
		for _, id := range slices.Concat(before, running) { // one that has ended, too
			_, _ = s.p.writeList(ctx, s.DB, id) // it is tried again
		}
		before = running
		s.server.Notify()
		select {
		case <-time.After(copyEvery):
		case <-s.stopped.Done():
			return fmt.Errorf("%w: %w", orchestrator.ErrStopped, errStillRunning)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), errStillRunning)
		}
	}
}
