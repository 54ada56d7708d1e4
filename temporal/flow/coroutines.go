package flow

import (
	"context"
	"runtime"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/orchestrator"
)

// ownKey is where a context of the core has the [workflow.Context] of the coroutine that uses it.
type ownKey struct{}

func with(ctx context.Context, own workflow.Context) context.Context {
	return context.WithValue(ctx, ownKey{}, own)
}

// own is the calling coroutine's: nothing else may block with it.
func own(ctx context.Context) workflow.Context { return ctx.Value(ownKey{}).(workflow.Context) }

// uncancelled is own for a wait that does not end with its cancellation.
func uncancelled(ctx context.Context) workflow.Context {
	c, _ := workflow.NewDisconnectedContext(own(ctx))
	return c
}

// coroutines are those of a workflow: one runs at a time, in an order that its history gives again.
type coroutines struct {
	root workflow.Context
	last time.Time
	gone bool // the workflow is taken out of memory: deferred functions run once more, and must not block
}

var _ orchestrator.Coroutines = (*coroutines)(nil)

// now is later each time, so that two turns of the loop within a workflow task do not seem to be one: see
// [orchestrator.CheckDecisions].
func (c *coroutines) now() time.Time {
	now := workflow.Now(c.root)
	if !now.After(c.last) {
		now = c.last.Add(1)
	}
	c.last = now
	return now
}

// Go implements orchestrator.Coroutines.
func (c *coroutines) Go(ctx context.Context, work func(context.Context)) context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(ctx)
	stoppable, stop := workflow.WithCancel(c.root)
	workflow.Go(stoppable, func(own workflow.Context) { work(with(ctx, own)) })
	return func(cause error) {
		cancel(cause)
		stop()
	}
}

// NewInbox implements orchestrator.Coroutines.
func (c *coroutines) NewInbox() orchestrator.Inbox { return &inbox{c: c} }

// block calls what blocks.
func (c *coroutines) block(what func()) {
	if c.gone {
		runtime.Goexit()
	}
	returned := false
	defer func() { c.gone = c.gone || !returned }()
	what()
	returned = true
}

// wait blocks until ready, or for a time.
func (c *coroutines) wait(ctx workflow.Context, within time.Duration, ready func() bool) {
	c.block(func() {
		var err error
		if within == orchestrator.Forever {
			err = workflow.Await(ctx, ready)
		} else {
			_, err = workflow.AwaitWithTimeout(ctx, within, ready)
		}
		if err != nil {
			panic(err) // a disconnected context is not cancelled
		}
	})
}

type inbox struct {
	c      *coroutines
	items  []any
	closed bool
}

func (b *inbox) Put(item any) bool {
	if !b.closed {
		b.items = append(b.items, item)
	}
	return !b.closed
}

func (b *inbox) Take(ctx context.Context, within time.Duration) (item any, ok bool) {
	if len(b.items) == 0 && within != 0 && ctx.Err() == nil {
		b.c.wait(uncancelled(ctx), within, func() bool { return len(b.items) > 0 || ctx.Err() != nil })
	}
	if len(b.items) == 0 {
		return nil, false
	}
	item, b.items = b.items[0], b.items[1:]
	return item, true
}

func (b *inbox) Close() []any {
	rest := b.items
	b.items, b.closed = nil, true
	return rest
}
