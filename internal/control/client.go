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
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/store"
)

const (
	// callTimeout bounds a call, the connecting included.
	callTimeout = 10 * time.Second
	// orderTimeout bounds an order: it has to be decided, and to be on disk, while the holder is at work.
	orderTimeout = 30 * time.Second
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
	c := &Client{path: path, timeout: callTimeout}
	c.connect()
	if _, err := c.Holder(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect makes the way to the socket. Nothing is sent yet.
func (c *Client) connect() {
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := unixsock.Dial(ctx, c.path)
			if err != nil {
				return nil, &unreachedError{err}
			}
			return conn, nil
		},
	}
}

// Close gives up the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Holder says who serves.
func (c *Client) Holder(ctx context.Context) (Holder, error) {
	return call[Holder](ctx, c, pathHolder, nil, 0)
}

// Listing is that of store.DB.
func (c *Client) Listing(ctx context.Context) ([]store.Item, error) {
	return call[[]store.Item](ctx, c, pathBoulders, nil, 0)
}

// Export is that of store.DB.
func (c *Client) Export(ctx context.Context, boulderID string) (store.Export, error) {
	return call[store.Export](ctx, c, pathExport, url.Values{"id": {boulderID}}, orderTimeout)
}

// Get is that of store.DB.
func (c *Client) Get(ctx context.Context, boulderID string) (store.Detail, error) {
	return call[store.Detail](ctx, c, pathBoulder, url.Values{"id": {boulderID}}, 0)
}

// Turns is that of store.DB.
func (c *Client) Turns(ctx context.Context, boulderID, subTaskID string) ([]boulder.Turn, error) {
	return call[[]boulder.Turn](ctx, c, pathTurns, url.Values{"id": {boulderID}, "sub_task": {subTaskID}}, 0)
}

// Events is that of store.DB.
func (c *Client) Events(
	ctx context.Context, boulderID string, afterSeq uint64, limit int,
) ([]boulder.Event, error) {
	return c.events(ctx, boulderID, afterSeq, limit, 0)
}

func (c *Client) events(
	ctx context.Context, boulderID string, afterSeq uint64, limit int, wait time.Duration,
) ([]boulder.Event, error) {
	return call[[]boulder.Event](ctx, c, pathEvents, url.Values{
		"id": {boulderID}, "after": {strconv.FormatUint(afterSeq, 10)}, "limit": {strconv.Itoa(limit)},
		"wait": {wait.String()},
	}, wait)
}

// Resolve is that of store.DB.
func (c *Client) Resolve(ctx context.Context, ref string) (string, error) {
	return call[string](ctx, c, pathResolve, url.Values{"ref": {ref}}, 0)
}

// NewestUnfinished is that of store.DB.
func (c *Client) NewestUnfinished(ctx context.Context) (string, error) {
	return call[string](ctx, c, pathUnfinished, nil, 0)
}

// Order has the holder carry an order out, and returns when that is on disk. Besides those of [Steerer], errors wrap
// [ErrNotReady]; [ErrNotServed] if there is no holder; or [ErrUnanswered]. Only after the last of them may the order
// have been carried out.
func (c *Client) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	body, err := json.Marshal(orderRequest{boulderID, o})
	if err != nil {
		return err
	}
	_, err = ask[struct{}](ctx, c, http.MethodPost, pathOrder, body, orderTimeout)
	return err
}

// Follow yields the events after number afterSeq: those that are stored, then those that come, as they come. Unless
// the caller leaves, it ends with an error: what ctx was cancelled with; [ErrNotServed] when the holder is gone,
// after which the rest can be read from the database; or one of the [Source]. It does not end with the boulder.
func (c *Client) Follow(ctx context.Context, boulderID string, afterSeq uint64) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		for {
			events, err := c.events(ctx, boulderID, afterSeq, followPage, followWait)
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

// call asks one question. wait is how long the other side may take on purpose.
func call[T any](ctx context.Context, c *Client, path string, query url.Values, wait time.Duration) (T, error) {
	return ask[T](ctx, c, http.MethodGet, path+"?"+query.Encode(), nil, c.timeout+wait)
}

// ask makes one request.
func ask[T any](
	ctx context.Context, c *Client, method, uri string, body []byte, timeout time.Duration,
) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoAnswer)
	defer cancel()
	var a answer[T]
	content, err := c.do(ctx, method, uri, body)
	if err == nil {
		err = json.Unmarshal(content, &a)
	}
	if err == nil {
		return a.Result, a.Error.decode()
	}
	_, unreached := errors.AsType[*unreachedError](err)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if _, understood := errors.AsType[*statusError](err); method != http.MethodGet && !unreached && !understood {
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	var none T
	return none, fmt.Errorf("control socket %s: %w", c.path, err)
}

// unreachedError is a connection that was not made, so that nothing was sent.
type unreachedError struct{ err error }

func (e *unreachedError) Error() string { return e.err.Error() }
func (e *unreachedError) Unwrap() error { return e.err }

// statusError is an answer that says that the request was not understood, so that nothing was done.
type statusError struct{ message string }

func (e *statusError) Error() string { return e.message }

var errNoAnswer = errors.New("no answer in time: the process that holds the state is very busy or hangs")

func (c *Client) do(ctx context.Context, method, uri string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://manager"+uri, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, asNotServed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return nil, &statusError{"the process that holds the state is another version of manager: use that version"}
	case code/100 == 4:
		return nil, &statusError{"unexpected answer " + resp.Status}
	default:
		return nil, fmt.Errorf("unexpected answer %s", resp.Status)
	}
	content, err := io.ReadAll(resp.Body)
	return content, asNotServed(err)
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
