package flow

import (
	"context"
	"runtime"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/orchestrator"
)

// workflowKey is the key under which a context of the core holds the [workflow.Context] of its coroutine.
type workflowKey struct{}

func withWorkflow(ctx context.Context, own workflow.Context) context.Context {
	return context.WithValue(ctx, workflowKey{}, own)
}

// workflowContext returns the calling coroutine's context. No other coroutine may block with it.
func workflowContext(ctx context.Context) workflow.Context {
	return ctx.Value(workflowKey{}).(workflow.Context)
}

// uncancelled returns the coroutine's context without its cancellation.
func uncancelled(ctx context.Context) workflow.Context {
	c, _ := workflow.NewDisconnectedContext(workflowContext(ctx))
	return c
}

// coroutines runs on a workflow's coroutines: one at a time, and in the same order on replay.
type coroutines struct {
	root    workflow.Context
	last    time.Time
	evicted bool // the worker dropped the workflow from memory: deferred functions still run, and must not block
}

var _ orchestrator.Coroutines = (*coroutines)(nil)

// now increases with each call. The clock stands still within a workflow task, and [orchestrator.CheckDecisions] must
// tell two iterations of the loop apart.
func (c *coroutines) now() time.Time {
	now := workflow.Now(c.root)
	if !now.After(c.last) {
		now = c.last.Add(1)
	}
	c.last = now
	return now
}

func (c *coroutines) Go(ctx context.Context, work func(context.Context)) context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(ctx)
	stoppable, stop := workflow.WithCancel(c.root)
	workflow.Go(stoppable, func(own workflow.Context) { work(withWorkflow(ctx, own)) })
	return func(cause error) {
		cancel(cause)
		stop()
	}
}

func (c *coroutines) NewInbox() orchestrator.Inbox { return &inbox{c: c} }

// block calls a function that blocks. It does not return if the workflow is evicted meanwhile.
func (c *coroutines) block(what func()) {
	if c.evicted {
		runtime.Goexit()
	}
	returned := false
	defer func() { c.evicted = c.evicted || !returned }()
	what()
	returned = true
}

func (c *coroutines) wait(ctx workflow.Context, within time.Duration, ready func() bool) {
	c.block(func() {
		var err error
		if within == orchestrator.Forever {
			err = workflow.Await(ctx, ready)
		} else {
			_, err = workflow.AwaitWithTimeout(ctx, within, ready)
		}
		if err != nil {
			panic(err) // a disconnected context is never cancelled
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
