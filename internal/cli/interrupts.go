package cli

import (
	"os"
	"sync"
)

// interrupts hands signals to whoever is responsible for them now. By default the first one ends the command.
type interrupts struct {
	mu      sync.Mutex
	handler func(n int)
	seen    int
}

// watch starts to listen; fallback is called for signals that nobody takes. It listens until the process ends.
func (i *interrupts) watch(signals <-chan os.Signal, fallback func()) {
	i.handler = func(int) { fallback() }
	if signals == nil {
		return
	}
	go func() {
		for range signals {
			i.mu.Lock()
			i.seen++
			i.handler(i.seen)
			i.mu.Unlock()
		}
	}()
}

// take makes handler responsible from now on; it is called with 1 for the first signal, and must not block. The returned
// function gives the responsibility back.
func (i *interrupts) take(handler func(n int)) (giveBack func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.handler
	i.handler, i.seen = handler, 0
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.handler = before
	}
}
