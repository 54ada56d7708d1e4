package opencode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"
)

// readEvents reads /global/event over one connection and publishes what comes, first of all a [Resync]. It tells
// whether it got as far as that, and why the connection ended, never nil.
func (c *Client) readEvents(ctx context.Context, publish func(Event)) (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.cfg.EventSilence, func() {
		cancel(fmt.Errorf("the server sent nothing for %v, not even a heartbeat", c.cfg.EventSilence))
	})
	defer silence.Stop()
	body, err := c.openEvents(ctx)
	if err != nil {
		return false, streamError(ctx, err)
	}
	defer body.Close()
	source := &watchedReader{r: body, heard: func() { silence.Reset(c.cfg.EventSilence) }}
	for e, err := range sse.Read(source, &sse.ReadConfig{MaxEventSize: c.maxEvent}) {
		if err != nil {
			return connected, streamError(ctx, err)
		}
		if !connected { // the first is server.connected, and from then on nothing is missed
			connected = true
			publish(Event{Payload: Resync{"connected"}})
		}
		event, err := readEvent([]byte(e.Data))
		switch {
		case errors.Is(err, errSkip):
		case err != nil:
			c.log.Warn("could not read an event of the server", "error", err)
		default:
			publish(event)
		}
	}
	return connected, streamError(ctx, io.ErrUnexpectedEOF) // a stream of events has no end
}

func (c *Client) openEvents(ctx context.Context) (io.ReadCloser, error) {
	r := request{op: "follow events", method: http.MethodGet, path: "/global/event"}
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && media == "text/event-stream" {
		return resp.Body, nil
	}
	resp.Body.Close()
	return nil, &Error{
		Op: r.op, Status: resp.StatusCode, kind: statusKind(resp.StatusCode),
		Message: fmt.Sprintf("the answer is %q, not an event stream", media),
	}
}

// streamError prefers the reason for which the stream was cut here, such as the silence, to the read error that
// follows from it.
func streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("opencode: follow events: %w: %w", ErrUnavailable, context.Cause(ctx))
	}
	if callError, ok := errors.AsType[*Error](err); ok {
		return callError
	}
	return transportError(ctx, "follow events", err)
}

// watchedReader reports every sign of life.
type watchedReader struct {
	r     io.Reader
	heard func()
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.heard()
	}
	return n, err
}
