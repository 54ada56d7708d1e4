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

// Host provides one server for many users. It starts the server on first use, and again after the server died. A Host
// for an attached server does neither. It is safe for concurrent use.
type Host struct {
	// Memory limits the bytes of a started server (VmRSS in /proc, so on Linux only); 0: no limit. One above it gets no
	// new users, ends when its current ones are done, and is replaced. Set Memory and Logger before the first use.
	Memory int64
	Logger *slog.Logger // logs replacements. Defaults to none.

	start  func(context.Context) (Connection, error)
	ctx    context.Context // ends with Stop
	cancel context.CancelCauseFunc
	flight singleflight.Group
	server Connection // the newest; guarded by flight

	mu      sync.Mutex
	users   map[*Client]int // counted by [Host.Use]
	retired map[*Client]Connection
}

// Connection is a client of a server that was alive a moment ago.
type Connection struct {
	Client *Client
	Down   <-chan struct{} // closed when the server is known to be gone; nil if that cannot be known
	stop   func(context.Context)
	memory func() int64 // in bytes; nil: unknown
}

// Server returns the address of an attached server, without credentials, or "" for a server that this program started.
func (c Connection) Server() string {
	if c.stop != nil {
		return ""
	}
	return c.Client.Address()
}

// NewHost returns a host that starts servers with the given function, one at a time. The function's ctx bounds only the
// start. It ends when the host is stopped: the function then returns soon. On an error nothing is left running.
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

// AttachedHost returns a host for a server that runs elsewhere. The caller closes the client.
func AttachedHost(c *Client) *Host {
	h := newHost(nil)
	h.server.Client = c
	return h
}

// Warm starts the server in the background. A failure is not remembered: the next Connect starts it again.
func (h *Host) Warm() { h.flight.DoChan("", h.live) }

// Connect returns a client of a live server, which it starts if necessary. Concurrent callers share one start, which
// continues for the others when ctx ends. The error is that of the start, matches [ErrClosed] after Stop, or is ctx's
// cause. The Connect that replaces a dead server closes its client: subscriptions end, calls are [ErrUnavailable].
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

// Use is [Host.Connect] for work during which the server must not be replaced. done ends it.
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
		if !retired { // otherwise it was replaced meanwhile
			return conn, sync.OnceFunc(func() { h.leave(conn) }), nil
		}
	}
}

// leave stops a retired server when its last user leaves.
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

// fresh is live, but first retires a server above Memory. Without users it ends first, to make room for the next.
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
			h.server.Client.Close() // otherwise its event reader would reconnect for ever
		default:
			return h.server, nil
		}
	}
	var err error
	h.server, err = h.start(h.ctx)
	if err != nil && h.ctx.Err() != nil {
		err = errStopped() // "context canceled" would look like the caller's
	}
	return h.server, err
}

// Stop ends the server that this host started, even one that is still starting, and waits for that; see [Server.Stop].
// No other is started afterwards. An attached server and its host continue to work.
func (h *Host) Stop(ctx context.Context) {
	if h.start == nil {
		return
	}
	h.cancel(errStopped())
	_, _, _ = h.flight.Do("", func() (any, error) { return nil, errStopped() }) // waits for a start in flight
	h.mu.Lock()
	all := append(slices.Collect(maps.Values(h.retired)), h.server)
	h.mu.Unlock()
	for _, server := range all {
		if server.stop != nil {
			server.stop(ctx)
		}
	}
}
