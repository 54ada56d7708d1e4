package orchestrator

import (
	"context"
	"sync"
	"time"
)

// Coroutines is what the loop of a boulder runs on: how it starts a worker, and how it waits. It defaults to
// goroutines. An engine that makes a run again from its history gives its own, with a [Config].Now and a [Config].NewID
// that say the same again: then the loop decides the same again, as long as it runs one coroutine at a time and the
// ports answer the same.
type Coroutines interface {
	// Go runs work beside the caller, with a context that has the values of ctx and ends when the returned function is
	// called, with its cause. It does not block, and work does not begin before the caller waits, or beside it.
	Go(ctx context.Context, work func(ctx context.Context)) context.CancelCauseFunc
	// NewInbox makes an empty one.
	NewInbox() Inbox
}

// Inbox is where coroutines leave something for the one that takes it. Put and Close may be called by any of them.
type Inbox interface {
	// Put adds an item, and does not block. It reports whether the inbox is open; else the item is not there.
	Put(item any) bool
	// Take removes the oldest item. It blocks until there is one, ctx is done, or the time within has passed; without an item
	// it may return sooner. within 0: it does not block; [Forever]: until there is one. ctx is that of the coroutine that
	// calls it.
	Take(ctx context.Context, within time.Duration) (item any, ok bool)
	// Close returns the items that nothing has taken. It may be called again.
	Close() []any
}

// Forever is no bound of an [Inbox.Take].
const Forever = time.Duration(-1)

// goroutines are the Coroutines of a machine.
type goroutines struct{}

func (goroutines) Go(ctx context.Context, work func(context.Context)) context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(ctx)
	go work(ctx)
	return cancel
}

func (goroutines) NewInbox() Inbox { return &inbox{filled: make(chan struct{}, 1)} }

// inbox is taken from by one goroutine.
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
	default: // it is going to look
	}
	return true
}

// wakeWithin is how soon one that waits for a time looks at the clock again: a timer stands still while the machine sleeps.
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
