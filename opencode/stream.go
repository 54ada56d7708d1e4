package opencode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"
)

const (
	subscriptionBuffer = 512 // events; a turn step is about 20
	minReconnect       = 100 * time.Millisecond
	maxReconnect       = 5 * time.Second
)

// hub spreads the events of one connection over the subscriptions. The connection is made when the first one
// subscribes and kept until the client closes.
type hub struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	start  sync.Once
	reader sync.WaitGroup

	mu   sync.Mutex
	subs map[*Subscription]struct{}
	live bool // connected: events are coming in
}

func (h *hub) run() {
	wait := minReconnect
	for {
		connected, err := h.read()
		if h.ctx.Err() != nil {
			return
		}
		if connected {
			h.publish(Event{Payload: Disconnected{err}})
			wait = minReconnect
		}
		h.client.log.Warn("event stream ended, connecting again", "error", err, "in", wait)
		_ = pause(h.ctx, wait/2+rand.N(wait/2)) // what has ended ends the next read
		wait = min(2*wait, maxReconnect)
	}
}

// read publishes what comes over one connection, first of all a [Resync]. It tells whether it got as far as that, and
// why the connection ended, never nil.
func (h *hub) read() (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(h.ctx)
	defer cancel(nil)
	c := h.client
	patience := c.cfg.EventSilence
	silence := time.AfterFunc(patience, func() {
		cancel(fmt.Errorf("the server sent nothing for %v, not even a heartbeat", patience))
	})
	defer silence.Stop()
	defer func() {
		// The reason for which the stream was cut here counts, and not the read error that follows from it.
		if _, refused := errors.AsType[*Error](err); ctx.Err() != nil {
			err = fmt.Errorf("opencode: follow events: %w: %w", ErrUnavailable, context.Cause(ctx))
		} else if !refused {
			err = transportError(ctx, "follow events", err)
		}
	}()
	path, readEvents := c.backend.events()
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if media := mediaType(resp); resp.StatusCode != http.StatusOK || media != "text/event-stream" {
		return false, &Error{
			Op: "follow events", Status: resp.StatusCode, kind: statusKind(resp.StatusCode),
			Message: fmt.Sprintf("the answer is %q, not an event stream", media),
		}
	}
	source := hookedReader{resp.Body, func(n int, _ error) {
		if n > 0 {
			silence.Reset(patience)
		}
	}}
	for e, err := range sse.Read(source, &sse.ReadConfig{MaxEventSize: c.maxEvent}) {
		if err != nil {
			return connected, err
		}
		if !connected { // the first is server.connected, and from then on nothing is missed
			connected = true
			h.publish(Event{Payload: Resync{"connected"}})
		}
		events, err := readEvents([]byte(e.Data))
		if err != nil {
			c.log.Warn("could not read an event of the server", "error", err)
		}
		for _, event := range events {
			h.publish(event)
		}
	}
	return connected, io.ErrUnexpectedEOF // a stream of events has no end
}

func (h *hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Payload.(type) {
	case Resync:
		h.live = true
	case Disconnected:
		h.live = false
	}
	for s := range h.subs {
		if s.wants(e) {
			s.push(e)
		}
	}
}

func (h *hub) close() {
	h.cancel()
	h.mu.Lock()
	for s := range h.subs {
		s.end()
	}
	h.mu.Unlock()
	h.reader.Wait()
}

// Filter chooses the events of a [Subscription]. The zero value chooses all.
type Filter struct {
	Directory string // lets only its own events pass, and those of no directory
	// Sessions lets only events of these sessions and of their sub-agents' sessions pass, and those of no session.
	// Sub-agents are recognised by any event that names their parent.
	Sessions []string
}

// Subscription is a stream of events for one reader.
type Subscription struct {
	hub       *hub
	directory string
	events    chan Event
	sessions  map[string]bool // nil: all; guarded by hub.mu
}

// Subscribe begins to collect events; the first is a [Resync], as soon as the connection stands. Close the subscription
// when done. After the client is closed a subscription is born closed.
func (c *Client) Subscribe(f Filter) *Subscription {
	h := c.events
	s := &Subscription{hub: h, directory: f.Directory, events: make(chan Event, subscriptionBuffer)}
	if len(f.Sessions) > 0 {
		s.sessions = map[string]bool{}
		s.Follow(f.Sessions...)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[s] = struct{}{}
	if h.ctx.Err() != nil {
		s.end()
		return s
	}
	if h.live {
		s.push(Event{Payload: Resync{"subscribed"}})
	}
	h.start.Do(func() { h.reader.Go(h.run) })
	return s
}

// C delivers the events in the order in which they happened. It is closed when the subscription or the client is. A
// reader that falls more than 512 events behind loses those and gets a [Resync] instead; others are not held up.
func (s *Subscription) C() <-chan Event { return s.events }

// Follow lets the events of further sessions pass, from now on. It has no effect on a subscription to all sessions.
func (s *Subscription) Follow(sessionIDs ...string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, id := range sessionIDs {
		if s.sessions != nil {
			s.sessions[id] = true
		}
	}
}

// Close ends the subscription. It may be called more than once and while the events are being read.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.end()
}

func (s *Subscription) end() {
	if _, open := s.hub.subs[s]; open {
		delete(s.hub.subs, s)
		close(s.events)
	}
}

func (s *Subscription) wants(e Event) bool {
	if s.directory != "" && e.Directory != "" && e.Directory != s.directory {
		return false
	}
	if s.sessions == nil || e.SessionID == "" {
		return true
	}
	var session Session
	switch p := e.Payload.(type) {
	case SessionCreated:
		session = p.Session
	case SessionUpdated:
		session = p.Session
	}
	if s.sessions[session.ParentID] {
		s.sessions[session.ID] = true
	}
	return s.sessions[e.SessionID]
}

// push never blocks: a buffer that is full is emptied and a Resync takes the place of what was in it. Only the hub
// sends, under its lock, so there is room afterwards.
func (s *Subscription) push(e Event) {
	if len(s.events) == cap(s.events) {
		for len(s.events) > 0 {
			select {
			case <-s.events:
			default: // the reader took it
			}
		}
		s.events <- Event{Payload: Resync{"too slow: events were dropped"}}
	}
	s.events <- e
}
