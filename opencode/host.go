package opencode

import (
	"context"
	"fmt"
	"sync"
)

// Host keeps one server at hand for many users: it starts it when it is first needed, and again when it has died. A Host for
// an attached server does neither.
type Host struct {
	start    func(context.Context) (*Server, error) // nil when attached
	attached *Client

	mu      sync.Mutex
	current *starting
	stopped bool
}

// starting is one start of a server, under way or over.
type starting struct {
	ready  chan struct{} // closed when server or err is set
	cancel context.CancelFunc
	server *Server
	err    error
}

// Connection is a client of a server that was alive a moment ago.
type Connection struct {
	Client *Client
	// Down is closed when the server is known to be gone; nil if nothing can be known.
	Down <-chan struct{}
}

// NewHost returns a host that starts servers with the given function.
func NewHost(start func(context.Context) (*Server, error)) *Host { return &Host{start: start} }

// AttachedHost returns a host for a server that somebody else runs. The caller closes the client.
func AttachedHost(c *Client) *Host { return &Host{attached: c} }

// Warm begins to start the server and returns at once. What goes wrong is told by the next Connect.
func (h *Host) Warm() {
	if h.attached == nil {
		h.begin()
	}
}

// Connect returns a client of a live server, after starting one if need be. Those who call it at the same time share one
// start. The error is that of the start, [ErrClosed] after Stop, or ctx's cause.
func (h *Host) Connect(ctx context.Context) (Connection, error) {
	if h.attached != nil {
		return Connection{Client: h.attached}, nil
	}
	s := h.begin()
	if s == nil {
		return Connection{}, fmt.Errorf("opencode: %w", ErrClosed)
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

// begin returns the current start, or a new one if there is none that works. It is nil after Stop.
func (h *Host) begin() *starting {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	if h.current != nil && !h.current.over() {
		return h.current
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &starting{ready: make(chan struct{}), cancel: cancel}
	h.current = s
	go func() { // Stop waits for ready
		defer close(s.ready)
		s.server, s.err = h.start(ctx)
	}()
	return s
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

// Stop ends the server that this host started, also one that is still starting, and waits for that. See [Server.Stop].
func (h *Host) Stop(ctx context.Context) {
	h.mu.Lock()
	s := h.current
	h.stopped = true
	h.mu.Unlock()
	if s == nil {
		return
	}
	s.cancel()
	<-s.ready
	if s.server != nil {
		s.server.Stop(ctx)
	}
}
