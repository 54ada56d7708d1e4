package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

const (
	// stopGrace is how long an aborted turn may take to become idle, stopCheck how often it is looked whether it is. There is
	// no event if the model had not been called.
	stopGrace = 15 * time.Second
	stopCheck = 200 * time.Millisecond
)

// StopSession implements orchestrator.SessionStopper.
func (e *Executor) StopSession(ctx context.Context, sessionID string) error {
	conn, err := e.cfg.Host.Connect(ctx)
	if err != nil {
		return startFault(err)
	}
	return e.stopSession(ctx, conn.Client.In(e.cfg.Project), sessionID)
}

// stopSession ends a turn, and waits until its session is idle: what it did until then may be judged.
func (e *Executor) stopSession(ctx context.Context, dir *opencode.Directory, sessionID string) error {
	stopping, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	err := dir.Abort(stopping, sessionID)
	for err == nil {
		var statuses map[string]opencode.Status
		if statuses, err = dir.Statuses(stopping); err != nil {
			break
		}
		if s, listed := statuses[sessionID]; !listed || s.Type == opencode.Idle {
			return nil
		}
		select {
		case <-e.cfg.After(stopCheck):
		case <-stopping.Done():
			err = stopping.Err()
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, opencode.ErrNotFound):
		return nil
	case stopping.Err() != nil:
		return fmt.Errorf("%w: session %s did not stop within %s of an abort", boulder.ErrTrouble, sessionID, stopGrace)
	}
	return fault(err)
}
