package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// StopSession implements orchestrator.SessionStopper.
func (e *Executor) StopSession(ctx context.Context, sessionID string) error {
	conn, err := e.cfg.Host.Connect(ctx)
	if err != nil {
		return startFault(err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	dir := conn.Client.In(e.cfg.Project)
	if err := dir.Abort(ctx, sessionID); errors.Is(err, opencode.ErrNotFound) {
		return nil
	} else if err != nil {
		return fault(err)
	}
	for {
		statuses, err := dir.Statuses(ctx)
		if err != nil {
			return fault(err)
		}
		if s, listed := statuses[sessionID]; !listed || s.Type == opencode.Idle {
			return nil
		}
		select {
		case <-time.After(stopCheck):
		case <-ctx.Done():
			return fmt.Errorf("%w: session %s did not stop within %s of an abort", boulder.ErrTrouble, sessionID, stopGrace)
		}
	}
}
