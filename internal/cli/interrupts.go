package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Signals delivers what asks the program to stop: Ctrl-C, SIGTERM, and the closing of its terminal. One that was
// ignored when the program was started, as nohup and `&` in a script do, stays ignored.
//
// From then on a reader of stdout or stderr that goes away (`manager run | head`) does not take the run with it. SIGPIPE is
// not ignored for that: commands would inherit it, and `yes | head -1` would never end in a gate.
func Signals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// hurryAfter is how long after a second signal everything that was started may still end in good order. Ending a turn and
// its tools takes OpenCode a tenth of a second; one that hangs would take until several calls time out.
const hurryAfter = 2 * time.Second

// interrupts hands signals to whoever is responsible for them now. By default the first one ends the command.
type interrupts struct {
	mu      sync.Mutex
	handler func(n int)
	n       int    // signals
	kill    func() // what is not gone some time after the second of them; nil: nothing was started
}

// watch starts to listen; fallback is called for signals that nobody takes. It listens until the process ends.
func (i *interrupts) watch(signals <-chan os.Signal, fallback func()) {
	i.handler = func(int) { fallback() }
	if signals == nil {
		return
	}
	go func() {
		for s := range signals {
			i.mu.Lock()
			// A terminal that is closed sends SIGHUP twice, by itself and through its shell, and nobody is there to be in a
			// hurry: it is never more than the first signal.
			if s != syscall.SIGHUP || i.n == 0 {
				i.n++
				i.handler(i.n)
				if i.n == 2 {
					time.AfterFunc(hurryAfter, func() {
						i.mu.Lock()
						defer i.mu.Unlock()
						if i.kill != nil {
							i.kill()
						}
					})
				}
			}
			i.mu.Unlock()
		}
	}()
}

// onHurry has kill called some time after a second signal, also if there is nothing to kill any more.
func (i *interrupts) onHurry(kill func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kill = kill
}

// handle makes handler responsible from now on, and returns who was. It is called with 1 for the first signal, and must
// not block.
func (i *interrupts) handle(handler func(n int)) (before func(n int)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, i.handler = i.handler, handler
	return before
}

// stopInTwo has the first signal call stop, and the second one end the context, until giveBack is called.
func (i *interrupts) stopInTwo(ctx context.Context, stop func()) (_ context.Context, giveBack func()) {
	ctx, abort := context.WithCancelCause(ctx)
	before := i.handle(func(n int) {
		if n == 1 {
			stop()
		} else {
			abort(errInterrupted)
		}
	})
	return ctx, func() {
		i.handle(before)
		abort(nil)
	}
}
