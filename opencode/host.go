package opencode

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"
)

// Host keeps one server at hand for many users: it starts it when it is first needed, and again when it has died. A
// Host for an attached server does neither. It is safe for concurrent use.
type Host struct {
	// Memory bounds the bytes that a server of its own uses (VmRSS in /proc, so on Linux only): one that has grown beyond
	// gets no more users, ends when those that it has are done, and another takes its place. 0: no bound. Set it, and the
	// next, before the first use.
	Memory int64
	Logger *slog.Logger // gets what became of a server. Defaults to none.

	start  func(context.Context) (Connection, error)
	ctx    context.Context // ends with Stop
	cancel context.CancelCauseFunc
	flight singleflight.Group
	server Connection // the last one; belongs to the flight

	mu      sync.Mutex
	users   map[*Client]int // that [Host.Use] counts
	retired map[*Client]Connection
}

// Connection is a client of a server that was alive a moment ago.
type Connection struct {
	Client *Client
	Down   <-chan struct{} // closed when the server is known to be gone; nil if nothing can be known
	stop   func(context.Context)
	memory func() int64 // in bytes; nil: not known
}

// Server is the address of a server that others run, without credentials; empty for one that was started here.
func (c Connection) Server() string {
	if c.stop != nil {
		return ""
	}
	return c.Client.Address()
}

// NewHost returns a host that starts servers with the given function, one at a time. Its ctx ends when the host is
// stopped, and bounds the start only: the server outlives it. The function then returns soon, and leaves nothing
// running if it returns an error.
func NewHost(start func(context.Context) (*Server, error)) *Host {
	return newHost(func(ctx context.Context) (Connection, error) {
		s, err := start(ctx)
		if err != nil {
			return Connection{}, err
		}
		return Connection{s.Client(), s.Done(), s.Stop, func() int64 { return residentMemory(s.pid) }}, nil
	})
}

func newHost(start func(context.Context) (Connection, error)) *Host {
	h := &Host{start: start, users: map[*Client]int{}, retired: map[*Client]Connection{}, Logger: slog.New(slog.DiscardHandler)}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h
}

// AttachedHost returns a host for a server that others run. The caller closes the client.
func AttachedHost(c *Client) *Host {
	h := newHost(nil)
	h.server.Client = c
	return h
}

// Warm begins to start the server and returns at once. A failure is not remembered: the next Connect starts again.
func (h *Host) Warm() { h.flight.DoChan("", h.live) }

// Connect returns a client of a live server, after starting one if need be. Those who call it at the same time share
// one start, which goes on for the others when ctx ends. The error is that of the start, matches [ErrClosed] after
// Stop, or is ctx's cause.
//
// The client of a server that died is closed by the Connect that replaces it: its subscriptions end, its calls fail
// with [ErrUnavailable].
func (h *Host) Connect(ctx context.Context) (Connection, error) { return h.connect(ctx, h.live) }

func (h *Host) connect(ctx context.Context, live func() (any, error)) (Connection, error) {
	if ctx.Err() != nil {
		return Connection{}, context.Cause(ctx) // no server for a caller that has left
	}
	select {
	case r := <-h.flight.DoChan("", live):
		conn, _ := r.Val.(Connection)
		return conn, r.Err
	case <-ctx.Done():
		return Connection{}, context.Cause(ctx)
	}
}

// Use is [Host.Connect] for work that the server must not be replaced under, until it is done.
func (h *Host) Use(ctx context.Context) (conn Connection, done func(), err error) {
	for {
		if conn, err = h.connect(ctx, h.fresh); err != nil {
			return conn, nil, err
		}
		h.mu.Lock()
		_, retired := h.retired[conn.Client]
		if !retired {
			h.users[conn.Client]++
		}
		h.mu.Unlock()
		if !retired { // else it was replaced just now
			return conn, sync.OnceFunc(func() { h.leave(conn) }), nil
		}
	}
}

// leave ends a server that is retired with its last user.
func (h *Host) leave(conn Connection) {
	h.mu.Lock()
	h.users[conn.Client]--
	_, retired := h.retired[conn.Client]
	over := retired && h.users[conn.Client] == 0
	h.mu.Unlock()
	if over {
		conn.stop(h.ctx)
	}
}

// fresh is live, and retires before a server that uses too much memory. One without users is ended first: there is room for
// its successor then.
func (h *Host) fresh() (any, error) {
	if h.Memory <= 0 || h.server.memory == nil {
		return h.live()
	}
	if used := h.server.memory(); used > h.Memory {
		old := h.server
		h.mu.Lock()
		h.retired[old.Client], h.server = old, Connection{}
		users := h.users[old.Client]
		h.mu.Unlock()
		h.Logger.Info("OpenCode has outgrown opencode_memory and is replaced", "bytes", used, "limit", h.Memory, "users", users)
		if users == 0 {
			old.stop(h.ctx)
		}
	}
	return h.live()
}

func errStopped() error { return fmt.Errorf("the OpenCode server was stopped: %w", ErrClosed) }

func (h *Host) live() (any, error) {
	if h.ctx.Err() != nil {
		return nil, errStopped()
	}
	if h.server.Client != nil {
		select {
		case <-h.server.Down:
			h.server.Client.Close() // its event reader would try to reconnect for ever
		default:
			return h.server, nil
		}
	}
	var err error
	h.server, err = h.start(h.ctx)
	if err != nil && h.ctx.Err() != nil {
		err = errStopped() // "context canceled" would pass for the caller's own doing
	}
	return h.server, err
}

// Stop ends the server that this host started, also one that is still starting, and waits for that; see [Server.Stop].
// No other is started afterwards. An attached server goes on, and so does the host for it.
func (h *Host) Stop(ctx context.Context) {
	if h.start == nil {
		return
	}
	h.cancel(errStopped())
	_, _, _ = h.flight.Do("", func() (any, error) { return nil, errStopped() }) // after the start that goes on, if there is one
	h.mu.Lock()
	all := append(slices.Collect(maps.Values(h.retired)), h.server)
	h.mu.Unlock()
	for _, server := range all {
		if server.stop != nil {
			server.stop(ctx)
		}
	}
}
