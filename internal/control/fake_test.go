package control

import (
	"context"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// fake is a source whose log grows as a test wants.
type fake struct {
	mu     sync.Mutex
	events []boulder.Event
	looked chan struct{} // gets a value after each look at the log, if there is room
	block  chan struct{} // Resolve returns when it is closed
}

func (f *fake) add(activity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, boulder.Event{
		BoulderID: "id", Seq: uint64(len(f.events) + 1), Body: boulder.SubTaskProgress{Activity: activity},
	})
}

func (f *fake) Events(_ context.Context, _ string, after uint64, _ int) ([]boulder.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.looked <- struct{}{}:
	default:
	}
	return f.events[min(after, uint64(len(f.events))):], nil
}

func (f *fake) Resolve(ctx context.Context, ref string) (string, error) {
	select {
	case <-f.block:
		return ref, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (f *fake) Listing(context.Context) ([]store.Item, error)                 { return nil, nil }
func (f *fake) Export(context.Context, string) (store.Export, error)          { return store.Export{}, nil }
func (f *fake) NewestUnfinished(context.Context) (string, error)              { return "", nil }
func (f *fake) Get(context.Context, string) (d store.Detail, err error)       { return d, nil }
func (f *fake) Turns(context.Context, string, string) ([]boulder.Turn, error) { return nil, nil }

var since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
