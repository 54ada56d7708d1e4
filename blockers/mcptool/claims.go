package mcptool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

const (
	// keepCall is how long an announced call waits for its other half. In between lie OpenCode's own steps, a few
	// milliseconds; one that was aborted there never comes, and must not be taken for another's that says the same.
	keepCall = time.Minute
	// maxKnown is how many announced calls are remembered, so that repeated announcements are not new ones.
	maxKnown = 10_000
)

// claims ties the two halves of a call together: that which a session shows, which says who calls, and that which
// arrives here, which says nothing of it (OpenCode 1.18.33). Equal inputs make them one; each call of a session is
// claimed once, so that of two sessions which say the same each gets one. Either half may be first.
type claims struct {
	now func() time.Time

	mu    sync.Mutex
	open  []announced // not claimed, oldest first
	wait  []waiter    // oldest first
	known map[callKey]bool
	order []callKey // of known, oldest first
}

type digest [sha256.Size]byte

// callKey is a call. Providers number the calls of a conversation as they like: another session, or another call of the
// same, may have the same CallID.
type callKey struct {
	session, call string
	input         digest
}

type announced struct {
	input digest
	scope boulder.BlockerScope
	at    time.Time
}

type waiter struct {
	input digest
	scope chan boulder.BlockerScope // there is room for one
}

func newClaims(now func() time.Time) *claims {
	return &claims{now: now, known: map[callKey]bool{}}
}

// announce takes a call as its session shows it. One that is known is passed over.
func (c *claims) announce(call boulder.BlockerCall) {
	input, err := digestOf(call.Input)
	if err != nil {
		return // it cannot be equal to what arrived, which was JSON
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.remember(callKey{call.SessionID, call.CallID, input}) {
		return
	}
	c.expire()
	if i := slices.IndexFunc(c.wait, func(w waiter) bool { return w.input == input }); i >= 0 {
		c.wait[i].scope <- call.BlockerScope
		c.wait = slices.Delete(c.wait, i, i+1)
		return
	}
	c.open = append(c.open, announced{input, call.BlockerScope, c.now()})
}

// claim finds the session of a call that arrived. It waits for it to be announced until ctx ends; then it reports
// false.
func (c *claims) claim(ctx context.Context, input digest) (boulder.BlockerScope, bool) {
	scope := make(chan boulder.BlockerScope, 1)
	c.mu.Lock()
	c.expire()
	if i := slices.IndexFunc(c.open, func(a announced) bool { return a.input == input }); i >= 0 {
		found := c.open[i].scope
		c.open = slices.Delete(c.open, i, i+1)
		c.mu.Unlock()
		return found, true
	}
	c.wait = append(c.wait, waiter{input, scope})
	c.mu.Unlock()
	select {
	case s := <-scope:
		return s, true
	case <-ctx.Done():
		return c.leave(scope)
	}
}

// leave gives up waiting, unless the call was announced in this very moment.
func (c *claims) leave(scope chan boulder.BlockerScope) (boulder.BlockerScope, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case s := <-scope:
		return s, true
	default:
	}
	c.wait = slices.DeleteFunc(c.wait, func(w waiter) bool { return w.scope == scope })
	return boulder.BlockerScope{}, false
}

func (c *claims) remember(key callKey) (fresh bool) {
	if c.known[key] {
		return false
	}
	if len(c.order) == maxKnown {
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
	c.known[key], c.order = true, append(c.order, key)
	return true
}

// expire forgets announced calls that nobody claims. There are never many.
func (c *claims) expire() {
	before := c.now().Add(-keepCall)
	c.open = slices.DeleteFunc(c.open, func(a announced) bool { return a.at.Before(before) })
}

// digestOf is the same for inputs that are equal as JSON: whatever the order of the keys, the white space, and the ways
// to write a number or a letter. Numbers are compared as JavaScript has them, since OpenCode has read them.
func digestOf(input json.RawMessage) (digest, error) {
	input = bytes.TrimSpace(input)
	if len(input) == 0 {
		input = json.RawMessage("{}") // how OpenCode calls a tool without arguments
	}
	var value any
	if err := json.Unmarshal(input, &value); err != nil {
		return digest{}, err
	}
	canonical, err := json.Marshal(value) // with sorted keys
	if err != nil {
		return digest{}, err
	}
	return sha256.Sum256(canonical), nil
}
