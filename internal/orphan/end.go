package orphan

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// recheck is the pause between looks at processes that were killed, or forked while others were.
const recheck = 2 * time.Millisecond

// End kills every process that carries a mark, "NAME=value", in its environment, and those that belong to them (see the
// package's comment), and returns when they are gone. The error matches [ErrAlive] if some are not after a while.
func End(mark string) (ended int, err error) {
	name, value, _ := strings.Cut(mark, "=")
	self := os.Getpid()
	killed := make(map[identity]bool)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	pause := time.NewTicker(recheck)
	defer pause.Stop()
	for {
		all, err := processes(name)
		if err != nil {
			return len(killed), fmt.Errorf("list processes: %w", err)
		}
		left := pick(all, value, self)
		for _, p := range left {
			if kill(p) {
				killed[p.identity()] = true
			}
		}
		// A process that is ending has lost its environment already, and can no longer be picked.
		for _, p := range all {
			if killed[p.identity()] {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return len(killed), nil
		}
		select {
		case <-pause.C:
		case <-timeout.C:
			return len(killed), fmt.Errorf("%w within %v, process %d first: end it by hand", ErrAlive, patience, left[0].pid)
		}
	}
}

// kill ends the very process that was listed, and reports whether it was still there.
func kill(p process) bool {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return false
	}
	defer func() { _ = handle.Release() }() // it fails only if it was released before
	// The handle stands for one process, on Linux also after its end. If that is the listed one, it was so when its
	// environment was read.
	if now, err := identify(p.pid); err != nil || now.Start != p.start {
		return false
	}
	return handle.Signal(syscall.SIGKILL) == nil
}
