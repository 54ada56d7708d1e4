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
	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

const (
	// version is that of the protocol: a server of another one does nothing.
	version = 5
	// callTimeout bounds a call, the connecting included.
	callTimeout = 10 * time.Second
	// longWait is how long an order may take besides: it has to be decided, and to be on disk, while the holder is at work.
	longWait = 20 * time.Second
	// orderPatience is how long an order may take; less than what the client waits, so that it gets an answer.
	orderPatience = 20 * time.Second
	// followWait is how long a request of Follow waits for events before the next one.
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

// acts reports whether it asks for more than to read.
func (r *request) acts() bool {
	return r.Do == "order" && r.Order != nil || r.Do == "submit" && r.Submission != nil
}

// response has both parts when some records could be read and others not.
type response[T any] struct {
	Result T          `json:"result"`
	Error  *wireError `json:"error,omitempty"`
}

// Client reads from the process that holds the state, and gives it orders. Its methods may be called from any goroutine;
// each ends after ten seconds, an order after thirty. Errors are those of the [Source] or [Steerer] on the other side, and
// [ErrNotServed] when it is gone.
type Client struct {
	path    string
	timeout time.Duration
	wait    time.Duration // of a request of Follow
}

// Dial finds the process that serves the socket at path. The error wraps [ErrNotServed] if there is none.
func Dial(ctx context.Context, path string) (*Client, Holder, error) {
	c := &Client{path, callTimeout, followWait}
	h, err := c.Holder(ctx)
	return c, h, err
}

// Holder says who serves.
func (c *Client) Holder(ctx context.Context) (Holder, error) {
	return ask[Holder](ctx, c, request{Do: "holder"}, 0)
}

// Listing is that of [Source].
func (c *Client) Listing(ctx context.Context) ([]store.Item, error) {
	return ask[[]store.Item](ctx, c, request{Do: "listing"}, 0)
}

// Get is that of [Source].
func (c *Client) Get(ctx context.Context, boulderID string) (boulder.Snapshot, error) {
	return ask[boulder.Snapshot](ctx, c, request{Do: "get", ID: boulderID}, 0)
}

// Events is that of [Source]. All of them are read in pages: a call is bounded in time.
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

// Order has the holder carry an order out, and returns when that is on disk. Besides those of [Steerer], errors wrap
// [ErrNotReady]; [ErrNotServed] if there is no holder; or [ErrUnanswered]. Only after the last of them may the order
// have been carried out.
func (c *Client) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	_, err := ask[any](ctx, c, request{Do: "order", ID: boulderID, Order: &o}, longWait)
	return err
}

// Submit hands a task over, and returns the id of its boulder. Besides what the [Submitter] says, errors wrap
// [ErrNoSubmitter], [ErrNotReady], [ErrNotServed] or [ErrUnanswered].
func (c *Client) Submit(ctx context.Context, r orchestrator.Request) (boulderID string, err error) {
	return ask[string](ctx, c, request{Do: "submit", Submission: &r}, longWait)
}

// Follow yields the events after number afterSeq: those that are stored, then those that come, as they come. Unless the
// caller leaves, it ends with an error: what ctx was cancelled with; [ErrNotServed] when the holder is gone, after
// which the rest can be read from the database, or has nothing to do with the boulder any more; or one of the [Source].
// It does not end with the boulder.
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

// ask makes one request. wait is how long the other side may take on purpose.
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

// Server serves a [Source] on a socket. Its methods may be called from any goroutine.
type Server struct {
	*unixsock.Server
	source Source

	mu      sync.Mutex
	holder  Holder
	steerer Steerer       // nil until there is one
	news    chan struct{} // closed when events have come, and made again
}

// Serve puts a socket at path, as [unixsock.Serve] does, and answers on it until [Server.Close], after which no order
// touches the state. Requests that wait end when ctx does.
func Serve(ctx context.Context, path string, holder Holder, source Source, logger *slog.Logger) (*Server, error) {
	s := &Server{source: source, holder: holder, news: make(chan struct{})}
	var err error
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	s.Server, err = unixsock.Serve(ctx, path, logger, func(ctx, patient context.Context, r request, err error) any {
		var result any
		if err == nil {
			result, err = s.answer(ctx, patient, r)
		} else {
			err = fmt.Errorf("%w: %w", errNotUnderstood, err)
		}
		if err != nil && ctx.Err() != nil && !r.acts() { // it could not be read to its end
			err = fmt.Errorf("%w: %w", ErrNotServed, err)
		}
		return response[any]{result, onWire(err)}
	})
	return s, err
}

// Began says that the holder runs a boulder.
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

// SetRunning says which boulders are at work, for a process that has others run them, and what keeps it from knowing;
// see [Holder].
func (s *Server) SetRunning(ids []string, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder.Running, s.holder.Trouble = ids, trouble
}

// Ended says that it runs it no more. A process that does not serve is about to end itself then, and keeps it until it has.
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

// SetSteerer says who carries out orders from now on. Until then they are refused with [ErrNotReady].
func (s *Server) SetSteerer(steerer Steerer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steerer = steerer
}

// Notify wakes requests that wait for events. It is called after each commit, and does not block.
func (s *Server) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
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

// events answers at once if there are events, and otherwise waits for as long as the request allows.
func (s *Server) events(ctx context.Context, r request) ([]boulder.Event, error) {
	timeout := time.NewTimer(min(r.Wait, followWait))
	defer timeout.Stop()
	for {
		s.mu.Lock()
		news := s.news // before looking, so that nothing is missed in between
		s.mu.Unlock()
		events, err := s.source.Events(ctx, r.ID, r.After, r.Limit)
		if len(events) > 0 || err != nil || r.Wait <= 0 {
			return events, err
		}
		select {
		case <-news:
			continue
		case <-timeout.C:
		case <-ctx.Done(): // the server closes
		}
		return nil, nil
	}
}

// carryOut hands a request on. Once it was received whole it is carried out, even if the client goes away before the
// answer: closing a terminal at that moment takes nothing back. Only a server that closes meanwhile may end it.
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
