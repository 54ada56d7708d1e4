package project

import (
	"sync"

	"github.com/bouldermgr/manager/internal/orphan"
)

// processes are those that a project starts and that must not outlive it. The zero value is ready to use.
type processes struct {
	mu           sync.Mutex
	registration *orphan.Registration // nil before the first start
}

// Environ is the environment for what is started in the project: with the mark by which it is found if this process dies.
// Only where there is no state directory, and none is made (`doctor`, `plan -o`), is there no mark; neither of them has
// an agent run tools.
func (p *Project) Environ() ([]string, error) {
	own := &p.processes
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.registration == nil {
		if !exists(p.stateDir()) {
			return p.opts.Environ, nil
		}
		r, err := orphan.Register(p.stateDir())
		if err != nil {
			return nil, err
		}
		own.registration = r
	}
	return append(p.opts.Environ[:len(p.opts.Environ):len(p.opts.Environ)], own.registration.Env()), nil
}

// release ends what was started and still runs.
func (p *Project) release() {
	own := &p.processes
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.registration == nil {
		return
	}
	if err := own.registration.Release(); err != nil {
		p.warn("%v", err)
	}
	own.registration = nil
}
