package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/unixsock"
	"github.com/bouldermgr/manager/store"
)

const (
	// version of the protocol. A server of another version refuses.
	version = 5
	// callTimeout bounds a call, connecting included.
	callTimeout = 10 * time.Second
	// longWait is the additional time for an order, which a busy holder has to decide and store.
	longWait = 20 * time.Second
	// orderPatience bounds an order in the holder. The client waits longer, so that it gets an answer.
	orderPatience = 20 * time.Second
	// followWait is how long a request of Follow waits for events.
	followWait = 25 * time.Second
	pageSize   = 1000 // events
)

type request struct {
	Version    int                   `json:"version"`
	Do         string                `json:"do"`
	ID         string                `json:"id,omitempty"` // of a boulder
	After      uint64                `json:"after,omitempty"`
	Limit      int                   `json:"limit,omitempty"`
	Wait       time.Duration         `json:"wait,omitempty"` // for events
	Order      *boulder.Order        `json:"order,omitempty"`
	Submission *orchestrator.Request `json:"submission,omitempty"`
}

// acts reports whether the request does more than read.
func (r *request) acts() bool {
	return r.Do == "order" && r.Order != nil || r.Do == "submit" && r.Submission != nil
}

// response has a result and an error if some records could not be read.
type response[T any] struct {
	Result T          `json:"result"`
	Error  *wireError `json:"error,omitempty"`
}

// Client reads from the process that holds the state, and gives it orders. Safe for concurrent use. A call ends within
// ten seconds, an order within thirty. Errors are those of the remote [Source] or [Steerer], or [ErrNotServed].
type Client struct {
	path    string
	timeout time.Duration
	wait    time.Duration // of one request of Follow
}

// Dial connects to the process that serves the socket at path. The error wraps [ErrNotServed] if there is none.
func Dial(ctx context.Context, path string) (*Client, Holder, error) {
	c := &Client{path, callTimeout, followWait}
	h, err := c.Holder(ctx)
	return c, h, err
}

// Holder returns who serves.
func (c *Client) Holder(ctx context.Context) (Holder, error) {
	return ask[Holder](ctx, c, request{Do: "holder"}, 0)
}

// Listing implements [Source].
func (c *Client) Listing(ctx context.Context) ([]store.Item, error) {
	return ask[[]store.Item](ctx, c, request{Do: "listing"}, 0)
}

// Get implements [Source].
func (c *Client) Get(ctx context.Context, boulderID string) (boulder.Snapshot, error) {
	return ask[boulder.Snapshot](ctx, c, request{Do: "get", ID: boulderID}, 0)
}

// Events implements [Source]. Without a limit it reads in pages, since a call is bounded in time.
func (c *Client) Events(
	ctx context.Context, boulderID string, afterSeq uint64, limit int,
) (all []boulder.Event, err error) {
	r := request{Do: "events", ID: boulderID, After: afterSeq, Limit: cmp.Or(limit, pageSize)}
	for {
		events, err := ask[[]boulder.Event](ctx, c, r, 0)
		all = append(all, events...)
		if err != nil || limit > 0 || len(events) < pageSize {
			return all, err
		}
		r.After = events[len(events)-1].Seq
	}
}

// Order has the holder carry out an order, and returns when that is on disk. Errors are those of [Steerer], or wrap
// [ErrNotReady], [ErrNotServed] or [ErrUnanswered]. Only with the last may the order have been carried out.
func (c *Client) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	_, err := ask[any](ctx, c, request{Do: "order", ID: boulderID, Order: &o}, longWait)
	return err
}

// Submit hands over a task, and returns the id of its boulder. Errors are those of [Submitter], or wrap
// [ErrNoSubmitter], [ErrNotReady], [ErrNotServed] or [ErrUnanswered].
func (c *Client) Submit(ctx context.Context, r orchestrator.Request) (boulderID string, err error) {
	return ask[string](ctx, c, request{Do: "submit", Submission: &r}, longWait)
}

// Follow yields the stored events after number afterSeq, then new ones as they come; also after the end of the boulder.
// Unless the caller stops, it ends with an error: the cause of ctx; one of the [Source]; or [ErrNotServed] if the
// holder is gone (the remaining events are in the database) or no longer runs the boulder.
func (c *Client) Follow(ctx context.Context, boulderID string, afterSeq uint64) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		r := request{Do: "events", ID: boulderID, After: afterSeq, Limit: pageSize, Wait: c.wait}
		for {
			events, err := ask[[]boulder.Event](ctx, c, r, c.wait)
			for _, e := range events {
				r.After = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if err == nil && len(events) == 0 {
				var h Holder
				if h, err = c.Holder(ctx); err == nil && !h.Has(boulderID) {
					err = fmt.Errorf("%w: process %d does not run boulder %s", ErrNotServed, h.PID, boulderID)
				}
			}
			if err != nil {
				yield(boulder.Event{}, err)
				return
			}
		}
	}
}

// ask makes one request. wait is how long the other side may wait on purpose.
func ask[T any](ctx context.Context, c *Client, r request, wait time.Duration) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout+wait, errNoAnswer)
	defer cancel()
	r.Version = version
	answer, sent, err := unixsock.Call[response[T]](ctx, c.path, r)
	switch {
	case err != nil && sent && (r.Order != nil || r.Submission != nil):
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	case err == nil && answer.Error != nil:
		err = answer.Error
	}
	return answer.Result, err
}

// Server serves a [Source] on a socket. It is safe for concurrent use.
type Server struct {
	*unixsock.Server
	source Source

	mu      sync.Mutex
	holder  Holder
	steerer Steerer       // nil until [Server.SetSteerer]
	stored  chan struct{} // closed and replaced when events were stored
}

// Serve listens at path, as [unixsock.Serve] does, and answers until [Server.Close]; after that no order touches the
// state. Waiting requests end with ctx.
func Serve(ctx context.Context, path string, holder Holder, source Source, logger *slog.Logger) (*Server, error) {
	s := &Server{source: source, holder: holder, stored: make(chan struct{})}
	var err error
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	s.Server, err = unixsock.Serve(ctx, path, logger, func(ctx, patient context.Context, r request, err error) any {
		var result any
		if err == nil {
			result, err = s.answer(ctx, patient, r)
		} else {
			err = fmt.Errorf("%w: %w", errNotUnderstood, err)
		}
		if err != nil && ctx.Err() != nil && !r.acts() { // the read was interrupted
			err = fmt.Errorf("%w: %w", ErrNotServed, err)
		}
		return response[any]{result, onWire(err)}
	})
	return s, err
}

// Began adds a boulder to those that the holder runs.
func (s *Server) Began(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holder.Serves {
		s.holder.Running = nil
	}
	if !slices.Contains(s.holder.Running, id) { // SetRunning may have been faster
		s.holder.Running = append(slices.Clone(s.holder.Running), id)
	}
}

// SetRunning sets the running boulders and the trouble, for a process that has others run them; see [Holder].
func (s *Server) SetRunning(ids []string, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder.Running, s.holder.Trouble = ids, trouble
}

// Ended removes a boulder. A process that does not serve is about to end, and keeps it until then.
func (s *Server) Ended(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holder.Serves {
		return
	}
	s.holder.Running = slices.DeleteFunc(slices.Clone(s.holder.Running), func(other string) bool { return other == id })
}

// Runs reports whether the holder runs a boulder.
func (s *Server) Runs(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.holder.Running, id)
}

// SetSteerer sets who carries out orders. Until then they are refused with [ErrNotReady].
func (s *Server) SetSteerer(steerer Steerer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steerer = steerer
}

// Notify wakes requests that wait for events. Call it after each commit. It does not block.
func (s *Server) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.stored)
	s.stored = make(chan struct{})
}

func (s *Server) answer(ctx, patient context.Context, r request) (any, error) {
	s.mu.Lock()
	holder, steerer := s.holder, s.steerer
	s.mu.Unlock()
	switch {
	case r.Version != version:
	case r.acts() && steerer == nil:
		return nil, ErrNotReady
	case r.acts():
		return carryOut(patient, steerer, r)
	case r.Do == "holder":
		return holder, nil
	case r.Do == "listing":
		return s.source.Listing(ctx)
	case r.Do == "get":
		return s.source.Get(ctx, r.ID)
	case r.Do == "events":
		return s.events(ctx, r)
	}
	return nil, errNotUnderstood
}

// events returns events at once if there are any, and otherwise waits as long as the request allows.
func (s *Server) events(ctx context.Context, r request) ([]boulder.Event, error) {
	timeout := time.NewTimer(min(r.Wait, followWait))
	defer timeout.Stop()
	for {
		s.mu.Lock()
		stored := s.stored // read before looking, so that no event is missed
		s.mu.Unlock()
		events, err := s.source.Events(ctx, r.ID, r.After, r.Limit)
		if len(events) > 0 || err != nil || r.Wait <= 0 {
			return events, err
		}
		select {
		case <-stored:
			continue
		case <-timeout.C:
		case <-ctx.Done(): // the server closes
		}
		return nil, nil
	}
}

// carryOut carries out a request received whole, even if the client disconnects. Only closing the server interrupts it.
func carryOut(ctx context.Context, steerer Steerer, r request) (result any, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, orderPatience, errNoAnswer)
	defer cancel()
	if r.Submission != nil {
		submitter, takes := steerer.(Submitter)
		if !takes {
			return nil, ErrNoSubmitter
		}
		result, err = submitter.Submit(ctx, *r.Submission)
	} else if err = r.Order.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", boulder.ErrRefused, err)
	} else {
		err = steerer.Order(ctx, r.ID, *r.Order)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return result, err
}
