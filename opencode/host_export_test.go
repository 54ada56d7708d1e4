package opencode

import (
	"context"
	"testing"
)

// NewHostOf is [NewHost] for fakes, which end with stop.
func NewHostOf(start func(context.Context) (Connection, func(context.Context), error)) *Host {
	return newHost(func(ctx context.Context) (hosted, error) {
		conn, stop, err := start(ctx)
		return hosted{conn, stop}, err
	})
}

// IdleClient is a client of no server.
func IdleClient(t testing.TB) *Client {
	t.Helper()
	c, err := newClient("http://127.0.0.1:1", AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
