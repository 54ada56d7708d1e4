package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/store"
)

const (
	// callTimeout bounds a call, the connecting included.
	callTimeout = 10 * time.Second
	// longWait is how long an export may take besides, and an order: it has to be decided, and to be on disk, while the
	// holder is at work.
	longWait = 20 * time.Second
	// followWait is how long a request of Follow waits for events before the next one.
	followWait = 25 * time.Second
	// followPage is how many events one request of Follow brings.
	followPage = 1000
)

// Client reads from the process that holds the state, and gives it orders. Its methods may be called from any
// goroutine; each ends after ten seconds, an order after thirty. Errors are those of the [Source] or [Steerer] on the
// other side, and [ErrNotServed] when it is gone.
type Client struct {
	path    string
	http    http.Client
	timeout time.Duration
}

// Dial connects to the process that serves the socket at path. The error wraps [ErrNotServed] if there is none.
func Dial(ctx context.Context, path string) (*Client, error) {
	c := newClient(path)
	if _, err := c.Holder(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// newClient makes the way to the socket. Nothing is sent yet.
func newClient(path string) *Client {
	return &Client{path: path, timeout: callTimeout, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := unixsock.Dial(ctx, path)
			if err != nil {
				return nil, &undoneError{err}
			}
			return conn, nil
		},
	}}}
}

// Close gives up the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Holder says who serves.
func (c *Client) Holder(ctx context.Context) (Holder, error) {
	return ask[Holder](ctx, c, "holder", request{}, 0)
}

// Listing is that of store.DB.
func (c *Client) Listing(ctx context.Context) ([]store.Item, error) {
	return ask[[]store.Item](ctx, c, "listing", request{}, 0)
}

// Export is that of store.DB.
func (c *Client) Export(ctx context.Context, boulderID string) (store.Export, error) {
	return ask[store.Export](ctx, c, "export", request{ID: boulderID}, longWait)
}

// Get is that of store.DB.
func (c *Client) Get(ctx context.Context, boulderID string) (store.Detail, error) {
	return ask[store.Detail](ctx, c, "get", request{ID: boulderID}, 0)
}

// Turns is that of store.DB.
func (c *Client) Turns(ctx context.Context, boulderID, subTaskID string) ([]boulder.Turn, error) {
	return ask[[]boulder.Turn](ctx, c, "turns", request{ID: boulderID, SubTask: subTaskID}, 0)
}

// Events is that of store.DB.
func (c *Client) Events(ctx context.Context, boulderID string, afterSeq uint64, limit int) ([]boulder.Event, error) {
	return ask[[]boulder.Event](ctx, c, "events", request{ID: boulderID, After: afterSeq, Limit: limit}, 0)
}

// Resolve is that of store.DB.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	return ask[string](ctx, c, "resolve", request{ID: ref}, 0)
}

// NewestUnfinished is that of store.DB.
func (c *Client) NewestUnfinished(ctx context.Context) (string, error) {
	return ask[string](ctx, c, "unfinished", request{}, 0)
}

// Order has the holder carry an order out, and returns when that is on disk. Besides those of [Steerer], errors wrap
// [ErrNotReady]; [ErrNotServed] if there is no holder; or [ErrUnanswered]. Only after the last of them may the order
// have been carried out.
func (c *Client) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	_, err := ask[struct{}](ctx, c, "order", request{ID: boulderID, Order: &o}, longWait)
	return err
}

// Submit hands a task over, and returns the id of its boulder. Besides what the [Submitter] says, errors wrap
// [ErrNoSubmitter], [ErrNotReady], [ErrNotServed] or [ErrUnanswered].
func (c *Client) Submit(ctx context.Context, s Submission) (boulderID string, err error) {
	return ask[string](ctx, c, "submit", request{Submission: &s}, longWait)
}

// Follow yields the events after number afterSeq: those that are stored, then those that come, as they come. Unless
// the caller leaves, it ends with an error: what ctx was cancelled with; [ErrNotServed] when the holder is gone,
// after which the rest can be read from the database; or one of the [Source]. It does not end with the boulder.
func (c *Client) Follow(ctx context.Context, boulderID string, afterSeq uint64) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		for {
			r := request{ID: boulderID, After: afterSeq, Limit: followPage, Wait: followWait}
			events, err := ask[[]boulder.Event](ctx, c, "events", r, followWait)
			for _, e := range events {
				afterSeq = e.Seq
				if !yield(e, nil) {
					return
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
func ask[T any](ctx context.Context, c *Client, name string, r request, wait time.Duration) (result T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout+wait, errNoAnswer)
	defer cancel()
	var answer response[T]
	body, err := json.Marshal(r)
	if err == nil {
		body, err = c.do(ctx, name, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err == nil && answer.Error != nil {
		return answer.Result, answer.Error
	}
	if err == nil {
		return answer.Result, nil
	}
	_, undone := errors.AsType[*undoneError](err)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if r.acts() && !undone {
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return result, fmt.Errorf("control socket %s: %w", c.path, err)
}

// undoneError says that nothing was sent, or that the request was not understood: nothing was done.
type undoneError struct{ error }

func (e *undoneError) Unwrap() error { return e.error }

var errNoAnswer = errors.New("no answer in time: the process that holds the state is very busy or hangs")

func (c *Client) do(ctx context.Context, name string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://manager"+prefix+name, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, asNotServed(err)
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		content, err := io.ReadAll(resp.Body)
		return content, asNotServed(err)
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return nil, &undoneError{errors.New("the process that holds the state is another version of manager: use that version")}
	case code/100 == 4:
		return nil, &undoneError{errors.New("unexpected answer " + resp.Status)}
	}
	return nil, errors.New("unexpected answer " + resp.Status)
}

// asNotServed recognises a process that ended between two calls, or in the middle of one.
func asNotServed(err error) error {
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", ErrNotServed, err)
		}
	}
	return err
}
