package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// keepCall is how long an announced call waits for its other half. In between lie OpenCode's own steps, a few milliseconds;
// one that was aborted there never comes, and must not be taken for another's that says the same.
const keepCall = time.Minute

// claims ties the two halves of a call together: that which a session shows, which says who calls, and that which
// arrives here, which says nothing of it (OpenCode 1.18.33). Equal inputs make them one; each call of a session is
// claimed once, so that of two sessions which say the same each gets one. Either half may be first.
type claims struct {
	now func() time.Time

	mu   sync.Mutex
	open []announced // not claimed, oldest first
	news chan struct{}
	// known calls are announced again and again, and are not new ones then. Providers number the calls of a conversation as
	// they like: another session, or another call of the same, may have the same CallID.
	known map[[3]string]bool // session, CallID, input
}

type announced struct {
	input string
	scope boulder.BlockerScope
	at    time.Time
}

func newClaims(now func() time.Time) *claims {
	return &claims{now: now, known: map[[3]string]bool{}, news: make(chan struct{})}
}

// announce takes a call as its session shows it.
func (c *claims) announce(call boulder.BlockerCall) {
	input, err := canonical(call.Input)
	if err != nil {
		return // it cannot be equal to what arrived, which was JSON
	}
	key := [3]string{call.SessionID, call.CallID, input}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[key] {
		return
	}
	c.known[key] = true
	c.open = append(c.open, announced{input, call.BlockerScope, c.now()})
	close(c.news)
	c.news = make(chan struct{})
}

// claim finds the session of a call that arrived. It waits for it to be announced until ctx ends; then it reports
// false.
func (c *claims) claim(ctx context.Context, input string) (boulder.BlockerScope, bool) {
	for {
		c.mu.Lock()
		c.open = slices.DeleteFunc(c.open, func(a announced) bool { return c.now().Sub(a.at) > keepCall })
		i := slices.IndexFunc(c.open, func(a announced) bool { return a.input == input })
		if i >= 0 {
			scope := c.open[i].scope
			c.open = slices.Delete(c.open, i, i+1)
			c.mu.Unlock()
			return scope, true
		}
		news := c.news
		c.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return boulder.BlockerScope{}, false
		}
	}
}

// canonical is the same for inputs that are equal as JSON: whatever the order of the keys, the white space, and the ways
// to write a number or a letter. Numbers are compared as JavaScript has them, since OpenCode has read them.
func canonical(input json.RawMessage) (string, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}") // how OpenCode calls a tool without arguments
	}
	var value any
	if err := json.Unmarshal(input, &value); err != nil {
		return "", err
	}
	data, err := json.Marshal(value) // with sorted keys
	return string(data), err
}
