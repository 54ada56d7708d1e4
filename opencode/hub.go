package opencode

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	subscriptionBuffer = 512 // events; a turn step is about 20
	minReconnect       = 100 * time.Millisecond
	maxReconnect       = 5 * time.Second
)

// Filter chooses the events of a [Subscription]. The zero value chooses all.
type Filter struct {
	// Directory lets only its own events pass, and those of no directory.
	Directory string
	// Sessions lets only events of these sessions and of their sub-agents' sessions pass, and those of no session.
	// Sub-agents are recognised by any event that names their parent.
	Sessions []string
}

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

func newHub(c *Client) *hub {
	h := &hub{client: c, subs: map[*Subscription]struct{}{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Subscribe begins to collect events; the first is a [Resync], as soon as the connection stands. Close the
// subscription when done. After the client is closed a subscription is born closed.
func (c *Client) Subscribe(f Filter) *Subscription {
	h := c.events
	s := &Subscription{hub: h, directory: f.Directory, events: make(chan Event, subscriptionBuffer)}
	if len(f.Sessions) > 0 {
		s.sessions = map[string]bool{}
		s.follow(f.Sessions)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		close(s.events)
		return s
	}
	h.subs[s] = struct{}{}
	if h.live {
		s.push(Event{Payload: Resync{"subscribed"}})
	}
	h.start.Do(func() { h.reader.Go(h.run) })
	return s
}

// run keeps a connection until the hub closes.
func (h *hub) run() {
	wait := minReconnect
	for {
		connected, err := h.client.readEvents(h.ctx, h.publish)
		if h.ctx.Err() != nil {
			return
		}
		if connected {
			h.publish(Event{Payload: Disconnected{err}})
			wait = minReconnect
		}
		h.client.log.Warn("event stream ended, connecting again", "error", err, "in", wait)
		select {
		case <-h.ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		wait = min(2*wait, maxReconnect)
	}
}

// publish gives an event to whoever wants it.
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
	h.mu.Lock()
	h.cancel()
	for s := range h.subs {
		delete(h.subs, s)
		close(s.events)
	}
	h.mu.Unlock()
	h.reader.Wait()
}

// Subscription is a stream of events for one reader.
type Subscription struct {
	hub       *hub
	directory string
	events    chan Event
	sessions  map[string]bool // nil: all; guarded by hub.mu
}

// C delivers the events in the order in which they happened. It is closed when the subscription or the client is. A
// reader that falls more than 512 events behind loses those and gets a [Resync] instead; others are not held up.
func (s *Subscription) C() <-chan Event { return s.events }

// Events delivers the events of [Subscription.C] until the context ends, yielding its cause, or the subscription is
// closed, yielding [ErrClosed]. It can be ranged over again to go on.
func (s *Subscription) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			select {
			case <-ctx.Done():
				yield(Event{}, context.Cause(ctx))
				return
			case e, ok := <-s.events:
				if !ok {
					yield(Event{}, ErrClosed)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Follow lets the events of further sessions pass, from now on. It has no effect on a subscription to all sessions.
func (s *Subscription) Follow(sessionIDs ...string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.follow(sessionIDs)
}

// Close ends the subscription. It may be called more than once and while the events are being read.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if _, open := s.hub.subs[s]; open {
		delete(s.hub.subs, s)
		close(s.events)
	}
}

func (s *Subscription) follow(sessionIDs []string) {
	if s.sessions == nil {
		return
	}
	for _, id := range sessionIDs {
		s.sessions[id] = true
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
