package scriptmodel

import (
	"context"
	"strings"
	"sync"
)

// Cast answers each session with its own handler, for sessions that share a server. The zero value has no handlers.
type Cast struct {
	mu    sync.Mutex
	parts map[string]Handler // by mark, and by session id once known
}

// Play sets the handler of sessions with the mark in a prompt.
func (c *Cast) Play(mark string, part Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = map[string]Handler{}
	}
	c.parts[mark] = part
}

// Reply is the model's [Handler].
func (c *Cast) Reply(ctx context.Context, r Request) Reply {
	part := c.part(r)
	if part == nil {
		return Errorf("nobody is waiting for this: %s", r.FirstUser())
	}
	return part(ctx, r)
}

func (c *Cast) part(r Request) Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	if part := c.parts[r.SessionID]; part != nil {
		return part
	}
	for mark, part := range c.parts {
		if strings.Contains(r.Text(), mark) {
			c.parts[r.SessionID] = part // a compaction may remove the prompt with the mark
			return part
		}
	}
	return nil
}
