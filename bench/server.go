package main

import (
	"context"
	"fmt"

	"github.com/bouldermgr/manager/internal/octest"
)

// startServer starts a server that works in dir, and warms it up: one session runs in that directory. Being on the
// loopback interface for some minutes, with a model that can do nothing, it has no password. What is only tried has one
// server for all, until the world is closed: a start is most of what that costs.
func (w *world) startServer(ctx context.Context, dir string) (*octest.Server, error) {
	w.starting.Lock()
	defer w.starting.Unlock()
	if w.shared != nil {
		return w.shared, nil
	}
	s, err := w.listen(w.command(ctx, dir, w.opencode, "serve", "--hostname", "127.0.0.1", "--port", "0"))
	if err != nil {
		return nil, err
	}
	if err := drive(ctx, s.URL, dir, 1, false); err != nil {
		s.Kill()
		return nil, fmt.Errorf("warm up the server: %w", err)
	}
	if w.once {
		w.shared = s
	}
	return s, nil
}

// leave stops a server that is not needed any more.
func (w *world) leave(s *octest.Server) {
	if !w.once {
		s.Kill()
	}
}

// listen starts a program that says where it listens.
func (w *world) listen(p *process) (*octest.Server, error) {
	p.Stdout = nil
	return octest.Listen(p.Cmd)
}
