package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
)

const idleLook = 100 * time.Millisecond

// Serve runs what a crashed process left, and what other processes hand over, several boulders at the same time and under
// the same limits. follow is called for each, on a goroutine of its own, and ranges over its events. Serve returns when
// ctx ends, when [State.Stop] was called ([orchestrator.ErrStopped]), or when nothing was at work for patience (0: never),
// and every follow has returned.
func (s *State) Serve(
	ctx context.Context, patience time.Duration, follow func(events iter.Seq2[boulder.Event, error]),
) error {
	sv := &service{State: s, ctx: ctx, follow: follow}
	defer sv.close()
	if err := sv.takeUp(ctx); err != nil {
		s.p.warn("%v", err)
	}
	s.server.SetSteerer(sv)
	for busy := time.Now(); ; {
		select {
		case <-time.After(idleLook):
			sv.mu.Lock()
			if sv.begun > 0 {
				busy = time.Now()
			}
			sv.closed = patience > 0 && time.Since(busy) >= patience
			over := sv.closed
			sv.mu.Unlock()
			if over {
				return nil
			}
		case <-s.stopped.Done():
			return orchestrator.ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// service takes orders and submissions from other processes. Its methods may be called from any goroutine.
type service struct {
	*State
	ctx    context.Context // of the boulders
	follow func(iter.Seq2[boulder.Event, error])

	mu     sync.Mutex
	begun  int            // boulders that are being begun, or at work
	closed bool           // nothing further is begun
	work   sync.WaitGroup // a goroutine for each boulder
}

var (
	_ control.Steerer   = (*service)(nil)
	_ control.Submitter = (*service)(nil)
)

func (s *service) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	return s.run.Order(ctx, boulderID, o)
}

// takeUp resumes what a process left that did not come to stop it: the boulders that are running by the records.
func (s *service) takeUp(ctx context.Context) error {
	all, err := s.DB.Listing(ctx)
	for _, b := range all {
		if b.Status != boulder.Running && b.Status != boulder.Synthesizing {
			continue
		}
		if _, resumeErr := s.Submit(ctx, Request{Resume: b.BoulderID}); resumeErr != nil {
			err = errors.Join(err, fmt.Errorf("resume %s: %w", b.BoulderID, resumeErr))
		}
	}
	return err
}

// Submit runs a boulder on a goroutine of its own, and returns when the first of it is on disk.
func (s *service) Submit(_ context.Context, req Request) (string, error) {
	if req.LedgerModel != "" && req.LedgerModel != s.p.ledger {
		return "", fmt.Errorf("%w: the server plans and judges with %s, not with %s:"+
			" stop it, and start it with --ledger-model",
			boulder.ErrRefused, cmp.Or(s.p.ledger, "the default model"), req.LedgerModel)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return "", fmt.Errorf("%w: the server is stopping", boulder.ErrRefused)
	}
	s.begun++
	s.work.Add(1) // here, so that close waits for it
	s.mu.Unlock()
	ended := func() {
		s.mu.Lock()
		s.begun--
		s.mu.Unlock()
		s.work.Done()
	}
	next, stop := iter.Pull2(s.Run(s.ctx, req))
	e, err, ok := next()
	if err != nil || !ok {
		stop()
		ended()
		return "", err
	}
	id := e.BoulderID
	go func() {
		defer ended()
		defer stop()
		s.follow(func(yield func(boulder.Event, error) bool) {
			for ok && yield(e, err) {
				e, err, ok = next()
			}
		})
	}()
	return id, nil
}

// close begins nothing further and waits until every run has ended.
func (s *service) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}
