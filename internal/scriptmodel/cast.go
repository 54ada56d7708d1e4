package scriptmodel

import (
	"context"
	"strings"
	"sync"
)

// Cast is a model that plays another part in each session, for those that share a server. The zero value plays none.
type Cast struct {
	mu    sync.Mutex
	parts map[string]Handler // by the mark in a prompt, and by session id once it is known
}

// Play gives a part to sessions of which a prompt holds the mark.
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
			c.parts[r.SessionID] = part // after a compaction the first prompt is not there any more
			return part
		}
	}
	return nil
}
