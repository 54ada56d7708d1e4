package control

import "sync"

// broadcast wakes everybody who waits for a change. The zero value is ready to use.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody waits
}

// wait returns a channel that the next notify closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
