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
	subscriptionBuffer = 512 // events; one step of a turn has about 20
	minReconnect       = 100 * time.Millisecond
	maxReconnect       = 5 * time.Second
)

// hub distributes the events of one connection, which the first subscription opens and the client's Close ends.
type hub struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	start  sync.Once
	reader sync.WaitGroup

	mu   sync.Mutex
	subs map[*Subscription]struct{}
	live bool // connected: events are arriving
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
		_ = pause(h.ctx, wait/2+rand.N(wait/2)) // read fails at once if ctx has ended
		wait = min(2*wait, maxReconnect)
	}
}

// read publishes the events of one connection, starting with a [Resync]. It reports whether it got that far, and why
// the connection ended; err is never nil.
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
		// If the stream was cut here, report the reason and not the read error that follows from it.
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
		if !connected { // the first is server.connected; nothing is missed from then on
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
	return connected, io.ErrUnexpectedEOF // an event stream has no regular end
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

// inBackground does work that ends with ctx. Closing the client waits for it.
func (h *hub) inBackground(work func(ctx context.Context)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() == nil {
		h.reader.Go(func() { work(h.ctx) })
	}
}

// Filter selects the events of a [Subscription]. The zero value selects all.
type Filter struct {
	Directory string // only events of this directory, and those of no directory
	// Sessions passes only events of these sessions and of their sub-agents' sessions, and those of no session.
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

// Subscribe starts to collect events. The first is a [Resync], as soon as the client is connected. Close the
// subscription when done. If the client is closed, so is the new subscription.
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

// C delivers the events in order. It is closed with the subscription or the client. A reader that falls more than 512
// events behind loses those and gets a [Resync] instead; other readers are not delayed.
func (s *Subscription) C() <-chan Event { return s.events }

// Follow adds sessions to the filter, from now on. It has no effect on a subscription to all sessions.
func (s *Subscription) Follow(sessionIDs ...string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, id := range sessionIDs {
		if s.sessions != nil {
			s.sessions[id] = true
		}
	}
}

// Close ends the subscription. It may be called more than once, and while events are being read.
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

// push never blocks: a Resync replaces what is in a full buffer. Only the hub sends, under its lock, so there is room.
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
