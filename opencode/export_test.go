package opencode

import "testing"

// Through is a client that reaches the server at another address, such as a proxy's.
func (s *Server) Through(t *testing.T, address string) *Client {
	t.Helper()
	c, err := Attach(t.Context(), address, s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Config is how the server's own client reaches it.
func (s *Server) Config() AttachConfig { return s.client.cfg }

// URL is the server's address, without credentials.
func (c *Client) URL() string { return c.base.String() }

// Version is what the server said its version is.
func (c *Client) Version() string { return c.version }

// LimitEvents lets the next connections take events of so many bytes.
func (c *Client) LimitEvents(n int) { c.maxEvent = n }
