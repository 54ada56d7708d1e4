package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// server is an OpenCode server that is attached to.
type server struct {
	process *process
	url     string
	output  io.ReadCloser
	drained chan struct{}
}

// startServer starts a server that works in dir, and warms it up: one session runs in that directory. Being on the
// loopback interface for some minutes, with a model that can do nothing, it has no password. What is only tried has one
// server for all, until the world is closed: a start is most of what that costs.
func (w *world) startServer(ctx context.Context, dir string) (*server, error) {
	w.starting.Lock()
	defer w.starting.Unlock()
	if w.shared != nil {
		return w.shared, nil
	}
	s, err := w.listen(w.command(ctx, dir, w.opencode, "serve", "--hostname", "127.0.0.1", "--port", "0"))
	if err != nil {
		return nil, err
	}
	if err := drive(ctx, s.url, dir, 1, false); err != nil {
		s.stop()
		return nil, fmt.Errorf("warm up the server: %w", err)
	}
	if w.once {
		w.shared = s
	}
	return s, nil
}

// leave stops a server that is not needed any more.
func (w *world) leave(s *server) {
	if !w.once {
		s.stop()
	}
}

// listen starts a server and waits until it says where it listens.
func (w *world) listen(p *process) (*server, error) {
	p.Stdout, p.Stderr = nil, nil
	output, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	s := &server{process: p, output: output, drained: make(chan struct{})}
	lines := bufio.NewScanner(output)
	for s.url == "" && lines.Scan() {
		_, s.url, _ = strings.Cut(lines.Text(), "server listening on ")
	}
	go func() { // ends with the process, which stop waits for
		defer close(s.drained)
		_, _ = io.Copy(io.Discard, output)
	}()
	if s.url == "" {
		s.stop()
		return nil, errors.New("the server ended before it listened")
	}
	return s, nil
}

// stop ends the server. It is killed: nothing in it is worth a farewell.
func (s *server) stop() {
	_ = s.process.killGroup() // it may have ended
	<-s.drained
	_ = s.process.Wait() // killed, as it should be
}
