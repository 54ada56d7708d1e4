package orchestrator

import (
	"context"
	"sync"
	"time"
)

// Coroutines is what the loop of a boulder uses to start workers and to wait. Defaults to goroutines. An engine that
// replays a run from its history supplies its own, with a deterministic [Config].Now and [Config].NewID. The loop then
// decides the same again if one coroutine runs at a time and the ports answer the same.
type Coroutines interface {
	// Go runs work concurrently, with a context that has the values of ctx. The returned function cancels that context
	// with a cause. Go does not block, and work starts when the caller waits, or in parallel.
	Go(ctx context.Context, work func(ctx context.Context)) context.CancelCauseFunc
	NewInbox() Inbox // empty
}

// Inbox is a queue with one receiver. Any coroutine may call Put and Close.
type Inbox interface {
	// Put adds an item, and does not block. It returns false, and drops the item, if the inbox is closed.
	Put(item any) bool
	// Take removes the oldest item. It blocks until there is one, ctx is done, or the duration within has passed; it may
	// return without an item sooner. If within is 0 it does not block; [Forever] sets no bound. ctx is that of the calling
	// coroutine.
	Take(ctx context.Context, within time.Duration) (item any, ok bool)
	// Close returns the items not taken. It may be called again.
	Close() []any
}

// Forever makes [Inbox.Take] wait without a time limit.
const Forever = time.Duration(-1)

// goroutines are the default Coroutines.
type goroutines struct{}

func (goroutines) Go(ctx context.Context, work func(context.Context)) context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(ctx)
	go work(ctx)
	return cancel
}

func (goroutines) NewInbox() Inbox { return &inbox{filled: make(chan struct{}, 1)} }

// inbox has one receiver.
type inbox struct {
	mu     sync.Mutex
	items  []any
	closed bool
	filled chan struct{}
}

func (b *inbox) Put(item any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.items = append(b.items, item)
	select {
	case b.filled <- struct{}{}:
	default: // the receiver will look anyway
	}
	return true
}

// wakeWithin bounds a timed wait before the clock is read again: timers stand still while the machine sleeps.
const wakeWithin = time.Minute

func (b *inbox) Take(ctx context.Context, within time.Duration) (any, bool) {
	var timer <-chan time.Time
	if within > 0 {
		timer = time.After(min(within, wakeWithin))
	}
	for {
		if item, ok := b.oldest(); ok || within == 0 {
			return item, ok
		}
		select {
		case <-b.filled:
		case <-timer:
			return b.oldest()
		case <-ctx.Done():
			return b.oldest()
		}
	}
}

func (b *inbox) oldest() (item any, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return nil, false
	}
	item, b.items[0] = b.items[0], nil
	b.items = b.items[1:]
	return item, true
}

func (b *inbox) Close() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.items
	b.items, b.closed = nil, true
	return rest
}
