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
	// ErrFenced is the cause if no heartbeat succeeded in time: another worker may get the work soon.
	ErrFenced = errors.New("no heartbeat reached the Temporal server in time: another worker may have the work soon")
	// ErrTaken is the cause if the server says that the work is no longer this worker's.
	ErrTaken = errors.New("the Temporal server has given the work to another worker")
	// ErrCancelled is the cause if the boulder cancelled the work.
	ErrCancelled = errors.New("the boulder ended the work")
)

// Watch calls beat every tenth of timeout until stop is called, and returns a context for the work. It ends two thirds
// of timeout after the start of the last successful beat, which leaves the work time to end. The SDK's own heartbeats
// would cancel the work at the first failure, or notice a cancellation late.
func Watch(ctx context.Context, timeout time.Duration, beat func(context.Context) error) (_ context.Context, stop func()) {
	guarded, end := context.WithCancelCause(ctx)
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx)) // beats continue while cancelled work ends
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
