package opencode

import (
	"context"
	"testing"
)

// Hosted is a server as a [Host] sees it, for fakes.
type Hosted = hosted

// NewHostOf is [NewHost] for fakes.
func NewHostOf(start func(context.Context) (Hosted, error)) *Host { return newHost(start) }

// IdleClient is a client of no server.
func IdleClient(t testing.TB) *Client {
	t.Helper()
	c, err := newClient("http://127.0.0.1:1", AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
