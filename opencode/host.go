package opencode

import (
	"context"
	"fmt"
	"sync"
)

// Host keeps one server at hand for many users: it starts it when it is first needed, and again when it has died. A
// Host for an attached server does neither. It is safe for concurrent use.
type Host struct {
	start    func(context.Context) (hosted, error)
	attached *Client // nil for a host that starts servers

	mu      sync.Mutex
	current *starting
	stopped bool
}

// hosted is what a Host needs of a [Server].
type hosted interface {
	Client() *Client
	Done() <-chan struct{}
	Stop(ctx context.Context)
}

var _ hosted = (*Server)(nil)

// starting is one start of a server, under way or over.
type starting struct {
	ready  chan struct{}           // closed when server or err is set
	cancel context.CancelCauseFunc // gives the start up
	server hosted
	err    error
}

// Connection is a client of a server that was alive a moment ago.
type Connection struct {
	Client *Client
	// Down is closed when the server is known to be gone; nil if nothing can be known.
	Down <-chan struct{}
}

// NewHost returns a host that starts servers with the given function, one at a time. Its ctx ends when the host is
// stopped, and bounds the start only: the server outlives it. The function then returns soon, and leaves nothing
// running if it returns an error.
func NewHost(start func(context.Context) (*Server, error)) *Host {
	return &Host{start: func(ctx context.Context) (hosted, error) {
		s, err := start(ctx)
		if err != nil {
			return nil, err // and not s: a nil *Server makes a hosted that is not nil
		}
		return s, nil
	}}
}

// AttachedHost returns a host for a server that somebody else runs. The caller closes the client.
func AttachedHost(c *Client) *Host { return &Host{attached: c} }

// Warm begins to start the server and returns at once. A failure is not remembered: the next Connect starts again.
func (h *Host) Warm() {
	if h.attached == nil {
		h.begin()
	}
}

// Connect returns a client of a live server, after starting one if need be. Those who call it at the same time share
// one start, which goes on for the others when ctx ends. The error is that of the start, matches [ErrClosed] after
// Stop, or is ctx's cause.
//
// The client of a server that died is closed by the Connect that replaces it: its subscriptions end, its calls fail
// with [ErrUnavailable].
func (h *Host) Connect(ctx context.Context) (Connection, error) {
	if h.attached != nil {
		return Connection{Client: h.attached}, nil
	}
	if ctx.Err() != nil {
		return Connection{}, context.Cause(ctx) // no server for somebody who has left
	}
	s := h.begin()
	if s == nil {
		return Connection{}, errStopped()
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return Connection{}, context.Cause(ctx)
	}
	if s.err != nil {
		return Connection{}, s.err
	}
	return Connection{Client: s.server.Client(), Down: s.server.Done()}, nil
}

func errStopped() error { return fmt.Errorf("the OpenCode server was stopped: %w", ErrClosed) }

// begin returns the current start, or a new one if there is none that works. It is nil after Stop.
func (h *Host) begin() *starting {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	previous := h.current
	if previous != nil && !previous.over() {
		return previous
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	h.current = &starting{ready: make(chan struct{}), cancel: cancel}
	go h.current.run(ctx, previous, h.start) // Stop waits for ready
	return h.current
}

// run starts a server in place of the previous one, if there was any.
func (s *starting) run(ctx context.Context, previous *starting, start func(context.Context) (hosted, error)) {
	defer close(s.ready)
	defer s.cancel(nil)
	if previous != nil && previous.server != nil {
		previous.server.Client().Close() // its event reader would try to reconnect for ever
	}
	s.server, s.err = start(ctx)
	if s.err != nil && ctx.Err() != nil {
		s.err = errStopped() // "context canceled" would pass for the caller's own doing
	}
}

// over reports whether the start failed or its server has ended.
func (s *starting) over() bool {
	select {
	case <-s.ready:
	default:
		return false
	}
	if s.err != nil {
		return true
	}
	select {
	case <-s.server.Done():
		return true
	default:
		return false
	}
}

// Stop ends the server that this host started, also one that is still starting, and waits for that; see [Server.Stop].
// No other is started afterwards. An attached server goes on, and so does the host for it.
func (h *Host) Stop(ctx context.Context) {
	h.mu.Lock()
	h.stopped = true
	s := h.current
	h.mu.Unlock()
	if s == nil {
		return
	}
	s.cancel(errStopped())
	<-s.ready
	if s.server != nil {
		s.server.Stop(ctx)
	}
}
