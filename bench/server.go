package main

import (
	"context"
	"fmt"

	"github.com/bouldermgr/manager/testkit/octest"
)

// startServer starts an OpenCode server in dir and warms it up with one session. It needs no password: it listens on
// loopback for minutes, with a model that can do nothing. With -once all suites share one server, to save starts.
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

// leave stops a server, unless it is shared.
func (w *world) leave(s *octest.Server) {
	if !w.once {
		s.Kill()
	}
}

// listen starts a program that prints where it listens.
func (w *world) listen(p *process) (*octest.Server, error) {
	p.Stdout = nil
	return octest.Listen(p.Cmd)
}
