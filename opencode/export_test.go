package opencode

func (s *Server) Config() AttachConfig { return s.client.cfg }

// LimitEvents sets the largest event, in bytes, of later connections.
func (c *Client) LimitEvents(n int) { c.maxEvent = n }
