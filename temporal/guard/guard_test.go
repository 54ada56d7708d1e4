package guard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/bouldermgr/manager/temporal/guard"
)

// TestFence: the work survives a server outage of half the timeout. It ends on time, counted from the start of the last
// successful beat, even if a beat hangs.
func TestFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, hangs atomic.Bool
		ctx, stop := guard.Watch(t.Context(), 30*time.Second, func(ctx context.Context) error {
			if hangs.Load() {
				<-ctx.Done()
			}
			if away.Load() {
				return errors.New("unavailable")
			}
			return ctx.Err()
		})
		defer stop()
		<-time.After(time.Minute + time.Second)
		away.Store(true)
		<-time.After(15 * time.Second)
		away.Store(false)
		<-time.After(10 * time.Minute)
		if ctx.Err() != nil {
			t.Fatalf("the work ended although the server came back: %v", context.Cause(ctx))
		}
		hangs.Store(true)
		begun := time.Now()
		<-ctx.Done()
		if took := time.Since(begun); took > 20*time.Second || !errors.Is(context.Cause(ctx), guard.ErrFenced) {
			t.Errorf("%v after %s", context.Cause(ctx), took)
		}
	})
}

// TestServerSays: the server's answer ends the work. After a cancellation beats continue: the work needs time to end.
func TestServerSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ says, cause error }{
		{temporal.NewCanceledError(), guard.ErrCancelled}, {serviceerror.NewNotFound("gone"), guard.ErrTaken},
		{activity.ErrActivityPaused, guard.ErrTaken}, {activity.ErrActivityReset, guard.ErrTaken},
	} {
		synctest.Test(t, func(t *testing.T) {
			var beats atomic.Int64
			ctx, stop := guard.Watch(t.Context(), 30*time.Second, func(context.Context) error {
				beats.Add(1)
				return c.says
			})
			synctest.Wait()
			if !errors.Is(context.Cause(ctx), c.cause) {
				t.Errorf("%v: %v", c.says, context.Cause(ctx))
			}
			<-time.After(10 * time.Second)
			if n, more := beats.Load(), errors.Is(c.cause, guard.ErrCancelled); (n > 1) != more {
				t.Errorf("%v: %d beats", c.says, n)
			}
			stop()
		})
	}
}
