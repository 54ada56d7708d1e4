package opencode

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"
)

// Host keeps one server at hand for many users: it starts it when it is first needed, and again when it has died. A
// Host for an attached server does neither. It is safe for concurrent use.
type Host struct {
	attached *Client // nil for a host that starts servers
	start    func(context.Context) (hosted, error)
	ctx      context.Context // ends with Stop
	stop     context.CancelCauseFunc
	flight   singleflight.Group
	server   hosted // the last one; belongs to the flight
}

// hosted is what a Host needs of a [Server].
type hosted interface {
	Client() *Client
	Done() <-chan struct{}
	Stop(ctx context.Context)
}

var _ hosted = (*Server)(nil)

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
	return newHost(func(ctx context.Context) (hosted, error) {
		s, err := start(ctx)
		if err != nil {
			return nil, err // and not s: a nil *Server makes a hosted that is not nil
		}
		return s, nil
	})
}

func newHost(start func(context.Context) (hosted, error)) *Host {
	h := &Host{start: start}
	h.ctx, h.stop = context.WithCancelCause(context.Background())
	return h
}

// AttachedHost returns a host for a server that somebody else runs. The caller closes the client.
func AttachedHost(c *Client) *Host { return &Host{attached: c} }

// Warm begins to start the server and returns at once. A failure is not remembered: the next Connect starts again.
func (h *Host) Warm() {
	if h.attached == nil {
		h.flight.DoChan("", h.live)
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
	select {
	case r := <-h.flight.DoChan("", h.live):
		if r.Err != nil {
			return Connection{}, r.Err
		}
		s := r.Val.(hosted)
		return Connection{Client: s.Client(), Down: s.Done()}, nil
	case <-ctx.Done():
		return Connection{}, context.Cause(ctx)
	}
}

func errStopped() error { return fmt.Errorf("the OpenCode server was stopped: %w", ErrClosed) }

// live gives a server that runs, after starting one if need be.
func (h *Host) live() (any, error) {
	if h.ctx.Err() != nil {
		return nil, errStopped()
	}
	if h.server != nil {
		select {
		case <-h.server.Done():
			h.server.Client().Close() // its event reader would try to reconnect for ever
			h.server = nil
		default:
			return h.server, nil
		}
	}
	s, err := h.start(h.ctx)
	switch {
	case err != nil && h.ctx.Err() != nil:
		return nil, errStopped() // "context canceled" would pass for the caller's own doing
	case err != nil:
		return nil, err
	}
	h.server = s
	return s, nil
}

// Stop ends the server that this host started, also one that is still starting, and waits for that; see
// [Server.Stop]. No other is started afterwards. An attached server goes on, and so does the host for it.
func (h *Host) Stop(ctx context.Context) {
	if h.attached != nil {
		return
	}
	h.stop(errStopped())
	_, _, _ = h.flight.Do("", func() (any, error) { return nil, errStopped() }) // after the start that goes on, if there is one
	if h.server != nil {
		h.server.Stop(ctx)
	}
}
