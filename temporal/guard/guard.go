// Package guard ends work before Temporal gives it to another worker.
package guard

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

var (
	// ErrFenced is the cause when no heartbeat came through in time: another worker may have the work from now on.
	ErrFenced = errors.New("no heartbeat reached the Temporal server in time: another worker may have the work soon")
	// ErrTaken is the cause when the server says that the work is not this worker's any more.
	ErrTaken = errors.New("the Temporal server has given the work to another worker")
	// ErrCancelled is the cause when the boulder wants the work to end.
	ErrCancelled = errors.New("the boulder ended the work")
)

// Watch calls beat ten times within timeout, until stop is called, and gives a context for the work. It ends two thirds
// of timeout after the start of the last beat that came through: the rest is for the work to end. The SDK's own
// heartbeats would end the work at the first one that fails, or notice a cancellation late.
func Watch(ctx context.Context, timeout time.Duration, beat func(context.Context) error) (_ context.Context, stop func()) {
	guarded, end := context.WithCancelCause(ctx)
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx)) // also while the work comes to its end
	stopped, patience := make(chan struct{}), timeout*2/3
	go func() {
		defer close(stopped)
		fence := time.AfterFunc(patience, func() { end(ErrFenced) })
		defer fence.Stop()
		for {
			begun := time.Now()
			err := within(beating, patience, beat)
			_, cancelled := errors.AsType[*temporal.CanceledError](err)
			_, notFound := errors.AsType[*serviceerror.NotFound](err)
			switch {
			case err == nil, cancelled:
				fence.Reset(patience - time.Since(begun))
				if cancelled {
					end(ErrCancelled)
				}
			case notFound, errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
				end(ErrTaken)
				return
			}
			select {
			case <-time.After(timeout / 10):
			case <-beating.Done():
				return
			}
		}
	}()
	return guarded, func() {
		stopBeating()
		<-stopped
		end(nil)
	}
}

func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}
