package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bouldermgr/manager/internal/unixsock"
)

// SocketName is the socket of a process that watches, in the state directory.
const SocketName = "watch.sock"

const (
	pathStatus  = "/status"
	pathHistory = "/history"
	pathOrder   = "/order"

	// answerTimeout bounds a request, and the answer.
	answerTimeout = 10 * time.Second
	maxAnswer     = 64 << 20
)

// Holder is who watches, as it tells others.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	URL     string    `json:"url"` // of the OpenCode server
	Since   time.Time `json:"since"`
	// Diverts: it was begun with --blockers, or is by its configuration.
	Diverts bool `json:"diverts,omitempty"`
}

// Report is everything that a process that watches tells.
type Report struct {
	Holder   Holder   `json:"holder"`
	Online   bool     `json:"online"` // OpenCode answers
	Sessions []Status `json:"sessions"`
}

// Serve answers other processes on a socket at path until ctx ends: it tells how the sessions are, and carries orders
// out. It returns when it listens; stop waits until nothing of it runs any more. What it is asked is answered while
// [Watch.Run] runs.
func (w *Watch) Serve(ctx context.Context, path string, holder Holder) (stop func(), err error) {
	l, file, err := unixsock.Listen(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(rw http.ResponseWriter, r *http.Request) {
		var report Report
		err := w.ask(r.Context(), func() { report = Report{Holder: holder, Online: w.online, Sessions: w.status()} })
		answer(rw, report, err)
	})
	mux.HandleFunc("GET "+pathHistory, func(rw http.ResponseWriter, r *http.Request) {
		history, err := w.cfg.Store.History(r.FormValue("session"))
		answer(rw, history, err)
	})
	mux.HandleFunc("POST "+pathOrder, func(rw http.ResponseWriter, r *http.Request) {
		var ids []string
		var orderErr error
		err := w.ask(r.Context(), func() { ids, orderErr = w.order(ctx, r.FormValue("session"), Order(r.FormValue("do"))) })
		answer(rw, ids, errors.Join(err, orderErr))
	})
	server := &http.Server{
		Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadTimeout: answerTimeout, WriteTimeout: answerTimeout, IdleTimeout: answerTimeout,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("control socket failed; other commands cannot talk to this watch", "path", path, "error", err)
		}
	}()
	return func() {
		if err := errors.Join(unixsock.Unlink(path, file), server.Close()); err != nil {
			w.log.Warn("could not close the control socket", "path", path, "error", err)
		}
		<-done
	}, nil
}

// ask has a function run on the loop goroutine, and waits for it.
func (w *Watch) ask(ctx context.Context, f func()) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout/2)
	defer cancel()
	done := make(chan struct{})
	select {
	case w.posts <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-ctx.Done():
		return errors.New("the process that watches does not answer")
	}
}

// reply is an answer on the wire.
type reply[T any] struct {
	Answer  T      `json:"answer"`
	Error   string `json:"error,omitempty"`
	Unknown bool   `json:"unknown,omitempty"` // the error is [ErrUnknownSession]
}

func answer[T any](rw http.ResponseWriter, a T, err error) {
	out := reply[T]{Answer: a}
	if err != nil {
		out.Error, out.Unknown = err.Error(), errors.Is(err, ErrUnknownSession)
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(out) // one that went away needs no answer
}

// Client talks to the process that watches a project.
type Client struct{ http http.Client }

// Dial connects to the process that serves the socket at path. The error wraps [unixsock.ErrNotServed] if there is
// none.
func Dial(ctx context.Context, path string) (*Client, error) {
	conn, err := unixsock.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	return &Client{http: http.Client{Timeout: answerTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return unixsock.Dial(ctx, path) },
	}}}, nil
}

// Report tells how the sessions are.
func (c *Client) Report(ctx context.Context) (Report, error) {
	return call[Report](ctx, c, http.MethodGet, pathStatus, nil)
}

// History gives the decisions about a session, the oldest first.
func (c *Client) History(ctx context.Context, sessionID string) ([]Entry, error) {
	return call[[]Entry](ctx, c, http.MethodGet, pathHistory, url.Values{"session": {sessionID}})
}

// Order has an order carried out, and returns when that is on disk, with the sessions that it was about. An empty ref
// is all of them.
func (c *Client) Order(ctx context.Context, ref string, o Order) ([]string, error) {
	return call[[]string](ctx, c, http.MethodPost, pathOrder, url.Values{"session": {ref}, "do": {string(o)}})
}

func call[T any](ctx context.Context, c *Client, method, path string, query url.Values) (T, error) {
	var out reply[T]
	req, err := http.NewRequestWithContext(ctx, method, "http://watch"+path+"?"+query.Encode(), nil)
	if err != nil {
		return out.Answer, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out.Answer, fmt.Errorf("ask the process that watches: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		return out.Answer, fmt.Errorf("ask the process that watches: its answer is not understood: %w", err)
	}
	switch {
	case out.Unknown:
		return out.Answer, fmt.Errorf("%w%s", ErrUnknownSession, out.Error[len(ErrUnknownSession.Error()):])
	case out.Error != "":
		return out.Answer, errors.New(out.Error)
	}
	return out.Answer, nil
}
