package opencode

// Config is how the server's own client reaches it.
func (s *Server) Config() AttachConfig { return s.client.cfg }

// LimitEvents lets the next connections take events of so many bytes.
func (c *Client) LimitEvents(n int) { c.maxEvent = n }
